"""Comparisons for people: tables, CSV, LaTeX, and a page to share.

The main names:

- `page.page`: one HTML page without scripts
- `plain_tables.as_csv`: tests and replies, one a line
- `plain_tables.as_latex`: the tests as a table for a paper.
"""
