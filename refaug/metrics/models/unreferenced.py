"""Metrics after papers that compare a reply with no reference, by raters of ours: masked, retrieval, next-utterance.

`masked` is the masked-language part of USR (Mehri and Eskenazi 2020). A network hides one piece of the reply after
another, reads the rest with the turns before, and gives the probability of the piece that it hid. The score is the mean
log p over the pieces, in nats; no piece counts less than −20. An empty reply is never shown to the network: it gets
−20, the least score. The paper adds log p up over the words; the mean does not fall with the length of the reply.

`retrieval` is its dialogue-retrieval part, and `next-utterance` the score of MAUDE (Sinha et al. 2020): both are the
probability that a reply belongs to its turns, by a network that learned to tell true replies from wrong ones. The two
differ in the wrong ones: drawn replies there, and here those with noise, too. An empty reply gets 0.

The networks of the papers are others, which read far more text: a score is named by the network that ran.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, Self

import numpy as np

from refaug.core.errors import BadInput
from refaug.metrics.base import NO_UTTERANCE, Floats, Problem, References
from refaug.metrics.metric_info import MetricInfo
from refaug.metrics.models.model_scores import Judge, ModelScores, RatedReplies, ReplyToRate

LEAST_OF_A_PIECE: Final = -20.0  # nats
NEXT_UTTERANCE: Final = "next-utterance"
_NOISE: Final = "noise"  # negatives: replies whose words were dropped, shuffled or repeated, too
_WITHOUT_GOLD: Final = ("",)


class MaskedModel(Protocol):
    """A source of log p of hidden pieces; scoring implements it with a cross rater."""

    @property
    def spec(self) -> str:
        """The name, version and content of the rater, for signatures."""

    @property
    def turn_separator(self) -> str:
        """What the rater wants between turns."""

    def mean_log_likelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the mean log p of the pieces of each reply after its turns, each hidden alone and at least −20."""

    def remarks(self) -> tuple[str, ...]:
        """Return warnings of what changes the meaning of the likelihoods so far."""


class MaskedReplies(ModelScores[MaskedModel]):
    """The mean log p of the pieces of replies, each hidden; without a network there are none."""

    least = LEAST_OF_A_PIECE

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        super().__init__(info, settings)
        self.turns = int(settings["turns"])

    def with_model(self, model: MaskedModel) -> Self:
        """Return the metric with this network, which the signature names."""
        bound = self.bound(model, {"model": model.spec})
        bound.turn_separator = model.turn_separator
        return bound

    def part_of(self, references: References) -> str | Problem:
        """Return the turns before the replies, as one text."""
        return utterance if (utterance := references.utterance or "").strip() else NO_UTTERANCE

    def scores_of(self, source: MaskedModel, asked: Sequence[tuple[Any, str]]) -> Floats:
        """Return the mean log p of the pieces of each reply."""
        return np.array(source.mean_log_likelihoods(asked), np.float64)


class TruePairs(RatedReplies):
    """The probability that each reply belongs to its turns, by a rater without references."""

    least = 0.0

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        super(RatedReplies, self).__init__(info, settings)  # it has no choice of references
        self.turns = int(settings["turns"])

    def require_negatives(self, negatives: str, rater: str) -> None:
        """Raise BadInput for a rater that did not learn what the metric asks it."""
        if self.info.name == NEXT_UTTERANCE and negatives != _NOISE:
            raise BadInput(
                f"{NEXT_UTTERANCE}: the rater {rater} learned from {negatives or 'unknown'} negatives, not {_NOISE}",
                remedy=f"a rater of refaug train rater LOG --network cross --negatives {_NOISE}",
            )

    def part_of(self, references: References) -> tuple[str, tuple[str, ...]] | Problem:
        """Return the turns before the replies, as one text, and no gold."""
        return (utterance, _WITHOUT_GOLD) if (utterance := references.utterance or "").strip() else NO_UTTERANCE

    def scores_of(self, source: Judge, asked: Sequence[tuple[Any, str]]) -> Floats:
        """Return the probabilities, from ratings between -1 and 1."""
        replies = [ReplyToRate(utterance=turns, golds=golds, reply=reply) for (turns, golds), reply in asked]
        return np.asarray((source.judge(replies, combine="first", cal="raw") + 1) / 2)
