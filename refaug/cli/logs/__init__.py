"""Commands on logs and tokenizers.

The main names:

- `log.ingest_command`: `refaug log ingest`
- `log.stats_command`: `refaug log stats`
- `log.demo_log_command`: `refaug log demo`.
"""
