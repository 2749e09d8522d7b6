"""Building and updating an index version: planning, tables, segments, measured recall.

The main names:

- `build.build_index`: builds a version from logs
- `rebuilding`: compacting a version, and dividing it into other shards
- `update.update_index`: brings a version up to its logs
- `plan.choose`: the kind of index that fits the memory.
"""

__all__ = [
    "build",
    "material",
    "order",
    "plan",
    "rebuilding",
    "scratch",
    "segment_files",
    "segment_stages",
    "sharding",
    "update",
]
