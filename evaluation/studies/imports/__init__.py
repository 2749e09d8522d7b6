"""Studies that were run elsewhere, read as the records of this one.

The main names:

- `rated_conversations.imported_conversations`: rated conversations in JSONL, such as ji2022_run1.
"""

__all__ = ["rated_conversations"]
