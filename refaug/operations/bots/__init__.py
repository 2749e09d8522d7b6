"""What bots can be let do, and what can be said of their conversations.

The main names:

- `reply_to_items.ReplyToItems`: bots as further systems of a test file
- `play_conversations.PlayConversations`: self-play
- `judge_conversations.JudgeConversations`: conversations, turn by turn
- `fit_hybrid.FitHybrid`: the hybrid metric, fitted to rated conversations.
"""

__all__ = ["fit_hybrid", "judge_conversations", "play_conversations", "reply_to_items", "turn_metrics"]
