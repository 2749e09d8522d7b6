"""`refaug studies …`: studies with people.

The main names:

- `studies.app`: all of its commands.
"""

__all__ = ["studies"]
