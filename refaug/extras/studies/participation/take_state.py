"""The whole state of a participant, from which a page is built: nothing in it names a bot, a hash or a host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
from sqlalchemy import Connection, Row, bindparam, func, select

from refaug.extras.studies.participation.page_languages import words_file
from refaug.extras.studies.participation.participant_acts import undoable_action
from refaug.extras.studies.participation.study_store import Attendance
from refaug.extras.studies.participation.tables import STUDY_TASKS
from refaug.extras.studies.participation.tasks import task_acts
from refaug.extras.studies.participation.tasks.task_assignment import current_task
from refaug.extras.studies.protocol.study_items import training_messages
from refaug.extras.studies.protocol.study_protocol import is_chat, side_names

_SEPARATOR: Final = "/"
_DONE: Final = select(func.count()).where(
    STUDY_TASKS.c.participant == bindparam("participant"), STUDY_TASKS.c.state == "done"
)


def participant_state(connection: Connection, attending: Attendance) -> Mapping[str, Any]:
    """Return what a page shows to a participant now."""
    task = current_task(connection, attending.participant.id)
    step = _step(attending, task)
    return {
        "study": _study(connection, attending),
        "step": step,
        "consent": _consent(attending),
        "training": _training(attending) if step == "training" else None,
        "task": _task(connection, attending, task) if step == "task" and task is not None else None,
        "progress": _progress(connection, attending),
        "completion": _completion(attending),
        "can_undo": step in ("task", "ready", "done") and undoable_action(connection, attending) is not None,
        "code": attending.participant.code,
    }


def _step(attending: Attendance, task: Row[Any] | None) -> str:
    state, study = attending.participant.state, attending.study
    if state in ("screened_out", "done", "full", "withdrawn"):
        return str(state)
    if not study.takes_answers or (not study.gives_tasks and task is None):
        return "closed"
    if state in ("consent", "training"):
        return str(state)
    return "ready" if task is None else "task"


def _study(connection: Connection, attending: Attendance) -> dict[str, object]:
    protocol, language = attending.protocol, attending.participant.language
    shown: dict[str, object] = {
        "title": protocol.text("title", language),
        "kind": protocol.kind.value,
        "state": attending.study.state,
        "language": language,
        "languages": list(protocol.languages),
        "words": words_file(language),
        "guidelines": protocol.text("guidelines", language),
        "texts": protocol["page_texts"],
        "adult_content": protocol["adult_content"],
        "pay": protocol["pay"],
        "skips_left": task_acts.skips_left(connection, attending),
    }
    if is_chat(protocol.kind):
        names = ("min_turns", "max_turns", "max_message_chars", "delay", "votes", "opening")
        shown |= {name: protocol[name] for name in names}
    return shown


def _consent(attending: Attendance) -> dict[str, object]:
    protocol = attending.protocol
    hidden = ("accept", "reverse")
    screening = [
        {name: part for name, part in question.items() if name not in hidden} for question in protocol["screening"]
    ]
    return {
        "text": protocol.text("consent", attending.participant.language),
        "sha256": protocol.consent_sha256,
        "screening": screening,
        "given": attending.participant.consent_sha256 is not None,
    }


def _training(attending: Attendance) -> dict[str, object]:
    training, progress = attending.protocol["training"], orjson.loads(attending.participant.training)
    item = training["items"][progress["at"]]
    form = attending.protocol.form.shown_in(attending.participant.language)
    questions = [question for question in form["questions"] if question["id"] in item["answers"]]
    sides, payload = training_messages(item, side_names(attending.protocol.kind))
    return {
        "item": {"id": item["id"], "sides": sides, "payload": payload},
        "form": {**form, "questions": questions},
        "position": progress["at"] + 1,
        "of": len(training["items"]),
        "attempt": progress["attempt"],
        "attempts": training["attempts"],
        "feedback": progress["feedback"],
    }


def _task(connection: Connection, attending: Attendance, task: Row[Any]) -> dict[str, object]:
    content = task_acts.TaskContent.of(connection, attending, task)
    why_not = task_acts.obstacle(connection, attending, task, content)
    messages = task_acts.shown_messages(connection, attending, task, content)
    return {
        "id": task.id,
        "position": int(attending.participant.position) + 1,
        "of": len(attending.sequence),
        "kind": attending.protocol.kind.value,
        "sides": [{"side": side, "messages": messages[side]} for side in messages],
        "payload": task_acts.shown_payload(connection, attending, task),
        "form": task_acts.shown_form(attending, task),
        "answers": shown_answers(content.answers),
        "can_finish": not why_not,
        "why_not": why_not,
    }


def shown_answers(answers: task_acts.Answers) -> dict[str, object]:
    """Return the answers of a task under the keys of pages: side, turn and question, as far as there are such."""
    shown = {}
    for (side, turn), of_place in answers.items():
        for question, answer in of_place.items():
            shown[answer_key(side, turn, question)] = answer
    return shown


def answer_key(side: str, turn: int, question: str) -> str:
    """Return the key of an answer; the only side of a task is not named."""
    parts = [*([side] if side not in ("", "one") else []), *([str(turn)] if turn else []), question]
    return _SEPARATOR.join(parts)


def _progress(connection: Connection, attending: Attendance) -> Mapping[str, int]:
    done = connection.execute(_DONE, {"participant": attending.participant.id}).scalar_one()
    planned = len(attending.sequence) or int(attending.protocol["per_participant"])
    return {"done": int(done), "of": planned}


def _completion(attending: Attendance) -> dict[str, object] | None:
    """Return the code and the address at the end, as the recruiting service wants them."""
    participant, completion = attending.participant, attending.protocol["completion"]
    if participant.state == "done":
        code, address = participant.completion_code, completion.get("return_url")
    elif participant.state == "screened_out":
        code, address = completion.get("screened_out_code"), completion.get("screened_out_url")
    else:
        return None
    filled = address.replace("{code}", code or "") if address else None
    return {"code": code, "return_url": filled, "reason": participant.reason}
