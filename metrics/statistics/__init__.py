"""Statistics: resampling, correlation, agreement with people, agreement among annotators.

The main names:

- `resampling.bootstrap`: intervals and comparisons of scores
- `correlation.correlate`: correlations with ratings
- `agreement.cluster_bootstrap`: the agreement of metrics with people.
"""

__all__ = ["agreement", "alpha", "correlation", "intraclass", "kappa", "resampling", "split_half"]
