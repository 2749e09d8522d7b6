"""Jobs about bots: their replies to a file, to themselves or a partner, and what people said of conversations.

The main names:

- `replying.replies_job`: a file with replies, which becomes an upload
- `self_playing.self_play_job`: a version of a self-play
- `hybrid_fitting.hybrid_fit_job`: a version of a hybrid, fitted to rated conversations.
"""

__all__ = ["hybrid_fitting", "replying", "self_playing"]
