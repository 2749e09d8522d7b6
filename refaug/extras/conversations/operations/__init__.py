"""What bots can be let do with each other, and what can be said of their conversations.

The main names:

- `play_conversations.PlayConversations`: self-play
- `judge_conversations.JudgeConversations`: conversations, turn by turn
- `fit_hybrid.FitHybrid`: the hybrid metric, fitted to rated conversations.
"""

__all__ = ["fit_hybrid", "judge_conversations", "play_conversations", "turn_metrics"]
