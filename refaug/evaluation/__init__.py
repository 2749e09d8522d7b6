"""Evaluation with metrics: scoring, verification, agreement with people, reproduction of claims, reports.

The main names:

- `scoring.evaluate.evaluate`: scores of systems, with intervals and comparisons
- `scoring.augmentation.augment`: items with retrieved and rated references
- `agreement.meta.agreement`: the agreement of metrics with people
- `judge.pointwise.PointwiseJudge`: a language model behind an endpoint that rates replies
- `verification.verification.verify`: scores of a file, reproduced from their signatures
- `comparison.comparison.compare`: two runs side by side.
"""

__all__ = [
    "adems",
    "agreement",
    "citation",
    "comparison",
    "conversations",
    "fitted_judge",
    "home",
    "item_files",
    "judge",
    "metric_setup",
    "rater_report",
    "replies",
    "reports",
    "reproduction",
    "score_files",
    "score_report",
    "score_views",
    "scoring",
    "selfplay",
    "studies",
    "tables",
    "verification",
]
