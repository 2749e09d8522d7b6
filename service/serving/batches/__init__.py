"""Batches: requests wait in a queue, and a thread searches and rates for many of them at once.

The `Batcher` takes requests and returns their answers, a request waits in a `RequestQueue`, and the `BatchRunner` does
the work of a batch.
"""
