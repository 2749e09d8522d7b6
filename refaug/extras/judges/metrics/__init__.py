"""Metrics that receive the numbers of a judge.

The main names:

- `combined_replies.CombinedReplies`: the metric `judge-fit`
- `panels.JudgePanel`: the metric `panel`
- `component_metrics.ComponentMetric`: what both have in common
- `judged_replies.JudgedReplies`: the metric `judge`
- `likelihood.LikelyReplies`: the metric `likelihood`
- `adem.FittedReplies`: the metric `adem`.
"""
