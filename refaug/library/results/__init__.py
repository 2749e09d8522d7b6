"""Results: frozen records with the names that the results of the client library have.

The main names:

- `scores.Scores`: by metric, by system, by reply
- `referenced_items.ReferencedItems`: items with weighted references
- `parts.make_frame`: rows as a frame of pandas or polars.
"""
