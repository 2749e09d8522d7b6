"""Open versions, batching and caches: what answers requests within a process.

The main names:

- `versions.open_versions.OpenVersions`: the versions that serve now
- `versions.leases.Lease`: the versions of a request, open until it ends
- `batches.batcher.Batcher`: requests in, their answers out.
"""
