"""Chats as CSV with the columns of neural_chat_web, an exchange a row, so that its tools read them.

What the form asked beyond its five questions, the state of its task, and what was decided stand in further columns
behind. Texts that
a spreadsheet would compute begin with a '. There is no user, only the code of a participant; a comment is the answer to
a question called comments or comment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import orjson

from refaug.core.errors import BadInput
from refaug.evaluation.reports.csv_text import csv_text
from refaug.evaluation.studies.records import StudyKind, StudyTask, TaskSide, TaskTurn, TurnRole

COLUMNS: Final = (
    "ID", "Chat ID", "Datetime", "Chatbot ID", "Message", "Response", "Bot Input", "Study Key", "User Session Key",
    "Response Rating", "Chat Rating Quality", "Chat Rating Fluency", "Chat Rating Coherency", "Chat Rating Diversity",
    "Chat Rating Contingency", "Chat Rating Empathy", "Chat Rating Comments",
)  # fmt: skip
FURTHER: Final = ("Check", "State", "Excluded", "Seconds")
_QUESTIONS: Final = ("quality", "fluency", "coherency", "diversity", "contingency", "empathy", "comments")
_OTHER_NAMES: Final = {"contingency": "relatedness", "comments": "comment"}
_CHATS: Final = frozenset({StudyKind.CHAT, StudyKind.CHAT_PAIR, StudyKind.RATE_DIALOGUE, StudyKind.PAIR_DIALOGUE})


def chat_records(tasks: Sequence[StudyTask], left_out: Iterable[str] = ()) -> Iterator[bytes]:
    """Yield the CSV, header first; `left_out` are participants whom the rules leave out."""
    if not any(task.kind in _CHATS for task in tasks):
        raise BadInput(
            "the study has no dialogue, and this CSV has an exchange a row", remedy="--format jsonl or items"
        )
    further = _further_questions(tasks)
    excluded = frozenset(left_out)
    decided = sorted({name for task in tasks for name in task.decisions or {}})
    columns = [f"Decision {name}{part}" for name in decided for part in ("", " by", " at")]
    yield csv_text([*COLUMNS, *FURTHER, *(f"Answer {name}" for name in further), *columns], []).encode()
    number = 0
    for task in tasks:
        rows = [
            [*row, *_decisions(task, decided)]
            for row in _rows(task, further, number, is_excluded=task.participant in excluded)
        ]
        number += len(rows)
        if rows:
            yield csv_text(None, rows).encode()


def _decisions(task: StudyTask, names: Sequence[str]) -> Iterator[Any]:
    """Yield what was decided about the task's item, by whom, and when."""
    for name in names:
        decision = (task.decisions or {}).get(name)
        yield from ("", "", "") if decision is None else (_cell(decision.value), decision.by, decision.at)


def _further_questions(tasks: Sequence[StudyTask]) -> list[str]:
    used = {*_QUESTIONS, *_OTHER_NAMES.values()}
    names = {name for task in tasks for side in task.sides for name in task.answers_of(side.side)}
    whole = {name for task in tasks for name in task.answers if "/" not in name}
    return sorted((names | whole) - used)


def _rows(task: StudyTask, further: Sequence[str], number: int, *, is_excluded: bool) -> Iterator[list[Any]]:
    for side in task.sides:
        bot = task.bot_of(side.side)
        answers = {**{name: answer for name, answer in task.answers.items() if "/" not in name}}
        answers |= task.answers_of(side.side)
        rated = [answers.get(name, answers.get(_OTHER_NAMES.get(name, name), "")) for name in _QUESTIONS]
        for message, reply, before in exchanges(side):
            number += 1
            yield [
                number,
                task.task if len(task.sides) == 1 else f"{task.task}/{side.side.value}",
                reply.at or (message.at if message is not None else None) or task.started or "",
                "" if bot is None else bot.bot,
                "" if message is None else message.text,
                reply.text,
                orjson.dumps(before).decode(),
                task.study,
                task.participant,
                reply.vote or 0,
                *map(_cell, rated),
                "" if task.check is None else task.check.value,
                task.state.value,
                task.excluded or ("rules" if is_excluded else ""),
                "" if task.seconds is None else task.seconds,
                *(_cell(answers.get(name, "")) for name in further),
            ]


def exchanges(side: TaskSide) -> Iterator[tuple[TaskTurn | None, TaskTurn, list[str]]]:
    """Yield every reply with the message before it, and all texts up to that message.

    Messages in a row are one; a reply that begins a dialogue, or follows another one, has none.
    """
    before, message = list[str](), None
    for turn in side.turns:
        if turn.role is TurnRole.PARTICIPANT:
            message = turn
            before.append(turn.text)
        else:
            yield message, turn, list(before)
            before.append(turn.text)
            message = None


def _cell(answer: Any) -> Any:
    if answer is None:
        return ""
    return orjson.dumps(answer).decode() if isinstance(answer, list | dict | bool) else answer
