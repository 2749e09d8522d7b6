"""Scores as a page to share: systems, paired differences, distributions, and the worst and best replies.

The main names:

- `report.write_report`: the files of a report in a folder
- `page.page`: the page, from a score file
- `csv_table.as_csv`: systems and replies, one a line.
"""

__all__ = ["csv_table", "page", "report"]
