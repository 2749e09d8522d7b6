"""Replies of bots to the items of a test file: a bot becomes one of the systems of the items.

The main names:

- `system_replies.add_replies`: items with the replies of bots
- `system_replies.BotSystem`: a bot under the name of a system
- `system_replies.AnsweredItem`: an item with replies, and why a bot has none.
"""

__all__ = ["system_replies", "without_reply"]
