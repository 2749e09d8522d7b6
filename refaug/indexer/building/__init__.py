"""Building and updating an index version: planning, tables, segments, measured recall.

The main names:

- `build.build_index`: builds a version from logs
- `compaction.compact_index`: makes a version without what was deleted
- `update.update_index`: brings a version up to its logs
- `plan.choose`: the kind of index that fits the memory.
"""
