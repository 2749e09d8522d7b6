"""Takes a participant's texts and answers away, and keeps the fact: from the database, its free pages and its log.

SQLite overwrites what these transactions remove (`secure_delete`), and the write-ahead log is emptied after them. An
operator's erasure also writes the whole file anew, since pages that were split before may hold old copies.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import Connection, delete, select, update

from refaug.extras.studies.participation import tables
from refaug.extras.studies.participation.study_store import (
    Attendance,
    StoredStudy,
    attendance,
    lock_study,
    participant_row,
)
from refaug.extras.studies.participation.tables import STUDIES, STUDY_PARTICIPANTS, STUDY_TASKS
from refaug.extras.studies.participation.tasks.task_assignment import LIVE, change_load
from refaug.extras.studies.protocol.study_protocol import is_chat
from refaug.service.audit import add_row
from refaug.service.database.database import Database, overwrite_removed, remove_old_copies, time_of, time_text

_TABLES: Final = ("study_messages", "study_answers", "study_actions", "study_participants", "study_tasks")


def erase_rows(connection: Connection, attending: Attendance, *, is_sqlite: bool) -> None:
    """Remove everything that a participant has written, in a transaction of the caller."""
    overwrite_removed(connection, is_sqlite=is_sqlite)
    me = attending.participant.id
    _give_back_loads(connection, attending)
    tasks = select(STUDY_TASKS.c.id).where(STUDY_TASKS.c.participant == me)
    connection.execute(delete(tables.STUDY_MESSAGES).where(tables.STUDY_MESSAGES.c.task.in_(tasks)))
    connection.execute(delete(tables.STUDY_ANSWERS).where(tables.STUDY_ANSWERS.c.task.in_(tasks)))
    connection.execute(delete(tables.STUDY_ACTIONS).where(tables.STUDY_ACTIONS.c.participant == me))
    connection.execute(
        update(STUDY_TASKS)
        .where(STUDY_TASKS.c.participant == me)
        .values(state="withdrawn", skip_reason=None, ended=time_text(attending.now))
    )
    values: dict[str, object] = {
        "state": "withdrawn",
        "external_hash": None,
        "opening": None,
        "screening": None,
        "training": None,
        "excluded_reason": None,
        "ended": time_text(attending.now),
    }
    connection.execute(update(tables.STUDY_PARTICIPANTS).where(tables.STUDY_PARTICIPANTS.c.id == me).values(values))


def _give_back_loads(connection: Connection, attending: Attendance) -> None:
    """Let others be given the items of a participant whose ratings do not count any more."""
    if is_chat(attending.protocol.kind):
        return
    lock_study(connection, attending.study.id)  # first: who gives out tasks expires those of others, and their loads
    columns = STUDY_TASKS.c
    counted = select(columns.unit, columns.check_kind, columns.is_pilot).where(
        columns.participant == attending.participant.id,
        columns.unit.is_not(None),
        columns.state.in_((*LIVE, "done")),
    )
    for row in connection.execute(counted).all():
        change_load(connection, attending, row, -1)


def erase_participant(
    database: Database, study: StoredStudy, code: str, *, actor: str, request: str | None = None
) -> None:
    """Erase a participant of this code for an operator; the fact stays, with a row in the audit log."""
    with database.writing() as connection:
        participant = participant_row(connection, study, code).id
        erase_one(connection, study, participant, actor=actor, is_sqlite=database.is_sqlite, request=request)
    clean_storage(database, rewrites=True)


def erase_one(
    connection: Connection,
    study: StoredStudy,
    participant: str,
    *,
    actor: str,
    is_sqlite: bool,
    request: str | None = None,
) -> None:
    """Erase a participant with sessions and links, in a transaction of the caller; `clean_storage` belongs after it."""
    attending = attendance(connection, participant, locks=True)
    erase_rows(connection, attending, is_sqlite=is_sqlite)
    for table in (tables.STUDY_SESSIONS, tables.STUDY_RESUME_LINKS):
        connection.execute(delete(table).where(table.c.participant == participant))
    subject = f"participant {attending.participant.code} of study {study.name}"
    add_row(connection, actor, "erase", subject, request=request)


def clean_storage(database: Database, *, rewrites: bool) -> bool:
    """Remove the copies that the database has of what was erased; False where it is busy."""
    return remove_old_copies(database, _TABLES, rewrites=rewrites)


# ── Erases what participants wrote when the time is over for which a study promised to keep it ────────────────────────
#
# The time counts from the closing of the study. Each participant is a transaction, so that a pass that was
# interrupted is gone on with by the next one.

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
