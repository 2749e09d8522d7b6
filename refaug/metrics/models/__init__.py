"""Metrics that receive the numbers of a model: the rater on the reply, RUBER.

The main names:

- `model_scores.RatedReplies`: the metric `rater`
- `model_scores.RelevantReplies`: the unreferenced part of RUBER
- `ruber.Ruber`: the metric `ruber`.
"""
