"""Bots by name: their specifications are JSON objects, checked, hashed, and kept in the database of a home.

The main names:

- `specification.StoredBot`: a name with a checked specification and its hash
- `opening.open_stored`: a stored bot to one that replies
- `endpoint_bot.EndpointAccess`: which hosts bots may ask, and where answers are kept.
"""
