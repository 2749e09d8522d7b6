"""What a participant's page does, each action once: an id that comes again gets the answer that it got before.

An action, its effects and its answer are one transaction, so that what was answered is stored, also after a power cut.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import orjson
from sqlalchemy import Connection, bindparam, func, insert, select, update

from refaug.core.errors import Conflict, Usage
from refaug.service.database.database import Database, time_of, time_text
from refaug.service.database.migrations.tables import STUDY_ACTIONS, STUDY_PARTICIPANTS, STUDY_TASKS
from refaug.service.studies.study_rows import Attendance, attendance, json_text

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
            f"X-Action: {text[:40]!r} is no id", remedy="16 to 64 characters of A-Z, a-z, 0-9, _ and -, drawn anew"
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
