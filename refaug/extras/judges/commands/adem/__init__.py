"""Commands on ADEM, and on the VHREDs that its encoder is taken from.

The main names:

- `adem.pretrain_command`: `refaug train vhred`
- `scorers.train_command`: `refaug train adem`
- `scorers.report_command`: `refaug train report adem`.
"""

__all__ = ["adem", "excluded_files"]
