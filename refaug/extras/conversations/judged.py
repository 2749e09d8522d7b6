"""Conversations judged turn by turn: the course of each, the means of each bot, and what people said of the whole."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.agreement.records import ComparedMetric
from refaug.agreement.row_scores import scores_of_rows
from refaug.core.errors import BadInput, Usage
from refaug.core.home import Settings
from refaug.core.options.decoding import as_values
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.extras.conversations.hybrid_metric.agreement import agreement_of_bots, within_bots
from refaug.extras.conversations.hybrid_metric.fit import defined_means
from refaug.extras.conversations.options import TurnReferences
from refaug.extras.conversations.reading import Conversation, require_one_scale
from refaug.extras.judges.fitted.scoring import unrated_rows
from refaug.metrics.signature import Signature
from refaug.scoring.copies import reference_copy_warning
from refaug.scoring.items import BadItem
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.metric_setup.scoring_steps import bound_metrics, chosen_metrics, find_references, without_content
from refaug.scoring.provenance import Provenance, with_provenance

# ── The course of a conversation: what the scores of a bot's replies, one after the other, say of the whole ───────────

Floats = NDArray[np.float64]
FIGURES: Final = ("mean", "worst", "slope", "first", "second")


@dataclass(frozen=True, kw_only=True, slots=True)
class Course:
    """Figures of the scores of a conversation; NaN where one is not defined."""

    mean: float
    worst: float
    slope: float  # of the least-squares line through the scores, a reply further
    first: float  # the mean of the first half of the replies; a reply in the middle belongs to neither
    second: float
    scored: int
    replies: int


def course_of(scores: Floats) -> Course:
    """Return the course of scores that are higher for better replies, in order; NaN is a reply without a score."""
    places = np.flatnonzero(~np.isnan(scores))
    half = len(scores) // 2
    return Course(
        mean=_mean(scores),
        worst=float(scores[places].min()) if len(places) else math.nan,
        slope=_slope(places.astype(np.float64), scores[places]),
        first=_mean(scores[:half]),
        second=_mean(scores[len(scores) - half :]),
        scored=len(places),
        replies=len(scores),
    )


def _slope(places: Floats, scores: Floats) -> float:
    if len(places) < 2:
        return math.nan
    distances = places - places.mean()
    return float(distances @ (scores - scores.mean()) / (distances @ distances))


def _mean(scores: Floats) -> float:
    defined = scores[~np.isnan(scores)]
    return math.fsum(defined) / len(defined) if len(defined) else math.nan


# ── The turns of conversations, scored ────────────────────────────────────────────────────────────────────────────────
#
# Every reply of the bot is scored in its context, without any reference of people.
#
# Metrics that need references get those that an index holds for the utterance; a conversation has no gold.

SYSTEM = "bot"


@dataclass(frozen=True, kw_only=True)
class TurnJudges:
    """The metrics that score replies, and what they need."""

    metrics: Sequence[str]
    models: ModelRegistry
    index: str | None = None
    references: TurnReferences = field(default_factory=TurnReferences)

    def as_json(self) -> dict[str, Any]:
        """Return everything that the scores depend on, as manifests have it."""
        return {
            "metrics": list(self.metrics),
            "rater": self.models.default_rater,
            "index": self.index,
            "references": as_values(self.references),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class TurnScores:
    """The scores of one metric, conversation by conversation; higher is better, whatever the metric's own sign."""

    name: str
    signature: Signature
    is_turned: bool  # whether the scores are the negative of the metric's
    scores: tuple[Floats, ...]  # of the replies in order, NaN where the metric has none

    def courses(self) -> list[Course]:
        """Return the course of every conversation."""
        return [course_of(scores) for scores in self.scores]


def judge_turns(
    home: Settings, conversations: Sequence[Conversation], judges: TurnJudges, progress: Progress
) -> list[TurnScores]:
    """Score every reply by every metric; BadInput where a metric scores none."""
    items, counts = _items_of(conversations)
    if not items:
        raise BadInput("no reply has a turn before it", remedy="judge conversations that a person or a start begins")
    references, provenance = _with_references(home, items, judges, progress)
    for warning in _copy_warnings(references, [talk.bot for talk in conversations]):
        progress.warn(warning)
    models, settings = judges.models, judges.references
    rows = unrated_rows("turns", references)
    scores = list[TurnScores]()
    for name in judges.metrics:
        chosen = chosen_metrics([name], rows.items, models, provenance, references=settings, progress=progress)
        [bound] = bound_metrics(chosen, models, provenance, augmenting=settings, progress=progress)
        compared = ComparedMetric(name=name, metric=bound)
        progress.stage(f"score turns, {name}", len(rows.rows), "replies")
        scored = scores_of_rows(rows, bound, progress)
        if not np.isfinite(scored.values).any():
            reasons = ", ".join(sorted({problem.message for problem in scored.problems.values()})[:3])
            raise BadInput(
                f"no reply has a score by {name}: {reasons}", remedy="a metric without a gold; docs/hybrid.md"
            )
        of_item = dict(zip((rows.items[row.item].id for row in rows.rows), scored.values.tolist(), strict=True))
        ordered = np.array([of_item.get(entry.id, np.nan) for entry in items], np.float64)  # bad items have none
        scores.append(
            TurnScores(
                name=name,
                signature=scored.signature,
                is_turned=compared.turned,
                scores=tuple(np.split(-ordered if compared.turned else ordered, np.cumsum(counts)[:-1])),
            )
        )
    return scores


def _items_of(conversations: Sequence[Conversation]) -> tuple[list[Item], list[int]]:
    """Return an item for each reply, and the number of replies of each conversation."""
    items, counts = list[Item](), list[int]()
    for number, conversation in enumerate(conversations):
        replies = conversation.replies()
        counts.append(len(replies))
        items += [
            Item(id=f"{number}/{place}", turns=entry.context, replies={SYSTEM: entry.reply})
            for place, entry in enumerate(replies)
        ]
    return items, counts


def _with_references(
    home: Settings, items: Sequence[Item], judges: TurnJudges, progress: Progress
) -> tuple[list[Item | BadItem], Provenance | None]:
    if judges.index is None:
        return list(items), None
    rater = without_content(judges.models.default_rater) if judges.references.needs_rater else None
    augmented, provenance = find_references(
        home, items, judges.index, rater, judges.references, judges.models.threads, progress
    )
    line = provenance.line
    return [entry if isinstance(entry, BadItem) else with_provenance(entry, line) for entry in augmented], provenance


def _copy_warnings(items: Sequence[Item | BadItem], bots: Sequence[str]) -> Iterator[str]:
    """Warn of bots whose replies are their own references; `bots` has the bot of each conversation."""
    named = [
        replace(entry, replies={bots[int(entry.id.partition("/")[0])]: entry.replies[SYSTEM]})
        for entry in items
        if isinstance(entry, Item)
    ]
    return reference_copy_warning(named, dict.fromkeys(bots))


def turn_details(judged: Sequence[TurnScores]) -> dict[str, str]:
    """Return the metrics of turns as signatures of hybrids name them: by name, and by a hash of how each scores."""
    if not judged:
        return {}
    digest = hashlib.sha256("\n".join(scores.signature.full for scores in judged).encode()).hexdigest()
    return {"turns": f"[{'+'.join(scores.name for scores in judged)}#{digest[:12]}]"}


# ── Conversations judged turn by turn: the course of each, the means of each bot, and what people said of the whole ───


@dataclass(frozen=True, kw_only=True, eq=False)
class JudgedConversations:
    """Conversations with the scores of their replies by each metric, higher for better ones."""

    conversations: Sequence[Conversation]
    judged: Sequence[TurnScores]
    target: str | None = None  # the question that figures are compared with; None: the mean over all

    def as_json(self) -> dict[str, Any]:
        """Return every score, the courses, the means of bots, and the agreement with ratings where there are any."""
        courses = {scores.name: scores.courses() for scores in self.judged}
        return {
            "metrics": [
                {
                    "name": scores.name,
                    "signature": scores.signature.short,
                    "signature_full": scores.signature.full,
                    "turned": scores.is_turned,
                }
                for scores in self.judged
            ],
            "bots": self.bots(),
            "agreement": self.agreement(),
            "conversations": [
                {
                    "id": talk.id,
                    "bot": talk.bot,
                    "scores": {
                        scores.name: {
                            **{name: _or_none(figure) for name, figure in asdict(courses[scores.name][place]).items()},
                            "turns": [_or_none(score) for score in scores.scores[place].tolist()],
                        }
                        for scores in self.judged
                    },
                }
                for place, talk in enumerate(self.conversations)
            ],
        }

    def bots(self) -> list[dict[str, Any]]:
        """Return the mean of each figure over the conversations with each bot that have it; None where none has it."""
        labels = np.array([talk.bot for talk in self.conversations])
        rows = []
        for bot in dict.fromkeys(labels.tolist()):
            is_bot = labels == bot
            figures = {
                scores.name: dict(
                    zip(FIGURES, map(_or_none, defined_means(self._figures(scores)[is_bot]).tolist()), strict=True)
                )
                for scores in self.judged
            }
            rows.append({"bot": bot, "conversations": int(is_bot.sum()), "figures": figures})
        return rows

    def agreement(self) -> dict[str, Any] | None:
        """Return how far each figure agrees with people over bots and within them; None where nothing is rated."""
        rated = [
            (place, rating)
            for place, talk in enumerate(self.conversations)
            if (rating := talk.rating(self.target)) is not None
        ]
        if not rated:
            return None
        require_one_scale([self.conversations[place] for place, _ in rated])
        places = [place for place, _ in rated]
        ratings = np.array([rating for _, rating in rated], np.float64)
        names = sorted({self.conversations[place].bot for place in places})
        bots = np.array([names.index(self.conversations[place].bot) for place in places], np.int64)
        return {
            "conversations": len(rated),
            "target": self.target or "mean",
            "figures": {
                scores.name: {
                    name: _agreement(column, ratings, bots)
                    for name, column in zip(FIGURES, self._figures(scores)[places].T, strict=True)
                }
                for scores in self.judged
            },
        }

    def _figures(self, scores: TurnScores) -> Floats:
        """Return the figures of every conversation, (conversations, figures)."""
        return np.array([[getattr(course, name) for name in FIGURES] for course in scores.courses()], np.float64)


def require_target(conversations: Sequence[Conversation], target: str | None) -> None:
    """Raise Usage for a question that no conversation has, and BadInput for answers on several scales."""
    if target is not None and not any(target in talk.ratings for talk in conversations):
        questions = ", ".join(sorted({question for talk in conversations for question in talk.ratings})) or "none"
        raise Usage(f"no conversation has a rating called {target!r}", remedy=f"the questions are: {questions}")
    require_one_scale([talk for talk in conversations if talk.rating(target) is not None])


def _agreement(column: Floats, ratings: Floats, bots: NDArray[np.int64]) -> dict[str, object]:
    """Correlate the means of bots, and conversations within bots, over the conversations that have the figure."""
    is_defined = ~np.isnan(column)
    column, ratings, bots = column[is_defined], ratings[is_defined], bots[is_defined]
    numbers = np.unique(bots)
    figure_means, rating_means = (
        np.array([values[bots == number].mean() for number in numbers], np.float64) for values in (column, ratings)
    )
    return {
        **asdict(agreement_of_bots(figure_means, rating_means)),
        "within_bots": within_bots(column, ratings, bots),
    }


def _or_none(figure: float) -> float | None:
    return None if isinstance(figure, float) and math.isnan(figure) else figure
