"""Dialogue logs: reading them, ingesting them, the store, its statistics, and deletion.

The main names:

- `store.StoredLog`: a log opened for reading
- `ingest.ingest.ingest`: adds sources to a log
- `deletion.delete`: removes dialogues and speakers for good.
"""
