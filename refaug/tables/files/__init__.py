"""Files that hold tables: text, JSON, Parquet, Arrow, workbooks, saved datasets, exports of programs for annotators.

The main names:

- `text_tables.OpenTable`: the columns of a file, and its rows as they are read
- `text_tables.open_text_table`: CSV and tab-separated text
- `json_tables.export_of`: the program whose export rows are.
"""

__all__ = ["arrow_tables", "json_tables", "text_tables", "workbooks"]
