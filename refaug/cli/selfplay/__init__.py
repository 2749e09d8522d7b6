"""`refaug selfplay`: bots talk to themselves or to a partner, and what such conversations share is counted.

The main names:

- `play.play_command`: `refaug selfplay play`
- `play.check_command`: `refaug selfplay check`
- `versions.publish_command` and its siblings: versions of what was played.
"""

__all__ = ["play", "versions"]
