"""A judge that is fitted to people's ratings: a small combination of metrics, on scales of its training rows.

The main names:

- `fit.fit_judge`: rated rows to a fitted judge
- `fit.FittedJudge`: scores rows of metric values
- `held_out.out_of_group_scores`: scores of rows by judges that were fitted without their group.
"""

__all__ = ["fit", "held_out", "rated_table"]
