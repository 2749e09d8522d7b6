"""Counting words and their neighbours on a cluster: the same bytes as on one machine, from tasks that are summed.

The main names:

- `counting.ClusterCounting`: both counts, each as tasks over pieces of the logs
- `tasks`: what one task does
- `tasks.pieces_of`: how logs are cut for them.
"""

__all__ = ["counting", "tasks"]
