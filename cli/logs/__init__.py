"""Commands on logs: ingest, log, demo-log, tokenizer."""
