"""The database of commands: opened, migrated, and closed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from refaug.cli.shared.output import print_warning
from refaug.core.artefacts.versions import REFUSE, Change, observing_changes
from refaug.core.errors import Conflict, StorageFull, Unavailable
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


def has_database(home: Settings) -> bool:
    """Return whether the home has a database already; opening one makes it."""
    return bool(ServeSettings.from_env().database) or (home.home / "refaug.db").exists()


def record_act(home: Settings, action: str, subject: str, **details: Any) -> None:
    """Add what a command has done to the audit log, where the home has a database; commands make none for this."""
    if not has_database(home):
        return
    from refaug.service.audit import AuditLog, user_of_machine  # noqa: PLC0415

    try:
        with open_database(home) as database:
            AuditLog(database).add(user_of_machine(), action, subject, **details)
    except (Conflict, Unavailable, StorageFull) as error:
        print_warning(f"not in the audit log: {action} {subject}: {error.message}")


@contextmanager
def telling_refusals(home: Settings) -> Iterator[None]:
    """Record what checks refuse during the block, and tell the webhook of it, where the home has a database."""

    def note(change: Change) -> None:
        if change.action == REFUSE and has_database(home):
            _record_refusal(home, change)

    with observing_changes(note):
        yield


def _record_refusal(home: Settings, change: Change) -> None:
    from refaug.service.audit import add_row, user_of_machine  # noqa: PLC0415
    from refaug.service.history.notices import add_refusal  # noqa: PLC0415

    try:
        with open_database(home) as database, database.writing() as connection:
            add_row(connection, user_of_machine(), change.action, change.subject, **change.details)
            add_refusal(connection, change.subject, change.details["reason"])
    except (Conflict, Unavailable, StorageFull) as error:
        print_warning(f"neither in the audit log nor told: {change.action} {change.subject}: {error.message}")


def job_store(database: Database, home: Settings) -> JobStore:
    """Return the store of jobs, within the limits of the environment."""
    from refaug.service.jobs.audited_jobs import JobActs  # noqa: PLC0415
    from refaug.service.jobs.store import JobStore  # noqa: PLC0415

    serve = ServeSettings.from_env()
    return JobStore(database, waiting_jobs=serve.waiting_jobs, tries=serve.job_tries, acts=JobActs(home))
