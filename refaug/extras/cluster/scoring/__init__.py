"""Finding and rating references on a cluster: blocks of items as tasks, whose results are written aside.

The main names:

- `references.cluster_references`: an index and a rater, open on a cluster
- `references.BlockFolder`: the finished blocks of a command, by which it goes on
- `references.augment_block`: what one task does.
"""

__all__ = ["references"]
