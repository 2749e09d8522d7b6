"""Making a version of an index without what was deleted.

The main names:

- `compaction.compact_index`: builds the shards in which something has changed
- `compaction.CompactionChoice`: which shards these are
- `compaction.query_hashes`: the utterances that recall is measured on
"""

__all__ = ["compaction"]
