"""Conversations judged turn by turn: the course of each, the means of each bot, and what people said of the whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.evaluation.conversations.reading import require_one_scale
from refaug.evaluation.conversations.records import Conversation
from refaug.evaluation.conversations.turn_scores import TurnScores
from refaug.metrics.conversations.course import FIGURES
from refaug.metrics.hybrid.agreement import agreement_of_bots, within_bots
from refaug.metrics.hybrid.fit import defined_means

Floats = NDArray[np.float64]


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
    """Raise Usage for a question that no conversation has."""
    if target is not None and not any(target in talk.ratings for talk in conversations):
        questions = ", ".join(sorted({question for talk in conversations for question in talk.ratings})) or "none"
        raise Usage(f"no conversation has a rating called {target!r}", remedy=f"the questions are: {questions}")


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
