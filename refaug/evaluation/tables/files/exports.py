"""Exports of programs for annotators, Label Studio and Argilla: each becomes rows with one annotator's answers.

A row has the texts that were shown, a column for each question, and the annotator. The ids of tasks and records are in
columns `task_id` and `record_id`: several tasks may show replies to one utterance, which are one item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from refaug.evaluation.tables.table_notes import TableNotes

ANNOTATOR: Final = "annotator"
_USED_STATUS: Final = (None, "submitted")
_RESPONSES: Final = ".responses"

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Export:
    """How the rows of a program are read."""

    name: str
    expand: Callable[[Row, TableNotes], Iterator[dict[str, object]]]
    questions: Callable[[Row], list[str]]

    def only_question(self, sample: Sequence[Row]) -> str:
        """Return the question where there is only one, which then is the rating."""
        questions = dict.fromkeys(name for row in sample for name in self.questions(row))
        return next(iter(questions)) if len(questions) == 1 else ""


def export_of(sample: Sequence[Row]) -> Export | None:
    """Return the program that wrote the rows, by the fields of the first."""
    first = sample[0]
    if isinstance(first.get("data"), dict) and isinstance(first.get("annotations"), list):
        return Export(name="Label Studio", expand=_of_task, questions=_task_questions)
    if isinstance(first.get("fields"), dict) and isinstance(first.get("responses"), dict | list):
        return Export(name="Argilla", expand=_of_record, questions=_record_questions)
    if any(name.endswith(_RESPONSES) and f"{name}.users" in first for name in first):
        return Export(name="Argilla", expand=_of_flat_record, questions=_flat_questions)
    return None


# ── Label Studio ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_task(task: Row, notes: TableNotes) -> Iterator[dict[str, object]]:
    shown = {"task_id": task.get("id"), **task["data"]}
    has_answers = False
    for annotation in task["annotations"]:
        if annotation.get("was_cancelled"):
            notes.leave_out("annotations that were cancelled or skipped")
            continue
        answers = {answer["from_name"]: _answer(answer) for answer in annotation.get("result", [])}
        has_answers = True
        yield {**shown, **answers, ANNOTATOR: _person(annotation.get("completed_by"))}
    if not has_answers:
        yield {**shown, ANNOTATOR: None}


def _answer(answer: Row) -> Any:
    """Return the number or the text of an answer; a choice counts if it is the only one."""
    content = answer["value"].get(answer["type"])
    return content[0] if isinstance(content, list) and len(content) == 1 else content


def _person(completed_by: Any) -> Any:
    """Return the name of an annotator: a number, or an object with the address."""
    if isinstance(completed_by, dict):
        return completed_by.get("email") or completed_by.get("id")
    return completed_by


def _task_questions(task: Row) -> list[str]:
    return [answer["from_name"] for annotation in task["annotations"] for answer in annotation.get("result", [])]


# ── Argilla ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_record(record: Row, notes: TableNotes) -> Iterator[dict[str, object]]:
    shown = {"record_id": record.get("id"), **record["fields"], **(record.get("metadata") or {})}
    responses = record["responses"]
    if isinstance(responses, list):  # of version 1: an object for each person, with the values of all questions
        by_person = {
            str(response.get("user_id")): {name: answer["value"] for name, answer in response["values"].items()}
            for response in responses
            if _is_submitted(response.get("status"), notes)
        }
    else:
        by_person = dict[str, dict[str, object]]()
        for question, answers in responses.items():
            for answer in answers:
                if _is_submitted(answer.get("status"), notes):
                    by_person.setdefault(str(answer.get("user_id")), {})[question] = answer["value"]
    yield from _of_people(shown, by_person)


def _of_flat_record(record: Row, notes: TableNotes) -> Iterator[dict[str, object]]:
    questions = _flat_questions(record)
    parts = tuple(f"{question}{_RESPONSES}" for question in questions)
    suggestions = tuple(f"{question}.suggestion" for question in questions)
    by_person = dict[str, dict[str, object]]()
    for question in questions:
        column = f"{question}{_RESPONSES}"
        answers, people = record.get(column) or [], record.get(f"{column}.users") or []
        statuses = record.get(f"{column}.status") or [None] * len(answers)
        for answer, person, status in zip(answers, people, statuses, strict=False):
            if _is_submitted(status, notes):
                by_person.setdefault(str(person), {})[question] = answer
    shown = {name: content for name, content in record.items() if not name.startswith((*parts, *suggestions))}
    shown["record_id"] = shown.pop("id", None)
    yield from _of_people(shown, by_person)


def _of_people(shown: Mapping[str, Any], by_person: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, object]]:
    if not by_person:
        yield {**shown, ANNOTATOR: None}
    for person, answers in by_person.items():
        yield {**shown, **answers, ANNOTATOR: person}


def _is_submitted(status: object, notes: TableNotes) -> bool:
    if status in _USED_STATUS:
        return True
    notes.leave_out(f"responses that are {status}, not submitted")
    return False


def _record_questions(record: Row) -> list[str]:
    responses = record["responses"]
    if isinstance(responses, list):
        return [name for response in responses for name in response.get("values", {})]
    return list(responses)


def _flat_questions(record: Row) -> list[str]:
    return [name.removesuffix(_RESPONSES) for name in record if name.endswith(_RESPONSES)]
