"""Commands of stored bots: `refaug bots`.

The main names:

- `bots.list_command`: all bots, with what each replies from
- `bots.add_command`: stores a bot from a file
- `bots.try_command`: lets a bot reply once.
"""

__all__ = ["bots"]
