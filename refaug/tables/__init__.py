"""Tables in and out: CSV, TSV, JSON, Parquet, Arrow, saved datasets and annotations in, and parts of reports out.

The main names:

- `table_items.table_items`: the values of items from a file
- `table_request.TableRequest`: which column holds what, and what a row is
- `table_notes.TableNotes`: what was not used
- `item_fields.unused_fields`: the fields that no item and no reference has.
"""
