"""The end of an erasure: its job is stored as done, and its order names none of those whom it erased.

A job that failed or was cancelled keeps its names, since a retry needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson
from sqlalchemy import update

from refaug.service.database.database import Database
from refaug.service.database.erased_storage import overwrite_removed, remove_old_copies
from refaug.service.database.migrations.tables import JOBS
from refaug.service.jobs.store import Job

_NAMES: Final = ("dialogues", "speakers")


def finish_without_names(database: Database, job: Job, finish: Callable[[], Any]) -> None:
    """Store the end of an erasure by `finish`, and take the names out of its order in the same transaction."""
    order = {name: setting for name, setting in job.order.items() if name not in _NAMES}
    with database.writing() as connection:
        overwrite_removed(connection, is_sqlite=database.is_sqlite)
        finish()
        connection.execute(update(JOBS).where(JOBS.c.id == job.id).values(order=orjson.dumps(order).decode()))
    remove_old_copies(database, (JOBS.name,), rewrites=False)
