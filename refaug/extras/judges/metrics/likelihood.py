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
from copy import copy
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from refaug.core.errors import Usage
from refaug.metrics.base import NO_UTTERANCE, Floats, Indexes, MeanMetric, Prepared, References
from refaug.metrics.metric_info import MetricInfo

LEAST_OF_A_PIECE: Final = -20.0  # nats
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


class LikelihoodModel(Protocol):
    """A source of likelihoods; the service implements it with a VHRED."""

    @property
    def spec(self) -> str:
        """The name, version and content of the model, for signatures."""

    def log_likelihoods(self, replies: Sequence[tuple[Context, str]]) -> list[Floats]:
        """Return log p of each piece of each reply, and of its end, in nats; an empty context is none."""

    def remarks(self) -> tuple[str, ...]:
        """Return warnings of what changes the meaning of the likelihoods so far."""


@dataclass(frozen=True, kw_only=True)
class PreparedContexts(Prepared):
    """The turns before the replies to each item, or None where there are none."""

    contexts: Sequence[Context | None]


class LikelyReplies(MeanMetric):
    """How likely replies are; without a model there are no scores."""

    turns = _MOST_TURNS
    turn_separator = _TURN_END

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        self.info = info
        self.settings = dict(settings)
        self._model: LikelihoodModel | None = None

    @property
    def model(self) -> str:
        """The name of the model, as specifications and signatures write it."""
        if not self.settings["model"]:
            raise self.info.models[0].missing(self.info.name)
        return self.settings["model"]

    @property
    def kind(self) -> str:
        """Which likelihood is the score."""
        return self.settings["kind"]

    def with_model(self, model: LikelihoodModel) -> LikelyReplies:
        """Return the metric with this model, which the signature names."""
        copied = copy(self)
        copied.settings = {**self.settings, "model": model.spec}
        copied._model = model  # noqa: SLF001
        return copied

    def prepare(self, references: Sequence[References]) -> PreparedContexts:
        """Return the context of each item."""
        self._require_model()
        contexts = [self._context(of_item.utterance or "") for of_item in references]
        return PreparedContexts(
            items=len(contexts),
            problems={place: NO_UTTERANCE for place, context in enumerate(contexts) if context is None},
            contexts=contexts,
        )

    def _context(self, joined: str) -> Context | None:
        if self.kind == "unconditional":
            return ()
        turns = tuple(turn for turn in joined.split(_TURN_END) if turn.strip())
        return turns or None

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return a score and a count for each row."""
        assert isinstance(prepared, PreparedContexts)
        model = self._require_model()
        scores = np.full(len(item_places), np.nan)
        likely, rows = list[tuple[Context, str]](), list[int]()
        for row, (reply_place, item_place) in enumerate(zip(reply_places.tolist(), item_places.tolist(), strict=True)):
            context = prepared.contexts[item_place]
            if context is None:
                continue
            if not replies[reply_place].strip():
                scores[row] = LEAST[self.kind]
                continue
            likely.append((context, replies[reply_place]))
            rows.append(row)
        if likely:
            scores[rows] = self._scores(model, likely)
        return self.rows(scores)

    def _scores(self, model: LikelihoodModel, replies: Sequence[tuple[Context, str]]) -> Floats:
        given = model.log_likelihoods(replies)
        alone = model.log_likelihoods([((), reply) for _, reply in replies]) if self.kind.startswith("pmi") else given
        return np.array([score_of(self.kind, *logs) for logs in zip(given, alone, strict=True)], np.float64)

    def remarks(self) -> tuple[str, ...]:
        """Return the model's remarks."""
        return () if self._model is None else self._model.remarks()

    def _require_model(self) -> LikelihoodModel:
        if self._model is None:
            raise Usage(f"{self.info.name} with model={self.model} is not bound to it", remedy="report this")
        return self._model


def score_of(kind: str, given: Floats, alone: Floats) -> float:
    """Return the score of a kind, from log p of each piece given the context and without it."""
    given, alone = np.maximum(given, LEAST_OF_A_PIECE), np.maximum(alone, LEAST_OF_A_PIECE)
    if kind == "worst":
        return float(given.min())
    if kind == "pmi-token":
        return float(given.mean() - alone.mean())
    if kind == "pmi":
        return float(np.clip(given.sum() - alone.sum(), -MOST_INFORMATION, MOST_INFORMATION))
    return float(given.mean())
