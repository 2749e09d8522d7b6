"""Figures of a running study for its operators: counts, balance over bots, participants with time and pay."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, exists, func, or_, select, update

from refaug.core.errors import NotFound
from refaug.core.options.decoding import made_of
from refaug.extras.studies.participation.study_store import StoredStudy, shows_pilot
from refaug.extras.studies.participation.tables import STUDIES, STUDY_BOTS, STUDY_PARTICIPANTS, STUDY_TASKS, TASK_STATES
from refaug.extras.studies.participation.tasks.routed_pairs import routed_wins
from refaug.extras.studies.participation.tasks.task_assignment import BOT_FAILED, LIVE
from refaug.extras.studies.protocol.study_protocol import is_chat
from refaug.extras.studies.questions import ACTIVE
from refaug.extras.studies.routing import decides, routed_target, tasks_of_bots
from refaug.service.audit import add_row
from refaug.service.database.database import Database, time_text
from refaug.service.prometheus_figures import AddedFigure

_ACTIVE: Final = timedelta(minutes=5)  # since a participant was last seen; reading a long dialogue takes that long
_UNFINISHED: Final = ("consent", "training", "active")


@dataclass(frozen=True, kw_only=True)
class StudySlot:
    """A bot of a study with what is done and reserved of it."""

    slot: int
    bot: str
    sha256: str | None
    degraded: bool
    target: int | None
    done: int
    reserved: int
    failures: int
    failing: bool


def study_progress(database: Database, study: StoredStudy) -> dict[str, object]:
    """Return how far a study is, and how its bots and the sides of its pairs are balanced."""
    return {
        "state": study.state,
        "counts": study_counts(database, study),
        "bots": study_slots(database, study),
        "pairs": study_pairs(database, study),
    }


def study_counts(database: Database, study: StoredStudy) -> dict[str, int]:
    """Return how many participants and tasks there are, without those of the pilot once the study has opened."""
    is_pilot = shows_pilot(database, study)
    people, tasks = STUDY_PARTICIPANTS.c, STUDY_TASKS.c
    with database.reading() as connection:
        by_person = (
            select(people.state, func.count())
            .where(people.study == study.id, people.is_pilot == is_pilot)
            .group_by(people.state)
        )
        by_task = (
            select(tasks.state, func.count())
            .where(tasks.study == study.id, tasks.is_pilot == is_pilot)
            .group_by(tasks.state)
        )
        states: dict[str, int] = {row[0]: row[1] for row in connection.execute(by_person)}
        of_tasks: dict[str, int] = {row[0]: row[1] for row in connection.execute(by_task)}
        failed = connection.execute(
            select(func.count()).where(
                tasks.study == study.id, tasks.is_pilot == is_pilot, tasks.skip_reason == BOT_FAILED
            )
        ).scalar_one()
    return {
        "participants": sum(states.values()),
        "finished": states.get("done", 0),
        "screened_out": states.get("screened_out", 0),
        "withdrawn": states.get("withdrawn", 0),
        "tasks_done": of_tasks.get("done", 0),
        "tasks_reserved": sum(of_tasks.get(state, 0) for state in LIVE),
        "skipped": of_tasks.get("skipped", 0),
        "expired": of_tasks.get("expired", 0),
        "bot_failed": int(failed),
    }


def study_slots(database: Database, study: StoredStudy) -> list[StudySlot]:
    """Return the bots of a study with what is done and reserved of each."""
    is_pilot = shows_pilot(database, study)
    with database.reading() as connection:
        bots = connection.execute(
            select(STUDY_BOTS).where(STUDY_BOTS.c.study == study.id).order_by(STUDY_BOTS.c.slot)
        ).all()
        degraded = {bot.slot for bot in bots if bot.is_degraded}
        counts = _slot_counts(connection, study, degraded, is_pilot=is_pilot)
        slots = [_slot(study, bot, counts) for bot in bots]
        if study.protocol.fields.get("routing") != ACTIVE:
            return _paired_slots(slots) if study.protocol.kind.is_pair else slots
        return _routed_slots(connection, study, slots, is_pilot=is_pilot)


def _routed_slots(
    connection: Connection, study: StoredStudy, slots: Sequence[StudySlot], *, is_pilot: bool
) -> list[StudySlot]:
    """Return the slots with a bot's share of all tasks as its target, or what is done once no more are wanted."""
    targets = {slot.slot: slot.target for slot in slots if slot.target}
    most, columns = routed_target(list(targets.values())), STUDY_TASKS.c
    mine = (columns.study == study.id, columns.is_pilot == is_pilot, columns.state == "done")
    done = select(func.count()).where(*mine, columns.check_kind.is_(None))
    wins = routed_wins(connection, study, sorted(targets), is_pilot=is_pilot)
    is_over = connection.execute(done).scalar_one() >= most or decides(wins)
    share = 2 * most // len(targets) if targets else 0
    return [replace(slot, target=slot.done if is_over else share) if slot.target else slot for slot in slots]


def _paired_slots(slots: Sequence[StudySlot]) -> list[StudySlot]:
    """Return the slots with what a bot has in all its pairs as its target."""
    of_bots = tasks_of_bots({slot.slot: slot.target for slot in slots if slot.target})
    return [replace(slot, target=of_bots.get(slot.slot, slot.target)) for slot in slots]


def _slot(study: StoredStudy, bot: Row[Any], counts: Mapping[tuple[int, str], int]) -> StudySlot:
    return StudySlot(
        slot=bot.slot,
        bot=bot.bot,
        sha256=bot.spec_sha256,
        degraded=bool(bot.is_degraded),
        target=bot.target,
        done=counts.get((bot.slot, "done"), 0),
        reserved=sum(counts.get((bot.slot, state), 0) for state in LIVE),
        failures=bot.failures,
        failing=bot.failed_at is not None and is_chat(study.protocol.kind),
    )


def _slot_counts(
    connection: Connection, study: StoredStudy, degraded: Collection[int], *, is_pilot: bool
) -> dict[tuple[int, str], int]:
    """Return the tasks of each slot by state, checks for degraded bots alone; a pair counts for both of its bots."""
    columns = STUDY_TASKS.c
    kinds = columns.slot_a, columns.slot_b, columns.state, columns.check_kind
    query = select(*kinds, func.count()).where(columns.study == study.id, columns.is_pilot == is_pilot).group_by(*kinds)
    counts = dict[tuple[int, str], int]()
    for first, second, state, check, count in connection.execute(query):
        for slot in (first, second):
            if slot is not None and (check is None or slot in degraded):
                counts[slot, state] = counts.get((slot, state), 0) + count
    return counts


def study_pairs(database: Database, study: StoredStudy) -> list[dict[str, object]]:
    """Return the finished tasks of each pair of bots without checks, with how often each stood on the left."""
    columns = STUDY_TASKS.c
    query = (
        select(columns.slot_a, columns.slot_b, columns.left_slot, func.count())
        .where(
            columns.study == study.id,
            columns.slot_b.is_not(None),
            columns.check_kind.is_(None),
            columns.state == "done",
            columns.is_pilot == shows_pilot(database, study),
        )
        .group_by(columns.slot_a, columns.slot_b, columns.left_slot)
    )
    pairs = dict[tuple[int, int], dict[int, int]]()
    with database.reading() as connection:
        for first, second, left_slot, count in connection.execute(query):
            pairs.setdefault((first, second), {})[left_slot] = count
    return [
        {"slots": [first, second], "left": [lefts.get(first, 0), lefts.get(second, 0)]}
        for (first, second), lefts in sorted(pairs.items())
    ]


def participant_rows(
    database: Database, study: StoredStudy, *, after: str = "", limit: int = 50, only_active: bool = False
) -> tuple[list[dict[str, object]], str | None]:
    """Return a page of participants by code, with time spent and pay, and the code after which the next one begins.

    `only_active` leaves out who is at an end, and who did nothing for five minutes.
    """
    people, tasks = STUDY_PARTICIPANTS.c, STUDY_TASKS.c
    query = (
        select(STUDY_PARTICIPANTS)
        .where(people.study == study.id, people.code > after)
        .order_by(people.code)
        .limit(limit + 1)
    )
    if only_active:
        since = time_text(datetime.now(UTC) - _ACTIVE)
        query = query.where(people.seen >= since, people.state.in_(_UNFINISHED))
    with database.reading() as connection:
        rows = connection.execute(query).all()
        ids = [row.id for row in rows[:limit]]
        states = connection.execute(
            select(tasks.participant, tasks.state, func.count())
            .where(tasks.participant.in_(ids))
            .group_by(tasks.participant, tasks.state)
        ).all()
    counts = {(participant, state): count for participant, state, count in states}
    page = [_participant(study, row, counts) for row in rows[:limit]]
    return page, rows[limit - 1].code if len(rows) > limit else None


def _participant(study: StoredStudy, row: Row[Any], counts: Mapping[tuple[str, str], int]) -> dict[str, object]:
    pay = study.protocol["pay"]
    return {
        "code": row.code,
        "state": row.state,
        "reason": row.reason,
        "pilot": bool(row.is_pilot),
        "language": row.language,
        "created": row.created,
        "consented": row.consented,
        "seen": row.seen,
        "ended": row.ended,
        "done": counts.get((row.id, "done"), 0),
        "skipped": counts.get((row.id, "skipped"), 0),
        "expired": counts.get((row.id, "expired"), 0),
        "minutes": round(row.active_ms / 60_000, 2),
        "pay": {**pay, "due": pay["amount"] if row.state == "done" else 0} if pay else None,
        "completion_code": row.completion_code,
        "excluded": row.excluded_reason,
    }


def exclude_participant(
    database: Database, study: StoredStudy, code: str, *, reason: str | None, actor: str, request: str | None = None
) -> None:
    """Leave a participant out of the report, with a reason, or take them in again."""
    columns = STUDY_PARTICIPANTS.c
    with database.writing() as connection:
        excluded = reason.strip() if reason and reason.strip() else None
        changed = connection.execute(
            update(STUDY_PARTICIPANTS)
            .where(columns.study == study.id, columns.code == code, columns.state != "withdrawn")
            .values(excluded_reason=excluded, excluded_by=None if excluded is None else actor)
        )
        if not changed.rowcount:
            raise NotFound(f"study {study.name} has no participant {code[:20]!r}", remedy="list them")
        act = "include" if excluded is None else "exclude"
        add_row(connection, actor, act, f"participant {code} of study {study.name}", request=request, reason=excluded)


# ── For Prometheus ────────────────────────────────────────────────────────────────────────────────────────────────────

_FOLLOWED: Final = ("pilot", "open", "paused")


def prometheus_gauges(database: Database) -> list[AddedFigure]:
    """Return the participants and the tasks of all studies under way, by their states, without pilots.

    No study is named: a key that reads figures need not be one that may look at studies.
    """
    people, tasks = STUDY_PARTICIPANTS.c, STUDY_TASKS.c
    gauges = list[AddedFigure]()
    for table, columns, name, says in (
        (STUDY_PARTICIPANTS, people, "refaug_study_participants", "Participants of all studies under way."),
        (STUDY_TASKS, tasks, "refaug_study_tasks", "Tasks of all studies under way."),
    ):
        query = (
            select(columns.state, func.count())
            .select_from(table.join(STUDIES, STUDIES.c.id == columns.study))
            .where(STUDIES.c.state.in_(_FOLLOWED), columns.is_pilot.is_(False))
            .group_by(columns.state)
        )
        with database.reading() as connection:
            values = [((state,), float(count)) for state, count in connection.execute(query)]
        gauges.append(AddedFigure(name=name, says=says, labels=("state",), values=values))
    return gauges


# ── What the list of responses and the lists for recruiting services need ─────────────────────────────────────────────

_AT_ONCE: Final = 500  # ids of a statement
_ENDED: Final = tuple(state for state in TASK_STATES if state not in LIVE)


@dataclass(frozen=True, kw_only=True)
class RecruitedPerson:
    """A participant whom a recruiting service has sent."""

    code: str
    state: str
    reason: str | None
    excluded_reason: str | None
    active_ms: int
    is_at_it: bool  # not at an end, and seen within five minutes or with a task reserved


def study_stamp(database: Database, study: StoredStudy) -> Sequence[object]:
    """Return a stamp that changes when a task ends, is taken back or erased, or a participant is left out by hand."""
    tasks, people = STUDY_TASKS.c, STUDY_PARTICIPANTS.c
    by_state = (
        select(tasks.state, func.count(), func.max(tasks.ended))
        .where(tasks.study == study.id, tasks.state.in_(_ENDED))
        .group_by(tasks.state)
        .order_by(tasks.state)
    )
    by_hand = (
        select(people.code, people.excluded_reason)
        .where(people.study == study.id, people.excluded_reason.is_not(None))
        .order_by(people.code)
    )
    with database.reading() as connection:
        counts = [tuple(row) for row in connection.execute(by_state)]
        reasons = [tuple(row) for row in connection.execute(by_hand)]
    return study.protocol_sha256, shows_pilot(database, study), counts, reasons


def recruited_people(database: Database, study: StoredStudy, hashes: Sequence[str]) -> dict[str, RecruitedPerson]:
    """Return the participants with these keyed hashes of ids, by hash."""
    columns, tasks, now = STUDY_PARTICIPANTS.c, STUDY_TASKS.c, datetime.now(UTC)
    has_task = exists().where(
        tasks.participant == columns.id, tasks.state.in_(LIVE), tasks.reserved_until > time_text(now)
    )
    was_seen = or_(columns.seen >= time_text(now - _ACTIVE), has_task)
    is_at_it = and_(columns.state.in_(_UNFINISHED), was_seen).label("is_at_it")
    people = dict[str, RecruitedPerson]()
    with database.reading() as connection:
        for start in range(0, len(hashes), _AT_ONCE):
            some = hashes[start : start + _AT_ONCE]
            query = select(STUDY_PARTICIPANTS, is_at_it).where(
                columns.study == study.id, columns.external_hash.in_(some)
            )
            people.update({row.external_hash: made_of(RecruitedPerson, row) for row in connection.execute(query)})
    return people
