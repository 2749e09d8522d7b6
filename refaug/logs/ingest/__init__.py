"""Ingesting a log: sources are cleaned, paired and staged, then published as a stored log.

The main names:

- `ingest.ingest`: all steps in their order
- `cleaning.CleaningSettings`: which messages are repaired or dropped
- `order.Stage`: the folder that an interrupted ingest continues in.
"""
