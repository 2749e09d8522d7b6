"""The database as commands use it: opened, brought up to date, and closed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from service.serve_settings import ServeSettings
from service.settings import Settings

if TYPE_CHECKING:
    from service.database import Database
    from service.job_store import JobStore


@contextmanager
def opened_database(home: Settings) -> Iterator[Database]:
    """The server's own database; REFAUG_DATABASE names one that is not in the home."""
    from service.database import Database  # noqa: PLC0415  sqlalchemy

    database = Database.open(home, ServeSettings.from_env().database)
    try:
        database.migrate()
        yield database
    finally:
        database.close()


def job_store(database: Database) -> JobStore:
    """The jobs in it, within the limits of the environment."""
    from service.job_store import JobStore  # noqa: PLC0415

    serve = ServeSettings.from_env()
    return JobStore(database, waiting_jobs=serve.waiting_jobs, tries=serve.job_tries)
