"""Commands on raters and rubers.

The main names:

- `rater.train_command`: `refaug train rater`
- `rater.rate_command`: `refaug judge score rater`
- `ruber.train_command`: `refaug train ruber`.
"""
