"""Open versions, batching and caches: what answers requests within a process."""
