"""Commands on ADEM, and on the VHREDs that its encoder is taken from.

The main names:

- `adem.pretrain_command`: `refaug adem pretrain`
- `scorers.train_command`: `refaug adem train`
- `scorers.report_command`: `refaug adem report`.
"""

__all__ = ["adem", "excluded_files"]
