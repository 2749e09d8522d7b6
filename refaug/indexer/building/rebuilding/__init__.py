"""Making a version of an index without what was deleted.

The main names:

- `compaction.compact_index`: builds the shards in which something has changed
- `compaction_choice.CompactionChoice`: which shards these are
"""

__all__ = ["compaction", "compaction_choice"]
