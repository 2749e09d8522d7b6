"""Metrics that receive the numbers of a model: the rater on the reply, RUBER, judges.

The main names:

- `combined_replies.CombinedReplies`: the metric `judge-fit`
- `judged_replies.JudgedReplies`: the metric `judge`
- `likelihood.LikelyReplies`: the metric `likelihood`
- `model_scores.RatedReplies`: the metric `rater`
- `model_scores.RelevantReplies`: the unreferenced part of RUBER
- `ruber.Ruber`: the metric `ruber`.
"""

__all__ = ["adem", "combined_replies", "judged_replies", "likelihood", "model_kinds", "model_scores", "ruber"]
