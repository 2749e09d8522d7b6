"""Making a dual rater: from logs to a published version, stage by stage.

It learns from consecutive turns: of the replies of a batch, which one follows the turn (a softmax over the batch). An
utterance that got several replies teaches in the same way which of them fits one of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.core.artefacts.build_stages import Stages
from refaug.core.errors import Usage
from refaug.core.progress import Progress
from refaug.logs.pairs import SharedSettings
from refaug.rater.dual.network import KIND, NETWORK, DualConfig, DualNetwork, cosines, save_dual_rater
from refaug.rater.language_coverage import Coverage
from refaug.rater.training import loop
from refaug.rater.training.accuracy import auc
from refaug.rater.training.calibration import calibrate
from refaug.rater.training.examples import pad
from refaug.rater.training.initial_embeddings import LearnVectors
from refaug.rater.training.loop import OnEpoch, OnNow
from refaug.rater.training.order import (
    NetworkPreset,
    PreparedVersion,
    TrainedVersion,
    TrainingLogs,
    TrainingOrder,
    TrainingPlaces,
    details_of,
    learn_tokenizer,
    open_training_logs,
    train_version,
    version_folder,
    write_pictures,
)
from refaug.rater.training.pair_corpus import PairCorpus, PairSettings, Rows, code_pairs, open_pairs, require_pairs
from refaug.rater.training.reply_draws import ReplyDraws

Illustrate = Callable[[Mapping[str, Any]], Mapping[str, bytes]]
_MOST_VALIDATED: Final = 8_192  # pairs
_LEAST_KNOWN: Final = 2  # pairs of a batch with another reply, for a softmax over them
_READ_AT_ONCE: Final = 4_096  # texts
_NEVER: Final = -1e9


class DualBatch(NamedTuple):
    """Some pairs: their turns, their replies, and other replies to some of the turns."""

    turns: tuple[Tensor, Tensor]  # tokens (pairs, time) and lengths
    replies: tuple[Tensor, Tensor]
    known: tuple[Tensor, Tensor]  # of some pairs
    known_rows: Tensor
    fits_too: Tensor  # (pairs, pairs): replies of other pairs that are no wrong ones


class DualExamples:
    """The pairs of one side in batches; an epoch's number and the settings determine its batches."""

    def __init__(self, corpus: PairCorpus, rows: Rows, settings: PairSettings, max_tokens: int) -> None:
        self._corpus, self.rows, self._settings, self._max_tokens = corpus, rows, settings, max_tokens
        self._draws = ReplyDraws(corpus, rows)

    @property
    def epoch_size(self) -> int:
        """The number of pairs in one epoch."""
        return min(len(self.rows), self._settings.limit or len(self.rows))

    def batch_count(self) -> int:
        """Return the number of batches in an epoch."""
        return max(1, self.epoch_size // self._settings.batch)

    def batches(self, number: int, *, skip: int = 0) -> Iterator[DualBatch]:
        """Yield the batches of an epoch after the first `skip`; the remainder is spread over them."""
        rng = np.random.default_rng([self._settings.seed, number])
        chosen = rng.permutation(self.rows)[: self.epoch_size]
        for place, rows in enumerate(np.array_split(chosen, self.batch_count())):
            if place >= skip:
                yield self._batch(rows, np.random.default_rng([self._settings.seed, number, 1 + place]))

    def _batch(self, rows: Rows, rng: np.random.Generator) -> DualBatch:
        corpus = self._corpus
        known = self._draws.known(rows, 1.0, rng)
        known_rows = np.flatnonzero(known >= 0)
        first, second = np.divmod(np.arange(len(rows) ** 2), len(rows))
        fits_too = ~corpus.fits_elsewhere(rows[first], rows[second]).reshape(len(rows), -1)
        return DualBatch(
            self.read(corpus.utterance[rows]),
            self.read(corpus.reply[rows]),
            self.read(known[known_rows]),
            torch.from_numpy(known_rows),
            torch.from_numpy(fits_too),
        )

    def read(self, texts: NDArray[Any]) -> tuple[Tensor, Tensor]:
        """Return tokens (texts, time) and lengths, in the order given."""
        tokens, lengths, order = pad(self._corpus, texts.astype(np.int64), self._max_tokens)
        rank = np.argsort(order)
        return torch.from_numpy(tokens[rank]), torch.from_numpy(lengths[rank])


# ── Training ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _DualTask:
    """The task: which reply of a batch follows a turn, or fits another reply to it."""

    model: DualNetwork
    examples: DualExamples
    validation: DualExamples
    device: str

    def evaluate_batch(self, batch: DualBatch) -> loop.BatchResult:
        loss, similar = self._loss(batch)
        right = float((similar.argmax(dim=1) == torch.arange(len(similar), device=similar.device)).float().mean())
        return loop.BatchResult(loss, right, len(similar))

    def _loss(self, batch: DualBatch) -> tuple[Tensor, Tensor]:
        """Return the loss of a batch, and the logits of all its turns and replies."""
        turns, replies = self._read(self.model.turns, batch.turns), self._read(self.model.replies, batch.replies)
        diagonal = torch.eye(len(turns), dtype=torch.bool)
        hidden = (batch.fits_too & ~diagonal).to(self.device)
        similar = (turns @ replies.T * self.model.scale.exp()).masked_fill(hidden, _NEVER)
        own = torch.arange(len(turns), device=self.device)
        loss = nn.functional.cross_entropy(similar, own)
        if len(batch.known_rows) >= _LEAST_KNOWN:
            rows = batch.known_rows.to(self.device)
            known = self._read(self.model.replies, batch.known)
            alike = (known @ replies.T * self.model.scale.exp()).masked_fill(hidden[rows], _NEVER)
            loss = loss + nn.functional.cross_entropy(alike, rows) * len(rows) / len(turns)
        return loss, similar

    def _read(self, tower: nn.Module, texts: tuple[Tensor, Tensor]) -> Tensor:
        vectors: Tensor = tower(*(numbers.to(self.device) for numbers in texts))
        return vectors

    def validate(self) -> loop.ValidationScores:
        self.model.eval()
        losses, right, good, wrong = list[float](), list[float](), list[Tensor](), list[Tensor]()
        with torch.inference_mode():
            for batch in self.validation.batches(loop.VALIDATION_EPOCH):
                loss, similar = self._loss(batch)
                losses.append(float(loss))
                good.append(similar.diagonal().cpu())
                wrong.append(similar.roll(1, dims=1).diagonal().cpu())
                right.append(float((good[-1] > wrong[-1]).float().mean()))
        scores = torch.cat([*good, *wrong]).double().numpy()
        is_good = np.arange(len(scores)) < len(scores) // 2
        return loop.ValidationScores(float(np.mean(losses)), float(np.mean(right)), auc(scores, is_good))


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
class DualOrder(TrainingOrder):
    """The order of a dual rater by name: its logs, sizes and training."""

    kind: ClassVar[str] = KIND

    network: str = NETWORK  # so that a stopped training tells which kind of rater it makes
    model: DualConfig = field(default_factory=DualConfig)
    examples: PairSettings = field(default_factory=PairSettings)

    @classmethod
    def read_settings(cls, written: Mapping[str, Any]) -> dict[str, object]:
        """Return the sizes of the network and the choice of pairs."""
        return {"model": DualConfig(**written["model"]), "examples": PairSettings(**written["examples"])}

    def own_inputs(self, sources: TrainingLogs) -> dict[str, object]:  # noqa: ARG002
        """Return its settings."""
        return {"network": self.network, "model": asdict(self.model), "examples": asdict(self.examples)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.network != NETWORK:
            raise Usage(f"a network {self.network!r}", remedy=f"the order of a rater of kind {NETWORK}")


@dataclass(frozen=True, kw_only=True)
class DualPreset(NetworkPreset):
    """Sizes of a dual rater that were tested together; `hidden` says nothing here."""

    hidden: int = 0
    pairs: int = 32_768


PRESETS: Final[Mapping[str, DualPreset]] = {
    # A rate of .001 reached an AUC of .67 after 1.2 M examples of the everyday logs; .01 one of .71 after 80,000.
    "base": DualPreset(embedding=128, width=256, batch=512, start="random", dropout=0.2, epochs=8, learning_rate=1e-2),
    "small": DualPreset(
        embedding=64, width=128, batch=128, pieces=2_000, pairs=4_096, start="random", dropout=0.2, epochs=5
    ),
}


def train_dual(
    places: TrainingPlaces,
    order: DualOrder,
    progress: Progress,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
    *,
    learn_vectors: LearnVectors | None = None,  # noqa: ARG001  its embeddings start from random numbers
    illustrate: Illustrate = lambda _report: {},
    again: bool = False,
    cluster: None = None,  # noqa: ARG001  minutes of one process
) -> TrainedVersion:
    """Train a tokenizer, read the pairs, train the towers, measure and publish; resume an interrupted run.

    If the published rater was trained on exactly these inputs, it is returned as it is, unless `again` is set.
    """
    sources = open_training_logs(places.logs, order)
    require_pairs(sources)

    def train_stages(stages: Stages, input_hash: str) -> PreparedVersion:
        tokenizer = learn_tokenizer(sources, order, order.examples.seed, stages, progress)
        most = order.model.max_tokens
        stages.run("pairs", lambda: code_pairs(tokenizer, sources, stages.folder, most, progress))
        corpus, settings = open_pairs(stages.folder), order.examples
        sides = corpus.of_sides(settings)
        examples = DualExamples(corpus, sides["train"], settings, most)
        limited = replace(settings, limit=_MOST_VALIDATED)
        torch.manual_seed(order.training.seed)
        model = DualNetwork(replace(order.model, vocabulary=tokenizer.vocab_size))
        model.dropout = order.training.dropout
        task = _DualTask(
            model, examples, DualExamples(corpus, sides["validation"], limited, most), order.training.device
        )
        course = loop.run(task, order.training, stages.folder / "training", progress, on_now, on_epoch)
        progress.stage("measuring")
        best = course.epochs[course.best_epoch - 1]
        report: dict[str, Any] = {
            "network": NETWORK,
            "examples": {side: corpus.facts_of(rows) for side, rows in sides.items()},
            "tokenizer": stages.facts("tokenizer"),
            "texts": stages.facts("pairs"),
            "parameters": model.parameter_count,
            "best_epoch": course.best_epoch,
            "epochs": [asdict(figures) for figures in course.epochs],
            **calibrate(model, corpus, sides["validation"], _similarities(model, examples), settings.seed),
            "softmax": {"loss": best.validation_loss, "batch": settings.batch},
        }
        version = version_folder(stages)
        pictures = write_pictures(version, illustrate(report))
        shared = SharedSettings.for_language(sources.languages[0], seed=settings.seed)  # for pairs of a report
        name = save_dual_rater(
            version,
            model,
            tokenizer,
            temperature=report["temperature"],
            languages=sources.languages,
            coverage=Coverage.read(stages.facts("pairs")["coverage"]),
            report=report,
            details=details_of(order, sources, stages, input_hash, shared=asdict(shared), examples=asdict(settings)),
            beside=pictures,
        )
        return PreparedVersion(version, name, report)

    return train_version(places, order, sources, train_stages, again=again)
