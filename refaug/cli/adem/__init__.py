"""Commands on ADEM, and on the VHREDs that its encoder is taken from.

The main names:

- `adem.pretrain_command`: `refaug adem pretrain`
- `versions.list_command`: `refaug adem list`
- `versions.publish_command`: `refaug adem publish`.
"""

__all__ = ["adem", "excluded_files", "versions"]
