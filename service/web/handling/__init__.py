"""What routes share: reading items, retrieval, scoring, freezing, queueing jobs, pagination."""
