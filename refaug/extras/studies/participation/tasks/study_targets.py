"""When a study has as many tasks of each bot as it wants."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, func, select

from refaug.extras.studies.participation.study_store import Attendance
from refaug.extras.studies.participation.tables import STUDY_BOTS, STUDY_TASKS
from refaug.service.database.database import Database
from refaug.service.history.notices import NoticeKind, add_notice


def notice_target(connection: Connection, attending: Attendance, task: Row[Any]) -> None:
    """Add a notice where the task that was just finished is the last one that its study wants, also while it pauses."""
    study = attending.study
    if study.state not in ("open", "paused") or task.check_kind is not None or task.is_pilot:
        return
    bots = STUDY_BOTS.c
    targets_query = select(bots.slot, bots.target).where(bots.study == study.id, bots.target > 0)
    targets: dict[int, int] = {row.slot: row.target for row in connection.execute(targets_query)}
    own = [slot for slot in (task.slot_a, task.slot_b) if slot in targets]
    if not own:
        return
    Database.advisory_lock(connection, "targets")  # so that of two last tasks one sees the other
    columns = STUDY_TASKS.c
    done = (
        select(columns.slot_a, columns.slot_b, func.count())
        .where(columns.study == study.id, columns.state == "done", columns.is_pilot.is_(False))
        .where(columns.check_kind.is_(None))
        .group_by(columns.slot_a, columns.slot_b)
    )
    counts, tasks = dict.fromkeys(targets, 0), 0
    for first, second, number in connection.execute(done):
        counted_slots = [slot for slot in (first, second) if slot in counts]
        tasks += number if counted_slots else 0  # a pair is one task of two bots
        for slot in counted_slots:
            counts[slot] += number
    is_reached = all(counts[slot] >= target for slot, target in targets.items())
    if is_reached and any(counts[slot] == targets[slot] for slot in own):
        text = f"study {study.name} has reached its target"
        add_notice(connection, NoticeKind.STUDY_TARGET, text, study=study.name, tasks=tasks)
