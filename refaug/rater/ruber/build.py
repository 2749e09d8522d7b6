"""Making a ruber, the network of RUBER's unreferenced part: from logs to a published version, stage by stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Final, NamedTuple, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from refaug.core.errors import BadInput, Usage
from refaug.core.progress import Progress
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.rater.language_coverage import Coverage
from refaug.rater.network_folder import TrainingPlaces
from refaug.rater.ruber.network import KIND, RuberConfig, RuberNetwork, save_ruber
from refaug.rater.training import loop
from refaug.rater.training.accuracy import auc, histograms, piece_facts
from refaug.rater.training.examples import pad
from refaug.rater.training.initial_embeddings import new_network
from refaug.rater.training.order import (
    NetworkPreset,
    PreparedVersion,
    TrainedVersion,
    Training,
    TrainingKeywords,
    TrainingOrder,
    train_network,
)
from refaug.rater.training.pair_corpus import (
    PairCorpus,
    PairSettings,
    Rows,
    Side,
    code_pairs,
    open_pairs,
    require_pairs,
)

Triples = NDArray[np.int32]  # (pairs, 3): utterance, reply, negative reply, as texts
_DRAWS: Final = 20  # for a reply from elsewhere, before it is looked for in all the log, or is the one of before
_DRAWS_AT_FIRST: Final = 100  # before a pair is left out


class PairBatch(NamedTuple):
    """Some pairs with a negative reply each: texts without repetition, the longest first."""

    utterances: NDArray[np.int64]  # (texts, time), 0 beyond a text's end
    utterance_lengths: NDArray[np.int64]
    replies: NDArray[np.int64]  # good and negative ones
    reply_lengths: NDArray[np.int64]
    rows: NDArray[np.int64]  # (pairs, 3): row of the utterance, row of the good reply, row of the negative reply


class PairExamples:
    """The pairs of one side in batches; an epoch's number and the settings determine its batches.

    Pairs for which a hundred draws find no negative reply are left out; `unmatched_count` counts them.
    """

    def __init__(self, corpus: PairCorpus, side: Side, settings: PairSettings, max_tokens: int) -> None:
        self._corpus, self._settings, self._max_tokens = corpus, settings, max_tokens
        self._pool = corpus.of_side(side, settings)
        self._bounds = np.searchsorted(self._pool, corpus.first)  # of the logs in it
        negatives = self._draw_negatives(self._pool, np.random.default_rng([settings.seed, 0, 1]), _DRAWS_AT_FIRST)
        self.rows, self._first_negatives = self._pool[negatives >= 0], negatives[negatives >= 0]
        self.unmatched_count = len(self._pool) - len(self.rows)

    @property
    def epoch_size(self) -> int:
        """The number of pairs in one epoch."""
        limit = self._settings.limit
        return len(self.rows) if limit is None else min(limit, len(self.rows))

    def batch_count(self) -> int:
        """Return the number of batches in an epoch."""
        return max(1, self.epoch_size // self._settings.batch)

    def batches(self, number: int, *, skip: int = 0) -> Iterator[PairBatch]:
        """Yield the batches of an epoch after the first `skip`."""
        for place, triples in enumerate(self.draw(number)):
            if place >= skip:
                yield self.batch(triples)

    def draw(self, number: int) -> list[Triples]:
        """Return the pairs of each batch as texts; the remainder is spread over the batches."""
        rng = np.random.default_rng([self._settings.seed, number])
        chosen = rng.permutation(len(self.rows))[: self.epoch_size]
        place = np.arange(len(chosen)) * self.batch_count() // len(chosen)  # the batch of each
        order = np.lexsort((self._log_of(self.rows[chosen]), place))
        chosen, rows = chosen[order], self.rows[chosen[order]]
        begins, ends = _runs(place * len(self._corpus.first) + self._log_of(rows))  # of a log in a batch
        negatives = self._draw_fitting(rows, rows, begins, ends, rng)
        missing = negatives < 0
        negatives[missing] = self._draw_negatives(rows[missing], rng)
        missing = negatives < 0
        negatives[missing] = self._first_negatives[chosen[missing]]
        reply, utterance = self._corpus.reply, self._corpus.utterance
        triples = np.stack([utterance[rows], reply[rows], reply[negatives]], axis=1)
        return np.split(triples, np.flatnonzero(np.diff(place)) + 1)

    def batch(self, triples: Triples) -> PairBatch:
        """Return pairs in the form that a network reads."""
        utterances, utterance_lengths, utterance_rows = self._read(triples[:, :1])
        replies, reply_lengths, reply_rows = self._read(triples[:, 1:])
        return PairBatch(
            utterances, utterance_lengths, replies, reply_lengths, np.concatenate([utterance_rows, reply_rows], axis=1)
        )

    def _read(self, texts_wanted: Triples) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return tokens and lengths of some texts, the longest first, and the row of each."""
        texts, places = np.unique(texts_wanted, return_inverse=True)
        tokens, lengths, order = pad(self._corpus, texts.astype(np.int64), self._max_tokens)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return tokens, lengths, rank[places.reshape(texts_wanted.shape)]

    def _draw_negatives(self, rows: Rows, rng: np.random.Generator, draws: int = _DRAWS) -> Rows:
        """Draw for each pair another one of the same log and side whose reply is a negative; -1 if none is found."""
        log = self._log_of(rows)
        return self._draw_fitting(rows, self._pool, self._bounds[log], self._bounds[log + 1], rng, draws)

    def _draw_fitting(
        self, rows: Rows, pool: Rows, begins: Rows, ends: Rows, rng: np.random.Generator, draws: int = _DRAWS
    ) -> Rows:
        """Draw for each pair one that fits, from a part of a pool."""
        drawn_rows = np.full(len(rows), -1, np.int64)
        waiting = np.arange(len(rows))
        for _ in range(draws):
            candidates = pool[rng.integers(begins[waiting], ends[waiting])]
            fits = self._corpus.fits_elsewhere(rows[waiting], candidates)
            drawn_rows[waiting[fits]] = candidates[fits]
            waiting = waiting[~fits]
            if not len(waiting):
                break
        return drawn_rows

    def _log_of(self, rows: Rows) -> Rows:
        return np.searchsorted(self._corpus.first, rows, side="right") - 1


def _runs(groups: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the run of equal numbers around each of some sorted numbers begins and ends."""
    return np.searchsorted(groups, groups, side="left"), np.searchsorted(groups, groups, side="right")


# ── Training RUBER's unreferenced part: the true reply must score above a negative one, by a margin ───────────────────

Scores = NDArray[np.float64]


def task_of(
    model: RuberNetwork, examples: PairExamples, validation: PairExamples, margin: float, config: loop.TrainConfig
) -> loop.Task[PairBatch]:
    """Return the task of a training; the model gets its dropout."""
    model.dropout = config.dropout
    return _RuberTask(model, examples, validation, margin, config.device)


def ranking_loss(good: Tensor, other: Tensor, margin: float) -> Tensor:
    """Return max(0, Δ − s(q, r) + s(q, r⁻)) for each pair; nan if a score is nan."""
    return torch.relu(margin - good + other)


@dataclass(frozen=True)
class _RuberTask:
    """The task: pairs, and how far the true reply scores above a negative one."""

    model: RuberNetwork
    examples: PairExamples
    validation: PairExamples
    margin: float
    device: str

    def evaluate_batch(self, batch: PairBatch) -> loop.BatchResult:
        good, other = (logits.sigmoid() for logits in _logits(self.model, batch, self.device))
        loss = ranking_loss(good, other, self.margin).mean()
        return loop.BatchResult(loss, float((good > other).float().mean()), len(batch.rows))

    def validate(self) -> loop.ValidationScores:
        scores = score_pairs(self.model, self.validation, self.device)
        return loop.ValidationScores(scores.loss(self.margin), scores.accuracy, scores.auc)


def _logits(model: RuberNetwork, batch: PairBatch, device: str) -> tuple[Tensor, Tensor]:
    """Return logits (pairs,) of the true and of the negative replies, in single precision."""
    rows = torch.from_numpy(batch.rows).to(device)
    with loop.mixed_precision(device):
        utterances = model.read_utterances(
            torch.from_numpy(batch.utterances).to(device), torch.from_numpy(batch.utterance_lengths)
        )[rows[:, 0]]
        replies = model.read_replies(torch.from_numpy(batch.replies).to(device), torch.from_numpy(batch.reply_lengths))
        good, other = (model.judge(utterances, replies[rows[:, place]]) for place in (1, 2))
    return good.float(), other.float()


# Its quality


class PairScores(NamedTuple):
    """The scores of true replies, each with the score of a negative reply to the same utterance."""

    good: Scores
    other: Scores

    @property
    def accuracy(self) -> float:
        """The share of pairs whose true reply scores above the negative one; equal is not above."""
        return float((self.good > self.other).mean())

    @property
    def auc(self) -> float:
        """The probability that a true reply scores above a negative one of any utterance, counting ties half."""
        return auc(np.concatenate(self), np.arange(2 * len(self.good)) < len(self.good))

    def loss(self, margin: float) -> float:
        """Return the mean ranking loss."""
        return float(ranking_loss(torch.from_numpy(self.good), torch.from_numpy(self.other), margin).mean())


def score_pairs(
    model: RuberNetwork, examples: PairExamples, device: str = "cpu", epoch: int = loop.VALIDATION_EPOCH
) -> PairScores:
    """Score the pairs of an epoch, in the order of its batches."""
    model.eval()
    good, other = list[Scores](), list[Scores]()
    with torch.inference_mode():
        for batch in examples.batches(epoch):
            for scores, logits in zip((good, other), _logits(model, batch, device), strict=True):
                scores.append(logits.double().sigmoid().cpu().numpy())
    return PairScores(np.concatenate(good), np.concatenate(other))


def report_of(
    model: RuberNetwork, course: loop.TrainingCourse, validation: PairExamples, margin: float
) -> dict[str, object]:
    """Measure the network on utterances that it was not trained on."""
    scores = score_pairs(model, validation)
    both, is_good = np.concatenate(scores), np.arange(2 * len(scores.good)) < len(scores.good)
    return {
        "parameters": model.parameter_count,
        "best_epoch": course.best_epoch,
        "epochs": [asdict(figures) for figures in course.epochs],
        "validation_loss": scores.loss(margin),
        "ranking_accuracy": scores.accuracy,
        "auc_good_vs_wrong": scores.auc,
        "mean_score": {"good": float(scores.good.mean()), "wrong": float(scores.other.mean())},
        "scores": histograms(both, is_good, 0),
    }


def statistics_of(corpus: PairCorpus, examples: PairExamples) -> dict[str, object]:
    """Return statistics of a side: pairs, utterances, dialogues, and lengths of texts in pieces."""
    rows, lengths = examples.rows, np.diff(corpus.start)
    return {
        "pairs": len(rows),
        "without_reply_from_elsewhere": examples.unmatched_count,
        "an_epoch": examples.epoch_size,
        "utterances": len(np.unique(corpus.asked[rows])),
        "dialogues": len(np.unique(corpus.dialogue[rows])),
        "pieces": piece_facts({"utterances": lengths[corpus.utterance[rows]], "replies": lengths[corpus.reply[rows]]}),
    }


# ── Making a ruber, the network of RUBER's unreferenced part ──────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class RuberOrder(TrainingOrder):
    """The order of a ruber by name: its logs, sizes and training."""

    kind: ClassVar[str] = KIND

    model: RuberConfig = field(default_factory=RuberConfig)
    pairs: PairSettings = field(default_factory=PairSettings)
    margin: float = 0.5  # Δ: by how much the true reply must score above a negative one

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.margin <= 1:
            raise Usage(f"a margin of {self.margin}", remedy="above 0, and at most 1: scores go from 0 to 1")


@dataclass(frozen=True, kw_only=True)
class RuberPreset(NetworkPreset):
    """Sizes of a ruber that were tested together."""

    layers: int = 1


PRESETS: Final[Mapping[str, RuberPreset]] = {
    "base": RuberPreset(embedding=128, hidden=128, width=256, batch=256, dropout=0.3),
    "small": RuberPreset(embedding=64, hidden=64, width=128, batch=128, pieces=2_000),
}


def train_ruber(
    places: TrainingPlaces,
    order: RuberOrder,
    progress: Progress,
    **told: Unpack[TrainingKeywords],
) -> TrainedVersion:
    """Train a tokenizer, read the pairs, train the network, measure and publish; resume an interrupted run.

    If the published ruber was trained on exactly these inputs, it is returned as it is, unless `again` is set.
    """

    def train(training: Training[RuberOrder]) -> PreparedVersion:
        tokenizer = training.tokenizer(order.pairs.seed)
        sides = _code_sides(tokenizer, training)
        embeddings = training.embeddings(tokenizer, order.model.embedding)
        config = replace(order.model, vocabulary=tokenizer.vocab_size)
        model = new_network(lambda: RuberNetwork(config), order.training.seed, embeddings)
        course = training.run(task_of(model, sides["train"], sides["validation"], order.margin, order.training))
        corpus = open_pairs(training.folder)
        report: dict[str, Any] = {
            "examples": {name: statistics_of(corpus, examples) for name, examples in sides.items()},
            **training.facts(tokenizer="tokenizer", texts="pairs", embeddings="embeddings"),
            "margin": order.margin,
            **report_of(model, course, sides["validation"], order.margin),
        }
        coverage = Coverage.read(report["texts"]["coverage"])
        settings = {"pairs": asdict(order.pairs), "margin": order.margin}
        return training.version(save_ruber, model, tokenizer, report, coverage=coverage, **settings)

    return train_network(places, order, progress, train, require=require_pairs, **told)


def _code_sides(tokenizer: SentencePieceTokenizer, training: Training[RuberOrder]) -> Mapping[Side, PairExamples]:
    """Code the pairs of the logs as pieces, as a stage, and return those to train on and those to validate on."""
    order, folder, most = training.order, training.folder, training.order.model.max_tokens
    coded = training.stages.run(
        "pairs", lambda: code_pairs(tokenizer, training.sources, folder, most, training.progress)
    )
    corpus = open_pairs(folder)
    sides: dict[Side, PairExamples] = {
        side: PairExamples(corpus, side, order.pairs, most) for side in ("train", "validation")
    }
    _require_both(sides, int(coded["dialogues"]))
    return sides


def _require_both(sides: Mapping[Side, PairExamples], dialogues: int) -> None:
    """Raise BadInput unless both sides have a pair with a negative reply."""
    for name, examples in sides.items():
        if not len(examples.rows):
            raise BadInput(
                f"no pair is left for {name}: of {examples.unmatched_count:,} pairs there, in logs of {dialogues:,} "
                "dialogues, "
                "none has a reply from another dialogue that its own utterance never got",
                remedy="give more logs, or another --validation-share",
            )
