"""Making a dual rater: from logs to a published version, stage by stage.

It learns from consecutive turns: of the replies of a batch, which one follows the turn (a softmax over the batch). An
utterance that got several replies teaches in the same way which of them fits one of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Final, NamedTuple, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.core.progress import Progress
from refaug.rater.dual.checkpoint import FILES, KIND, NETWORK, DualConfig
from refaug.rater.dual.in_batch import BatchVectors, ChoiceBatch, ChoiceTask, PairBatches, choice_loss
from refaug.rater.dual.network import DualNetwork, cosines
from refaug.rater.network_folder import TrainingPlaces
from refaug.rater.text_encoding import PAD
from refaug.rater.training.calibration import calibrate
from refaug.rater.training.examples import pad
from refaug.rater.training.order import (
    NamedNetworkOrder,
    NetworkPreset,
    PreparedVersion,
    TrainedVersion,
    Training,
    TrainingKeywords,
    train_network,
)
from refaug.rater.training.pair_corpus import PairCorpus, PairSettings, Rows, code_pairs, open_pairs, require_pairs

_MOST_VALIDATED: Final = 8_192  # pairs
_LEAST_SHARED: Final = 2  # texts that have a piece, so that replies can share it
_READ_AT_ONCE: Final = 4_096  # texts


class DualBatch(NamedTuple):
    """The texts of a batch: tokens (texts, time) and lengths of turns, replies, and other replies to some turns."""

    pairs: ChoiceBatch
    turns: tuple[Tensor, Tensor]
    replies: tuple[Tensor, Tensor]
    known: tuple[Tensor, Tensor]


class DualExamples:
    """The pairs of one side in batches of pieces; an epoch's number and the settings determine its batches."""

    def __init__(self, corpus: PairCorpus, rows: Rows, settings: PairSettings, max_tokens: int) -> None:
        self._corpus, self._max_tokens = corpus, max_tokens
        self._batches = PairBatches(corpus, rows, settings, self._rare_pieces)
        self._texts_with = np.bincount(corpus.pieces, minlength=int(corpus.pieces.max()) + 1)

    @property
    def epoch_size(self) -> int:
        """The number of pairs in one epoch."""
        return self._batches.epoch_size

    def batch_count(self) -> int:
        """Return the number of batches in an epoch."""
        return self._batches.batch_count()

    def batches(self, number: int, *, skip: int = 0) -> Iterator[DualBatch]:
        """Yield the batches of an epoch after the first `skip`."""
        for batch in self._batches.batches(number, skip=skip):
            turns, replies = self._corpus.utterance[batch.rows], self._corpus.reply[batch.rows]
            yield DualBatch(batch, self.read(turns), self.read(replies), self.read(batch.known))

    def read(self, texts: NDArray[Any]) -> tuple[Tensor, Tensor]:
        """Return tokens (texts, time) and lengths, in the order given."""
        tokens, lengths, order = pad(self._corpus, texts.astype(np.int64), self._max_tokens)
        rank = np.argsort(order)
        return torch.from_numpy(tokens[rank]), torch.from_numpy(lengths[rank])

    def _rare_pieces(self, rows: Rows, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a rare piece of each reply, drawn among its rarest: replies that share one come together."""
        tokens, _, order = pad(self._corpus, self._corpus.reply[rows].astype(np.int64), self._max_tokens)
        often = self._texts_with[tokens] * rng.uniform(0.5, 2.0, tokens.shape)
        often[(tokens == PAD) | (self._texts_with[tokens] < _LEAST_SHARED)] = np.inf
        rarest = np.empty(len(rows), np.int64)
        rarest[order] = tokens[np.arange(len(rows)), often.argmin(axis=1)]
        return rarest


# ── Training ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class DualTask(ChoiceTask[DualNetwork, DualBatch]):
    """Choosing replies by the vectors of the two towers."""

    def choose(self, batch: DualBatch) -> tuple[Tensor, Tensor]:
        """Return the loss of a batch, and its logits."""
        turns, replies = self._read(self.model.turns, batch.turns), self._read(self.model.replies, batch.replies)
        known = self._read(self.model.replies, batch.known)
        return choice_loss(BatchVectors(turns, replies, known), batch.pairs, self.model.scale.exp())

    def _read(self, tower: nn.Module, texts: tuple[Tensor, Tensor]) -> Tensor:
        vectors: Tensor = tower(*(numbers.to(self.device) for numbers in texts))
        return vectors


def _similarities(
    model: DualNetwork, examples: DualExamples
) -> Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], NDArray[np.float64]]:
    """Return what gives both similarities of texts, each read by its tower."""

    def read(tower: nn.Module, texts: NDArray[Any]) -> Tensor:
        parts = [tower(*examples.read(texts[at : at + _READ_AT_ONCE])) for at in range(0, len(texts), _READ_AT_ONCE)]
        return torch.cat(parts)

    def similarities(turns: NDArray[Any], known: NDArray[Any], replies: NDArray[Any]) -> NDArray[np.float64]:
        with torch.inference_mode():
            vectors = (read(model.turns, turns), read(model.replies, known), read(model.replies, replies))
            return np.asarray(cosines(*vectors).double().numpy())

    return similarities


# ── From an order to a version ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class DualOrder(NamedNetworkOrder):
    """The order of a dual rater by name: its logs, sizes and training."""

    kind: ClassVar[str] = KIND
    made: ClassVar[str] = NETWORK

    network: str = NETWORK
    model: DualConfig = field(default_factory=DualConfig)
    examples: PairSettings = field(default_factory=PairSettings)


@dataclass(frozen=True, kw_only=True)
class DualPreset(NetworkPreset):
    """Sizes of a dual rater that were tested together; `hidden` says nothing here."""

    hidden: int = 0
    pairs: int = 32_768


PRESETS: Final[Mapping[str, DualPreset]] = {
    # Of the everyday logs' pairs: a rate of .0007 reached an AUC of .770 in one epoch, .003 one of .822.
    "base": DualPreset(embedding=128, width=256, batch=512, start="random", dropout=0.2, epochs=3, learning_rate=3e-3),
    "small": DualPreset(
        embedding=64,
        width=128,
        batch=128,
        pieces=2_000,
        pairs=4_096,
        start="random",
        dropout=0.2,
        epochs=5,
        learning_rate=3e-3,
    ),
}


def train_dual(
    places: TrainingPlaces,
    order: DualOrder,
    progress: Progress,
    **told: Unpack[TrainingKeywords],
) -> TrainedVersion:
    """Train a tokenizer, read the pairs, train the towers, measure and publish; resume an interrupted run.

    Its embeddings start from random numbers, and one process trains it in minutes, without a cluster.
    If the published rater was trained on exactly these inputs, it is returned as it is, unless `again` is set.
    """

    def train(training: Training[DualOrder]) -> PreparedVersion:
        settings, most, stages = order.examples, order.model.max_tokens, training.stages
        tokenizer = training.tokenizer(settings.seed)
        stages.run("pairs", lambda: code_pairs(tokenizer, training.sources, stages.folder, most, progress))
        corpus = open_pairs(stages.folder)
        sides = corpus.of_sides(settings)
        examples = DualExamples(corpus, sides["train"], settings, most)
        limited = replace(settings, limit=_MOST_VALIDATED)
        torch.manual_seed(order.training.seed)
        model = DualNetwork(replace(order.model, vocabulary=tokenizer.vocab_size))
        model.dropout = order.training.dropout
        validation = DualExamples(corpus, sides["validation"], limited, most)
        course = training.run(DualTask(model, examples, validation, order.training.device))
        best = course.epochs[course.best_epoch - 1]
        report: dict[str, Any] = {
            "network": NETWORK,
            "examples": {side: corpus.facts_of(rows) for side, rows in sides.items()},
            **training.facts(tokenizer="tokenizer", texts="pairs"),
            "parameters": model.parameter_count,
            "best_epoch": course.best_epoch,
            "epochs": [asdict(figures) for figures in course.epochs],
            **calibrate(model, corpus, sides["validation"], _similarities(model, examples), settings.seed),
            "softmax": {"loss": best.validation_loss, "batch": settings.batch},
        }
        return training.rater_version(FILES, model, tokenizer, report, settings)

    return train_network(places, order, progress, train, require=require_pairs, **told)
