"""The metric `judge-fit`: a combination of metrics that was fitted to ratings, read back and bound.

The main names:

- `combination.CombinedJudge`: weights and scales, from values of metrics to scores
- `opening.held_judge`: a stored judge with the networks that its metrics ask
- `stored_judge.open_judge`: a fitted judge by name or name@version.
"""

__all__ = ["combination", "opening", "score_trees", "stored_judge"]
