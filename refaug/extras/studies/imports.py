"""Rated conversations of people with bots, in JSONL, as tasks of a study with its protocol.

    {"id": "c1", "participant": "p7", "bot": "b2", "is_degraded": false, "turns": [{"role": "bot", "text": "…"}],
     "ratings": {"quality": 4, "repetitive": 2}, "scale": [1, 7], "reversed": ["repetitive"]}

`is_degraded` marks a bot that was made worse on purpose, to see who notices. A study that authors have sifted may say
`kept_by_authors`: it stays with the item and has no effect here.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from refaug.core.errors import BadInput
from refaug.extras.conversations.metrics.exchanges import Side
from refaug.extras.conversations.reading import BadConversation, Conversation, usable_conversation
from refaug.extras.studies.exports import COLUMNS
from refaug.extras.studies.questions import ATTENTION
from refaug.extras.studies.records import (
    StudyKind,
    StudyTask,
    TaskBot,
    TaskCheck,
    TaskDecision,
    TaskSide,
    TaskSideName,
    TaskState,
    TaskTurn,
    TurnRole,
    task_order,
)
from refaug.logs.reading.containers import json_rows
from refaug.logs.reading.sources import BadRow, LineReader, Source, require_readable
from refaug.tables.reports.table import FORMULA_SIGNS

_KEPT_FIELDS: Final = ("task", "kept_by_authors", "topic")
_ROLES: Final = {Side.PERSON: TurnRole.PARTICIPANT, Side.BOT: TurnRole.BOT}


@dataclass(frozen=True, kw_only=True)
class ImportedStudy:
    """The tasks of a study in the order of its file, and what stands for its protocol."""

    protocol: Mapping[str, Any] | None  # None for tasks that come with none
    tasks: tuple[StudyTask, ...]


@dataclass(frozen=True, kw_only=True)
class _RatedLine:
    talk: Conversation
    fields: Mapping[str, Any]
    line: int


def imported_conversations(path: Path, *, study: str, shown_name: str | None = None) -> ImportedStudy:
    """Read the conversations of a file; BadInput names the first line that has none, or that no person rated."""
    name = shown_name or str(path)
    lines = list(_rated_lines(path, name))
    if not lines:
        raise BadInput(f"{name}: there are no conversations", remedy="a conversation a line, with ratings")
    protocol = _protocol_of(lines, study, name)
    sha256 = protocol_sha256(protocol)
    positions = Counter[str]()
    tasks = list[StudyTask]()
    for entry in lines:
        positions[entry.talk.participant] += 1
        tasks.append(_task_of(entry, study, sha256, positions[entry.talk.participant]))
    return ImportedStudy(protocol=protocol, tasks=tuple(sorted(tasks, key=task_order)))


def protocol_sha256(protocol: Mapping[str, Any]) -> str:
    """Return the hash of a protocol, whatever the order of its keys."""
    return hashlib.sha256(orjson.dumps(protocol, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _rated_lines(path: Path, name: str) -> Iterator[_RatedLine]:
    require_readable(path)
    lines_of = dict[str, int]()
    for block in LineReader(Source.of(path)):
        for row in json_rows(block) if block.bad is None else (block.bad,):
            if isinstance(row, BadRow):
                raise BadInput(f"{name}, line {row.line}: {row.message}", remedy="a conversation a line")
            line, fields = row
            talk = usable_conversation(fields, line, lines_of)
            if isinstance(talk, BadConversation):
                raise BadInput(f"{name}, line {line}: {talk.field}: {talk.message}", remedy="docs/hybrid.md")
            for field, content in (("participant", talk.participant), ("ratings", talk.ratings)):
                if not content:
                    raise BadInput(f"{name}, line {line}: {field} is missing", remedy="who rated, and how")
            if not isinstance(fields.get("is_degraded", False), bool):
                raise BadInput(f"{name}, line {line}: is_degraded: {fields['is_degraded']!r}", remedy="true or false")
            yield _RatedLine(talk=talk, fields=fields, line=line)


def _protocol_of(lines: list[_RatedLine], study: str, name: str) -> dict[str, object]:
    """Return a protocol whose questions are those of the ratings; all lines must have one scale."""
    first = lines[0].talk
    for entry in lines:
        if entry.talk.scale != first.scale:
            raise BadInput(
                f"{name}, line {entry.line}: scale: {entry.talk.scale} here, {first.scale} in line {lines[0].line}",
                remedy="one scale in a file",
            )
    questions = dict.fromkeys(question for entry in lines for question in entry.talk.ratings)
    reversed_ones = {question for entry in lines for question in entry.talk.reversed}
    numbers = [number for entry in lines for number in entry.talk.ratings.values()]
    least, most = first.scale or (min(numbers), max(numbers))
    if least == most:
        raise BadInput(f"{name}: every rating is {least:g}", remedy='"scale": [1, 7]')
    return {
        "kind": StudyKind.CHAT.value,
        "name": study,
        "bots": sorted({entry.talk.bot for entry in lines}),
        "form": {
            "name": "imported",
            "questions": [
                {
                    "id": question,
                    "text": question,
                    "type": "slider",
                    "least": _whole(least),
                    "most": _whole(most),
                    "reverse": question in reversed_ones,
                }
                for question in questions
            ],
        },
        "exclude": {"degraded_not_lower": True} if any(entry.fields.get("is_degraded") for entry in lines) else {},
    }


def _task_of(entry: _RatedLine, study: str, sha256: str, position: int) -> StudyTask:
    talk = entry.talk
    more = {field: entry.fields[field] for field in _KEPT_FIELDS if field in entry.fields}
    return StudyTask(
        study=study,
        protocol_sha256=sha256,
        task=talk.id,
        participant=talk.participant,
        kind=StudyKind.CHAT,
        position=position,
        state=TaskState.DONE,
        check=TaskCheck.DEGRADED if entry.fields.get("is_degraded", False) else None,
        bots=[TaskBot(side=TaskSideName.ONE, slot=talk.bot, bot=talk.bot)],
        item={"id": talk.id, **more} if more else None,
        sides=[TaskSide(side=TaskSideName.ONE, turns=_turns(entry))],
        answers={question: _whole(number) for question, number in talk.ratings.items()},
    )


def _turns(entry: _RatedLine) -> list[TaskTurn]:
    field = next((name for name in ("turns", "messages", "conversations") if name in entry.fields), "turns")
    messages = entry.fields[field]
    plain = len(messages) == len(entry.talk.turns)  # otherwise some are prompts of a system or calls of tools
    return [
        TaskTurn(n=number, role=_ROLES[side], text=text, vote=messages[number - 1].get("vote") if plain else None)
        for number, (side, text) in enumerate(entry.talk.turns, 1)
    ]


def _whole(number: float) -> int | float:
    return int(number) if float(number).is_integer() else number


# ── Chats in CSV with the columns of neural_chat_web, an exchange a row, as tasks of a study with its protocol ────────
#
# A chat is the rows of one `Chat ID`, in the order of the file; ratings, check, state and seconds are those of its
# last row. What `refaug studies export --format csv` wrote comes back with the same rows; the notes of decisions,
# hashes and times of begin are not in such a file. A ' before what a spreadsheet would compute is taken away, and
# line breaks and tabs, which the file has escaped, are such again.

_RATING: Final = "Chat Rating "
_ANSWER: Final = "Answer "
_DECISION: Final = "Decision "
_NEEDED: Final = ("Chat ID", "Chatbot ID", "Message", "Response", "User Session Key")

_Named = TypeVar("_Named", TaskState, TaskCheck)
Rows = Sequence[Mapping[str, str]]


def is_chat_rows(path: Path) -> bool:
    """Say whether a file begins with a header that has the columns of chats."""
    require_readable(path)
    with path.open("rb") as file:
        header = file.read(1 << 16).partition(b"\n")[0].decode("utf-8-sig", "replace")
    return set(_NEEDED) <= set(next(csv.reader([header]), []))


def imported_chat_rows(path: Path, *, study: str, shown_name: str | None = None) -> ImportedStudy:
    """Read the chats of a file; BadInput names the first line that cannot be used."""
    name = shown_name or str(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{name}: byte {error.start} is not UTF-8", remedy="save it as CSV UTF-8") from error
    reader = csv.DictReader(io.StringIO(text, newline=""))
    missing = [column for column in _NEEDED if column not in (reader.fieldnames or ())]
    if missing:
        raise BadInput(f"{name}: no column {missing[0]!r}", remedy=f"the columns {', '.join(COLUMNS)}")
    chats = dict[str, list[dict[str, str]]]()
    for row in reader:
        where = f"{name}, line {reader.line_num}"
        if None in row or None in row.values():
            raise BadInput(f"{where}: not as many cells as the header", remedy="a cell for each column")
        if not row["Chat ID"] or not row["User Session Key"] or not row["Chatbot ID"]:
            raise BadInput(f"{where}: no chat, bot or participant", remedy="Chat ID, Chatbot ID, User Session Key")
        content = {column: _plain(cell) for column, cell in row.items()}
        chats.setdefault(content["Chat ID"], []).append({**content, "": where})
    if not chats:
        raise BadInput(f"{name}: there are no chats", remedy="an exchange a row")
    answers = {chat: _answers(rows[-1]) for chat, rows in chats.items()}
    protocol = _protocol(study, chats.values(), answers.values())
    return ImportedStudy(protocol=protocol, tasks=_tasks(chats, answers, study, protocol_sha256(protocol)))


def _plain(cell: str) -> str:
    text = cell.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t")
    return text[1:] if text.startswith("'") and text[1:].startswith(FORMULA_SIGNS) else text


def _answers(row: Mapping[str, str]) -> dict[str, object]:
    answers = dict[str, object]()
    for column, cell in row.items():
        if not cell or not column.startswith((_RATING, _ANSWER)):
            continue
        is_rating = column.startswith(_RATING)
        question = column.removeprefix(_RATING).lower() if is_rating else column.removeprefix(_ANSWER)
        if question == ATTENTION:
            answers[question] = _was_passed(row, column)
        else:
            answers[question] = cell if question == "comments" else _number_or_text(cell)
    return answers


def _was_passed(row: Mapping[str, str], column: str) -> bool:
    cell = row[column].lower()  # spreadsheets write TRUE
    if cell not in ("true", "false"):
        raise BadInput(f"{row['']}: {column}: {row[column]!r}", remedy="true or false")
    return cell == "true"


def _number_or_text(cell: str) -> float | str:
    try:
        number = float(cell)
    except ValueError:
        return cell
    return int(number) if number.is_integer() else number


def _protocol(study: str, chats: Any, answers: Any) -> dict[str, object]:
    questions = dict.fromkeys(question for given in answers for question in given if question != ATTENTION)
    numbers = {
        question: [given[question] for given in answers if not isinstance(given.get(question, ""), str)]
        for question in questions
    }
    form = [
        {"id": question, "text": question, "type": "text"}
        if not numbers[question]
        else {
            "id": question,
            "text": question,
            "type": "slider",
            "least": min(1, *numbers[question]),
            "most": max(7, *numbers[question]),
        }
        for question in questions
    ]
    bots = sorted({row["Chatbot ID"] for rows in chats for row in rows})
    return {"kind": StudyKind.CHAT.value, "name": study, "bots": bots, "form": {"name": "imported", "questions": form}}


def _tasks(
    chats: Mapping[str, Rows], answers: Mapping[str, Mapping[str, Any]], study: str, sha256: str
) -> tuple[StudyTask, ...]:
    positions = Counter[str]()
    tasks = list[StudyTask]()
    for chat, rows in chats.items():
        first, last = rows[0], rows[-1]
        person = first["User Session Key"]
        positions[person] += 1
        tasks.append(
            StudyTask(
                study=first.get("Study Key") or study,
                protocol_sha256=sha256,
                task=chat,
                participant=person,
                kind=StudyKind.CHAT,
                position=positions[person],
                state=_named(TaskState, last, "State") or TaskState.DONE,
                check=_named(TaskCheck, last, "Check"),
                bots=[TaskBot(side=TaskSideName.ONE, slot=first["Chatbot ID"], bot=first["Chatbot ID"])],
                sides=[TaskSide(side=TaskSideName.ONE, turns=_turns_of_rows(rows))],
                answers=dict(answers[chat]),
                seconds=_seconds(last),
                excluded=last.get("Excluded") or None,
                decisions=_decisions(last),
            )
        )
    return tuple(sorted(tasks, key=task_order))


def _turns_of_rows(rows: Rows) -> list[TaskTurn]:
    turns = list[TaskTurn]()
    for row in rows:
        if row["Message"]:
            turns.append(TaskTurn(n=len(turns) + 1, role=TurnRole.PARTICIPANT, text=row["Message"]))
        vote = row.get("Response Rating") or "0"
        if vote not in ("-1", "0", "1"):
            raise BadInput(f"{row['']}: Response Rating: {vote!r}", remedy="-1, 0 or 1")
        turns.append(
            TaskTurn(
                n=len(turns) + 1,
                role=TurnRole.BOT,
                text=row["Response"],
                at=_moment(row, "Datetime"),
                vote=None if vote == "0" else -1 if vote == "-1" else 1,
            )
        )
    return turns


def _moment(row: Mapping[str, str], column: str) -> str | None:
    if not (written := row.get(column, "")):
        return None
    try:
        moment = datetime.fromisoformat(written)
    except ValueError as error:
        raise BadInput(f"{row['']}: {column}: {written!r}", remedy="a time as 2026-11-20T08:30:00Z") from error
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _named(kind: type[_Named], row: Mapping[str, str], column: str) -> _Named | None:
    if not (written := row.get(column, "")):
        return None
    if written not in list(kind):
        raise BadInput(f"{row['']}: {column}: {written!r}", remedy=f"one of: {', '.join(kind)}")
    return kind(written)


def _seconds(row: Mapping[str, str]) -> float | None:
    written = row.get("Seconds", "")
    try:
        return float(written) if written else None
    except ValueError as error:
        raise BadInput(f"{row['']}: Seconds: {written!r}", remedy="a number") from error


def _decisions(row: Mapping[str, str]) -> dict[str, TaskDecision] | None:
    names = [column.removeprefix(_DECISION) for column in row if column.startswith(_DECISION)]
    decided = {
        name: TaskDecision(
            value=_number_or_text(row[f"{_DECISION}{name}"]),
            by=row.get(f"{_DECISION}{name} by", ""),
            at=_moment(row, f"{_DECISION}{name} at") or "",
        )
        for name in names
        if f"{name} at" in names and row[f"{_DECISION}{name}"]
    }
    return decided or None
