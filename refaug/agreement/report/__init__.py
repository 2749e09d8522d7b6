"""The report of `refaug agreement`: CSV, LaTeX, an HTML page and plots.

The main names:

- `report.write_report`: writes all files of a report
- `page.page`: the HTML page
- `report.as_latex`: the tables for a paper.
"""
