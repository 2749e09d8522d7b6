"""References: finding and weighing them, rating texts as replies, and freezing items with their references.

The main names:

- `find_references.FindReferences`: further references for the items of a file
- `rate_candidates.RateCandidates`: ratings of texts that could be replies
- `freeze_set.FreezeSet`: items with their references, as they stay.
"""
