"""Jobs in which bots reply: to the items of a file, and to themselves or a partner.

The main names:

- `replying.replies_job`: a file with replies, which becomes an upload
- `replying.opened_bots`: bots of a job, asked as a server asks them
- `self_playing.self_play_job`: a version of a self-play.
"""

__all__ = ["replying", "self_playing"]
