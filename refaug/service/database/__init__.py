"""The database of a home: connections, tables and their steps, and stored answers of repeated requests.

The main names:

- `database.Database`: SQLite in the home, or PostgreSQL
- `database.Database.migrate`: upgrades the tables
- `tables.TableSet`: the tables of the core or of an extra
- `row_seals.checked_rows`: rows whose checksums hold
- `stored_answers.IdempotencyStore`: the answers of requests with an Idempotency-Key.
"""
