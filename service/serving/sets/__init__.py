"""Frozen sets that stay in memory, so that replies are scored against them quickly.

`HeldSets` is the cache of all of them, a `HeldSet` has its items and prepared metrics, and `score_set` scores replies.
"""
