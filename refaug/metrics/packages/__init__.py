"""Metrics that other packages add.

The main names:

- `package_metrics.metric_of_package`: one of them by its name
- `watched_metrics.watched`: its class, with checks of what it returns.
"""

__all__ = ["package_metrics", "watched_metrics"]
