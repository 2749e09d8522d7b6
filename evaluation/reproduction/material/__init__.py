"""What the experiments work on: rated sets, logs, indexes and raters, kinds of references, candidate metrics."""
