"""Commands on ADEM, and on the VHREDs that its encoder is taken from.

The main name: `adem.app`: the group `refaug adem`.
"""

__all__ = ["adem"]
