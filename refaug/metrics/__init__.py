"""Metrics, one a file, from tokens and weights to scores, and the statistics of scores.

The main names:

- `catalogue.METRICS`: what each metric is, needs and means
- `base.Metric`: what every metric offers
- `specification.build`: a metric from its specification.
"""
