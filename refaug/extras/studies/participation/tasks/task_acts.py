"""What participants do in a task: votes, answers, finishing, skipping; and whether a task can be finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import orjson
from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from refaug.core.errors import BadInput, Conflict, NotFound
from refaug.extras.studies.participation import tables
from refaug.extras.studies.participation.page_languages import server_words
from refaug.extras.studies.participation.study_store import Attendance, json_text, storable, storable_json
from refaug.extras.studies.participation.tasks import task_assignment
from refaug.extras.studies.participation.tasks.chat_turns import messages_of, turns_done
from refaug.extras.studies.participation.tasks.study_targets import notice_target
from refaug.extras.studies.participation.tasks.task_assignment import change_load
from refaug.extras.studies.protocol.study_form import (
    ShownForm,
    StudyQuestion,
    checked_answers,
    hidden_answers,
    missing_answers,
)
from refaug.extras.studies.protocol.study_items import ShownMessage, StudyUnit, dialogue_messages
from refaug.extras.studies.protocol.study_protocol import ATTENTION, is_chat, side_names
from refaug.service.database.database import time_text
from refaug.service.database.row_seals import checked_rows, checksum_of, sealed

_MOST_REASON: Final = 500
_ANSWERS: Final = (
    select(tables.STUDY_ANSWERS)
    .where(tables.STUDY_ANSWERS.c.task == bindparam("task"))
    .order_by(tables.STUDY_ANSWERS.c.side, tables.STUDY_ANSWERS.c.turn, tables.STUDY_ANSWERS.c.question)
)
_DONE: Final = (
    update(tables.STUDY_TASKS)
    .where(tables.STUDY_TASKS.c.id == bindparam("task"))
    .values(state="done", ended=bindparam("now"))
)
_MOVED: Final = (
    update(tables.STUDY_PARTICIPANTS)
    .where(tables.STUDY_PARTICIPANTS.c.id == bindparam("me"))
    .values(position=bindparam("place"))
)
_REPLACED_ANSWERS: Final = delete(tables.STUDY_ANSWERS).where(
    tables.STUDY_ANSWERS.c.task == bindparam("of_task"),
    tables.STUDY_ANSWERS.c.side == bindparam("of_side"),
    tables.STUDY_ANSWERS.c.turn == bindparam("of_turn"),
    tables.STUDY_ANSWERS.c.question.in_(bindparam("questions", expanding=True)),
)
_SKIPPED: Final = select(tables.STUDY_TASKS.c.id).where(
    tables.STUDY_TASKS.c.participant == bindparam("participant"),
    tables.STUDY_TASKS.c.state == "skipped",
    tables.STUDY_TASKS.c.skip_reason != task_assignment.BOT_FAILED,
)

Answers = Mapping[tuple[str, int], Mapping[str, Any]]  # by side and turn; "" and 0 for the whole task


@dataclass(frozen=True, kw_only=True)
class TaskContent:
    """What is stored of a task, as of one transaction."""

    messages: Mapping[str, Sequence[Row[Any]]]  # of a chat, by side
    answers: Answers

    @classmethod
    def of(cls, connection: Connection, attending: Attendance, task: Row[Any]) -> Self:
        """Return the messages and answers of a task."""
        messages = messages_of(connection, task.id) if is_chat(attending.protocol.kind) else {}
        return cls(messages=messages, answers=stored_answers(connection, task.id))


def own_current_task(connection: Connection, attending: Attendance, task: str) -> Row[Any]:
    """Return the participant's current task of this id, begun; a task of another participant is not found."""
    current = task_assignment.current_task(connection, attending.participant.id)
    is_current = current is not None and current.id == task
    if not is_current and not _has_task(connection, attending, task):
        raise NotFound("you have no such task", remedy="load the page again")
    if not attending.study.takes_answers:
        raise Conflict("this study is over", remedy="thank you for what you did")
    if current is None or not is_current or attending.participant.state != "active":
        raise Conflict("this task is over", remedy="load the page again")
    return _begun(connection, attending, current)


def _has_task(connection: Connection, attending: Attendance, task: str) -> bool:
    mine = (tables.STUDY_TASKS.c.id == task, tables.STUDY_TASKS.c.participant == attending.participant.id)
    return connection.execute(select(tables.STUDY_TASKS.c.id).where(*mine)).first() is not None


def _begun(connection: Connection, attending: Attendance, task: Row[Any]) -> Row[Any]:
    """Begin a reserved task, or take up one again that has expired."""
    if task.state == "started":
        return task
    values: dict[str, object] = {"state": "started", "ended": None, "started": task.started or time_text(attending.now)}
    connection.execute(update(tables.STUDY_TASKS).where(tables.STUDY_TASKS.c.id == task.id).values(values))
    if task.state == "expired":
        change_load(connection, attending, task, 1)
    return task


# ── Votes and answers ─────────────────────────────────────────────────────────────────────────────────────────────────


def store_vote(
    connection: Connection, attending: Attendance, task: Row[Any], *, side: str | None, n: int, vote: int
) -> Mapping[str, Any]:
    """Store a vote on a reply, and return what takes it back; a vote on what is no reply here is not found."""
    if not is_chat(attending.protocol.kind) or not attending.protocol["votes"]:
        raise Conflict("this study takes no votes", remedy="answer the questions")
    named = require_side(attending, side)
    columns = tables.STUDY_MESSAGES.c
    place = (columns.task == task.id, columns.side == named, columns.n == n)
    row = connection.execute(
        select(tables.STUDY_MESSAGES).where(*place, columns.role == "bot", columns.state == "answered")
    ).first()
    if row is None:
        raise NotFound(f"there is no reply {n} to vote on", remedy="load the page again")
    write_vote(connection, row, vote or None)
    return {"vote": {"task": task.id, "side": named, "n": n, "before": row.vote}}


def write_vote(connection: Connection, message: Row[Any], vote: int | None) -> None:
    """Store the vote on a message; None takes it back."""
    columns = tables.STUDY_MESSAGES.c
    place = (columns.task == message.task, columns.side == message.side, columns.n == message.n)
    checksum = checksum_of(tables.STUDY_MESSAGES, message, vote=vote)
    connection.execute(update(tables.STUDY_MESSAGES).where(*place).values(vote=vote, checksum=checksum))


def store_answers(
    connection: Connection,
    attending: Attendance,
    task: Row[Any],
    answers: Mapping[str, Any],
    *,
    side: str | None,
    turn: int | None,
) -> Mapping[str, Any]:
    """Store answers to questions of one place, and return what takes them back; null takes an answer back."""
    place, checked = _checked_answers(connection, attending, task, answers, side, turn)
    stored = stored_answers(connection, task.id).get(place, {})
    before = {question: stored.get(question) for question in checked}
    write_answers(connection, task.id, place, storable_json(checked), time_text(attending.now))
    return {"answers": {"task": task.id, "side": place[0], "turn": place[1], "before": before}}


def _checked_answers(
    connection: Connection,
    attending: Attendance,
    task: Row[Any],
    answers: Mapping[str, Any],
    side: str | None,
    turn: int | None,
) -> tuple[tuple[str, int], dict[str, object]]:
    form, sides = attending.protocol.form, side_names(attending.protocol.kind)
    given_answers = dict(answers)
    checked: dict[str, object] = {}
    if ATTENTION in given_answers and task.attention is not None and turn is None and side is None:
        answer = given_answers.pop(ATTENTION)
        if answer is not None and answer not in task_assignment.ATTENTION_ANSWERS:
            raise BadInput(
                f"answers.{ATTENTION}: no such answer", remedy=f"one of: {', '.join(task_assignment.ATTENTION_ANSWERS)}"
            )
        checked[ATTENTION] = answer
    if turn is not None:
        named = require_side(attending, side)
        content = TaskContent.of(connection, attending, task)
        messages = shown_messages(connection, attending, task, content)[named]
        text = next((message["text"] for message in asked_about(attending, messages) if message["n"] == turn), None)
        if text is None:
            raise NotFound(f"there is no turn {turn} of a bot here", remedy="load the page again")
        return (named, turn), checked | checked_answers(form, given_answers, ("turn",), text)
    if side is not None and len(sides) > 1:
        return (require_side(attending, side), 0), checked | checked_answers(form, given_answers, ("side",))
    scopes = ("task", "side") if len(sides) == 1 else ("task",)
    return ("", 0), checked | checked_answers(form, given_answers, scopes)


def require_side(attending: Attendance, side: str | None) -> str:
    """Return the side of that name, or the only one; NotFound for others."""
    sides = side_names(attending.protocol.kind)
    if side is None and len(sides) == 1:
        return sides[0]
    if side not in sides:
        raise NotFound(f"there is no side {str(side)[:20]!r}", remedy=f"one of: {', '.join(sides)}")
    return side


def write_answers(
    connection: Connection, task: str, place: tuple[str, int], answers: Mapping[str, Any], at: str
) -> None:
    """Replace the answers to some questions of one place; None removes one."""
    replaced = {"of_task": task, "of_side": place[0], "of_turn": place[1], "questions": list(answers)}
    connection.execute(_REPLACED_ANSWERS, replaced)
    here = {"task": task, "side": place[0], "turn": place[1], "at": at}
    rows = [
        sealed(tables.STUDY_ANSWERS, {**here, "question": question, "answer": json_text(answer)})
        for question, answer in answers.items()
        if answer is not None
    ]
    if rows:
        connection.execute(insert(tables.STUDY_ANSWERS), rows)


def stored_answers(connection: Connection, task: str) -> dict[tuple[str, int], dict[str, object]]:
    """Return the answers of a task by place."""
    answers = dict[tuple[str, int], dict[str, object]]()
    for row in checked_rows(tables.STUDY_ANSWERS, connection.execute(_ANSWERS, {"task": task})):
        answers.setdefault((row.side, row.turn), {})[row.question] = orjson.loads(row.answer)
    return answers


# ── The end of a task ─────────────────────────────────────────────────────────────────────────────────────────────────


def obstacle(connection: Connection, attending: Attendance, task: Row[Any], content: TaskContent) -> str:
    """Return why a task cannot be finished yet, in a sentence; empty where it can."""
    protocol = attending.protocol
    if is_chat(protocol.kind):
        needed = protocol["min_turns"] - turns_done(content.messages)
        if needed > 0:
            return "1 more message of yours is needed" if needed == 1 else f"{needed} more messages of yours are needed"
        if any(messages[-1].state == "asked" for messages in content.messages.values()):
            return "a reply is being made"
    missing = missing_places(connection, attending, task, content)
    return f"these questions have no answer: {', '.join(missing)}" if missing else ""


def missing_places(connection: Connection, attending: Attendance, task: Row[Any], content: TaskContent) -> list[str]:
    """Return the required questions without an answer, as keys of the answers."""
    answers = content.answers
    form, sides = attending.protocol.form, side_names(attending.protocol.kind)
    of_scope = {scope: [q for q in form.questions if q.scope == scope] for scope in ("task", "side", "turn")}
    missing = list[str]()
    whole = of_scope["task"] + (of_scope["side"] if len(sides) == 1 else [])
    missing += _missing(whole, answers, ("", 0), "")
    if task.attention is not None and ATTENTION not in answers.get(("", 0), {}):
        missing.append(ATTENTION)
    if len(sides) > 1:
        for side in sides:
            missing += _missing(of_scope["side"], answers, (side, 0), f"{side}/")
    if of_scope["turn"]:
        for side, messages in shown_messages(connection, attending, task, content).items():
            for message in asked_about(attending, messages):
                prefix = "" if len(sides) == 1 else f"{side}/"
                missing += _missing(of_scope["turn"], answers, (side, message["n"]), f"{prefix}{message['n']}/")
    return missing


def asked_about(attending: Attendance, messages: Sequence[ShownMessage]) -> list[ShownMessage]:
    """Return the turns that questions of scope turn are about: replies of a bot, not a fixed opening."""
    first = 2 if attending.protocol.has_fixed_opening else 1
    return [
        message
        for message in messages
        if message["role"] == "bot" and message["state"] == "answered" and message["n"] >= first
    ]


def _missing(questions: Sequence[StudyQuestion], answers: Answers, place: tuple[str, int], prefix: str) -> list[str]:
    return [f"{prefix}{question}" for question in missing_answers(questions, answers.get(place, {}))]


def finish_task(connection: Connection, attending: Attendance, task: Row[Any]) -> Mapping[str, Any]:
    """Finish a task and return what takes that back; Conflict says what is missing.

    Answers to questions that later answers hid are taken back: they are no ratings and no votes.
    """
    content = TaskContent.of(connection, attending, task)
    if why := obstacle(connection, attending, task, content):
        raise Conflict(f"this cannot be finished yet: {why}", remedy="do that first")
    hidden = [
        (side, turn, unasked)
        for (side, turn), answers in content.answers.items()
        if (unasked := hidden_answers(attending.protocol.form.questions, answers))
    ]
    for side, turn, unasked in hidden:
        write_answers(connection, task.id, (side, turn), dict.fromkeys(unasked), time_text(attending.now))
    connection.execute(_DONE, {"task": task.id, "now": time_text(attending.now)})
    notice_target(connection, attending, task)
    _go_on(connection, attending)
    return {"finish": {"task": task.id, "position": int(attending.participant.position), "hidden": hidden}}


def _go_on(connection: Connection, attending: Attendance) -> None:
    """Let the participant be at the next place of the sequence, or at its end."""
    position = int(attending.participant.position) + 1
    connection.execute(_MOVED, {"me": attending.participant.id, "place": position})
    if position >= len(attending.sequence):
        task_assignment.finish_participant(connection, attending, position)


def skip_task(connection: Connection, attending: Attendance, task: Row[Any], reason: str) -> None:
    """Leave a task out, with a reason; where the bot has failed, it is not the participant's skip."""
    reason = storable(reason.strip())[:_MOST_REASON]
    if not reason:
        raise BadInput("reason: there is none", remedy="say in a few words why")
    has_failed = any(messages[-1].state == "failed" for messages in messages_of(connection, task.id).values())
    if reason == task_assignment.BOT_FAILED and not has_failed:
        raise Conflict("no reply has failed here", remedy="say in a few words why you leave it out")
    if has_failed:
        reason = task_assignment.BOT_FAILED
    elif skips_left(connection, attending) < 1:
        raise Conflict(
            f"you have left out {attending.protocol['skips']} already", remedy="finish this one, or withdraw"
        )
    values = {"state": "skipped", "skip_reason": reason, "ended": time_text(attending.now)}
    connection.execute(update(tables.STUDY_TASKS).where(tables.STUDY_TASKS.c.id == task.id).values(values))
    change_load(connection, attending, task, -1)
    if task.check_kind is None:
        task_assignment.take_back_plan(connection, attending)
    else:
        _go_on(connection, attending)


def skips_left(connection: Connection, attending: Attendance) -> int:
    """Return how many more tasks the participant may leave out."""
    skipped = connection.execute(_SKIPPED, {"participant": attending.participant.id}).all()
    return max(0, int(attending.protocol["skips"]) - len(skipped))


# ── What is shown ─────────────────────────────────────────────────────────────────────────────────────────────────────


def unit_of(connection: Connection, task: Row[Any]) -> StudyUnit:
    """Return the unit of a task of an item."""
    columns = tables.STUDY_ITEMS.c
    query = select(columns.content).where(columns.study == task.study, columns.unit == task.unit)
    return StudyUnit.stored(connection.execute(query).scalar_one())


def shown_messages(
    connection: Connection, attending: Attendance, task: Row[Any], content: TaskContent
) -> dict[str, list[ShownMessage]]:
    """Return the messages of each side as a page shows them: those of a chat, or the turns of a dialogue to judge."""
    sides = side_names(attending.protocol.kind)
    if is_chat(attending.protocol.kind):
        return {side: [_shown(row) for row in content.messages.get(side, [])] for side in sides}
    unit = unit_of(connection, task)
    payload = unit.payload
    if "dialogues" in payload:
        systems = systems_by_side(unit, task)
        return {side: dialogue_messages(payload["dialogues"][system]) for side, system in systems.items()}
    if "reply" in payload or "replies" in payload or "reference" in payload:
        return {side: [] for side in sides}
    return {sides[0]: dialogue_messages(payload["turns"])}


def systems_by_side(unit: StudyUnit, task: Row[Any]) -> dict[str, str]:
    """Return the system on each side: slots of a study's systems have the order of their names."""
    first, second = sorted(unit.systems)
    return {"left": first, "right": second} if task.left_slot == task.slot_a else {"left": second, "right": first}


def shown_payload(connection: Connection, attending: Attendance, task: Row[Any]) -> dict[str, object]:
    """Return what is judged beside messages: a context with a reply, two replies, or a reference."""
    if is_chat(attending.protocol.kind):
        return {}
    unit = unit_of(connection, task)
    payload = unit.payload
    if "replies" in payload:
        systems = systems_by_side(unit, task)
        return {
            "turns": payload["turns"],
            "replies": {side: payload["replies"][system] for side, system in systems.items()},
        }
    if "reply" in payload or "reference" in payload:
        return dict(payload)
    return {}


def _shown(row: Row[Any]) -> ShownMessage:
    return {"n": row.n, "role": row.role, "text": row.text, "state": row.state, "vote": row.vote}


def shown_form(attending: Attendance, task: Row[Any]) -> ShownForm:
    """Return the form of a task in the participant's language, with the question of a check of attention."""
    language = attending.participant.language
    form = attending.protocol.form.shown_in(language)
    if task.attention is None:
        return form
    words = server_words(language)
    question: dict[str, object] = {
        "id": ATTENTION,
        "text": words["attention"].format(answer=words.get(task.attention, task.attention)),
        "type": "choice",
        "scope": "task",
        "options": [
            {"value": answer, "text": words.get(answer, answer)} for answer in task_assignment.ATTENTION_ANSWERS
        ],
        "required": True,
        "reverse": False,
    }
    questions = form["questions"]
    place = task.seed % (len(questions) + 1)
    return {"name": form["name"], "questions": [*questions[:place], question, *questions[place:]]}
