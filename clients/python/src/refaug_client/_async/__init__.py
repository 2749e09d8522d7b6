"""The asyncio client; unasync.py generates `_sync` from the modules here.

The main names:

- `client.AsyncClient`: the client
- `resources.AsyncSets`: its methods on frozen sets
- `large.AsyncStream`: an answer that arrives in parts.
"""

__all__ = ["client", "large", "resources"]
