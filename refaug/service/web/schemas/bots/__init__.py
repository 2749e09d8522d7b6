"""Models of bots and of their replies.

The main names:

- `replies.RepliesIn`: items that bots are to reply to
- `stored.BotIn`: a bot to store
- `stored.BotRepliesIn`: dialogues that a bot is to reply to.
"""

__all__ = ["hybrids", "replies", "stored"]
