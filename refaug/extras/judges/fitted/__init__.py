"""A judge that is fitted to people's ratings: a small combination of metrics, on scales of its training rows.

The main names:

- `training.fit_judge`: rated rows to a fitted judge
- `training.train_judge`: rated sets and metrics to a judge with its figures
- `training.out_of_group_scores`: scores of rows by judges that were fitted without their group.
"""
