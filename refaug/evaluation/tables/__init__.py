"""Tables of any kind that become items: CSV, TSV, JSON, Parquet, Arrow, saved datasets, exports of annotations.

The main names:

- `table_items.table_items`: the values of items from a file
- `table_request.TableRequest`: which column holds what, and what a row is
- `table_notes.TableNotes`: what was not used
- `item_fields.unused_fields`: the fields that no item and no reference has.
"""

__all__ = [
    "cells",
    "columns",
    "files",
    "item_fields",
    "table_items",
    "table_notes",
    "table_request",
]
