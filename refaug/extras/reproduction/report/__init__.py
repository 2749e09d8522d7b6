"""The report of an experiment: a page, a table in Markdown, JSON, plots.

The main names:

- `report.write_report`: writes all files
- `report.Report`: an experiment's sections and figures
- `report.StoredReport`: a report read back from its JSON
"""
