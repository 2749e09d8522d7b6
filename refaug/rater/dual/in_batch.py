"""Learning which reply of a batch follows a turn: batches of pairs, and the softmax over their replies.

A batch is of one log, for a network would else tell the replies of other logs by their style alone. Pairs whose replies
are near each other can stand together in runs, so that the wrong replies of a batch are no easy ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.rater.training.accuracy import auc
from refaug.rater.training.loop import VALIDATION_EPOCH, BatchedExamples, BatchResult, ValidationScores
from refaug.rater.training.pair_corpus import LogPairs, PairSettings, ReplyDraws, Rows, Texts

RUN: Final = 8  # pairs with near replies that stand together
_NEVER: Final = -1e9
# Of further wrong replies, which are like the turns. What they teach costs agreement with people: over an encoder, for
# replies with golds, .400 without them, .392 with this weight, .381 with five times as much, and .312 as choices.
_WRONG_WEIGHT: Final = 0.02
_LEAST_KNOWN: Final = 2  # pairs of a batch with another reply, for a softmax over them

# Sorts replies: pairs with the same key stand together. Called with pairs of one log, and what draws.
RunKeys = Callable[[Rows, np.random.Generator], NDArray[Any]]


class ChoiceBatch(NamedTuple):
    """Some pairs of one log, other replies to some of their utterances, and which replies are no wrong ones."""

    rows: Rows
    known: Texts  # of some pairs
    known_rows: NDArray[np.int64]
    fits_too: NDArray[np.bool_]  # (pairs, pairs): whether the reply of another pair may fit, too
    rng: np.random.Generator  # for what else is drawn for the batch


class PairBatches:
    """The pairs of one side in batches; an epoch's number and the settings determine them."""

    def __init__(self, pairs: LogPairs, rows: Rows, settings: PairSettings, keys: RunKeys | None = None) -> None:
        self.rows, self.draws = rows, ReplyDraws(pairs, rows)
        self._pairs, self._settings, self._keys = pairs, settings, keys
        limit = min(len(rows), settings.limit or len(rows))
        by_log = (rows[slice(*bounds)] for bounds in zip(self.draws.bounds, self.draws.bounds[1:], strict=False))
        self._by_log = [(own, max(1, len(own) * limit // len(rows))) for own in by_log if len(own)]

    @property
    def epoch_size(self) -> int:
        """The number of pairs in one epoch."""
        return sum(count for _, count in self._by_log)

    def batch_count(self) -> int:
        """Return the number of batches in an epoch."""
        return sum(max(1, count // self._settings.batch) for _, count in self._by_log)

    def batches(self, number: int, *, skip: int = 0) -> Iterator[ChoiceBatch]:
        """Yield the batches of an epoch after the first `skip`; the remainder of a log is spread over its batches."""
        rng = np.random.default_rng([self._settings.seed, number])
        parts = list[Rows]()
        for own, count in self._by_log:
            chosen = self._in_runs(rng.permutation(own)[:count], rng)
            parts += np.array_split(chosen, max(1, count // self._settings.batch))
        for place, part in enumerate(rng.permutation(len(parts)).tolist()):
            if place >= skip:
                yield self._batch(parts[part], np.random.default_rng([self._settings.seed, number, 1 + place]))

    def _in_runs(self, rows: Rows, rng: np.random.Generator) -> Rows:
        """Return pairs in another order, in which runs of some have near replies."""
        if self._keys is None:
            return rows
        ordered = rows[np.argsort(self._keys(rows, rng), kind="stable")]
        runs = np.array_split(ordered, max(1, len(ordered) // RUN))
        return np.concatenate([runs[run] for run in rng.permutation(len(runs)).tolist()])

    def _batch(self, rows: Rows, rng: np.random.Generator) -> ChoiceBatch:
        known = self.draws.known(rows, 1.0, rng)
        known_rows = np.flatnonzero(known >= 0)
        first, second = np.divmod(np.arange(len(rows) ** 2), len(rows))
        fits_too = ~self._pairs.fits_elsewhere(rows[first], rows[second]).reshape(len(rows), -1)
        return ChoiceBatch(rows, known[known_rows], known_rows, fits_too, rng)


class BatchVectors(NamedTuple):
    """The vectors of a batch, of unit length."""

    turns: Tensor  # (pairs, width)
    replies: Tensor
    known: Tensor  # (known rows, width)
    wrong: Tensor | None = None  # further wrong replies of each pair, (pairs, kinds, width); 0 where there is none


def choice_loss(vectors: BatchVectors, batch: ChoiceBatch, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss of choosing among the replies and turns of a batch, and the logits of all turns and replies.

    The reply to each turn is chosen, the turn of each reply, and the reply that fits a known one.
    """
    turns, replies, known, wrong = vectors
    own = torch.arange(len(turns), device=turns.device)
    hidden = torch.from_numpy(batch.fits_too & ~np.eye(len(turns), dtype=np.bool_)).to(turns.device)
    logits = (turns @ replies.T * scale).masked_fill(hidden, _NEVER)
    loss = (nn.functional.cross_entropy(logits, own) + nn.functional.cross_entropy(logits.T, own)) / 2
    if len(batch.known_rows) >= _LEAST_KNOWN:
        rows = torch.from_numpy(batch.known_rows).to(turns.device)
        alike = (known @ replies.T * scale).masked_fill(hidden[rows], _NEVER)
        loss = loss + nn.functional.cross_entropy(alike, rows) * len(rows) / len(turns)
    if wrong is not None:
        above = torch.einsum("pw,pkw->pk", turns, wrong) * scale - logits.diagonal()[:, None]
        is_one = (wrong != 0).any(dim=2)
        loss = loss + _WRONG_WEIGHT * (nn.functional.softplus(above) * is_one).sum() / len(turns)
    return loss, logits


AnyChoiceNetwork = TypeVar("AnyChoiceNetwork", bound=nn.Module)
AnyChoiceBatch = TypeVar("AnyChoiceBatch")


@dataclass(frozen=True)
class ChoiceTask(ABC, Generic[AnyChoiceNetwork, AnyChoiceBatch]):
    """The task of a training: which reply of a batch follows a turn, or fits another reply to it."""

    model: AnyChoiceNetwork
    examples: BatchedExamples[AnyChoiceBatch]
    validation: BatchedExamples[AnyChoiceBatch]
    device: str

    @abstractmethod
    def choose(self, batch: AnyChoiceBatch) -> tuple[Tensor, Tensor]:
        """Return what `choice_loss` does for a batch."""

    def evaluate_batch(self, batch: AnyChoiceBatch) -> BatchResult:
        """Return the loss of a batch, and how many of its replies are chosen."""
        loss, logits = self.choose(batch)
        own = torch.arange(len(logits), device=logits.device)
        return BatchResult(loss, float((logits.argmax(dim=1) == own).float().mean()), len(logits))

    def validate(self) -> ValidationScores:
        """Return the loss, and how often the reply that follows is above that of the next pair."""
        self.model.eval()
        losses, right, good, wrong = list[float](), list[float](), list[Tensor](), list[Tensor]()
        with torch.inference_mode():
            for batch in self.validation.batches(VALIDATION_EPOCH):
                loss, logits = self.choose(batch)
                losses.append(float(loss))
                good.append(logits.diagonal().cpu())
                wrong.append(logits.roll(1, dims=1).diagonal().cpu())
                right.append(float((good[-1] > wrong[-1]).float().mean()))
        scores = torch.cat([*good, *wrong]).double().numpy()
        is_good = np.arange(len(scores)) < len(scores) // 2
        return ValidationScores(float(np.mean(losses)), float(np.mean(right)), auc(scores, is_good))
