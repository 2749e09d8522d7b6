"""When a study has as many tasks of each bot, or of each item, as it wants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
from sqlalchemy import Connection, Row, func, select

from refaug.extras.studies.participation.study_store import Attendance, StoredStudy
from refaug.extras.studies.participation.tables import STUDY_BOTS, STUDY_ITEMS, STUDY_TASKS
from refaug.extras.studies.participation.tasks.routed_pairs import routed_wins
from refaug.extras.studies.protocol.study_protocol import is_chat
from refaug.extras.studies.questions import ACTIVE
from refaug.extras.studies.routing import decides, routed_target, tasks_of_bots
from refaug.service.audit import add_row
from refaug.service.database.database import Database
from refaug.service.database.tables import AUDIT
from refaug.service.history.notices import NoticeKind, add_notice

_REACHED: Final = "reach its target"  # the action in the audit log, by which a target is told once
_DECIDED: Final = "order_decided"  # of a target: votes have decided the order before there were as many as wanted


def notice_target(connection: Connection, attending: Attendance, task: Row[Any]) -> None:
    """Add a notice where the task that was just finished is the last one that its study wants, also while it pauses."""
    if task.check_kind is None and not task.is_pilot:
        _notice_reached(connection, attending.study, task)


def notice_amended_target(database: Database, study: StoredStudy) -> None:
    """Add a notice where an amendment asks for no more tasks than there are."""
    with database.writing() as connection:
        _notice_reached(connection, study, None)


def _notice_reached(connection: Connection, study: StoredStudy, task: Row[Any] | None) -> None:
    """Add a notice of a target that is reached: by this task, if there is one."""
    if study.state not in ("open", "paused"):
        return
    reached = _reached_by_bots if is_chat(study.protocol.kind) else _reached_by_items
    reached_target = reached(connection, study, task)
    if reached_target is None:
        return
    target, tasks = reached_target
    if _is_told(connection, study.id, study.name, target):
        return
    add_row(connection, "study", _REACHED, f"study {study.name}", request=None, **target)
    what = "decided the order of its bots, and takes no more tasks" if _DECIDED in target else "reached its target"
    add_notice(connection, NoticeKind.STUDY_TARGET, f"study {study.name} has {what}", study=study.name, tasks=tasks)


def _reached_by_bots(
    connection: Connection, study: StoredStudy, task: Row[Any] | None
) -> tuple[dict[str, Any], int] | None:
    """Return the target of a study of chats and its tasks, if it is reached and this task is the last of some bot."""
    bots = STUDY_BOTS.c
    targets_query = select(bots.slot, bots.target).where(bots.study == study.id, bots.target > 0)
    targets: dict[int, int] = {row.slot: row.target for row in connection.execute(targets_query)}
    own = [slot for slot in targets if task is None or slot in (task.slot_a, task.slot_b)]
    if not own:
        return None
    Database.advisory_lock(connection, "targets")  # so that of two last tasks one sees the other
    columns = STUDY_TASKS.c
    done = (
        select(columns.slot_a, columns.slot_b, func.count())
        .where(*_done_of(study))
        .group_by(columns.slot_a, columns.slot_b)
    )
    counts, tasks = dict.fromkeys(targets, 0), 0
    for first, second, number in connection.execute(done):
        counted_slots = [slot for slot in (first, second) if slot in counts]
        tasks += number if counted_slots else 0  # a pair is one task of two bots
        for slot in counted_slots:
            counts[slot] += number
    target = {"target": max(targets.values()), "bots": len(targets)}
    if study.protocol.fields.get("routing") == ACTIVE:
        if decides(routed_wins(connection, study, sorted(targets), is_pilot=False)):
            return {**target, _DECIDED: 1}, tasks
        most_tasks = routed_target(list(targets.values()))
        return (target, tasks) if tasks == most_tasks or (task is None and tasks > most_tasks) else None
    of_bots = tasks_of_bots(targets) if study.protocol.kind.is_pair else targets
    is_last = task is None or any(counts[slot] == of_bots[slot] for slot in own)
    is_reached = is_last and any(of_bots.values()) and all(counts[slot] >= of_bots[slot] for slot in targets)
    return (target, tasks) if is_reached else None


def _reached_by_items(
    connection: Connection, study: StoredStudy, task: Row[Any] | None
) -> tuple[dict[str, Any], int] | None:
    """Return the target of a study of items and its tasks, if it is reached and this task is the last of its item."""
    wanted, items = int(study.protocol["ratings_per_item"]), STUDY_ITEMS.c
    lacking = select(items.unit).where(items.study == study.id, items.load < wanted).limit(1)
    if connection.execute(lacking).first() is not None:  # the load has the reserved tasks too: this is the cheap look
        return None
    Database.advisory_lock(connection, "targets")
    columns = STUDY_TASKS.c
    done = select(columns.unit, func.count()).where(*_done_of(study)).group_by(columns.unit)
    counts: dict[str, int] = {row[0]: row[1] for row in connection.execute(done)}
    number = connection.execute(select(func.count()).where(items.study == study.id)).scalar_one()
    is_last = task is None or counts[task.unit] == wanted
    if not is_last or len(counts) < number or min(counts.values()) < wanted:
        return None
    return {"ratings_per_item": wanted, "items": number}, sum(counts.values())


def _done_of(study: StoredStudy) -> tuple[Any, ...]:
    """Return the conditions of the finished tasks that count for the target."""
    columns = STUDY_TASKS.c
    return (
        columns.study == study.id,
        columns.state == "done",
        columns.is_pilot.is_(False),
        columns.check_kind.is_(None),
    )


def _is_told(connection: Connection, study: str, name: str, target: Mapping[str, int]) -> bool:
    """Return whether this target, or a higher one, was reached before.

    A task may be taken back and finished again, or withdrawn.
    """
    rows = select(AUDIT.c.details).where(
        AUDIT.c.id > study,  # ids rise with the time: an older row is of another study with this name
        AUDIT.c.action == _REACHED,
        AUDIT.c.subject == f"study {name}",
    )
    earlier_targets = map(orjson.loads, connection.execute(rows).scalars())
    return any(
        earlier.keys() == target.keys() and all(earlier[part] >= target[part] for part in target)
        for earlier in earlier_targets
    )
