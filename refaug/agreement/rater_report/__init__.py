"""The report on a rater: figures, plots and an HTML page.

The main names:

- `report.report_on_rater`: computes the figures
- `report.RaterReport`: the figures
- `page.write_report`: writes the page with its plots.
"""
