"""The report of an experiment: a page, a table in Markdown, JSON, plots."""
