"""The routes of bots and of conversations with them, and leases of bots.

The main names:

- `replies.reply`: POST /v1/replies
- `stored.put_bot`: PUT /v1/bots/{name}
- `leased_bots.ask_bots`: the replies of all bots of a request, each from a leased index
- `hybrids.score_by_hybrid`: POST /v1/hybrids/{name}/scores.
"""

__all__ = ["hybrids", "leased_bots", "replies", "stored"]
