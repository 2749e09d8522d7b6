"""Scores as a page to share: systems, paired differences, distributions, and the worst and best replies.

The main names:

- `report.write_report`: the files of a report in a folder
- `report.page`: the page, from a score file
- `report.as_csv`: systems and replies, one a line.
"""
