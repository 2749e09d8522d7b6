"""Sums that scores are computed from, as clients send them back.

The main names:

- `batch.SumsOfBatch`: one answer to `"return": "stats"`, read and checked
- `batch.SumsOfMetric`: the sums of one metric in it
- `batch.FROM_STATS`: what to do where it is none.
"""

__all__ = [
    "batch",
]
