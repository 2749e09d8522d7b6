"""Judges of replies: language models behind an endpoint, judges fitted to ratings, ADEM, and how likely a reply is.

The main names:

- `language_models.pointwise.PointwiseJudge`: the judge of the metric `judge`
- `fitted.training.train_judge`: rated sets and metrics to a judge with its figures
- `adem.train_adem`: rated files to a published adem.
"""
