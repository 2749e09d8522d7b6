"""Pairs of a better and a worse reply to the same context, as trainers of preferences (DPO) read them.

From choices between two replies: the reply that more participants chose. From ratings of single replies: the reply with
the higher mean, between every two replies to one item. Where people are even there is no pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import orjson

from refaug.core.errors import BadInput
from refaug.evaluation.studies.exports.rated_items import chosen_question
from refaug.evaluation.studies.questions import AskedQuestion, choice_rows, main_tasks, rating_rows
from refaug.evaluation.studies.records import StudyKind, StudyTask
from refaug.evaluation.studies.report.beside import context_of


def preference_pairs(
    tasks: Sequence[StudyTask], questions: Sequence[AskedQuestion], question: str | None
) -> Iterator[bytes]:
    """Yield prompt, chosen and rejected, a line each, with the number of participants behind it."""
    counted = main_tasks(tasks)
    chosen = [task for task in counted if task.kind is StudyKind.PAIR_REPLY]
    rated = [task for task in counted if task.kind is StudyKind.RATE_REPLY]
    if not chosen and not rated:
        raise BadInput(
            "preferences need replies to one context, and the study has none",
            remedy="a study of kind pair-reply or rate-reply",
        )
    lines = [*_of_choices(chosen, questions, question)] if chosen else [*_of_ratings(rated, questions, question)]
    for line in lines:
        yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def _of_choices(
    tasks: Sequence[StudyTask], questions: Sequence[AskedQuestion], question: str | None
) -> Iterator[dict[str, object]]:
    rows = list(choice_rows(tasks, questions))
    asked_about = chosen_question(questions, {row.question for row in rows}, question)
    votes: dict[tuple[str, str, str], list[int]] = {}
    shown_of: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        shown = row.task.item or {}
        if row.question != asked_about.id or not isinstance(shown.get("replies"), Mapping):
            continue
        name = str(shown.get("id", row.task.task))
        shown_of[name] = {**shown, "replies": {**shown_of.get(name, {}).get("replies", {}), **shown["replies"]}}
        first, second, outcome = (
            (row.left, row.right, row.outcome) if row.left < row.right else (row.right, row.left, -row.outcome)
        )
        votes.setdefault((name, first, second), []).append(outcome)
    for (name, first, second), outcomes in votes.items():
        total = sum(outcomes)
        if total:
            better, worse = (first, second) if total > 0 else (second, first)
            yield _pair(name, shown_of[name], shown_of[name]["replies"], better, worse, len(outcomes), abs(total))


def _of_ratings(
    tasks: Sequence[StudyTask], questions: Sequence[AskedQuestion], question: str | None
) -> Iterator[dict[str, object]]:
    rows = list(rating_rows(tasks, questions))
    asked_about = chosen_question(questions, {row.question for row in rows}, question)
    numbers: dict[str, dict[str, list[float]]] = {}
    replies: dict[str, dict[str, str]] = {}
    shown_of: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        shown = row.task.item or {}
        if row.question != asked_about.id or not isinstance(shown.get("reply"), str):
            continue
        name = str(shown.get("id", row.task.task))
        shown_of.setdefault(name, shown)
        replies.setdefault(name, {})[row.bot] = shown["reply"]
        numbers.setdefault(name, {}).setdefault(row.bot, []).append(row.number)
    for name, of_bots in numbers.items():
        for first, second in combinations(sorted(of_bots), 2):
            gap = sum(of_bots[first]) / len(of_bots[first]) - sum(of_bots[second]) / len(of_bots[second])
            if gap and replies[name][first] != replies[name][second]:
                better, worse = (first, second) if gap > 0 else (second, first)
                people = min(len(of_bots[first]), len(of_bots[second]))
                yield _pair(name, shown_of[name], replies[name], better, worse, people, abs(gap))


def _pair(
    name: str, shown: Mapping[str, Any], replies: Mapping[str, str], better: str, worse: str, people: int, margin: float
) -> dict[str, object]:
    context = context_of(shown)
    roles = ["user" if (len(context) - place) % 2 else "assistant" for place in range(len(context))]
    return {
        "prompt": [{"role": role, "content": text} for role, text in zip(roles, context, strict=True)],
        "chosen": [{"role": "assistant", "content": replies[better]}],
        "rejected": [{"role": "assistant", "content": replies[worse]}],
        "item": name,
        "chosen_bot": better,
        "rejected_bot": worse,
        "participants": people,
        "margin": margin,
    }
