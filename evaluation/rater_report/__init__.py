"""The report on a rater: figures, plots and an HTML page."""
