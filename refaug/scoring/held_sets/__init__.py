"""Frozen sets that stay in memory, so that replies are scored against them quickly.

The main names:

- `held_set.HeldSets`: the cache of all sets
- `held_set.HeldSet`: a set with its items and prepared metrics
- `set_scoring.score_set`: scores replies against a set.
"""
