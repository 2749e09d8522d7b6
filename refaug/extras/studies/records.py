r"""What participants did, a task a line of JSON: the records that stores yield, reports read and exports write.

    {"study": "s1", "protocol_sha256": "…", "pilot": false, "task": "t1", "participant": "P-3F", "kind": "chat",
     "position": 1, "state": "done", "check": null,
     "bots": [{"side": "one", "slot": "a", "bot": "c-bm25", "sha256": "…"}],
     "sides": [{"side": "one", "turns": [{"n": 1, "role": "participant", "text": "hi", "at": "…", "ms": null,
                                          "vote": null}]}],
     "answers": {"quality": 4}, "seconds": 61.5, "started": "…", "ended": "…", "excluded": null}

The keys stand in this order, and `skip_reason`, `item`, `labels`, `names_bot` and, at the end, `decisions` only where
they say something: reading a file and writing its tasks gives the same bytes. Times are ISO 8601 in UTC with
milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, BinaryIO, ClassVar, Final, Literal

import orjson
from pydantic import ConfigDict, StringConstraints, TypeAdapter, ValidationError

from refaug.core.errors import BadInput
from refaug.core.records import OPTIONAL, json_form
from refaug.logs.reading.containers import json_rows
from refaug.logs.reading.sources import BadRow, LineReader, Source, require_readable

SHOWN_CHARS: Final = 60
_FORBID: Final = ConfigDict(extra="forbid", strict=False)

Answer = int | float | str | bool | list[Any] | None
Time = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class StudyKind(StrEnum):
    """What a task of a study asks of a participant."""

    CHAT = "chat"
    CHAT_PAIR = "chat-pair"
    RATE_DIALOGUE = "rate-dialogue"
    PAIR_DIALOGUE = "pair-dialogue"
    PAIR_REPLY = "pair-reply"
    RATE_REPLY = "rate-reply"
    RATE_REFERENCE = "rate-reference"
    LABEL_TURNS = "label-turns"

    @property
    def is_pair(self) -> bool:
        """Whether a task shows two sides, one of which is to be chosen."""
        return self in {StudyKind.CHAT_PAIR, StudyKind.PAIR_DIALOGUE, StudyKind.PAIR_REPLY}

    @property
    def has_dialogues(self) -> bool:
        """Whether a task shows whole dialogues, of whose turns one may ask."""
        return self not in {StudyKind.PAIR_REPLY, StudyKind.RATE_REPLY, StudyKind.RATE_REFERENCE}


class TaskState(StrEnum):
    """How a task ended."""

    DONE = "done"
    SKIPPED = "skipped"
    EXPIRED = "expired"


class TaskCheck(StrEnum):
    """What a task checks, where it is no plain one."""

    ATTENTION = "attention"
    DEGRADED = "degraded"
    REPEAT = "repeat"
    TRAINING = "training"


class TaskSideName(StrEnum):
    """The place of a bot on the page; `one` where there is one bot alone."""

    ONE = "one"
    LEFT = "left"
    RIGHT = "right"


class TurnRole(StrEnum):
    """The speaker of a turn."""

    PARTICIPANT = "participant"
    BOT = "bot"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskBot:
    """The bot behind one side of a task."""

    __pydantic_config__: ClassVar[ConfigDict] = _FORBID

    side: TaskSideName
    slot: Name
    bot: Name
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTurn:
    """A message of one side, with the participant's vote and labels; `ms` is how long a reply took."""

    __pydantic_config__: ClassVar[ConfigDict] = _FORBID

    n: int
    role: TurnRole
    text: str
    at: Time | None = None
    ms: int | None = None
    vote: Literal[-1, 0, 1] | None = None
    labels: list[Any] | dict[str, object] | None = field(default=None, metadata=OPTIONAL)
    names_bot: bool = field(default=False, metadata=OPTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSide:
    """The dialogue of one side."""

    __pydantic_config__: ClassVar[ConfigDict] = _FORBID

    side: TaskSideName
    turns: list[TaskTurn]

    @property
    def names_bot(self) -> bool:
        """Whether some reply names a bot or its maker."""
        return any(turn.names_bot for turn in self.turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDecision:
    """What an operator decided about a question of the task's item: the key by its name, and when."""

    __pydantic_config__: ClassVar[ConfigDict] = _FORBID

    value: int | float | str
    note: str = ""
    by: str = ""
    at: Time


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyTask:
    """What one participant did in one task, and whether a rule of the protocol excludes it."""

    __pydantic_config__: ClassVar[ConfigDict] = _FORBID

    study: str
    protocol_sha256: str
    pilot: bool = False
    task: Name
    participant: Name
    kind: StudyKind
    position: int
    state: TaskState
    skip_reason: str | None = field(default=None, metadata=OPTIONAL)
    check: TaskCheck | None = None
    bots: list[TaskBot]
    item: Mapping[str, Any] | None = field(default=None, metadata=OPTIONAL)
    sides: list[TaskSide]
    answers: dict[str, Answer] = field(default_factory=dict)
    seconds: float | None = None
    started: Time | None = None
    ended: Time | None = None
    excluded: str | None = None
    # by question, of all tasks about the same thing
    decisions: dict[str, TaskDecision] | None = field(default=None, metadata=OPTIONAL)

    @property
    def is_done(self) -> bool:
        """Whether the participant finished the task."""
        return self.state is TaskState.DONE

    @property
    def names_bot(self) -> bool:
        """Whether some reply of it names a bot or its maker."""
        return any(side.names_bot for side in self.sides)

    def bot_of(self, side: TaskSideName) -> TaskBot | None:
        """Return the bot behind a side; None where there is none."""
        return next((bot for bot in self.bots if bot.side is side), None)

    def side_of(self, side: TaskSideName) -> TaskSide | None:
        """Return the dialogue of a side; None where there is none."""
        return next((each for each in self.sides if each.side is side), None)

    def answers_of(self, side: TaskSideName) -> dict[str, Answer]:
        """Return the answers about one side by question, without those about turns; a single side has all."""
        prefix = f"{side.value}/"
        about = {name.removeprefix(prefix): answer for name, answer in self.answers.items() if name.startswith(prefix)}
        if side is TaskSideName.ONE:
            about |= self.answers
        return {name: answer for name, answer in about.items() if "/" not in name}


def task_order(task: StudyTask) -> tuple[str, int, str]:
    """Return what tasks of a file are sorted by."""
    return task.participant, task.position, task.task


def task_of(fields: Mapping[str, Any], where: str) -> StudyTask:
    """Return the record of some fields; BadInput names the first wrong field and the place."""
    try:
        return _adapter().validate_python(dict(fields))
    except ValidationError as error:
        raise BadInput(f"{where}: {_first_wrong(error)}", remedy="a line of `refaug studies export`") from error


def read_tasks(path: Path, *, shown_name: str | None = None) -> Iterator[StudyTask]:
    """Yield the tasks of a JSONL file, compressed or not, a line at a time; refuse a wrong line and a repeated task."""
    require_readable(path)
    name, lines_of = shown_name or str(path), dict[tuple[str, str], int]()
    for block in LineReader(Source.of(path)):
        for row in json_rows(block) if block.bad is None else (block.bad,):
            if isinstance(row, BadRow):
                raise BadInput(f"{name}, line {row.line}: {row.message}", remedy="a line of `refaug studies export`")
            line, fields = row
            task = task_of(fields, f"{name}, line {line}")
            if (first := lines_of.setdefault((task.study, task.task), line)) != line:
                raise BadInput(
                    f"{name}, line {line}: task: {task.task!r} of study {task.study!r} stands in line {first} already",
                    remedy="keep one of the two",
                )
            yield task


def write_tasks(tasks: Iterable[StudyTask], file: BinaryIO) -> int:
    """Write tasks in the order given, a line each, and return how many there are."""
    count = 0
    for task in tasks:
        file.write(task_line(task))
        count += 1
    return count


def task_line(task: StudyTask) -> bytes:
    """Return the line of one task, with its newline."""
    return orjson.dumps(json_form(task), option=orjson.OPT_APPEND_NEWLINE)


@cache
def _adapter() -> TypeAdapter[StudyTask]:
    return TypeAdapter(StudyTask)


def _first_wrong(error: ValidationError) -> str:
    wrong = error.errors(include_url=False, include_context=False)[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in wrong["loc"]).lstrip(".")
    shown = repr(wrong["input"])
    if wrong["type"] == "missing":
        return f"{place} is missing"
    return f"{place}: {shown if len(shown) <= SHOWN_CHARS else shown[:SHOWN_CHARS] + '…'}: {wrong['msg']}"
