"""Stored bots of a home: the table of their specifications, and bots opened from it.

The main names:

- `bot_store.BotStore`: lists, puts and removes bots, with a row in the audit log
- `opening.open_bots`: bots by name or specification, for commands and jobs
- `stored_bots.server_access`: the hosts that bots of a server may ask, and what they may cost.
"""
