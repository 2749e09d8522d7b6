"""From test items to scores: items, augmentation with references, evaluation, score files and what is made of them.

The main names:

- `items.read_items`: items from a file
- `augmentation.augment`: items with retrieved and rated references
- `evaluate.evaluate`: scores of systems, with intervals and comparisons.
"""

__all__ = [
    "augmentation",
    "cases",
    "citation",
    "combine",
    "comparison",
    "copies",
    "evaluate",
    "home",
    "item_files",
    "items",
    "metric_setup",
    "provenance",
    "reference_sets",
    "replies",
    "score_files",
    "score_report",
    "score_tables",
    "score_views",
    "scores",
    "settings",
    "spooled_items",
    "verification",
]
