"""Frozen reference sets, and the drift of scores between index versions.

The main names:

- `reference_set.ReferenceSet`: an opened set
- `set_store.ReferenceSets`: the sets of a home: freezing, finding, withdrawing
- `drift.shadow_score`: how far scores move with another index version.
"""

__all__ = [
    "derivation",
    "drift",
    "reference_set",
    "set_history",
    "set_manifest",
    "set_pins",
    "set_scores",
    "set_store",
    "set_transfer",
]
