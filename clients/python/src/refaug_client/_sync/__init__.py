"""The client for threads, generated from `_async` by unasync.py.

The main names:

- `client.Client`: the client
- `resources.Sets`: its methods on frozen sets
- `large.Stream`: an answer that arrives in parts.
"""

__all__ = ["client", "large", "resources"]
