"""The tables, and the migrations that lead to them from the tables of the first release.

`tables.py` has the current tables, from which a new database is made. Each file in `versions/` is one migration, run
once on every database that is older than it, and never changed after its release. `refaug.service.database.database`
runs them in one transaction: a failing migration leaves the database as it was. To add one, change `tables.py`, and
write the next number in `versions/` with the previous one as its `down_revision`.

The main names:

- `tables.TABLES`: the current tables
- `env`: the entry point that Alembic calls
- `versions`: the migrations, one in each file.
"""
