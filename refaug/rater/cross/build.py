"""Making a cross rater: from logs to a published version, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.core.progress import Progress
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.rater.cross.checkpoint import FILES, KIND, NETWORK
from refaug.rater.cross.examples import (
    KIND_NAMES,
    CrossBatch,
    CrossExamples,
    CrossExampleSettings,
)
from refaug.rater.cross.model import CrossNetwork
from refaug.rater.cross.noise import Begins, beginnings
from refaug.rater.cross.sequences import CrossConfig, SequenceShape
from refaug.rater.network_folder import TOKENIZER, TrainingPlaces
from refaug.rater.training import loop
from refaug.rater.training.accuracy import ReplyPredictions, piece_facts
from refaug.rater.training.examples import ExampleCorpus
from refaug.rater.training.hard_negatives import HardSettings, hard_partners
from refaug.rater.training.initial_embeddings import new_network, read_embeddings
from refaug.rater.training.loop import Task, TrainingCourse
from refaug.rater.training.on_cluster import TrainingMember, train_on
from refaug.rater.training.order import (
    EMBEDDINGS,
    NamedNetworkOrder,
    NetworkPreset,
    PreparedVersion,
    TrainedVersion,
    Training,
    TrainingKeywords,
    train_network,
)
from refaug.rater.training.pair_corpus import PairCorpus, Rows, Side, code_pairs, open_pairs, require_pairs

_HIDDEN_SHARE: Final = 0.5  # of the loss of hidden pieces, beside that of replies


def task_of(
    model: CrossNetwork, examples: CrossExamples, validation: CrossExamples, config: loop.TrainConfig
) -> loop.Task[CrossBatch]:
    """Return the task of a training; the model gets its dropout."""
    model.dropout = config.dropout
    return _CrossTask(model, examples, validation, config.device)


def balanced_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the cross entropy in which right and wrong replies weigh the same, however many there are of each."""
    right, wrong = logits[labels > 0], logits[labels == 0]
    return (nn.functional.softplus(-right).mean() + nn.functional.softplus(wrong).mean()) / 2


@dataclass(frozen=True)
class _CrossTask:
    """The task: whether a reply is right, and beside it which pieces are hidden."""

    model: CrossNetwork
    examples: CrossExamples
    validation: CrossExamples
    device: str

    def evaluate_batch(self, batch: CrossBatch) -> loop.BatchResult:
        labels = torch.from_numpy(batch.labels).to(self.device)
        with loop.mixed_precision(self.device):
            states, logits = _read(self.model, batch, self.device)
            hidden = self._hidden_loss(states, batch)
        right = ((logits > 0) == (labels > 0)).float()
        accuracy = (right[labels > 0].mean() + right[labels == 0].mean()) / 2
        return loop.BatchResult(balanced_loss(logits, labels) + _HIDDEN_SHARE * hidden, float(accuracy), batch.examples)

    def _hidden_loss(self, states: Tensor, batch: CrossBatch) -> Tensor:
        """Return the mean cross entropy of the hidden pieces; 0 where none is hidden."""
        if not len(batch.hidden_rows):
            return states.new_zeros(())
        rows, places, pieces = (
            torch.from_numpy(numbers).to(self.device)
            for numbers in (batch.hidden_rows, batch.hidden_places, batch.hidden_pieces)
        )
        return nn.functional.cross_entropy(self.model.predict_pieces(states[rows, places]).float(), pieces)

    def validate(self) -> loop.ValidationScores:
        predictions = predict(self.model, self.validation, self.device)
        return loop.ValidationScores(predictions.loss, predictions.accuracy, predictions.auc())


def _read(model: CrossNetwork, batch: CrossBatch, device: str) -> tuple[Tensor, Tensor]:
    """Return the states of a batch's sequences, and their logits in single precision."""
    tokens, segments, lengths = (torch.from_numpy(numbers).to(device) for numbers in batch.sequences)
    states = model.read(tokens, segments, lengths)
    return states, model.judge(states, segments, lengths).float()


def predict(
    model: CrossNetwork, examples: CrossExamples, device: str = "cpu", epoch: int = loop.VALIDATION_EPOCH
) -> ReplyPredictions:
    """Predict the examples of an epoch, in the order of its batches."""
    model.eval()
    logits, labels, kinds = [], [], []
    with torch.inference_mode():
        for batch in examples.batches(epoch):
            with loop.mixed_precision(device):
                _, judged = _read(model, batch, device)
            logits.append(judged.double().cpu().numpy())
            labels.append(batch.labels > 0)
            kinds.append(batch.kinds)
    return ReplyPredictions(np.concatenate(logits), np.concatenate(labels), np.concatenate(kinds))


# ── The report of a trained cross rater: its quality on held-out utterances, and statistics of its examples ───────────


def report_of(model: CrossNetwork, course: TrainingCourse, validation: CrossExamples) -> dict[str, object]:
    """Measure the network on utterances that it was not trained on."""
    best = course.epochs[course.best_epoch - 1]
    return {
        "parameters": model.parameter_count,
        "best_epoch": course.best_epoch,
        "epochs": [asdict(figures) for figures in course.epochs],
        "validation_loss": best.validation_loss,
        "validation_accuracy": best.validation_accuracy,
        **predict(model, validation).balanced().quality(KIND_NAMES),
    }


def statistics_of(corpus: PairCorpus, examples: CrossExamples) -> Mapping[str, Any]:
    """Return statistics of a side: its pairs, their utterances and dialogues, and lengths of texts in pieces."""
    rows, lengths = examples.rows, np.diff(corpus.start)
    return {
        "positive": len(rows),
        "an_epoch": examples.epoch_size,
        "utterances": len(np.unique(corpus.asked[rows])),
        "dialogues": len(np.unique(corpus.dialogue[rows])),
        "pieces": piece_facts(
            {"utterances": lengths[corpus.utterance[rows]], "responses": lengths[corpus.reply[rows]]}
        ),
    }


# ── Hard negatives of the pairs of logs, found as for the NN-rater: by rare words that two replies share ──────────────

Texts = NDArray[np.int64]


class _Grouped(NamedTuple):
    """Pairs by utterance: the corpus that hard negatives are found in, and the text and pair that each text comes from.

    The pair of an utterance is -1.
    """

    corpus: ExampleCorpus
    source: Texts
    pair: Rows


def hard_replies(
    corpus: PairCorpus, rows: Rows, embeddings: NDArray[np.float32], seed: int, progress: Progress
) -> Texts:
    """Return hard negatives of the reply of each pair, as texts (pairs of the corpus, most partners); -1 for none.

    They are found among these pairs alone.
    """
    settings = HardSettings(seed=seed)
    grouped = _group(corpus, rows)
    found = hard_partners(
        grouped.corpus, np.arange(grouped.corpus.utterances), embeddings, settings, progress
    ).partners  # (texts, partners)
    partners = np.full((len(corpus), settings.partners), -1, np.int64)
    is_reply = grouped.pair >= 0
    of_reply = found[is_reply]
    partners[grouped.pair[is_reply]] = np.where(of_reply >= 0, grouped.source[of_reply], -1)
    return partners


def _group(corpus: PairCorpus, rows: Rows) -> _Grouped:
    """Put the replies to one utterance together, behind the utterance."""
    ordered = rows[np.lexsort((rows, corpus.asked[rows]))]
    begins = np.flatnonzero(np.concatenate([[True], np.diff(corpus.asked[ordered]) != 0]))
    pair = np.insert(ordered, begins, -1)
    source = np.insert(corpus.reply[ordered].astype(np.int64), begins, corpus.utterance[ordered[begins]])
    lengths = np.diff(corpus.start)[source]
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    places = np.arange(int(start[-1])) + np.repeat(corpus.start[source] - start[:-1], lengths)
    first = np.concatenate([begins + np.arange(len(begins)), [len(source)]]).astype(np.int64)
    grouped = ExampleCorpus(pieces=corpus.pieces[places], start=start, first=first, names=corpus.asked[ordered[begins]])
    return _Grouped(grouped, source, pair)


# ── Making a cross rater ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class CrossOrder(NamedNetworkOrder):
    """The order of a cross rater by name: its logs, sizes and training."""

    kind: ClassVar[str] = KIND
    made: ClassVar[str] = NETWORK

    network: str = NETWORK
    model: CrossConfig = field(default_factory=CrossConfig)
    examples: CrossExampleSettings = field(default_factory=CrossExampleSettings)


@dataclass(frozen=True, kw_only=True)
class CrossPreset(NetworkPreset):
    """Sizes of a cross rater that were tested together; `width` says nothing here."""

    layers: int
    heads: int
    wrong: int = 2


PRESETS: Final[Mapping[str, CrossPreset]] = {
    "small": CrossPreset(
        embedding=128,
        hidden=256,
        width=128,
        layers=2,
        heads=4,
        batch=32,
        pieces=4_000,
        learning_rate=1e-3,
        dropout=0.1,
        epochs=5,
    ),
    "base": CrossPreset(
        embedding=256,
        hidden=768,
        width=256,
        layers=6,
        heads=4,
        batch=64,
        pieces=8_000,
        learning_rate=5e-4,
        dropout=0.1,
        epochs=8,
    ),
    "large": CrossPreset(
        embedding=512,
        hidden=1536,
        width=512,
        layers=8,
        heads=8,
        batch=512,
        pieces=16_000,
        learning_rate=3e-4,
        dropout=0.1,
        epochs=10,
    ),
}


def train_cross(
    places: TrainingPlaces,
    order: CrossOrder,
    progress: Progress,
    **told: Unpack[TrainingKeywords],
) -> TrainedVersion:
    """Train a tokenizer, read the pairs, train the network, measure and publish; resume an interrupted run.

    If the published rater was trained on exactly these inputs, it is returned as it is, unless `again` is set.
    """

    def train(training: Training[CrossOrder]) -> PreparedVersion:
        tokenizer = training.tokenizer(order.examples.seed)
        sources, folder, most = training.sources, training.folder, order.model.max_tokens
        training.stages.run("pairs", lambda: code_pairs(tokenizer, sources, folder, most, progress))
        embeddings = training.embeddings(tokenizer, order.model.embedding)
        if training.cluster is not None:
            train_on(training.cluster, CrossMember, training)
        model, sides = _begin(order, tokenizer, embeddings, folder, progress)
        course = training.run(task_of(model, sides["train"], sides["validation"], order.training))
        corpus = open_pairs(folder)
        report: dict[str, Any] = {
            "network": NETWORK,
            "examples": {side: statistics_of(corpus, examples) for side, examples in sides.items()},
            **training.facts(tokenizer="tokenizer", texts="pairs", embeddings="embeddings"),
            **report_of(model, course, sides["validation"]),
        }
        return training.rater_version(FILES, model, tokenizer, report, order.examples)

    return train_network(places, order, progress, train, require=require_pairs, **told)


class CrossMember(TrainingMember):
    """One process of a cross rater's training on a cluster."""

    def task(self, progress: Progress, **arguments: Any) -> Task[Any]:
        """Return the task of the rater whose stages before the first batch lie in a folder."""
        order, folder = arguments["order"], arguments["folder_of_stages"]
        embeddings = None if order.start == "random" else folder / EMBEDDINGS
        model, sides = _begin(order, open_sentencepiece(folder / TOKENIZER), embeddings, folder, progress)
        return task_of(model, sides["train"], sides["validation"], order.training)


def _begin(
    order: CrossOrder, tokenizer: SentencePieceTokenizer, embeddings: Path | None, folder: Path, progress: Progress
) -> tuple[CrossNetwork, Mapping[Side, CrossExamples]]:
    """Return the network with its initial weights, and the examples of both sides."""
    config = replace(order.model, vocabulary=tokenizer.vocab_size)
    model = new_network(lambda: CrossNetwork(config), order.training.seed, embeddings)
    begins = beginnings(tokenizer) if order.examples.negatives == "noise" else None
    return model, _sides(order, config, folder, progress, begins)


def _sides(
    order: CrossOrder, config: CrossConfig, folder: Path, progress: Progress, begins: Begins | None
) -> Mapping[Side, CrossExamples]:
    """Return the examples to train on and to validate on; hard negatives are found in each side alone."""
    corpus, shape = open_pairs(folder), SequenceShape(config.vocabulary, config.max_tokens)
    sides = dict[Side, CrossExamples]()
    rows_of = corpus.of_sides(order.examples.sides)
    for side, rows in rows_of.items():
        partners = None
        if order.examples.negatives == "mixed" and order.start == "vectors":
            embeddings = read_embeddings(folder / EMBEDDINGS)
            partners = hard_replies(corpus, rows, embeddings, order.examples.seed, progress)
        sides[side] = CrossExamples(corpus, side, order.examples, shape, partners, begins)
    return sides
