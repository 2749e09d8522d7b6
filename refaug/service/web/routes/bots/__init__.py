"""The routes of bots, and leases of bots.

The main names:

- `replies.reply`: POST /v1/replies
- `stored.put_bot`: PUT /v1/bots/{name}
- `leased_bots.ask_bots`: the replies of all bots of a request, each from a leased index.
"""
