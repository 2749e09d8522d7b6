"""Frozen reference sets, and the drift of scores between index versions.

The main names:

- `reference_set.ReferenceSet`: an opened set
- `set_store.ReferenceSets`: the sets of a home: freezing, finding, withdrawing
- `drift.shadow_score`: how far scores move with another index version.
"""
