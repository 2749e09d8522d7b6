"""Searching an opened index: queries, candidates, exact similarities, ranking and exclusion.

The main names:

- `index.ReferenceIndex`: an opened index
- `search.find`: the best pairs for queries
- `candidate_pool.collect`: the candidates of all segments, merged to one depth
- `ranking.ExclusionReason`: why a pair is not among the references.
"""
