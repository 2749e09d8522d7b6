"""Gives out tasks, in one transaction: balanced over slots, in a Williams order, with reservations that expire."""

from __future__ import annotations

import random
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from types import SimpleNamespace
from typing import Any, Final

import orjson
from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select, update

from refaug.extras.studies import assignment
from refaug.extras.studies.assignment import planned_order, williams_rows
from refaug.extras.studies.participation.study_store import DIGITS, Attendance, json_text, lock_study
from refaug.extras.studies.participation.tables import (
    STUDY_BOTS,
    STUDY_ITEMS,
    STUDY_MESSAGES,
    STUDY_PARTICIPANTS,
    STUDY_TASKS,
)
from refaug.extras.studies.participation.tasks.routed_pairs import routed_wins
from refaug.extras.studies.protocol.study_protocol import is_chat, side_names
from refaug.extras.studies.questions import ACTIVE
from refaug.extras.studies.records import StudyKind, TaskCheck
from refaug.extras.studies.routing import decides, pair_table, routed_pair, routed_target
from refaug.service.database.database import time_of, time_text
from refaug.service.database.row_ids import new_row_id
from refaug.service.database.row_seals import sealed

# ── Reservations of tasks: how they count for an item, and when they are given back ───────────────────────────────────

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
    .limit(20)
    .with_for_update(of=STUDY_TASKS, skip_locked=True)
)


def expire_due_tasks(connection: Connection, attending: Attendance) -> None:
    """Give back the reservations of tasks whose time is over."""
    whose = {"study": attending.study.id, "participant": attending.participant.id, "now": time_text(attending.now)}
    expire_tasks(connection, attending, connection.execute(_DUE, whose).all())


def unanswered_tasks(connection: Connection, attending: Attendance) -> Sequence[Any]:
    """Return the oldest tasks of participants who have not answered yet.

    Not while their participants may be reading: one who comes back after such a task was released can still finish it,
    so that one task more is done.
    """
    until = attending.now + timedelta(minutes=attending.protocol["reservation_minutes"]) - _READING
    whose = {"study": attending.study.id, "participant": attending.participant.id, "until": time_text(until)}
    return connection.execute(_UNANSWERED, whose).all()


def expire_tasks(connection: Connection, attending: Attendance, rows: Sequence[Any]) -> None:
    """Give back the reservations of these tasks."""
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


# ── Gives out tasks, in one transaction: balanced over slots, in a Williams order, with reservations that expire ──────

_FAILING_S: Final = 120.0  # after a failure a bot is passed over for so long, where another one is open
_ABSENT_MIN: Final = 30.0  # a participant who was not seen for so long is not expected to do the rest
_LAST_TASKS: Final = 200  # of so many finished tasks it is looked how long they took
_LAST_TASK: Final = (
    select(STUDY_TASKS)
    .where(STUDY_TASKS.c.participant == bindparam("participant"))
    .order_by(STUDY_TASKS.c.number.desc())
    .limit(1)
)
_LAST_NUMBER: Final = select(func.coalesce(func.max(STUDY_TASKS.c.number), 0)).where(
    STUDY_TASKS.c.participant == bindparam("participant")
)
_BOTS: Final = select(STUDY_BOTS).where(STUDY_BOTS.c.study == bindparam("study")).order_by(STUDY_BOTS.c.slot)
_OF_THE_PLAN: Final = (  # tasks that count for the balance
    STUDY_TASKS.c.study == bindparam("study"),
    STUDY_TASKS.c.check_kind.is_(None),
    STUDY_TASKS.c.is_pilot == bindparam("is_pilot"),
)
_TIMES: Final = (
    select(STUDY_TASKS.c.started, STUDY_TASKS.c.ended)
    .where(*_OF_THE_PLAN, STUDY_TASKS.c.state == "done", STUDY_TASKS.c.started.is_not(None))
    .order_by(STUDY_TASKS.c.ended.desc())
    .limit(_LAST_TASKS)
)
_ENDED_COUNTS: Final = (
    select(STUDY_TASKS.c.slot_a, STUDY_TASKS.c.slot_b, STUDY_TASKS.c.state, func.count())
    .where(*_OF_THE_PLAN, STUDY_TASKS.c.state.in_(("done", "expired")))
    .group_by(STUDY_TASKS.c.slot_a, STUDY_TASKS.c.slot_b, STUDY_TASKS.c.state)
)
_IS_SILENT: Final = (STUDY_PARTICIPANTS.c.seen <= bindparam("since")).label("is_silent")
_LIVE_COUNTS: Final = (
    select(STUDY_TASKS.c.slot_a, STUDY_TASKS.c.slot_b, _IS_SILENT, func.count())
    .join_from(STUDY_TASKS, STUDY_PARTICIPANTS, STUDY_TASKS.c.participant == STUDY_PARTICIPANTS.c.id)
    .where(*_OF_THE_PLAN, STUDY_TASKS.c.state.in_(LIVE))
    .group_by(STUDY_TASKS.c.slot_a, STUDY_TASKS.c.slot_b, _IS_SILENT)
)
_OTHER_PLANS: Final = select(STUDY_PARTICIPANTS.c.seen, STUDY_PARTICIPANTS.c.plan).where(
    STUDY_PARTICIPANTS.c.study == bindparam("study"),
    STUDY_PARTICIPANTS.c.state == "active",
    STUDY_PARTICIPANTS.c.is_pilot == bindparam("is_pilot"),
    STUDY_PARTICIPANTS.c.id != bindparam("participant"),
    STUDY_PARTICIPANTS.c.seen > bindparam("absent"),
    STUDY_PARTICIPANTS.c.plan.is_not(None),
)
BOT_FAILED: Final = "bot_failed"  # the reason of a skip that is not the participant's
_SKIPPED_SLOTS: Final = select(STUDY_TASKS.c.slot_a, STUDY_TASKS.c.slot_b).where(
    STUDY_TASKS.c.participant == bindparam("participant"),
    STUDY_TASKS.c.state == "skipped",
    STUDY_TASKS.c.skip_reason != BOT_FAILED,
)
_LAST_PAIR: Final = (
    select(STUDY_TASKS.c.slot_a, STUDY_TASKS.c.slot_b)
    .where(
        STUDY_TASKS.c.participant == bindparam("participant"),
        STUDY_TASKS.c.check_kind.is_(None),
        STUDY_TASKS.c.state == "done",
    )
    .order_by(STUDY_TASKS.c.number.desc())
    .limit(1)
)
_PLANNED: Final = (
    update(STUDY_PARTICIPANTS).where(STUDY_PARTICIPANTS.c.id == bindparam("me")).values(plan=bindparam("new_plan"))
)
ATTENTION_ANSWERS: Final = ("red", "green", "blue", "yellow")


@dataclass(frozen=True, kw_only=True)
class _ChosenWork:
    """What a new task is about."""

    slots: tuple[int, ...]
    left: int | None = None
    unit: str | None = None


def current_task(connection: Connection, participant: str) -> Row[Any] | None:
    """Return the task that a participant is in; an expired one goes on when the participant comes back."""
    row = connection.execute(_LAST_TASK, {"participant": participant}).first()
    return row if row is not None and row.state in (*LIVE, "expired") else None


def begin_tasks(connection: Connection, attending: Attendance) -> None:
    """Draw the order of a participant's tasks: the row of the square that was used least."""
    protocol, participant = attending.protocol, attending.participant
    checks = protocol["checks"]
    lock_study(connection, attending.study.id)
    tasks = int(protocol["per_participant"])
    sequence = assignment.check_plan(
        tasks,
        attention=checks["attention"],
        degraded=bool(checks["degraded"]),
        repeats=checks["repeat"],
        seed=participant.seed,
    )
    values: dict[str, object] = {
        "state": "active",
        "sequence": json_text([{"check": planned.check, "attention": planned.asks_attention} for planned in sequence]),
    }
    if is_chat(protocol.kind):
        slots = len(_slots_of(connection.execute(_BOTS, {"study": attending.study.id}).all(), attending))
        row, order = _order(connection, attending, slots, tasks)
        values |= {"square_row": row, "plan": json_text({"slots": order, "begun": 0})}
    connection.execute(update(STUDY_PARTICIPANTS).where(STUDY_PARTICIPANTS.c.id == participant.id).values(values))


def _order(connection: Connection, attending: Attendance, slots: int, tasks: int) -> tuple[int | None, tuple[int, ...]]:
    if attending.protocol["order"] == "random":
        drawn = random.Random(f"order {attending.participant.seed}")  # noqa: S311  an order, no secret
        order = list[int]()
        while len(order) < tasks:
            order += drawn.sample(range(slots), slots)
        return None, tuple(order[:tasks])
    rows = williams_rows(slots)
    columns = STUDY_PARTICIPANTS.c
    query = (
        select(columns.square_row, func.count())
        .where(
            columns.study == attending.study.id,
            columns.is_pilot == attending.participant.is_pilot,
            columns.square_row.is_not(None),
            columns.state.in_(("active", "done")),
        )
        .group_by(columns.square_row)
    )
    uses: Mapping[Any, Any] = {row[0]: row[1] for row in connection.execute(query)}
    row = assignment.least_used([int(uses.get(place, 0)) for place in range(len(rows))])
    return row, planned_order(rows, row, tasks)


def give_next_task(connection: Connection, attending: Attendance) -> str | None:
    """Reserve the next task of a participant and return its id; None where there is none: the participant is done."""
    lock_study(connection, attending.study.id)
    expire_due_tasks(connection, attending)
    sequence, position = attending.sequence, int(attending.participant.position)
    while position < len(sequence):
        planned = sequence[position]
        work = _work(connection, attending, planned.check)
        if work is None and planned.check is None:
            work = _unanswered_work(connection, attending)
        if work is not None:
            _set_position(connection, attending, position)
            return _reserve(connection, attending, planned, work)
        if planned.check is None:
            # Nothing is open: the tasks that are left are checks of nothing.
            break
        position += 1
    finish_participant(connection, attending, position)
    return None


def _unanswered_work(connection: Connection, attending: Attendance) -> _ChosenWork | None:
    """Return the work that releasing a waiting task gives; tasks that give none are not released."""
    for row in unanswered_tasks(connection, attending):
        with connection.begin_nested() as savepoint:
            expire_tasks(connection, attending, [row])
            work = _work(connection, attending, None)
            if work is not None:
                return work
            savepoint.rollback()
    return None


def _set_position(connection: Connection, attending: Attendance, position: int) -> None:
    if position != attending.participant.position:
        mine = STUDY_PARTICIPANTS.c.id == attending.participant.id
        connection.execute(update(STUDY_PARTICIPANTS).where(mine).values(position=position))


def finish_participant(connection: Connection, attending: Attendance, position: int) -> None:
    """End a participant's tasks: done with a code, or `full` where there was nothing to do at all."""
    columns = STUDY_TASKS.c
    query = select(func.count()).where(columns.participant == attending.participant.id, columns.state == "done")
    has_done = connection.execute(query).scalar_one() > 0
    code = attending.protocol["completion"].get("code") or _drawn_code()
    values = {
        "state": "done" if has_done else "full",
        "position": position,
        "completion_code": code if has_done else None,
        "ended": time_text(attending.now),
    }
    mine = STUDY_PARTICIPANTS.c.id == attending.participant.id
    connection.execute(update(STUDY_PARTICIPANTS).where(mine).values(values))


def _drawn_code() -> str:
    drawn = "".join(secrets.choice(DIGITS) for _ in range(8))
    return f"{drawn[:4]}-{drawn[4:]}"


# ── What the next task is about ───────────────────────────────────────────────────────────────────────────────────────


def _work(connection: Connection, attending: Attendance, check: str | None) -> _ChosenWork | None:
    match check:
        case TaskCheck.DEGRADED:
            return _degraded_work(connection, attending)
        case TaskCheck.REPEAT:
            return _repeated_work(connection, attending)
    if is_chat(attending.protocol.kind):
        return _chat_work(connection, attending)
    return _item_work(connection, attending)


def _degraded_work(connection: Connection, attending: Attendance) -> _ChosenWork | None:
    bots = connection.execute(_BOTS, {"study": attending.study.id}).all()
    row = next((bot for bot in bots if bot.is_degraded and bot.target is None), None)  # 0: of bots before a change
    if row is None or _is_failing(row, attending):
        return None
    if attending.protocol.kind is StudyKind.CHAT_PAIR:  # beside the bot that it makes worse
        first = next(bot.slot for bot in bots if bot.bot == attending.protocol.bots[0] and bot.target != 0)
        return _ChosenWork(slots=(first, row.slot), left=first if attending.participant.seed % 2 else row.slot)
    return _ChosenWork(slots=(row.slot,))


def _repeated_work(connection: Connection, attending: Attendance) -> _ChosenWork | None:
    """Return the work of the first finished task that was not repeated yet; sides are exchanged."""
    columns = STUDY_TASKS.c
    query = select(STUDY_TASKS).where(columns.participant == attending.participant.id, columns.state == "done")
    finished = connection.execute(query.order_by(columns.number)).all()
    repeats = sum(row.check_kind == TaskCheck.REPEAT for row in finished)
    plain = [row for row in finished if row.check_kind is None]
    if repeats >= len(plain):
        return None
    row = plain[repeats]
    slots = tuple(slot for slot in (row.slot_a, row.slot_b) if slot is not None)
    left_one = None if row.left_slot is None else next(slot for slot in slots if slot != row.left_slot)
    return _ChosenWork(slots=slots, left=left_one, unit=row.unit)


def _chat_work(connection: Connection, attending: Attendance) -> _ChosenWork | None:
    bots = connection.execute(_BOTS, {"study": attending.study.id}).all()
    slots = _slots_of(bots, attending)
    plan = orjson.loads(attending.participant.plan)
    task_seconds = _task_seconds(connection, attending)
    since = time_text(attending.now - timedelta(seconds=assignment.silence_s(task_seconds)))
    counts = _counts(connection, attending, since)
    done, live, away = ([counts.get((pair, state), 0) for pair in slots] for state in ("done", "live", "silent"))
    plans = _other_plans(connection, attending)
    here = assignment.SlotWork(reserved=live, plans=[plan for seen, plan in plans if seen > since])
    silent = assignment.SlotWork(reserved=away, plans=[plan for seen, plan in plans if seen <= since])
    expired = sum(count for (_, state), count in counts.items() if state == "expired")
    loads = assignment.expected_loads(done, here, silent, expired, task_seconds)
    reserved = [done[place] + live[place] + away[place] for place in range(len(slots))]
    usable = _open_slots(connection, attending, bots, slots, reserved)
    if attending.protocol.fields.get("routing") == ACTIVE:
        held = [live[place] + away[place] for place in range(len(slots))]
        place = _routed_place(connection, attending, bots, slots, held, usable)
    else:
        targets = {row.slot: row.target for row in bots}
        retired = sum(any(targets[slot] == 0 for slot in pair) for pair in slots)  # with bots changed after a pilot
        place = assignment.next_slot(plan["slots"], plan["begun"], loads, usable, retired=retired)
    if place is None:
        return None
    plan = {"slots": assignment.replanned(plan["slots"], plan["begun"], place), "begun": plan["begun"] + 1}
    connection.execute(_PLANNED, {"me": attending.participant.id, "new_plan": json_text(plan)})
    pair = slots[place]
    if len(pair) == 1:
        return _ChosenWork(slots=pair)
    return _ChosenWork(slots=pair, left=_left_of(connection, attending, pair))


def _routed_place(
    connection: Connection,
    attending: Attendance,
    bots: Sequence[Row[Any]],
    slots: Sequence[tuple[int, ...]],
    held: Sequence[int],
    usable: Sequence[bool],
) -> int | None:
    """Return the place of the pair that tells most about the order; None where it is decided, or no pair is open.

    A participant has the same two bots twice in a row only where nothing else is open.
    """
    ordered = [row.slot for row in bots if row.target]  # without bots that were changed after a pilot
    is_pilot = bool(attending.participant.is_pilot)
    wins = routed_wins(connection, attending.study, ordered, is_pilot=is_pilot)
    if decides(wins):
        return None
    places = [place for place, pair in enumerate(slots) if all(slot in ordered for slot in pair)]
    last = connection.execute(_LAST_PAIR, {"participant": attending.participant.id}).first()
    other_pairs = [usable[place] and slots[place] != last for place in places]
    coming = pair_table([held[place] for place in places], len(ordered))
    allowed = other_pairs if any(other_pairs) else [usable[place] for place in places]
    chosen = routed_pair(wins, coming, allowed, attending.protocol["seed"])
    return None if chosen is None else places[chosen]


def _slots_of(bots: Sequence[Row[Any]], attending: Attendance) -> list[tuple[int, ...]]:
    """Return what chats can be about: the bots of the protocol, or their pairs."""
    slots = [row.slot for row in bots if not row.is_degraded]
    if attending.protocol.kind is StudyKind.CHAT_PAIR:
        return [(slots[first], slots[second]) for first, second in assignment.bot_pairs(len(slots))]
    return [(slot,) for slot in slots]


def _balance(attending: Attendance) -> dict[str, object]:
    """Return the parameters of the statements over all tasks or participants that count for the balance."""
    return {"study": attending.study.id, "is_pilot": attending.participant.is_pilot}


def _task_seconds(connection: Connection, attending: Attendance) -> list[float]:
    """Return how long each of the last finished tasks of the study took."""
    rows = connection.execute(_TIMES, _balance(attending)).all()
    return [max(0.0, (time_of(ended) - time_of(started)).total_seconds()) for started, ended in rows]


def _counts(connection: Connection, attending: Attendance, since: str) -> dict[tuple[tuple[int, ...], str], int]:
    """Return how many tasks of each slot are done, expired, or reserved: live, or silent since that time."""
    parameters = _balance(attending)
    ended = [tuple(row) for row in connection.execute(_ENDED_COUNTS, parameters).all()]
    reserved = [
        (first, second, "silent" if is_silent else "live", count)
        for first, second, is_silent, count in connection.execute(_LIVE_COUNTS, {**parameters, "since": since}).all()
    ]
    return {
        (((first,) if second is None else (first, second)), state): count
        for first, second, state, count in [*ended, *reserved]
    }


def _other_plans(connection: Connection, attending: Attendance) -> list[tuple[str, Sequence[int]]]:
    """Return when each other participant of the last half hour was seen, and the slots that are still to begin."""
    absent = time_text(attending.now - timedelta(minutes=_ABSENT_MIN))
    parameters = {**_balance(attending), "participant": attending.participant.id, "absent": absent}
    plans = [(seen, orjson.loads(text)) for seen, text in connection.execute(_OTHER_PLANS, parameters).all()]
    return [(seen, plan["slots"][plan["begun"] :]) for seen, plan in plans]


def _open_slots(
    connection: Connection,
    attending: Attendance,
    rows: Sequence[Row[Any]],
    slots: Sequence[tuple[int, ...]],
    loads: Sequence[int],
) -> list[bool]:
    """Return which slots may be given out: below the target, not skipped by this participant, and with working bots."""
    bots = {row.slot: row for row in rows}
    skipped = _skipped_slots(connection, attending)
    wanted = [min(inf if bots[slot].target is None else bots[slot].target for slot in pair) for pair in slots]
    if attending.protocol.fields.get("routing") == ACTIVE:  # as many in all, of whatever pairs
        is_full = sum(load for load, most in zip(loads, wanted, strict=True) if most) >= routed_target(
            [row.target for row in rows if row.target]
        )
        allowed = [wanted[place] > 0 and not is_full and pair not in skipped for place, pair in enumerate(slots)]
    else:
        allowed = [loads[place] < wanted[place] and pair not in skipped for place, pair in enumerate(slots)]
    working = [
        allowed[place] and not any(_is_failing(bots[slot], attending) for slot in pair)
        for place, pair in enumerate(slots)
    ]
    return working if any(working) else allowed


def _skipped_slots(connection: Connection, attending: Attendance) -> set[tuple[int, ...]]:
    rows = connection.execute(_SKIPPED_SLOTS, {"participant": attending.participant.id}).all()
    return {(first,) if second is None else (first, second) for first, second in rows}


def _is_failing(bot: Row[Any], attending: Attendance) -> bool:
    return bot.failed_at is not None and bot.failed_at > time_text(attending.now - timedelta(seconds=_FAILING_S))


def _item_work(connection: Connection, attending: Attendance) -> _ChosenWork | None:
    """Return the unit with the fewest ratings that this participant has not had."""
    items, tasks = STUDY_ITEMS.c, STUDY_TASKS.c
    mine = select(tasks.unit).where(tasks.participant == attending.participant.id, tasks.unit.is_not(None))
    query = (
        select(STUDY_ITEMS)
        .where(
            items.study == attending.study.id,
            items.load < attending.protocol["ratings_per_item"],
            items.unit.not_in(mine),
        )
        .order_by(items.load, items.shuffled)
        .limit(1)
    )
    row = connection.execute(query).first()
    if row is None:
        return None
    bots = STUDY_BOTS.c
    systems = orjson.loads(row.content)["systems"]
    names = select(bots.slot, bots.bot).where(bots.study == attending.study.id, bots.bot.in_(systems))
    slots = tuple(sorted(slot for slot, _ in connection.execute(names)))
    if len(slots) == 1:
        return _ChosenWork(slots=slots, unit=row.unit)
    return _ChosenWork(slots=slots, unit=row.unit, left=_left_of(connection, attending, slots))


def _left_of(connection: Connection, attending: Attendance, pair: tuple[int, ...]) -> int:
    """Return the slot of a pair that stands on the left now."""
    columns = STUDY_TASKS.c
    query = (
        select(columns.left_slot, func.count())
        .where(
            columns.study == attending.study.id,
            columns.slot_a == pair[0],
            columns.slot_b == pair[1],
            columns.check_kind.is_(None),
            columns.is_pilot == attending.participant.is_pilot,
            columns.state.in_((*LIVE, "done")),
        )
        .group_by(columns.left_slot)
    )
    counts: Mapping[Any, Any] = {row[0]: row[1] for row in connection.execute(query)}
    first, second = pair
    return assignment.left_slot(
        first, second, first_was_left=counts.get(first, 0), second_was_left=counts.get(second, 0)
    )


# ── The reservation ───────────────────────────────────────────────────────────────────────────────────────────────────


def _reserve(connection: Connection, attending: Attendance, planned: assignment.PlannedTask, work: _ChosenWork) -> str:
    study, participant = attending.study, attending.participant
    seed = secrets.randbits(31)
    row = {
        "id": new_row_id(),
        "study": study.id,
        "participant": participant.id,
        "number": 1 + int(connection.execute(_LAST_NUMBER, {"participant": participant.id}).scalar_one()),
        "check_kind": planned.check,
        "attention": ATTENTION_ANSWERS[seed % len(ATTENTION_ANSWERS)] if planned.asks_attention else None,
        "slot_a": work.slots[0],
        "slot_b": work.slots[1] if len(work.slots) > 1 else None,
        "left_slot": work.left,
        "unit": work.unit,
        "state": "reserved",
        "protocol_sha256": study.protocol_sha256,
        "is_pilot": bool(participant.is_pilot),
        "seed": seed,
        "reserved_until": time_text(attending.now + timedelta(minutes=attending.protocol["reservation_minutes"])),
    }
    connection.execute(insert(STUDY_TASKS), row)
    task = SimpleNamespace(**row)
    change_load(connection, attending, task, 1)
    if is_chat(attending.protocol.kind):
        _open_chat(connection, attending, task)
    return str(task.id)


def _open_chat(connection: Connection, attending: Attendance, task: SimpleNamespace) -> None:
    """Store how the chat begins where the participant does not begin it: a fixed text, or one that the bot is asked."""
    opening = attending.protocol["opening"]
    if opening == "participant":
        return
    texts = attending.protocol["openings"]
    text = texts[task.seed % len(texts)] if opening == "fixed" else None
    first = {
        "task": task.id,
        "n": 1,
        "role": "bot",
        "state": "asked" if text is None else "answered",
        "text": text,
        "at": time_text(attending.now),
    }
    rows = [sealed(STUDY_MESSAGES, {**first, "side": side}) for side in side_names(attending.protocol.kind)]
    connection.execute(insert(STUDY_MESSAGES), rows)


def drop_untouched_task(connection: Connection, attending: Attendance, task: Row[Any]) -> None:
    """Take back the reservation of a task that nothing was done in."""
    connection.execute(delete(STUDY_TASKS).where(STUDY_TASKS.c.id == task.id))
    change_load(connection, attending, task, -1)
    if task.check_kind is None:
        take_back_plan(connection, attending)


def take_back_plan(connection: Connection, attending: Attendance) -> None:
    """Put the slot of the current task behind the other slots of the plan, as not begun."""
    stored = connection.execute(
        select(STUDY_PARTICIPANTS.c.plan).where(STUDY_PARTICIPANTS.c.id == attending.participant.id)
    ).scalar_one()
    if stored is None:
        return
    plan = orjson.loads(stored)
    begun = plan["begun"] - 1
    slots = [*plan["slots"][:begun], *plan["slots"][begun + 1 :], plan["slots"][begun]]
    mine = STUDY_PARTICIPANTS.c.id == attending.participant.id
    connection.execute(update(STUDY_PARTICIPANTS).where(mine).values(plan=json_text({"slots": slots, "begun": begun})))
