"""Commands on raters and rubers.

The main names:

- `rater.train_command`: `refaug rater train`
- `rater.rate_command`: `refaug rater rate`
- `ruber.train_command`: `refaug ruber train`.
"""

__all__ = ["rater", "ruber"]
