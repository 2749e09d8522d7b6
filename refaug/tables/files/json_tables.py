"""JSON lines and JSON arrays as tables: the fields of their objects are the columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import orjson

from refaug.core.errors import BadInput, DamagedSource
from refaug.core.text.content_shapes import repeated_key
from refaug.logs.reading.containers import json_rows
from refaug.logs.reading.sources import BadRow, LineReader, Source, Stream
from refaug.tables.files.text_tables import NumberedRow, OpenTable
from refaug.tables.table_notes import TableNotes

# ── Exports of programs for annotators, Label Studio and Argilla: each becomes rows with one annotator's answers ──────
#
# A row has the texts that were shown, a column for each question, and the annotator. The ids of tasks and records are
# in columns `task_id` and `record_id`: several tasks may show replies to one utterance, which are one item.

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


# ── JSON lines and JSON arrays as tables: the fields of their objects are the columns ─────────────────────────────────

MAX_ARRAY_BYTES: Final = 256 << 20
_SAMPLE: Final = 50

_Rows = Callable[[], Iterator[tuple[int, dict[str, object]] | BadRow]]


def open_json_lines(path: Path, where: str, encoding: str, notes: TableNotes) -> OpenTable:
    """Return the table of a file with one object a line."""
    reader = LineReader(Source.of(path), encoding=encoding)

    def rows() -> Iterator[tuple[int, Any] | BadRow]:
        for block in reader:
            yield from json_rows(block) if block.bad is None else (block.bad,)

    return _table("JSON lines", rows, where, notes)


def open_json_array(path: Path, where: str, notes: TableNotes) -> OpenTable:
    """Return the table of a file that is one JSON array; its rows are numbered from 1, and it has a greatest size."""
    content = bytearray()
    with Stream(path) as stream:
        for piece in stream:
            content += piece
            if len(content) > MAX_ARRAY_BYTES:
                raise BadInput(
                    f"{where}: a JSON array of more than {MAX_ARRAY_BYTES >> 20} MiB",
                    remedy="write one object a line: jq -c '.[]' FILE",
                )
    try:
        array = orjson.loads(bytes(content).removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        raise DamagedSource(f"{where}, line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from error
    if (key := repeated_key(bytes(content), array)) is not None:
        raise BadInput(f"{where}: an object has the key {key!r} twice", remedy="name each key once")

    def rows() -> Iterator[tuple[int, Any] | BadRow]:
        for number, row in enumerate(array, start=1):
            message = f"a JSON object was expected, found {type(row).__name__}"
            yield (number, row) if isinstance(row, dict) else BadRow(line=number, reason="json", message=message)

    return _table("a JSON array", rows, where, notes)


def _table(kind: str, rows: _Rows, where: str, notes: TableNotes) -> OpenTable:
    sample = [row[1] for row in islice(rows(), _SAMPLE) if isinstance(row, tuple)]
    if not sample:
        bad = next((row for row in rows() if isinstance(row, BadRow)), None)
        raise BadInput(f"{where}: no row can be read" + (f": line {bad.line}: {bad.message}" if bad else ""))
    export = export_of(sample)
    if export is not None:
        return _exported(export, rows, sample, where, notes)
    columns = list(dict.fromkeys(key for row in sample for key in row))
    has_items = any(isinstance(row.get("replies"), dict) for row in sample)
    return OpenTable(kind=kind, columns=columns, rows=lambda _: rows(), has_keys=True, has_items=has_items)


def _exported(export: Export, rows: _Rows, sample: list[dict[str, object]], where: str, notes: TableNotes) -> OpenTable:
    ignored = TableNotes()  # the sample is read again, and counts then
    columns, good_rows, problem = dict[str, None](), list[dict[str, object]](), ""
    for row in sample:
        expanded = _expanded(export, row, ignored)
        if isinstance(expanded, str):
            problem = problem or expanded
        else:
            good_rows.append(row)
            columns.update(dict.fromkeys(key for answers in expanded for key in answers))
    if not good_rows:
        raise BadInput(f"{where}: no row can be read: {problem}", remedy=f"export it from {export.name} again, as JSON")

    def expanded_rows() -> Iterator[NumberedRow]:
        for row in rows():
            if isinstance(row, BadRow):
                yield row
                continue
            expanded = _expanded(export, row[1], notes)
            if isinstance(expanded, str):
                yield BadRow(line=row[0], reason="export", message=expanded)
            else:
                yield from ((row[0], answers) for answers in expanded)

    return OpenTable(
        kind=f"an export of {export.name}",
        columns=list(columns),
        rows=lambda _: expanded_rows(),
        has_keys=True,
        of_annotators=export.only_question(good_rows),
    )


def _expanded(export: Export, row: dict[str, object], notes: TableNotes) -> list[dict[str, object]] | str:
    """Return the rows that a row of an export stands for, or what is wrong with it."""
    try:
        export.questions(row)
        return list(export.expand(row, notes))
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        return f"not as {export.name} exports it: {error}"
