"""Parts that all reports share: HTML pages, plots, texts in CSV and LaTeX.

The main names:

- `html_page.render_page`: a page from a template
- `html_page.Table`: a table of a page
- `plotting.Plot`: a plot in the formats of a report.
"""
