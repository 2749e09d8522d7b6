"""From test items to scores: items, augmentation with references, evaluation, sums of batches.

The main names:

- `items.read_items`: items from a file
- `augmentation.augment`: items with retrieved and rated references
- `evaluate.evaluate`: scores of systems, with intervals and comparisons.
"""

__all__ = [
    "augment_settings",
    "augmentation",
    "cases",
    "combine",
    "copies",
    "evaluate",
    "items",
    "presets",
    "provenance",
    "reference_sets",
    "score_settings",
    "score_tables",
    "scores",
    "spooled_items",
]
