"""Reports of features: tables and sections, and their forms as pages, plots, Markdown, CSV and LaTeX.

The main names:

- `table.Table`: a table, with its forms as text
- `report.Report`: sentences, tables, plots and replies in sections
- `html_page.report_page`: a report as a page
- `plotting.Plot`: a plot in the formats of a report.
"""
