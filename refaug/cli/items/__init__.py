"""Commands about test files.

The main names:

- `items.app`: the group `refaug items`
- `items.convert_command`: `refaug items convert`, from a table of any kind to JSON lines
- `items`: what a dry run shows.
"""

__all__ = ["items"]
