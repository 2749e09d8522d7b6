"""Rated conversations of people with bots, in JSONL, as tasks of a study with its protocol.

    {"id": "c1", "participant": "p7", "bot": "b2", "is_degraded": false, "turns": [{"role": "bot", "text": "…"}],
     "ratings": {"quality": 4, "repetitive": 2}, "scale": [1, 7], "reversed": ["repetitive"]}

`is_degraded` marks a bot that was made worse on purpose, to see who notices. A study that authors have sifted may say
`kept_by_authors`: it stays with the item and has no effect here.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from refaug.core.errors import BadInput
from refaug.evaluation.conversations.reading import usable_conversation
from refaug.evaluation.conversations.records import BadConversation, Conversation
from refaug.evaluation.studies.records import (
    StudyKind,
    StudyTask,
    TaskBot,
    TaskCheck,
    TaskSide,
    TaskSideName,
    TaskState,
    TaskTurn,
    TurnRole,
    task_order,
)
from refaug.logs.reading.containers import json_rows
from refaug.logs.reading.sources import BadRow, LineReader, Source, require_readable
from refaug.metrics.conversations.exchanges import Side

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
