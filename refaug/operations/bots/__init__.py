"""What bots can be let do, and what can be said of their conversations.

The main names:

- `play_conversations.PlayConversations`: self-play
- `reply_to_items.ReplyToItems`: bots as further systems of a test file
- `reply_to_items.ReplyOptions`: the same for items in hand.
"""

__all__ = ["play_conversations", "reply_to_items"]
