"""What a database still holds of erased texts in its files: free space of pages, and the log of writes."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sqlalchemy import Connection

from refaug.core.errors import StorageFull, Unavailable
from refaug.service.database.database import Database

log = logging.getLogger(__name__)


def overwrite_removed(connection: Connection, *, is_sqlite: bool) -> None:
    """Let SQLite overwrite what the transaction of the caller removes."""
    if is_sqlite:
        connection.exec_driver_sql("PRAGMA secure_delete = ON")


def remove_old_copies(database: Database, tables: Sequence[str], *, rewrites: bool) -> bool:
    """Empty the log of writes, and overwrite or write anew what was removed; False where the database is busy."""
    try:
        for statement in _statements(database, tables, rewrites=rewrites):
            database.run_outside_transactions(statement)
    except (Unavailable, StorageFull) as error:
        log.warning("erased texts may be in free pages until the next erasure", extra={"why": error.message})
        return False
    return True


def _statements(database: Database, tables: Sequence[str], *, rewrites: bool) -> list[str]:
    if not database.is_sqlite:
        return [f"VACUUM {'(FULL) ' if rewrites else ''}{table}" for table in tables]
    return [*(["VACUUM"] if rewrites else []), "PRAGMA wal_checkpoint(TRUNCATE)"]
