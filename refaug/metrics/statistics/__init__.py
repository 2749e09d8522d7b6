"""Statistics: resampling, correlation, agreement with people, agreement among annotators, votes between pairs, power.

The main names:

- `resampling.bootstrap`: intervals and comparisons of scores
- `correlation.correlate`: correlations with ratings
- `agreement.mean_over_sets`: the agreement of metrics with people.
"""
