"""Erases what participants wrote when the time is over for which a study promised to keep it.

The time counts from the closing of the study. Each participant is a transaction, so that a pass that was interrupted is
gone on with by the next one.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import select

from refaug.service.database.database import Database, time_of
from refaug.service.database.migrations.tables import STUDIES, STUDY_PARTICIPANTS
from refaug.service.studies.erasure import clean_storage, erase_one
from refaug.service.studies.study_rows import StoredStudy

ACTOR: Final = "retention"
MOST_AT_ONCE: Final = 500  # participants of a pass


def erase_what_is_over(database: Database, *, now: datetime | None = None, most: int = MOST_AT_ONCE) -> int:
    """Erase participants of studies that were closed longer ago than they keep texts; return how many."""
    now = now or datetime.now(UTC)
    erased = 0
    for study in _studies_that_are_over(database, now):
        for participant in _not_yet_erased(database, study, most - erased):
            with database.writing() as connection:
                erase_one(connection, study, participant, actor=ACTOR, is_sqlite=database.is_sqlite)
            erased += 1
    if erased:
        clean_storage(database, rewrites=True)
    return erased


def _studies_that_are_over(database: Database, now: datetime) -> list[StoredStudy]:
    query = select(STUDIES).where(STUDIES.c.state == "closed", STUDIES.c.closed.is_not(None)).order_by(STUDIES.c.id)
    with database.reading() as connection:
        studies = [StoredStudy.of(row) for row in connection.execute(query)]
    return [
        study
        for study in studies
        if study.closed is not None and time_of(study.closed) + timedelta(days=study.protocol["retention_days"]) <= now
    ]


def _not_yet_erased(database: Database, study: StoredStudy, most: int) -> list[str]:
    columns = STUDY_PARTICIPANTS.c
    query = (
        select(columns.id)
        .where(columns.study == study.id, columns.state != "withdrawn")
        .order_by(columns.id)
        .limit(max(most, 0))
    )
    with database.reading() as connection:
        return list(connection.execute(query).scalars())
