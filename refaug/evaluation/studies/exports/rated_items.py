"""Rated replies as items, which `refaug meta` reads: one number an annotator, and an annotator is a participant.

A study of single replies has an item for each that it asked about. A study of chats has an item for each reply of a
bot that was voted on, with the vote as its rating.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypedDict

import orjson

from refaug.core.errors import BadInput
from refaug.evaluation.studies.questions import AnswerType, AskedQuestion, main_tasks, rating_rows
from refaug.evaluation.studies.records import StudyKind, StudyTask, TaskCheck, TaskSideName, TurnRole
from refaug.evaluation.studies.report.beside import context_of

_VOTES: Final = (-1, 1)


def rated_items(
    tasks: Sequence[StudyTask], questions: Sequence[AskedQuestion], question: str | None
) -> Iterator[bytes]:
    """Yield items with ratings, a line each, in the order in which tasks name them."""
    counted = main_tasks(tasks)
    replies = [task for task in counted if task.kind is StudyKind.RATE_REPLY]
    if replies:
        yield from _reply_items(replies, questions, question)
        return
    if question is not None:
        raise BadInput("only single replies are rated by questions; replies in chats by votes", remedy="no question")
    lines = [line for task in counted for line in _voted_items(task)]
    if not lines:
        raise BadInput("no reply was rated or voted on", remedy="a study of kind rate-reply, or votes in chats")
    yield from lines


def chosen_question(questions: Sequence[AskedQuestion], answered: set[str], question: str | None) -> AskedQuestion:
    """Return the question by its id; without one, the only answered one."""
    usable = [entry for entry in questions if entry.id in answered]
    names = ", ".join(entry.id for entry in usable) or "none"
    if question is None and len(usable) == 1:
        return usable[0]
    match = next((entry for entry in usable if entry.id == question), None)
    if match is None:
        what = "several questions were answered" if question is None else f"no answer to a question {question!r}"
        raise BadInput(what, remedy=f"question, one of: {names}")
    return match


class _RatedItem(TypedDict):
    """A line of a file of items."""

    id: str
    turns: list[str]
    replies: dict[str, str]
    ratings: dict[str, list[float | None]]


def _reply_items(
    replies: Sequence[StudyTask], questions: Sequence[AskedQuestion], question: str | None
) -> Iterator[bytes]:
    rows = list(rating_rows(replies, questions))
    asked_about = chosen_question(questions, {row.question for row in rows}, question)
    people = sorted({row.participant for row in rows})
    items = dict[str, _RatedItem]()
    numbers: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in rows:
        shown = row.task.item or {}
        reply = shown.get("reply")
        if row.question != asked_about.id or not isinstance(reply, str):
            continue
        name = str(shown.get("id", row.task.task))
        entry = items.setdefault(name, {"id": name, "turns": list(context_of(shown)), "replies": {}, "ratings": {}})
        entry["replies"][row.bot] = reply
        numbers.setdefault((name, row.bot), {}).setdefault(row.participant, []).append(row.number)
    for (name, bot), own in numbers.items():
        # the same place in every list is the same participant; null where they did not rate this reply
        items[name]["ratings"][bot] = [_mean(own[person]) if person in own else None for person in people]
    scale = {} if asked_about.least is None else {"scale": [asked_about.least, asked_about.most]}
    for entry in items.values():
        yield orjson.dumps({**entry, **scale}, option=orjson.OPT_APPEND_NEWLINE)


def _mean(numbers: Sequence[float]) -> float:
    mean = sum(numbers) / len(numbers)
    return int(mean) if mean.is_integer() else mean


def _voted_items(task: StudyTask) -> Iterator[bytes]:
    for side in task.sides:
        bot = task.bot_of(side.side)
        before = list[str]()
        for turn in side.turns:
            if turn.role is TurnRole.BOT and turn.vote and before and bot is not None:
                yield orjson.dumps(
                    {
                        "id": f"{task.task}/{side.side.value}/{turn.n}",
                        "turns": list(before),
                        "replies": {bot.bot: turn.text},
                        "ratings": {bot.bot: [turn.vote]},
                        "scale": list(_VOTES),
                    },
                    option=orjson.OPT_APPEND_NEWLINE,
                )
            before.append(turn.text)


def rated_conversations(tasks: Sequence[StudyTask], questions: Sequence[AskedQuestion]) -> Iterator[bytes]:
    """Yield rated dialogues, a line each, which `refaug hybrid` and `refaug studies import` read."""
    counted = [task for task in tasks if task.is_done and task.check in {None, TaskCheck.DEGRADED}]
    scales = {(entry.least, entry.most) for entry in questions if entry.least is not None}
    if len(scales) > 1:
        raise BadInput("the questions have several scales, and conversations have one", remedy="--format jsonl")
    turned = [entry.id for entry in questions if entry.is_reversed]
    is_empty = True
    for task in counted:
        for side in task.sides:
            line = _conversation(task, side.side, questions, turned, scales)
            if line is not None:
                is_empty = False
                yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
    if is_empty:
        raise BadInput("the study has no rated dialogue", remedy="--format items for single replies, acute for pairs")


def _conversation(
    task: StudyTask, side: TaskSideName, questions: Sequence[AskedQuestion], turned: Sequence[str], scales: set[Any]
) -> Mapping[str, Any] | None:
    bot, dialogue = task.bot_of(side), task.side_of(side)
    scales_asked = {entry.id for entry in questions if entry.type is AnswerType.NUMBER}
    ratings = {
        name: answer for name, answer in task.answers_of(side).items() if name in scales_asked and answer is not None
    }
    if bot is None or dialogue is None or not ratings:
        return None
    (scale,) = scales or {(None, None)}
    return {
        "id": task.task if len(task.sides) == 1 else f"{task.task}/{side.value}",
        "participant": task.participant,
        "bot": bot.bot,
        "is_degraded": task.check is TaskCheck.DEGRADED,
        "turns": [
            {"role": turn.role.value, "text": turn.text, **({} if turn.vote is None else {"vote": turn.vote})}
            for turn in dialogue.turns
        ],
        "ratings": ratings,
        **({} if scale[0] is None else {"scale": list(scale)}),
        "reversed": [name for name in turned if name in ratings],
    }
