"""Score documents as pages show them: a summary, lists of replies, one reply in full, points of two metrics.

The main names:

- `score_view.write_view`: writes a score document so that it opens without being read
- `replies.ReplyQuery`: which replies are listed, and in which order
- `score_view.summary_json`: systems with intervals, differences and histograms.
"""
