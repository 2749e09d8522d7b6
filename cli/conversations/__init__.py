"""The commands about whole conversations, a file a noun.

The main names:

- `hybrid.app`: `refaug hybrid …`
- `hybrid.hybrid_commands`: what its help says
- `hybrid.evaluate_command`: `refaug hybrid evaluate`.
"""

__all__ = ["hybrid"]
