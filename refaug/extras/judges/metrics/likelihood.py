"""Likelihoods of replies under a model of dialogue; the model is not part of this package.

A model gives the log probability of every piece of a reply, and of its end, after a context and after none. A score is
in nats:

- conditional: the mean over the pieces of log p(piece | pieces before, context)
- unconditional: the same without the context
- pmi: log p(reply | context) − log p(reply), the pointwise mutual information of reply and context
- pmi-token: the same a piece, which is the difference of the two means
- worst: the least log p of a piece, given the context.

No piece counts less than −20, and pmi stays between −100 and 100. An empty reply is never shown to the model: it gets
the least score of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, Self

import numpy as np

from refaug.metrics.base import NO_UTTERANCE, Floats, Problem, References
from refaug.metrics.models.model_scores import ModelScores
from refaug.metrics.models.unreferenced import LEAST_OF_A_PIECE

MOST_INFORMATION: Final = 100.0
LEAST: Final[Mapping[str, float]] = {
    "conditional": LEAST_OF_A_PIECE,
    "unconditional": LEAST_OF_A_PIECE,
    "pmi": -MOST_INFORMATION,
    "pmi-token": LEAST_OF_A_PIECE,
    "worst": LEAST_OF_A_PIECE,
}
_TURN_END: Final = "\x1e"
_MOST_TURNS: Final = 64  # a model reads the last ones, as many as it was trained to read

Context = tuple[str, ...]


class PieceLikelihoods(NamedTuple):
    """What scores use of log p of the pieces of a text, none of which counts less than −20; all 0 without pieces."""

    pieces: int
    total: float
    least: float

    @classmethod
    def of(cls, logs: Floats) -> Self:
        """Return them for log p of each piece, in nats."""
        counted = np.maximum(logs, LEAST_OF_A_PIECE)
        return cls(len(counted), float(counted.sum()), float(counted.min(initial=0.0)))

    @property
    def mean(self) -> float:
        """The mean over the pieces."""
        return self.total / self.pieces


class LikelihoodModel(Protocol):
    """A source of likelihoods; the service implements it with a VHRED."""

    @property
    def spec(self) -> str:
        """The name, version and content of the model, for signatures."""

    def log_likelihoods(self, replies: Sequence[tuple[Context, str]]) -> list[PieceLikelihoods]:
        """Return those of the pieces of each reply, and of its end; an empty context is none."""

    def remarks(self) -> tuple[str, ...]:
        """Return warnings of what changes the meaning of the likelihoods so far."""


class LikelyReplies(ModelScores[LikelihoodModel]):
    """How likely replies are; without a model there are no scores."""

    turns = _MOST_TURNS
    turn_separator = _TURN_END

    @property
    def kind(self) -> str:
        """Which likelihood is the score."""
        return self.settings["kind"]

    @property
    def least(self) -> float:  # type: ignore[override]  # it depends on the kind
        """The score of an empty reply."""
        return LEAST[self.kind]

    def with_model(self, model: LikelihoodModel) -> Self:
        """Return the metric with this model, which the signature names."""
        return self.bound(model, {"model": model.spec})

    def part_of(self, references: References) -> Context | Problem:
        """Return the turns before the replies, where the kind looks at any."""
        if self.kind == "unconditional":
            return ()
        return tuple(turn for turn in (references.utterance or "").split(_TURN_END) if turn.strip()) or NO_UTTERANCE

    def scores_of(self, source: LikelihoodModel, asked: Sequence[tuple[Any, str]]) -> Floats:
        """Return the likelihoods of the replies."""
        in_context = source.log_likelihoods(asked)
        alone = (
            source.log_likelihoods([((), reply) for _, reply in asked]) if self.kind.startswith("pmi") else in_context
        )
        return np.array([score_of(self.kind, *logs) for logs in zip(in_context, alone, strict=True)], np.float64)


def score_of(kind: str, in_context: PieceLikelihoods, alone: PieceLikelihoods) -> float:
    """Return the score of a kind, from the likelihoods given the context and without it."""
    if kind == "worst":
        return in_context.least
    if kind == "pmi-token":
        return in_context.mean - alone.mean
    if kind == "pmi":
        return float(np.clip(in_context.total - alone.total, -MOST_INFORMATION, MOST_INFORMATION))
    return in_context.mean
