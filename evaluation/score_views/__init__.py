"""Score documents as pages show them: a summary, lists of replies, one reply in full, points of two metrics.

The main names:

- `score_view.ScoreView`: a score document with its replies as columns
- `reply_query.ReplyQuery`: which replies are listed, and in which order
- `summary.summary_json`: systems with intervals, differences and histograms.
"""

__all__ = ["replies", "reply_query", "score_view", "summary"]
