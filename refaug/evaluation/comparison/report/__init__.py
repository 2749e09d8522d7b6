"""Comparisons for people: tables, CSV, LaTeX, and a page to share.

The main names:

- `page.page`: one HTML page without scripts
- `csv_table.as_csv`: tests and replies, one a line
- `latex_table.as_latex`: the tests as a table for a paper.
"""

__all__ = ["csv_table", "latex_table", "page", "wording"]
