"""From similarities to probabilities: how alike right replies are, and wrong ones, outside what a network learned from.

A reply is like the turns that it answers, and like a response that is known to fit. In a log pair the true reply *is*
the response, so the second similarity is weighed on different responses to one utterance alone; where a log has too
few of them, it counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from refaug.core.errors import BadInput
from refaug.rater.training.accuracy import ReplyPredictions, fit_logistic
from refaug.rater.training.pair_corpus import LogPairs, ReplyDraws, Rows

KIND_NAMES: Final = ("random", "parrot")  # of wrong replies
RANDOM, PARROT = range(2)
_MOST_MEASURED: Final = 20_000  # pairs
_LEAST_KNOWN: Final = 200  # pairs with another response to the utterance

Texts = NDArray[Any]
# Both similarities (pairs, 2), of utterances, known responses and replies, as texts.
Similarities = Callable[[Texts, Texts, Texts], NDArray[np.float64]]


class Calibrated(Protocol):
    """A network whose logits are sums of similarities."""

    without_known: Tensor  # weight of the similarity to the turns, constant
    with_known: Tensor  # weights of both similarities, constant


def initial_weights() -> dict[str, Tensor]:
    """Return weights by which logits are the similarity to the turns."""
    return {"without_known": torch.tensor([1.0, 0.0]), "with_known": torch.tensor([1.0, 0.0, 0.0])}


def logits_of(network: Calibrated, similarities: Tensor, has_known: Tensor) -> Tensor:
    """Return logits (replies,) of similarities (replies, 2)."""
    alone = similarities[:, 0] * network.without_known[0] + network.without_known[1]
    return torch.where(has_known, similarities @ network.with_known[:2] + network.with_known[2], alone)


def calibrate(
    network: Calibrated, pairs: LogPairs, rows: Rows, similarities: Similarities, seed: int
) -> dict[str, object]:
    """Weigh the similarities by half of some pairs, measure on the other half, and return the figures of a report."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(rows)[:_MOST_MEASURED]
    is_fitted = np.isin(pairs.asked[chosen], np.unique(pairs.asked[chosen])[::2])  # whole utterances
    if not 0 < is_fitted.sum() < len(chosen):
        raise BadInput(
            "all pairs outside the fit have the same utterance", remedy="give more logs, or another --validation-share"
        )
    draws = ReplyDraws(pairs, rows)
    fitted, measured = (
        _Measured.of(similarities, pairs, draws, some, rng) for some in (chosen[is_fitted], chosen[~is_fitted])
    )
    known_count = int(fitted.has_known.sum())
    alone = fit_logistic(*fitted.examples(with_known=False))
    is_known_used = known_count >= _LEAST_KNOWN
    beside = fit_logistic(*fitted.examples(with_known=True)) if is_known_used else np.insert(alone, 1, 0.0)
    network.without_known, network.with_known = torch.from_numpy(alone).float(), torch.from_numpy(beside).float()
    predictions = measured.predictions(alone)
    of_random = predictions.of_kind(RANDOM)
    return {
        "known_responses": {"pairs": known_count, "used": is_known_used},
        "weights": {"without_known": alone.tolist(), "with_known": beside.tolist()},
        "validation_loss": of_random.loss,
        "validation_accuracy": of_random.accuracy,
        **of_random.quality(KIND_NAMES),
        "auc_by_kind": {name: predictions.auc(kind) for kind, name in enumerate(KIND_NAMES)},
    }


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """The similarities (pairs, 2) of right replies, of replies from elsewhere, and of the utterances themselves."""

    right: NDArray[np.float64]
    random: NDArray[np.float64]
    parrot: NDArray[np.float64]
    has_known: NDArray[np.bool_]

    @classmethod
    def of(
        cls, similarities: Similarities, pairs: LogPairs, draws: ReplyDraws, rows: Rows, rng: np.random.Generator
    ) -> _Measured:
        known, turns = draws.known(rows, 1.0, rng), pairs.utterance[rows]
        right, random, parrot = (
            similarities(turns, np.maximum(known, 0), replies)
            for replies in (pairs.reply[rows], draws.random(rows, rng), turns)
        )
        return cls(right=right, random=random, parrot=parrot, has_known=known >= 0)

    def examples(self, *, with_known: bool) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the features of right and random replies, and which are right."""
        rows = self.has_known if with_known else np.ones(len(self.right), np.bool_)
        columns = slice(2 if with_known else 1)
        features = np.concatenate([self.right[rows, columns], self.random[rows, columns]])
        return features, np.arange(len(features)) < len(features) // 2

    def predictions(self, weights: NDArray[np.float64]) -> ReplyPredictions:
        """Return the log-odds of all replies without a known response."""
        cosines = np.concatenate([self.right[:, 0], self.random[:, 0], self.parrot[:, 0]])
        kinds = np.repeat([-1, RANDOM, PARROT], len(self.right))
        return ReplyPredictions(cosines * weights[0] + weights[1], kinds < 0, kinds)
