"""What participants do outside of tasks: consent with screening and quotas, training with its gate, and undoing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NotRequired, TypedDict

import orjson
from sqlalchemy import Connection, Row, bindparam, func, insert, select, update

from refaug.core.errors import BadInput, Conflict, Usage
from refaug.extras.studies.participation import tables
from refaug.extras.studies.participation.invites import FULL, QUOTA, places_are_taken, quota_is_full
from refaug.extras.studies.participation.study_store import Attendance, attendance, json_text, lock_study, storable_json
from refaug.extras.studies.participation.tables import STUDY_ACTIONS, STUDY_PARTICIPANTS, STUDY_TASKS
from refaug.extras.studies.participation.tasks.task_acts import write_answers, write_vote
from refaug.extras.studies.participation.tasks.task_assignment import begin_tasks, current_task, drop_untouched_task
from refaug.extras.studies.protocol.study_form import (
    StudyQuestion,
    checked_answer,
    checked_answers,
    missing_answers,
)
from refaug.service.database.database import Database, time_of, time_text

# ── What a participant's page does, each action once: an id that comes again gets the answer that it got before ───────
#
# An action, its effects and its answer are one transaction, so that what was answered is stored, also after a power
# cut.

ACTION_ID: Final = re.compile(r"[A-Za-z0-9_-]{16,64}")
MOST_ACTIONS: Final = 20_000  # of a participant
_IDLE_MS: Final = 60_000  # a longer silence is no work: that much of it counts as time spent
_ACTION: Final = select(STUDY_ACTIONS).where(
    STUDY_ACTIONS.c.participant == bindparam("participant"), STUDY_ACTIONS.c.action == bindparam("action")
)
_LAST_NUMBER: Final = select(func.coalesce(func.max(STUDY_ACTIONS.c.number), 0)).where(
    STUDY_ACTIONS.c.participant == bindparam("participant")
)
_SEEN: Final = (
    update(STUDY_PARTICIPANTS)
    .where(STUDY_PARTICIPANTS.c.id == bindparam("me"))
    .values(seen=bindparam("now"), active_ms=STUDY_PARTICIPANTS.c.active_ms + bindparam("elapsed_ms"))
)
_PROLONGED: Final = (
    update(STUDY_TASKS)
    .where(STUDY_TASKS.c.participant == bindparam("me"), STUDY_TASKS.c.state.in_(("reserved", "started")))
    .values(reserved_until=bindparam("until"), active_ms=STUDY_TASKS.c.active_ms + bindparam("elapsed_ms"))
)
UNDONE: Final = {"undone": True}


class ActionReused(Conflict):
    """The id of an action came again with something else."""


@dataclass(frozen=True, kw_only=True)
class ParticipantAction:
    """An action as the page sends it."""

    id: str
    kind: str
    task: str | None = None
    body: bytes = field(default=b"", repr=False)

    @property
    def sha256(self) -> str:
        """The hash of everything that the id stands for."""
        return hashlib.sha256(b"\0".join([self.kind.encode(), (self.task or "").encode(), self.body])).hexdigest()


@dataclass(frozen=True, kw_only=True)
class ActionOutcome:
    """What an action has done, and what takes it back."""

    done: Mapping[str, Any]
    undo: Mapping[str, Any] | None = None


ActionWork = Callable[[Connection, Attendance], ActionOutcome]


def run_action(database: Database, participant: str, action: ParticipantAction, work: ActionWork) -> Mapping[str, Any]:
    """Return what the action has done, now or when it came before; an error leaves nothing behind."""
    require_action_id(action.id)
    with database.writing() as connection:
        attending = attendance(connection, participant, locks=True)
        before = connection.execute(_ACTION, {"participant": participant, "action": action.id}).first()
        if before is not None:
            if before.body_sha256 != action.sha256:
                raise ActionReused(
                    "this action was sent before, with something else", remedy="a new X-Action for everything new"
                )
            answer: dict[str, object] = orjson.loads(before.answer)
            return answer
        number = 1 + int(connection.execute(_LAST_NUMBER, {"participant": participant}).scalar_one())
        if number > MOST_ACTIONS:
            raise Conflict(f"a participant has at most {MOST_ACTIONS:,} actions", remedy="finish, or tell the operator")
        outcome = work(connection, attending)
        row = {
            "participant": participant,
            "action": action.id,
            "number": number,
            "kind": action.kind,
            "task": outcome.done.get("task", action.task),
            "body_sha256": action.sha256,
            "answer": json_text(outcome.done),
            "undo": None if outcome.undo is None else json_text(outcome.undo),
            "at": time_text(attending.now),
        }
        connection.execute(insert(STUDY_ACTIONS), row)
        spend_time(connection, attending)
        return outcome.done


def require_action_id(text: str) -> None:
    """Raise Usage for what is no id of an action."""
    if ACTION_ID.fullmatch(text) is None:
        raise Usage(
            f"X-Action: {text[:40]!r} is not an id", remedy="16 to 64 characters of A-Z, a-z, 0-9, _ and -, drawn anew"
        )


def spend_time(connection: Connection, attending: Attendance) -> None:
    """Count the time since the participant was last seen, and prolong the reservation of the current task.

    A clock that was set back counts nothing; a clock that has jumped ahead counts a minute.
    """
    elapsed_ms = spent_ms(attending.participant.seen, attending.now)
    now = time_text(attending.now)
    spent = {"me": attending.participant.id, "elapsed_ms": elapsed_ms}
    connection.execute(_SEEN, {**spent, "now": now})
    until = time_text(attending.now + timedelta(minutes=attending.protocol["reservation_minutes"]))
    connection.execute(_PROLONGED, {**spent, "until": until})


def spent_ms(seen: str, now: datetime) -> int:
    """Return the milliseconds since a time that count as work."""
    elapsed = (now - time_of(seen)).total_seconds() * 1_000
    return int(min(max(elapsed, 0.0), _IDLE_MS))


# ── What participants do outside of tasks: consent with screening and quotas, training with its gate, and undoing ─────

_ACTIONS: Final = (
    select(tables.STUDY_ACTIONS)
    .where(tables.STUDY_ACTIONS.c.participant == bindparam("participant"))
    .order_by(tables.STUDY_ACTIONS.c.number.desc())
    .limit(500)  # that are looked through for one that can be undone
)


def require_state(attending: Attendance, *states: str) -> None:
    """Raise Conflict where the participant is at another step."""
    if attending.participant.state not in states:
        raise Conflict("this step is over, or is still to come", remedy="load the page again")


# ── Consent ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def give_consent(
    connection: Connection, attending: Attendance, *, sha256: str, agree: bool, screening: Mapping[str, Any]
) -> ActionOutcome:
    """Store that a participant agrees to the text of this hash; screening and quotas decide whether they take part."""
    require_state(attending, "consent")
    protocol = attending.protocol
    if not attending.study.gives_tasks:
        raise Conflict("this study takes no participants now", remedy="come again later")
    if not agree:
        raise Conflict("without consent there is nothing to do", remedy="close this page; nothing about you is stored")
    if sha256 != protocol.consent_sha256:
        raise Conflict("the text of the consent has changed", remedy="load the page, and read it again")
    answers = _screening_answers(protocol["screening"], screening)
    lock_study(connection, attending.study.id)
    state, reason = _after_consent(connection, attending, answers)
    now = time_text(attending.now)
    values: dict[str, object] = {
        "consent_sha256": sha256,
        "consented": now,
        "screening": json_text(storable_json(answers)),
        "state": state,
        "reason": reason,
        "ended": None if state in ("training", "active") else now,
    }
    if protocol["training"]:
        values["training"] = json_text({"attempt": 1, "at": 0, "right": 0, "feedback": None})
    connection.execute(update(tables.STUDY_PARTICIPANTS).where(_me(attending)).values(values))
    if state == "active":
        begin_tasks(connection, attending)
    return ActionOutcome(done={"consent": sha256, "let_in": state in ("training", "active")})


def _screening_answers(questions: list[Mapping[str, Any]], answers: Mapping[str, Any]) -> dict[str, object]:
    by_id = {question["id"]: _screening_question(question) for question in questions}
    for name in answers:
        if name not in by_id:
            raise BadInput(f"screening.{name[:80]}: there is no such question", remedy=f"one of: {', '.join(by_id)}")
    checked = {name: checked_answer(by_id[name], answer) for name, answer in answers.items()}
    if missing := missing_answers(list(by_id.values()), checked):
        raise BadInput(f"screening.{missing[0]}: there is no answer", remedy="answer every question")
    return checked


def _screening_question(question: Mapping[str, Any]) -> StudyQuestion:
    return StudyQuestion(
        id=question["id"],
        text=question["text"],
        type=question["type"],
        least=question.get("least", 1),
        most=question.get("most", 7),
        options=tuple((option["value"], option["text"]) for option in question.get("options", ())),
    )


def _after_consent(connection: Connection, attending: Attendance, answers: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the state of a participant who agrees, and why they cannot take part: `screening`, `quota`, or full."""
    protocol = attending.protocol
    for question in protocol["screening"]:
        accepted = question.get("accept")
        if accepted is not None and answers.get(question["id"]) not in accepted:
            return "screened_out", "screening"
    if quota_is_full(connection, attending, answers):
        return "screened_out", QUOTA
    if places_are_taken(connection, attending.study, is_pilot=attending.participant.is_pilot):
        return FULL, None
    return ("training" if protocol["training"] else "active"), None


# ── Training ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class TrainingProgress(TypedDict):
    """How far a participant is in the training, as the database has it."""

    attempt: int
    at: int
    right: int
    feedback: Mapping[str, Any] | None
    share: NotRequired[float]


def answer_training(
    connection: Connection, attending: Attendance, *, item: str, answers: Mapping[str, Any]
) -> ActionOutcome:
    """Compare the answers to an item of the training, with feedback; at its end the gate opens, or it begins anew."""
    require_state(attending, "training")
    training = attending.protocol["training"]
    progress: TrainingProgress = orjson.loads(attending.participant.training)
    at = training["items"][progress["at"]]
    if item != at["id"]:
        raise Conflict(f"{at['id']} comes next in the training, not {item[:60]}", remedy="load the page again")
    form = attending.protocol.form
    checked = checked_answers(form, answers, ("task", "side"))
    asked_for = [question for question in form.questions if question.id in at["answers"]]
    if missing := missing_answers(asked_for, checked):
        raise BadInput(f"answers.{missing[0]}: there is no answer", remedy="answer the questions of the training")
    is_right = all(checked[question] in accepted for question, accepted in at["answers"].items())
    progress["right"] += is_right
    progress["at"] += 1
    progress["feedback"] = {"item": item, "right": is_right, "text": at["feedback"], "answers": at["answers"]}
    state, reason = "training", None
    if progress["at"] == len(training["items"]):
        state, reason = _gate(training, progress)
    values: dict[str, object] = {"training": json_text(progress), "state": state, "reason": reason}
    if state == "screened_out":
        values["ended"] = time_text(attending.now)
    connection.execute(update(tables.STUDY_PARTICIPANTS).where(_me(attending)).values(values))
    if state == "active":
        begin_tasks(connection, attending)
    return ActionOutcome(done={"item": item, "right": is_right, "feedback": progress["feedback"]})


def _gate(training: Mapping[str, Any], progress: TrainingProgress) -> tuple[str, str | None]:
    """Return the state after the last item: passed, once more from the beginning, or not passed."""
    progress["share"] = progress["right"] / len(training["items"])
    if progress["share"] >= training["least"]:
        return "active", None
    if progress["attempt"] >= training["attempts"]:
        return "screened_out", "training"
    progress.update({"attempt": progress["attempt"] + 1, "at": 0, "right": 0})
    return "training", None


# ── Undoing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def undoable_action(connection: Connection, attending: Attendance) -> Row[Any] | None:
    """Return the last action of a participant that can be taken back.

    Votes, answers and the end of a task can be, as far as the task that they belong to has not been left for another
    one in which something was done.
    """
    if not attending.protocol["undo"] or not attending.study.takes_answers:
        return None
    for row in connection.execute(_ACTIONS, {"participant": attending.participant.id}):
        if row.undo is not None and orjson.loads(row.undo) == UNDONE:
            continue
        if row.kind == "next" and _is_untouched(connection, attending):
            continue
        return row if row.undo is not None else None
    return None


def _is_untouched(connection: Connection, attending: Attendance) -> bool:
    """Return whether nothing was done in the current task, so that its reservation can be taken back."""
    task = current_task(connection, attending.participant.id)
    return task is not None and task.state == "reserved" and task.number > 1


def undo_last_action(connection: Connection, attending: Attendance) -> ActionOutcome:
    """Take back the last action that can be; Conflict where there is none."""
    row = undoable_action(connection, attending)
    if row is None:
        raise Conflict("there is nothing to take back", remedy="go on")
    change = orjson.loads(row.undo)
    ((kind, before),) = change.items()
    _UNDO[kind](connection, attending, before)
    mine = (tables.STUDY_ACTIONS.c.participant == attending.participant.id, tables.STUDY_ACTIONS.c.action == row.action)
    connection.execute(update(tables.STUDY_ACTIONS).where(*mine).values(undo=json_text(UNDONE)))
    return ActionOutcome(done={"undone": kind, "task": before["task"]}, undo=UNDONE)


def _undo_vote(connection: Connection, attending: Attendance, before: Mapping[str, Any]) -> None:
    _require_live(connection, attending, before["task"])
    columns = tables.STUDY_MESSAGES.c
    place = (columns.task == before["task"], columns.side == before["side"], columns.n == before["n"])
    write_vote(connection, connection.execute(select(tables.STUDY_MESSAGES).where(*place)).one(), before["before"])


def _undo_answers(connection: Connection, attending: Attendance, before: Mapping[str, Any]) -> None:
    _require_live(connection, attending, before["task"])
    place = (before["side"], before["turn"])
    write_answers(connection, before["task"], place, before["before"], time_text(attending.now))


def _require_live(connection: Connection, attending: Attendance, task: str) -> None:
    current = current_task(connection, attending.participant.id)
    if current is None or current.id != task:
        raise Conflict("that task is over", remedy="take back its end first")


def _undo_finish(connection: Connection, attending: Attendance, before: Mapping[str, Any]) -> None:
    """Open a finished task again; the reservation of the next one goes back."""
    current = current_task(connection, attending.participant.id)
    if current is not None and _is_untouched(connection, attending):
        drop_untouched_task(connection, attending, current)
    connection.execute(
        update(tables.STUDY_TASKS).where(tables.STUDY_TASKS.c.id == before["task"]).values(state="started", ended=None)
    )
    for side, turn, answers in before.get("hidden", ()):  # none in what earlier versions stored
        write_answers(connection, before["task"], (side, turn), answers, time_text(attending.now))
    values = {"state": "active", "position": before["position"], "completion_code": None, "ended": None}
    connection.execute(update(tables.STUDY_PARTICIPANTS).where(_me(attending)).values(values))


_UNDO: Final = {"vote": _undo_vote, "answers": _undo_answers, "finish": _undo_finish}


def _me(attending: Attendance) -> Any:
    return tables.STUDY_PARTICIPANTS.c.id == attending.participant.id
