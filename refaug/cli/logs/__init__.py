"""Commands on logs and tokenizers.

The main names:

- `ingest.ingest_command`: `refaug log ingest`
- `log.stats_command`: `refaug log stats`
- `demo_log.demo_log_command`: `refaug log demo`.
"""
