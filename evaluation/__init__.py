"""Evaluation with metrics: scoring, verification, agreement with people, reproduction of claims, reports.

The main names:

- `scoring.evaluate.evaluate`: scores of systems, with intervals and comparisons
- `scoring.augmentation.augment`: items with retrieved and rated references
- `agreement.meta.agreement`: the agreement of metrics with people
- `verification.verification.verify`: scores of a file, reproduced from their signatures.
"""

__all__ = [
    "agreement",
    "citation",
    "home",
    "metric_setup",
    "rater_report",
    "replies",
    "reproduction",
    "scoring",
    "verification",
]
