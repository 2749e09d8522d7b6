"""What participants do, each as one call: an action with its id, its effects and its answer in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from sqlalchemy import Connection

from refaug.core.errors import Conflict
from refaug.core.records import json_form
from refaug.extras.studies.participation import participant_acts
from refaug.extras.studies.participation.erasure import clean_storage, erase_rows
from refaug.extras.studies.participation.invites import take_place
from refaug.extras.studies.participation.participant_acts import ActionOutcome, ActionWork, ParticipantAction
from refaug.extras.studies.participation.study_figures import study_counts
from refaug.extras.studies.participation.study_records import study_records
from refaug.extras.studies.participation.study_store import Attendance, StoredStudy, attendance
from refaug.extras.studies.participation.tables import STUDIES
from refaug.extras.studies.participation.take_state import participant_state
from refaug.extras.studies.participation.tasks import chat_turns, task_acts
from refaug.extras.studies.participation.tasks.task_assignment import current_task, give_next_task
from refaug.service.audit import add_row
from refaug.service.database.database import Database
from refaug.service.history.notices import NoticeKind, add_notice

_SEEN_EVERY_MS = 15_000  # how often a page that only looks is noted


class ParticipantDesk:
    """The acts of participants on one database."""

    def __init__(self, database: Database, holder: str = "") -> None:
        self._database, self._holder = database, holder  # the name of the process that asks the bots

    def state(self, participant: str) -> Mapping[str, Any]:
        """Return the whole state of a participant; that the page was there is noted now and then."""
        with self._database.reading() as connection:
            attending = attendance(connection, participant)
            state = participant_state(connection, attending)
        if (
            participant_acts.spent_ms(attending.participant.seen, attending.now) >= _SEEN_EVERY_MS
            and state["step"] != "withdrawn"
        ):
            with self._database.writing() as connection:
                participant_acts.spend_time(connection, attendance(connection, participant, locks=True))
        return state

    def consent(
        self,
        participant: str,
        action: ParticipantAction,
        *,
        sha256: str,
        agree: bool,
        screening: Mapping[str, Any],
    ) -> Mapping[str, Any]:
        """Store consent and screening."""
        work = partial(participant_acts.give_consent, sha256=sha256, agree=agree, screening=screening)
        return self._run(participant, action, work)

    def training(
        self, participant: str, action: ParticipantAction, *, item: str, answers: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Compare the answers to an item of the training."""
        work = partial(participant_acts.answer_training, item=item, answers=answers)
        return self._answer(participant, action, work)

    def next_task(self, participant: str, action: ParticipantAction) -> Mapping[str, Any]:
        """Give out the next task; the current one stays where there is one."""

        def work(connection: Connection, attending: Attendance) -> ActionOutcome:
            participant_acts.require_state(attending, "active")
            current = current_task(connection, participant)
            if current is not None:
                return ActionOutcome(done={"task": current.id})
            if not attending.study.gives_tasks:
                raise Conflict("this study gives out no tasks now", remedy="come again later")
            return ActionOutcome(done={"task": give_next_task(connection, attending)})

        return self._run(participant, action, work)

    def asking_task(self, participant: str) -> str | None:
        """Return the task in which a participant waits for a reply, as far as the study still takes answers."""
        with self._database.reading() as connection:
            attending = attendance(connection, participant)
            if attending.participant.state != "active" or not attending.study.takes_answers:
                return None
            task = current_task(connection, participant)
            return task.id if task is not None and chat_turns.is_asking(connection, task.id) else None

    def message(
        self, participant: str, action: ParticipantAction, task: str, *, n: int, text: str
    ) -> Mapping[str, Any]:
        """Store a message, and the replies to it as asked for."""

        def work(connection: Connection, attending: Attendance) -> ActionOutcome:
            row = task_acts.own_current_task(connection, attending, task)
            _require_chat(attending)
            sides = chat_turns.add_message(connection, attending, row, n, text, holder=self._holder)
            return ActionOutcome(done={"task": task, "n": n, "asked": sides})

        return self._answer(participant, action, work)

    def ask_again(self, participant: str, action: ParticipantAction, task: str) -> Mapping[str, Any]:
        """Let the failed replies of a task be asked for again."""

        def work(connection: Connection, attending: Attendance) -> ActionOutcome:
            row = task_acts.own_current_task(connection, attending, task)
            return ActionOutcome(done={"task": task, "asked_again": chat_turns.ask_failed_again(connection, row)})

        return self._run(participant, action, work)

    def vote(
        self,
        participant: str,
        action: ParticipantAction,
        task: str,
        *,
        side: str | None,
        n: int,
        vote: int,
    ) -> Mapping[str, Any]:
        """Store a vote on a reply; 0 takes it back."""

        def work(connection: Connection, attending: Attendance) -> ActionOutcome:
            row = task_acts.own_current_task(connection, attending, task)
            undo = task_acts.store_vote(connection, attending, row, side=side, n=n, vote=vote)
            return ActionOutcome(done={"task": task, "n": n, "vote": vote}, undo=undo)

        return self._run(participant, action, work)

    def answers(
        self,
        participant: str,
        action: ParticipantAction,
        task: str,
        answers: Mapping[str, Any],
        *,
        side: str | None,
        turn: int | None,
    ) -> Mapping[str, Any]:
        """Store answers as a draft."""

        def work(connection: Connection, attending: Attendance) -> ActionOutcome:
            row = task_acts.own_current_task(connection, attending, task)
            undo = task_acts.store_answers(connection, attending, row, answers, side=side, turn=turn)
            return ActionOutcome(done={"task": task, "stored": sorted(answers)}, undo=undo)

        return self._answer(participant, action, work)

    def finish(self, participant: str, action: ParticipantAction, task: str) -> Mapping[str, Any]:
        """Finish a task; the study closes by itself where its stop rule says so."""
        studies = list[StoredStudy]()

        def work(connection: Connection, attending: Attendance) -> ActionOutcome:
            studies.append(attending.study)
            row = task_acts.own_current_task(connection, attending, task)
            undo = task_acts.finish_task(connection, attending, row)
            return ActionOutcome(done={"task": task, "finished": True}, undo=undo)

        done = self._run(participant, action, work)
        # Where the action came before, a server may have died between it and this look.
        self._stop_if_complete(studies[0] if studies else self._study_of(participant))
        return done

    def skip(self, participant: str, action: ParticipantAction, task: str, reason: str) -> Mapping[str, Any]:
        """Leave a task out."""

        def work(connection: Connection, attending: Attendance) -> ActionOutcome:
            row = task_acts.own_current_task(connection, attending, task)
            task_acts.skip_task(connection, attending, row, reason)
            return ActionOutcome(done={"task": task, "skipped": True})

        return self._run(participant, action, work)

    def undo(self, participant: str, action: ParticipantAction) -> Mapping[str, Any]:
        """Take back the last vote, answer or end of a task."""
        return self._run(participant, action, participant_acts.undo_last_action)

    def withdraw(self, participant: str, action: ParticipantAction) -> Mapping[str, Any]:
        """Take all texts and answers of the participant away, and keep the fact; a second time changes nothing."""
        with self._database.writing() as connection:
            attending = attendance(connection, participant, locks=True)
            if attending.participant.state != "withdrawn":
                erase_rows(connection, attending, is_sqlite=self._database.is_sqlite)
                subject = f"participant {attending.participant.code} of study {attending.study.name}"
                add_row(connection, "participant", "withdraw", subject)
        clean_storage(self._database, rewrites=False)
        del action
        return {"withdrawn": True}

    def own_data(self, participant: str) -> dict[str, object]:
        """Return what is stored of a participant, without bots and what operators decided: it unblinds no one."""
        with self._database.reading() as connection:
            attending = attendance(connection, participant)
        row = attending.participant
        hidden = ("bots", "protocol_sha256", "excluded", "check", "decisions")
        return {
            "code": row.code,
            "state": row.state,
            "language": row.language,
            "consented": row.consented,
            "consent_sha256": row.consent_sha256,
            "screening": row.screening,
            "training": row.training,
            "minutes": round(row.active_ms / 60_000, 2),
            "tasks": [
                {name: _unblinded(part) for name, part in json_form(record).items() if name not in hidden}
                for record in study_records(self._database, attending.study, participant=row.code)
            ],
        }

    def _run(self, participant: str, action: ParticipantAction, work: ActionWork) -> Mapping[str, Any]:
        return participant_acts.run_action(self._database, participant, action, work)

    def _answer(self, participant: str, action: ParticipantAction, work: ActionWork) -> Mapping[str, Any]:
        """Run an action by which a participant takes a place, if it is the first; without one nothing is stored."""

        def with_place(connection: Connection, attending: Attendance) -> ActionOutcome:
            reason = take_place(connection, attending)
            return work(connection, attending) if reason is None else ActionOutcome(done={"let_in": False})

        return self._run(participant, action, with_place)

    def _study_of(self, participant: str) -> StoredStudy:
        with self._database.reading() as connection:
            return attendance(connection, participant).study

    def _stop_if_complete(self, study: StoredStudy) -> None:
        stop = study.protocol["stop"]
        if not stop or study.state != "open":
            return
        counts = study_counts(self._database, study)
        reached = {"participants": counts["finished"], "tasks": counts["tasks_done"]}
        if any(reached[name] >= most for name, most in stop.items()):
            with self._database.writing() as connection:
                still_open = (STUDIES.c.id == study.id, STUDIES.c.state == "open")
                values = {"state": "paused"}
                if connection.execute(STUDIES.update().where(*still_open).values(values)).rowcount:
                    add_row(connection, "stop rule", "pause", f"study {study.name}", stop=dict(stop))
                    text = f"study {study.name} has reached its stop rule and pauses"
                    facts = {"study": study.name, "tasks": counts["tasks_done"]}
                    add_notice(connection, NoticeKind.STUDY_TARGET, text, **facts)


def _require_chat(attending: Attendance) -> None:
    if "max_turns" not in attending.protocol.fields:
        raise Conflict("this study has no bots to write to", remedy="answer the questions")


def _unblinded(part: Any) -> Any:
    """Return a part of a record without the names of systems, and without what a reply says of its bot."""
    if isinstance(part, list):
        return [_unblinded(inner) for inner in part]
    if not isinstance(part, Mapping):
        return part
    if "replies" in part:
        return {
            name: list(inner.values()) if name == "replies" else inner for name, inner in part.items() if name != "unit"
        }
    return {name: _unblinded(inner) for name, inner in part.items() if name not in ("ms", "names_bot", "unit")}
