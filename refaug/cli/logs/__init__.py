"""Commands on logs: ingest, log, demo-log, tokenizer.

The main names:

- `ingest.ingest_command`: `refaug ingest`
- `log.stats_command`: `refaug log stats`
- `demo_log.demo_log_command`: `refaug demo-log`.
"""

__all__ = ["demo_log", "ingest", "log", "tokenizer"]
