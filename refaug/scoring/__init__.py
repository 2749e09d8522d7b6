"""From test items to scores: items, augmentation with references, evaluation, score files and what is made of them.

The main names:

- `items.read_items`: items from a file
- `augmentation.augment`: items with retrieved and rated references
- `evaluate.evaluate`: scores of systems, with intervals and comparisons.
"""
