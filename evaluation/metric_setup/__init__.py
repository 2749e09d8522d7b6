"""Preparation of a named metric: baselines and ranges measured on a log, and models.

The main names:

- `metric_requests.metrics_of`: metrics from their specifications
- `metric_requests.BaselineCache`: the b of weighted forms, for a server
- `model_metrics.with_parts`: metrics bound to the models that they need.
"""

__all__ = ["baseline", "metric_requests", "model_metrics", "signature_requests"]
