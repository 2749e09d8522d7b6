"""Choices between two bots: wins, losses and ties of every pair, sides, and Bradley–Terry strengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from refaug.evaluation.studies.questions import ChoiceRow
from refaug.evaluation.studies.records import StudyTask, TaskSideName, TurnRole
from refaug.metrics.statistics.bradley_terry import BradleyTerry, PairVote, bradley_terry
from refaug.metrics.statistics.correlation import holm
from refaug.metrics.statistics.pairwise import PairOutcome, ShareEstimate, pair_outcome, wilson


@dataclass(frozen=True, kw_only=True)
class PairFigure:
    """The choices between two bots, and the p of their sign tests corrected for the number of pairs."""

    first: str
    second: str
    outcome: PairOutcome
    dropped_holm: float | None
    halved_holm: float | None


@dataclass(frozen=True, kw_only=True)
class PairFigures:
    """All choices of one question. `is_left` is how often the left side won among choices that are no ties."""

    pairs: tuple[PairFigure, ...]
    is_left: ShareEstimate
    strengths: BradleyTerry
    davidson: BradleyTerry | None  # where there are ties
    with_length: BradleyTerry | None  # where replies are at hand


def pair_figures(
    rows: Sequence[ChoiceRow], *, draws: int, seed: int, level: float, ties: str = "half"
) -> PairFigures | None:
    """Return the figures of the rows of one question; None without any."""
    if not rows:
        return None
    lengths = [length_difference(row.task) for row in rows]
    votes = [
        PairVote(
            first=row.left,
            second=row.right,
            outcome=row.outcome,
            participant=row.participant,
            covariate=length or 0.0,
        )
        for row, length in zip(rows, lengths, strict=True)
    ]
    decided = [row.outcome for row in rows if row.outcome]
    has_lengths = all(length is not None for length in lengths) and any(lengths)
    return PairFigures(
        pairs=_pairs(rows, level),
        is_left=wilson(decided.count(1), len(decided), level),
        strengths=bradley_terry(votes, draws=draws, seed=seed, level=level),
        davidson=bradley_terry(votes, ties="davidson", draws=draws, seed=seed, level=level)
        if len(decided) < len(rows)
        else None,
        with_length=bradley_terry(votes, ties=ties, with_covariate=True, draws=draws, seed=seed, level=level)
        if has_lengths
        else None,
    )


def _pairs(rows: Sequence[ChoiceRow], level: float) -> tuple[PairFigure, ...]:
    counts: dict[tuple[str, str], Counter[int]] = {}
    for row in rows:
        first, second, outcome = (
            (row.left, row.right, row.outcome) if row.left < row.right else (row.right, row.left, -row.outcome)
        )
        counts.setdefault((first, second), Counter())[outcome] += 1
    outcomes = {pair: pair_outcome(each[1], each[-1], each[0], level) for pair, each in sorted(counts.items())}
    dropped = holm([outcome.p_dropped for outcome in outcomes.values()])
    halved = holm([outcome.p_halved for outcome in outcomes.values()])
    return tuple(
        PairFigure(first=first, second=second, outcome=outcome, dropped_holm=p_dropped, halved_holm=p_halved)
        for ((first, second), outcome), p_dropped, p_halved in zip(outcomes.items(), dropped, halved, strict=True)
    )


def length_difference(task: StudyTask) -> float | None:
    """Return by how much the left bot's replies are longer: (left − right) / (left + right), in words."""
    left_words, right_words = (_words(task, side) for side in (TaskSideName.LEFT, TaskSideName.RIGHT))
    if left_words + right_words == 0:
        return None
    return (left_words - right_words) / (left_words + right_words)


def _words(task: StudyTask, side: TaskSideName) -> int:
    dialogue, bot = task.side_of(side), task.bot_of(side)
    texts = [turn.text for turn in dialogue.turns if turn.role is TurnRole.BOT] if dialogue is not None else []
    replies = (task.item or {}).get("replies")
    if not texts and isinstance(replies, dict) and bot is not None:
        texts = [str(replies.get(bot.bot, ""))]
    return sum(len(text.split()) for text in texts)
