"""Routes of bots.

The main names:

- `replies.reply`: POST /v1/replies
- `leased_bots.ask_bot`: the replies of one bot
- `leased_bots.AskedBot`: a bot with its replies.
"""

__all__ = ["replies"]
