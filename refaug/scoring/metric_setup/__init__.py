"""Preparation of a named metric: baselines and ranges measured on a log, and models.

The main names:

- `metric_requests.metrics_of`: metrics from their specifications
- `model_registry.ModelRegistry`: models of every kind by name, each opened once
- `metric_requests.BaselineCache`: the b of weighted forms, for a server
- `scoring_steps`: from items to metrics with their models, the same for commands, requests and verification.
"""
