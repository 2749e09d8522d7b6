"""Commands on a store that several machines share.

The main names:

- `store.push_command`: `refaug store push`
- `store.fetch_command`: `refaug store fetch`
- `store.gc_command`: `refaug store gc`.
"""

__all__ = ["store"]
