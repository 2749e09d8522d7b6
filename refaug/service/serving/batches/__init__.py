"""Batches: requests wait in a queue, and a thread searches and rates for many of them at once.

The main names:

- `batcher.Batcher`: requests in, their answers out
- `batcher.RequestQueue`: where a request waits
- `batcher.BatchRunner`: the work of a batch.
"""
