"""Checksums of rows that prove something: what people wrote, voted and answered, and was acknowledged.

A row is written with a checksum over the cells that its table names, and checked whenever it is read. One that a disk
or a hand has altered since is an error that names its table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson
from sqlalchemy import Row, Table, select

from refaug.service.database.database import Database
from refaug.service.database.stored_cells import damaged_database
from refaug.service.database.tables import SEALED, known_tables

_ROWS_AT_ONCE: Final = 1_000


def sealed(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its checksum; a cell that is left out is null."""
    return {**row, "checksum": _checksum(table, row)}


def checksum_of(table: Table, row: Row[Any], **changes: Any) -> str:
    """Return the checksum of a row that was read, with these changes."""
    return _checksum(table, {name: getattr(row, name) for name in table.info[SEALED]} | changes)


def checked_rows(table: Table, rows: Iterable[Row[Any]]) -> Iterator[Row[Any]]:
    """Yield rows; DamagedDatabase for a row that differs from what was written."""
    for row in rows:
        if row.checksum != checksum_of(table, row):
            keys = ", ".join(f"{column.name} {getattr(row, column.name)!r}" for column in table.primary_key.columns)
            raise damaged_database(f"table {table.name}, the row of {keys} was altered")
        yield row


def verify_sealed_rows(database: Database) -> int:
    """Return how many rows with checksums there are; DamagedDatabase for an altered row."""
    count = 0
    with database.reading() as connection:
        for table in (table for table in known_tables().values() if SEALED in table.info):
            with connection.execute(select(table).execution_options(yield_per=_ROWS_AT_ONCE)) as rows:
                count += sum(1 for _ in checked_rows(table, rows))
    return count


def _checksum(table: Table, row: Mapping[Any, Any]) -> str:
    return hashlib.sha256(orjson.dumps([row.get(name) for name in table.info[SEALED]])).hexdigest()
