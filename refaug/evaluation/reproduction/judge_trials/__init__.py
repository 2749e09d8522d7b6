"""Trials of fitted judges: the features that they combine, and `reproduce judges`.

The main names:

- `judges.judges`: the report on all attempts
- `features.features_of`: numbers of replies that a judge may combine
- `attempts.ATTEMPTS`: what is tried, and why.
"""

__all__ = ["attempts", "features", "judge_lines", "judges", "vhred_features"]
