"""Making a version of an index out of another one: compacting it, and cutting it into another number of shards.

The main names:

- `compaction.compact_index`: builds the shards in which something has changed
- `compaction_choice.CompactionChoice`: which shards these are
- `resharding.reshard_index`: builds other shards, without the logs
- `merged_table.StoredTables`: the tables of a version
"""

__all__ = ["compaction", "compaction_choice", "merged_table", "resharding"]
