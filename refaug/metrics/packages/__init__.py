"""Metrics that other packages add.

The main names:

- `package_metrics.metric_of_package`: one of them by its name
- `package_metrics.metrics_of_packages`: all of them
- `watched_metrics.watched`: its class, with checks of what it returns.
"""
