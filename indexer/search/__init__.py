"""Searching an opened index: queries, candidates, exact similarities, ranking and exclusion.

The main names:

- `index.ReferenceIndex`: an opened index
- `search.find`: the best pairs for queries
- `ranking.Rules`: which references are excluded, and why.
"""

__all__ = ["exact_check", "index", "queries", "ranking", "search", "search_settings", "segments", "similarity"]
