"""Batches: requests wait in a queue, and a thread searches and rates for many of them at once.

The main names:

- `batcher.Batcher`: requests in, their answers out
- `request_queue.RequestQueue`: where a request waits
- `batcher.BatchRunner`: the work of a batch.
"""

__all__ = ["batcher", "reference_lookup", "request_queue"]
