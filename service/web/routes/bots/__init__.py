"""The routes of bots, and their leases.

The main names:

- `replies.reply`: POST /v1/replies
- `stored.put_bot`: PUT /v1/bots/{name}
- `leased_bots.ask_bots`: the replies of all bots of a request, each from a leased index
- `leased_bots.AskedBot`: one of the bots with its version, its system and its replies.
"""

__all__ = ["leased_bots", "replies", "stored"]
