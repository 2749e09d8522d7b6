"""Replies of bots to the items of a test file: a bot becomes one of the systems of the items.

The main names:

- `system_replies.add_replies`: items with the replies of bots
- `system_replies.BotSystem`: a bot under the name of a system
- `system_replies.ReplyJournal`: replies on disk as they come, so that a job that was killed asks no bot twice.
"""

__all__ = ["system_replies", "without_reply"]
