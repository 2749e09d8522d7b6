"""Jobs about conversations: bots that play, and what people said of what they played.

The main names:

- `self_playing.self_play_job`: a version of a self-play
- `conversation_judging.judge_conversations_job`: the scores of every turn of conversations
- `hybrid_fitting.hybrid_fit_job`: a version of a hybrid, fitted to rated conversations.
"""

__all__ = ["self_playing"]
