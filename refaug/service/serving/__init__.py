"""Open versions, batching and caches: what answers requests within a process.

The main names:

- `versions.open_versions.OpenVersions`: the versions that serve now
- `batches.batcher.Batcher`: requests in, their answers out
- `sets.held_sets.HeldSets`: frozen sets in memory.
"""
