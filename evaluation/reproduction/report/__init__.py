"""The report of an experiment: a page, a table in Markdown, JSON, plots.

The main names:

- `report.write_report`: writes all files
- `report.Report`: an experiment's sections and figures
- `plots.bars`: bars with intervals.
"""

__all__ = ["plots", "report", "stress_text", "weights_text"]
