"""The tasks of a study as records, for reports and exports; texts of participants who have withdrawn are gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, overload

import orjson
from sqlalchemy import Connection, Row, delete, insert, select

from refaug.core.errors import NotFound
from refaug.extras.studies.participation import tables
from refaug.extras.studies.participation.study_store import StoredStudy, json_text, storable, storable_json
from refaug.extras.studies.participation.tables import STUDY_ADJUDICATIONS, STUDY_ITEMS
from refaug.extras.studies.participation.take_state import answer_key
from refaug.extras.studies.participation.tasks.chat_turns import side_slots
from refaug.extras.studies.participation.tasks.task_acts import systems_by_side
from refaug.extras.studies.protocol.study_items import StudyUnit
from refaug.extras.studies.protocol.study_protocol import ATTENTION, StudyProtocol, is_chat, side_names
from refaug.extras.studies.records import (
    Answer,
    StudyTask,
    TaskBot,
    TaskCheck,
    TaskDecision,
    TaskSide,
    TaskSideName,
    TaskState,
    TaskTurn,
    TurnRole,
)
from refaug.service.audit import add_row
from refaug.service.database.database import Database, time_of, time_text
from refaug.service.database.row_seals import checked_rows

# ── What counts where participants disagree: decided by an operator, with a reason, and kept beside the answers ───────


def adjudications(database: Database, study: StoredStudy) -> dict[tuple[str, str], TaskDecision]:
    """Return what was decided, by item and question."""
    with database.reading() as connection:
        return stored_decisions(connection, study)


def stored_decisions(connection: Connection, study: StoredStudy) -> dict[tuple[str, str], TaskDecision]:
    """Return what was decided, by item and question in order."""
    columns = STUDY_ADJUDICATIONS.c
    query = select(STUDY_ADJUDICATIONS).where(columns.study == study.id).order_by(columns.item, columns.question)
    return {
        (row.item, row.question): TaskDecision(value=orjson.loads(row.answer), note=row.note, by=row.actor, at=row.at)
        for row in connection.execute(query)
    }


def unit_systems(database: Database, study: StoredStudy, unit: str) -> Sequence[str]:
    """Return the systems of what tasks of the study are about; NotFound names a thing that none is about."""
    columns = STUDY_ITEMS.c
    query = select(columns.content).where(columns.study == study.id, columns.unit == storable(unit))
    with database.reading() as connection:
        content = connection.execute(query).scalar_one_or_none()
    if content is None:
        raise NotFound(f"study {study.name} has no item {unit[:60]!r}", remedy="one of its disagreements")
    return StudyUnit.stored(content).systems


def adjudicate(
    database: Database,
    study: StoredStudy,
    *,
    item: str,
    question: str,
    answer: float | str,
    note: str,
    actor: str,
    request: str | None = None,
) -> TaskDecision:
    """Keep what counts for a question of an item; a later decision takes the place of an earlier one."""
    columns = STUDY_ADJUDICATIONS.c
    row = {
        "study": study.id,
        "item": storable(item),
        "question": question,
        "answer": json_text(storable_json(answer)),
        "note": storable(note.strip()),
        "actor": actor,
        "at": time_text(),
    }
    place = (columns.study == study.id, columns.item == row["item"], columns.question == question)
    with database.writing() as connection:
        connection.execute(delete(STUDY_ADJUDICATIONS).where(*place))
        connection.execute(insert(STUDY_ADJUDICATIONS).values(row))
        facts = {"item": row["item"], "question": question}
        add_row(connection, actor, "adjudicate", f"study {study.name}", request=request, **facts)
    return TaskDecision(value=answer, note=row["note"], by=actor, at=row["at"])


# ── The tasks of a study as records, for reports and exports; texts of participants who have withdrawn are gone ───────

_AT_ONCE: Final = 500  # tasks whose rows are read together


def study_records(
    database: Database, study: StoredStudy, *, participant: str | None = None, with_pilot: bool = True
) -> Iterator[StudyTask]:
    """Yield the tasks that are over, by participant and position; of one participant where a code is named.

    All of it is as of one moment. Memory is that of some hundred tasks.
    """
    tasks, people = tables.STUDY_TASKS.c, tables.STUDY_PARTICIPANTS.c
    query = (
        select(tables.STUDY_TASKS, people.code, people.excluded_reason)
        .join(tables.STUDY_PARTICIPANTS, people.id == tasks.participant)
        .where(tasks.study == study.id, tasks.state.in_(("done", "skipped", "expired")), people.state != "withdrawn")
        .order_by(people.code, tasks.number)
        .execution_options(yield_per=_AT_ONCE)
    )
    if participant is not None:
        query = query.where(people.code == participant)
    if not with_pilot:
        query = query.where(tasks.is_pilot.is_(False))
    with database.reading() as connection:
        bots, decisions = _bots(connection, study), _decisions(connection, study)
        for part in connection.execute(query).partitions():
            for record in _records(connection, study, bots, part):
                own = decisions.get(record.item["unit"]) if record.item is not None else None
                yield record if own is None else replace(record, decisions=own)


def bots_of_task(database: Database, study: StoredStudy, task: str) -> dict[str, str]:
    """Return the bot on each side of a task, begun or over: what participants never see."""
    columns = tables.STUDY_TASKS.c
    with database.reading() as connection:
        row = connection.execute(
            select(tables.STUDY_TASKS).where(columns.id == task, columns.study == study.id)
        ).first()
        if row is None:
            raise NotFound(f"study {study.name} has no task {task[:40]!r}", remedy="the server of this home's database")
        bots = _bots(connection, study)
    return {side: bots[slot].bot for side, slot in side_slots(side_names(study.protocol.kind), row).items()}


def _decisions(connection: Connection, study: StoredStudy) -> dict[str, dict[str, TaskDecision]]:
    """Return what was decided, by unit and then by question."""
    by_unit = dict[str, dict[str, TaskDecision]]()
    for (unit, question), decision in stored_decisions(connection, study).items():
        by_unit.setdefault(unit, {})[question] = replace(decision, at=_milliseconds(decision.at))
    return by_unit


def _bots(connection: Connection, study: StoredStudy) -> dict[int, Row[Any]]:
    query = select(tables.STUDY_BOTS).where(tables.STUDY_BOTS.c.study == study.id)
    return {row.slot: row for row in connection.execute(query)}


def _records(
    connection: Connection, study: StoredStudy, bots: Mapping[int, Row[Any]], part: Any
) -> Iterator[StudyTask]:
    ids = [row.id for row in part]
    messages, answers = dict[str, list[Row[Any]]](), dict[str, list[Row[Any]]]()
    by_place = (
        select(tables.STUDY_MESSAGES).where(tables.STUDY_MESSAGES.c.task.in_(ids)).order_by(tables.STUDY_MESSAGES.c.n)
    )
    for row in checked_rows(tables.STUDY_MESSAGES, connection.execute(by_place)):
        messages.setdefault(row.task, []).append(row)
    by_question = select(tables.STUDY_ANSWERS).where(tables.STUDY_ANSWERS.c.task.in_(ids))
    columns = tables.STUDY_ANSWERS.c
    by_question = by_question.order_by(columns.side, columns.turn, columns.question)
    for row in checked_rows(tables.STUDY_ANSWERS, connection.execute(by_question)):
        answers.setdefault(row.task, []).append(row)
    wanted_units = {row.unit for row in part if row.unit is not None}
    units = _units(connection, study, wanted_units)
    for row in part:
        unit = units.get(row.unit)
        yield _record(study, bots, row, unit, messages.get(row.id, []), answers.get(row.id, []))


def _units(connection: Connection, study: StoredStudy, units: set[str]) -> dict[str, StudyUnit]:
    columns = tables.STUDY_ITEMS.c
    query = select(columns.unit, columns.content).where(columns.study == study.id, columns.unit.in_(units))
    return {unit: StudyUnit.stored(content) for unit, content in connection.execute(query)}


def _record(
    study: StoredStudy,
    bots: Mapping[int, Row[Any]],
    task: Row[Any],
    unit: StudyUnit | None,
    messages: list[Row[Any]],
    answers: list[Row[Any]],
) -> StudyTask:
    protocol = study.protocol
    sides = side_names(protocol.kind)
    slots = side_slots(sides, task)
    shown_bots = [
        TaskBot(side=TaskSideName(side), slot=str(slot), bot=bots[slot].bot, sha256=bots[slot].spec_sha256 or "")
        for side, slot in slots.items()
    ]
    labels = dict[tuple[str, int], dict[str, object]]()
    for row in answers:
        if row.turn:
            labels.setdefault((row.side, row.turn), {})[row.question] = orjson.loads(row.answer)
    turns_by_side = _turns(protocol, task, unit, messages, labels)
    return StudyTask(
        study=study.name,
        protocol_sha256=task.protocol_sha256,
        pilot=bool(task.is_pilot),
        task=task.id,
        participant=task.code,
        kind=protocol.kind,
        position=task.number,
        state=TaskState(task.state),
        skip_reason=task.skip_reason,
        check=None if task.check_kind is None else TaskCheck(task.check_kind),
        bots=shown_bots,
        item=None if unit is None else _item(unit),
        sides=[TaskSide(side=TaskSideName(side), turns=turns) for side, turns in turns_by_side.items()],
        answers=_answers(task, answers),
        seconds=round(task.active_ms / 1_000, 3),
        started=_milliseconds(task.started),
        ended=_milliseconds(task.ended),
        excluded=task.excluded_reason,
    )


def _item(unit: StudyUnit) -> dict[str, object]:
    shown = {name: part for name, part in unit.payload.items() if name != "dialogues"}
    return {"id": unit.item, "unit": unit.id, **shown}


def _answers(task: Row[Any], answers: list[Row[Any]]) -> dict[str, Answer]:
    shown = dict[str, Answer]()
    for row in answers:
        if row.turn:
            continue
        answer = orjson.loads(row.answer)
        is_check = row.question == ATTENTION and task.attention is not None
        shown[answer_key(row.side, 0, row.question)] = answer == task.attention if is_check else answer
    return dict(sorted(shown.items()))


def _turns(
    protocol: StudyProtocol,
    task: Row[Any],
    unit: StudyUnit | None,
    messages: list[Row[Any]],
    labels: Mapping[tuple[str, int], dict[str, object]],
) -> dict[str, list[TaskTurn]]:
    sides = side_names(protocol.kind)
    if is_chat(protocol.kind):
        return {side: [_turn(row, labels) for row in messages if row.side == side and row.text] for side in sides}
    assert unit is not None, "a task of an item has its unit"
    payload = unit.payload
    if "dialogues" in payload:
        systems = systems_by_side(unit, task)
        return {side: _static(payload["dialogues"][system], side, labels) for side, system in systems.items()}
    if set(payload) == {"turns"}:
        return {sides[0]: _static(payload["turns"], sides[0], labels)}
    return {side: [] for side in sides}


def _turn(row: Row[Any], labels: Mapping[tuple[str, int], dict[str, object]]) -> TaskTurn:
    return TaskTurn(
        n=row.n,
        role=TurnRole(row.role),
        text=row.text,
        at=_milliseconds(row.at),
        ms=None if row.ms is None else round(row.ms),
        vote=row.vote,
        labels=labels.get((row.side, row.n)),
        names_bot=bool(row.names_bot),
    )


def _static(
    turns: list[Mapping[str, Any]], side: str, labels: Mapping[tuple[str, int], dict[str, object]]
) -> list[TaskTurn]:
    return [
        TaskTurn(n=n, role=TurnRole(turn["role"]), text=turn["text"], labels=labels.get((side, n)))
        for n, turn in enumerate(turns, 1)
    ]


@overload
def _milliseconds(time: str) -> str: ...
@overload
def _milliseconds(time: None) -> None: ...
def _milliseconds(time: str | None) -> str | None:
    """Return a time to the millisecond, as records have it."""
    if time is None:
        return None
    moment = time_of(time)
    return time_text(moment - timedelta(microseconds=moment.microsecond % 1_000))[:-4] + "Z"
