"""Searching an opened index: queries, candidates, exact similarities, ranking and exclusion.

The main names:

- `index.ReferenceIndex`: an opened index
- `search.find`: the best pairs for queries
- `ranking.ExclusionReason`: why a pair is not among the references.
"""

__all__ = [
    "candidates",
    "exact_check",
    "index",
    "queries",
    "ranking",
    "search",
    "search_settings",
    "search_tables",
    "segments",
    "shard_state",
    "similarity",
]
