"""Sources of a scorer's scores: the caches, and the server's answers about single replies and whole corpora.

The main names:

- `cache.open_cache`: the cache that a user names
- `groups.GroupScorer`: scores of single replies
- `groups.CorpusScorer`: scores of whole corpora.
"""
