"""The metric `judge-fit`: a combination of metrics that was fitted to ratings, read back and bound.

The main names:

- `combination.CombinedJudge`: weights and scales, from values of metrics to scores
- `opening.bound_components`: the metrics of a stored judge, bound to their models
- `stored_judge.open_judge`: a fitted judge by name or name@version.
"""

__all__ = ["combination", "opening", "stored_judge"]
