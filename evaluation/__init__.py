"""Evaluation with metrics: scoring, agreement with people, reproduction of claims, reports.

The main names:

- `scoring.evaluate.evaluate`: scores of systems, with intervals and comparisons
- `scoring.augmentation.augment`: items with retrieved and rated references
- `agreement.meta.agreement`: the agreement of metrics with people.
"""

__all__ = ["agreement", "citation", "home", "metric_setup", "rater_report", "replies", "reproduction", "scoring"]
