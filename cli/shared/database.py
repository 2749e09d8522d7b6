"""The database of commands: opened, migrated, and closed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from refaug.core.home import Settings
from refaug.service.server_settings import ServeSettings

if TYPE_CHECKING:
    from refaug.service.database.database import Database
    from refaug.service.jobs.store import JobStore


@contextmanager
def open_database(home: Settings) -> Iterator[Database]:
    """Open the database of the server; REFAUG_DATABASE names one outside the home."""
    from refaug.service.database.database import Database  # noqa: PLC0415  sqlalchemy

    database = Database.open(home, ServeSettings.from_env().database)
    try:
        database.migrate()
        yield database
    finally:
        database.close()


def job_store(database: Database) -> JobStore:
    """Return the store of jobs, within the limits of the environment."""
    from refaug.service.jobs.store import JobStore  # noqa: PLC0415

    serve = ServeSettings.from_env()
    return JobStore(database, waiting_jobs=serve.waiting_jobs, tries=serve.job_tries)
