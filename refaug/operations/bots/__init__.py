"""What bots can be let do, and what can be said of their conversations.

The main names:

- `play_conversations.PlayConversations`: self-play
- `play_conversations.PlayConversations.bots_named`: its bots, the partner behind them
- `play_conversations.PlayConversations.start_file`: the file that conversations begin with.
"""

__all__ = ["play_conversations"]
