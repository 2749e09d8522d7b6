"""Reservations of tasks: how they count for an item, and when they are given back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import Connection, bindparam, select, update

from refaug.evaluation.studies.records import TaskCheck
from refaug.service.database.database import time_text
from refaug.service.database.migrations.tables import STUDY_ITEMS, STUDY_PARTICIPANTS, STUDY_TASKS
from refaug.service.studies.study_rows import Attendance

LIVE: Final = ("reserved", "started")
_READING: Final = timedelta(minutes=1)  # for so long nobody else is given what a participant has not answered yet
_DUE: Final = (
    select(STUDY_TASKS.c.id, STUDY_TASKS.c.unit, STUDY_TASKS.c.is_pilot, STUDY_TASKS.c.check_kind)
    .where(
        STUDY_TASKS.c.study == bindparam("study"),
        STUDY_TASKS.c.state.in_(LIVE),
        STUDY_TASKS.c.reserved_until <= bindparam("now"),
        STUDY_TASKS.c.participant != bindparam("participant"),
    )
    .with_for_update(skip_locked=True)
)
_UNANSWERED: Final = (
    select(STUDY_TASKS.c.id, STUDY_TASKS.c.unit, STUDY_TASKS.c.is_pilot, STUDY_TASKS.c.check_kind)
    .join_from(STUDY_TASKS, STUDY_PARTICIPANTS, STUDY_TASKS.c.participant == STUDY_PARTICIPANTS.c.id)
    .where(
        STUDY_TASKS.c.study == bindparam("study"),
        STUDY_TASKS.c.state.in_(LIVE),
        STUDY_TASKS.c.reserved_until <= bindparam("until"),
        STUDY_TASKS.c.participant != bindparam("participant"),
        STUDY_PARTICIPANTS.c.answered.is_(None),
    )
    .order_by(STUDY_TASKS.c.reserved_until, STUDY_TASKS.c.id)
    .limit(1)
    .with_for_update(of=STUDY_TASKS, skip_locked=True)
)


def expire_due_tasks(connection: Connection, attending: Attendance) -> None:
    """Give back the reservations of tasks whose time is over."""
    whose = {"study": attending.study.id, "participant": attending.participant.id, "now": time_text(attending.now)}
    _expire(connection, attending, connection.execute(_DUE, whose).all())


def expire_unanswered_task(connection: Connection, attending: Attendance) -> bool:
    """Release the oldest task of a participant who has not answered yet, and return whether there is one.

    Only where no other task is left, and not while its participant may be reading: one who comes back after that can
    still finish it, so that one task more is done.
    """
    until = attending.now + timedelta(minutes=attending.protocol["reservation_minutes"]) - _READING
    whose = {"study": attending.study.id, "participant": attending.participant.id, "until": time_text(until)}
    rows = connection.execute(_UNANSWERED, whose).all()
    _expire(connection, attending, rows)
    return bool(rows)


def _expire(connection: Connection, attending: Attendance, rows: Sequence[Any]) -> None:
    for row in rows:
        values = {"state": "expired", "ended": time_text(attending.now)}
        connection.execute(update(STUDY_TASKS).where(STUDY_TASKS.c.id == row.id).values(values))
        change_load(connection, attending, row, -1)


def change_load(connection: Connection, attending: Attendance, task: Any, by: int) -> None:
    """Count a task of an item as taken or given back; those of a pilot do not count when the study is open."""
    is_counted = task.unit is not None and task.check_kind != TaskCheck.REPEAT
    if not is_counted or bool(task.is_pilot) != attending.study.is_pilot:
        return
    columns = STUDY_ITEMS.c
    mine = (columns.study == attending.study.id, columns.unit == task.unit)
    connection.execute(update(STUDY_ITEMS).where(*mine).values(load=columns.load + by))
