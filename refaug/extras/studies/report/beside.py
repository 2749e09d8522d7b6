"""Metrics beside people: the very replies that a study asked about, scored, and how far the scores agree with people.

Every reply of a bot is scored in its context; a dialogue has the mean, the worst, and the other figures of its course.
A hybrid metric that was fitted before scores whole dialogues.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

import numpy as np

from refaug.core.errors import BadInput
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.extras.conversations.hybrid_metric.agreement import agreement_of_bots
from refaug.extras.conversations.judged import JudgedConversations, TurnJudges, judge_turns
from refaug.extras.conversations.metrics.exchanges import Side
from refaug.extras.conversations.reading import Conversation
from refaug.extras.studies.questions import (
    AskedQuestion,
    choice_rows,
    main_tasks,
    rating_rows,
)
from refaug.extras.studies.records import StudyTask, TaskSideName, TurnRole
from refaug.metrics.statistics.pairwise import wilson

_SIDES: Final = {TurnRole.PARTICIPANT: Side.PERSON, TurnRole.BOT: Side.BOT}


@dataclass(frozen=True, kw_only=True)
class ScoredHybrid:
    """The scores of a hybrid metric by the id of the dialogue, and its signature."""

    name: str
    signature: str
    scores: Mapping[str, float]


def dialogues_of(tasks: Sequence[StudyTask], questions: Sequence[AskedQuestion]) -> list[Conversation]:
    """Return what people judged in finished tasks as conversations, one for each side, with their ratings.

    A single reply in a context is a conversation of one turn that begins with the context. Ratings are turned, so that
    higher is better.
    """
    talks = list[Conversation]()
    for task in main_tasks(tasks):
        ratings: dict[TaskSideName, dict[str, float]] = {}
        for row in rating_rows([task], questions):
            ratings.setdefault(row.side, {})[row.question] = row.number
        for bot in task.bots:
            start, turns = _turns(task, bot.side, bot.bot)
            if any(side is Side.BOT and text.strip() for side, text in turns):
                talks.append(
                    Conversation(
                        id=dialogue_id(task, bot.side),
                        bot=bot.bot,
                        turns=turns,
                        start=start,
                        ratings=ratings.get(bot.side, {}),
                        participant=task.participant,
                    )
                )
    return talks


def dialogue_id(task: StudyTask, side: TaskSideName) -> str:
    """Return the id of one side's dialogue."""
    return task.task if side is TaskSideName.ONE else f"{task.task}/{side.value}"


def metrics_beside(
    home: Settings,
    tasks: Sequence[StudyTask],
    questions: Sequence[AskedQuestion],
    judges: TurnJudges | None,
    progress: Progress,
    *,
    hybrids: Sequence[ScoredHybrid] = (),
    level: float = 0.95,
) -> dict[str, object]:
    """Return the agreement of metrics with these people, as the report has it."""
    talks = dialogues_of(tasks, questions)
    if not talks:
        raise BadInput("no finished task has a reply that could be scored", remedy="a study of chats or replies")
    judged = judge_turns(home, talks, judges, progress) if judges is not None else []
    ratings = list[dict[str, object]]()
    asked_of = sorted({question for talk in talks for question in talk.ratings})
    for question in asked_of:
        agreement = JudgedConversations(conversations=talks, judged=judged, target=question).agreement()
        for name, figures in (agreement["figures"] if agreement is not None else {}).items():
            ratings += [
                {"metric": name, "figure": figure, "question": question, **of} for figure, of in figures.items()
            ]
        ratings += [_hybrid_agreement(hybrid, talks, question) for hybrid in hybrids]
    means = {scores.name: _means(talks, scores.scores) for scores in judged}
    means |= {hybrid.name: dict(hybrid.scores) for hybrid in hybrids}
    return {
        "dialogues": len(talks),
        "ratings": ratings,
        "choices": _choices(tasks, questions, means, level),
        "signatures": {
            **{scores.name: scores.signature.full for scores in judged},
            **{hybrid.name: hybrid.signature for hybrid in hybrids},
        },
    }


def _turns(task: StudyTask, side: TaskSideName, bot: str) -> tuple[tuple[str, ...], tuple[tuple[Side, str], ...]]:
    """Return what stands before the dialogue, and its turns."""
    dialogue = task.side_of(side)
    if dialogue is not None and dialogue.turns:
        return (), tuple((_SIDES[turn.role], turn.text) for turn in dialogue.turns)
    shown = task.item or {}
    replies = shown.get("replies")
    reply = replies.get(bot) if isinstance(replies, Mapping) else shown.get("reply")
    if not isinstance(reply, str):
        return (), ()
    return context_of(shown), ((Side.BOT, reply),)


def context_of(shown: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the turns before a reply, whichever way an item has them."""
    turns = shown.get("turns", [shown["utterance"]] if "utterance" in shown else [])
    return tuple(str(turn.get("text", "")) if isinstance(turn, Mapping) else str(turn) for turn in turns)


def _means(talks: Sequence[Conversation], scores: Sequence[np.ndarray[Any, np.dtype[np.float64]]]) -> dict[str, float]:
    return {
        talk.id: float(np.nanmean(own))
        for talk, own in zip(talks, scores, strict=True)
        if len(own) and not np.isnan(own).all()
    }


def _hybrid_agreement(hybrid: ScoredHybrid, talks: Sequence[Conversation], question: str) -> dict[str, object]:
    """Return the correlation of a hybrid's mean scores with the mean ratings, over bots."""
    rated: dict[str, list[tuple[float, float]]] = {}
    for talk in talks:
        if question in talk.ratings and isfinite(score := hybrid.scores.get(talk.id, float("nan"))):
            rated.setdefault(talk.bot, []).append((score, talk.ratings[question]))
    scores, means = (
        np.array([np.mean([pair[column] for pair in rated[bot]]) for bot in sorted(rated)], np.float64)
        for column in (0, 1)
    )
    figures = agreement_of_bots(scores, means)
    return {
        "metric": hybrid.name,
        "figure": "whole",
        "question": question,
        "bots": figures.bots,
        "pearson": figures.pearson,
        "spearman": figures.spearman,
        "within_bots": None,
        "reason": figures.reason,
    }


def _choices(
    tasks: Sequence[StudyTask],
    questions: Sequence[AskedQuestion],
    means: Mapping[str, Mapping[str, float]],
    level: float,
) -> list[dict[str, object]]:
    """Return in how many decided choices the metric gives the chosen side the higher score."""
    agreed, people = dict[tuple[str, str], list[bool]](), defaultdict[tuple[str, str], set[str]](set)
    for row in choice_rows(main_tasks(tasks), questions):
        for metric, scores in means.items():
            score_left, score_right = (
                scores.get(dialogue_id(row.task, side)) for side in (TaskSideName.LEFT, TaskSideName.RIGHT)
            )
            if row.outcome and score_left is not None and score_right is not None and score_left != score_right:
                agreed.setdefault((metric, row.question), []).append((score_left > score_right) == (row.outcome > 0))
                people[metric, row.question].add(row.participant)
    return [
        {
            "metric": metric,
            "question": question,
            "choices": len(votes),
            "agreed": sum(votes),
            "share": {"value": share.value, "low": share.low, "high": share.high},
        }
        for (metric, question), votes in sorted(agreed.items())
        for share in [wilson(sum(votes), len(votes), level).among(len(people[metric, question]))]
    ]
