"""Making a rater, from logs to a published version, stage by stage; the task for the training loop comes first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refaug.core.artefacts.build_stages import Stages
from refaug.core.errors import BadInput, Usage
from refaug.core.files import make_folder, remove_tree
from refaug.core.progress import Progress
from refaug.core.query_engine import QueryEngine, occupy_scratch, scratch_in
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.logs.pairs import SharedSettings
from refaug.logs.store import StoredLog
from refaug.rater.network_folder import TOKENIZER, TrainingPlaces
from refaug.rater.nn.checkpoint import FILES, KIND
from refaug.rater.nn.model import BiGRURater
from refaug.rater.nn.sizes import POSITIVE, Features, RaterConfig
from refaug.rater.training.accuracy import apply_temperature, auc, fit_temperature, piece_facts, probability_facts
from refaug.rater.training.corpus import LEAST_UTTERANCES, code_texts, mine, open_corpus, shared_rows, write_shared
from refaug.rater.training.examples import ExampleBatch, ExampleCorpus, Examples, ExampleSettings, Split, Texts
from refaug.rater.training.hard_negatives import HardPartners, HardSettings, hard_partners
from refaug.rater.training.initial_embeddings import LearnVectors, new_network, read_embeddings
from refaug.rater.training.loop import (
    VALIDATION_EPOCH,
    BatchResult,
    Task,
    TrainConfig,
    TrainingCourse,
    ValidationScores,
    mixed_precision,
)
from refaug.rater.training.on_cluster import TrainingMember, train_on
from refaug.rater.training.order import (
    EMBEDDINGS,
    NetworkPreset,
    PreparedVersion,
    TrainedVersion,
    Training,
    TrainingKeywords,
    TrainingLogs,
    TrainingOrder,
    open_training_logs,
    train_network,
)


def task_of(model: BiGRURater, examples: Examples, validation: Examples, config: TrainConfig) -> Task[ExampleBatch]:
    """Return the task of a training; the model gets its dropout."""
    model.dropout = config.dropout
    return _RaterTask(model, examples, validation, config.device)


@dataclass(frozen=True)
class _RaterTask:
    """The rater's task: examples, half of them positive, with cross entropy over both of their triplets as the loss."""

    model: BiGRURater
    examples: Examples
    validation: Examples
    device: str

    def evaluate_batch(self, batch: ExampleBatch) -> BatchResult:
        logits, labels = _logits(self.model, batch, self.device)
        right = float((logits.argmax(dim=1) == labels).float().mean())
        return BatchResult(nn.functional.cross_entropy(logits, labels), right, len(batch.labels) // 2)

    def validate(self) -> ValidationScores:
        predictions = predict(self.model, self.validation, self.device)
        return ValidationScores(predictions.loss, accuracy(predictions), auc(predictions.first, predictions.positive))


def _logits(model: BiGRURater, batch: ExampleBatch, device: str) -> tuple[Tensor, Tensor]:
    """Return logits of a batch's triplets in single precision, and their labels."""
    tokens, triplets = torch.from_numpy(batch.tokens).to(device), torch.from_numpy(batch.triplets).to(device)
    labels = torch.from_numpy(batch.labels).to(device)
    with mixed_precision(device):
        logits = model(tokens, torch.from_numpy(batch.lengths), triplets)
    return logits.float(), labels


class TripletPredictions(NamedTuple):
    """P(positive) of both triplets of examples, and whether the examples are positive."""

    first: NDArray[np.float64]
    second: NDArray[np.float64]
    positive: NDArray[np.bool_]
    loss: float


def predict(
    model: BiGRURater, examples: Examples, device: str = "cpu", epoch: int = VALIDATION_EPOCH
) -> TripletPredictions:
    """Predict the examples of an epoch, in the order of its batches."""
    model.eval()
    first, second, positive, losses = [], [], [], 0.0
    with torch.inference_mode():
        for batch in examples.batches(epoch):
            logits, labels = _logits(model, batch, device)
            losses += float(nn.functional.cross_entropy(logits, labels, reduction="sum"))
            likely = torch.softmax(logits.double(), dim=1)[:, POSITIVE].cpu().numpy()
            half = len(likely) // 2
            first.append(likely[:half])
            second.append(likely[half:])
            positive.append(batch.labels[:half] == POSITIVE)
    first_likely, second_likely, is_positive = np.concatenate(first), np.concatenate(second), np.concatenate(positive)
    return TripletPredictions(first_likely, second_likely, is_positive, losses / (2 * len(is_positive)))


def accuracy(predictions: TripletPredictions) -> float:
    """Return the share of examples that the more confident of the two triplets gets right."""
    confident = np.where(
        np.abs(predictions.first - 0.5) >= np.abs(predictions.second - 0.5), predictions.first, predictions.second
    )
    return float(((confident > 0.5) == predictions.positive).mean())


_READ: Final = 100  # hard negatives sampled for the share that would do as responses


def report_of(model: BiGRURater, course: TrainingCourse, validation: Examples) -> dict[str, object]:
    """Measure the network on utterances that it was not trained on."""
    predictions = predict(model, validation)
    temperature = fit_temperature(
        np.concatenate([predictions.first, predictions.second]),
        np.concatenate([predictions.positive, predictions.positive]),
    )
    best = course.epochs[course.best_epoch - 1]
    return {
        "parameters": model.parameter_count,
        "best_epoch": course.best_epoch,
        "epochs": [asdict(figures) for figures in course.epochs],
        "validation_loss": best.validation_loss,
        "validation_accuracy": best.validation_accuracy,
        "auc_good_vs_wrong": auc(predictions.first, predictions.positive),
        "temperature": temperature,
        **probability_facts(predictions.first, apply_temperature(predictions.first, temperature), predictions.positive),
    }


def statistics_of(corpus: ExampleCorpus, examples: Examples) -> dict[str, object]:
    """Return statistics of a split: its size, responses an utterance, and lengths of texts in pieces."""
    first, after = corpus.first[examples.utterances], corpus.first[examples.utterances + 1]
    lengths = np.diff(corpus.start)
    is_response = np.ones(len(lengths), np.bool_)
    is_response[corpus.first[:-1]] = False
    boundaries = np.zeros(len(lengths) + 1, np.int64)
    np.add.at(boundaries, first, 1)
    np.add.at(boundaries, after, -1)
    of_split = np.cumsum(boundaries[:-1]) > 0
    responses, how_often = np.unique(after - first - 1, return_counts=True)
    return {
        "utterances": len(examples.utterances),
        "positive": examples.positive_count,
        "an_epoch": examples.epoch_size,
        "responses": {str(count): int(times) for count, times in zip(responses, how_often, strict=True)},
        "pieces": piece_facts(
            {"utterances": lengths[of_split & ~is_response], "responses": lengths[of_split & is_response]}
        ),
    }


def short_report(
    model: BiGRURater, settings: ExampleSettings, folder: Path, counts: Mapping[str, Any]
) -> dict[str, object]:
    """Measure how well the rater separates right and wrong responses to short utterances; None if there are too few."""
    sizes = {name: counts[name] for name in ("utterances", "positive_pairs")}
    if counts["utterances"] < LEAST_UTTERANCES:
        return {**sizes, "auc_good_vs_wrong": None}
    examples = Examples(open_corpus(folder), "all", replace(settings, limit=None), model.config.max_tokens)
    predictions = predict(model, examples)
    return {**sizes, "auc_good_vs_wrong": auc(predictions.first, predictions.positive)}


def hard_report(
    model: BiGRURater, corpus: ExampleCorpus, settings: ExampleSettings, hard: HardPartners
) -> dict[str, object] | None:
    """Measure how well the rater separates hard negatives from good responses in validation; None if there are too few.

    Some hard negatives would do as responses. Their share is estimated by the rater, in place of a reader: of a
    hundred drawn ones, those that it considers good.
    """
    hard_settings = replace(settings, negatives="hard", limit=None)
    examples = Examples(corpus, "validation", hard_settings, model.config.max_tokens, hard.partners, all_hard=True)
    if examples.positive_count < _READ or not examples.has_negatives:
        return None
    predictions = predict(model, examples)
    sampled = np.random.default_rng(settings.seed).choice(
        predictions.first[~predictions.positive], _READ, replace=False
    )
    return {
        "examples": examples.epoch_size,
        "auc_good_vs_hard": auc(predictions.first, predictions.positive),
        "taken_for_good": float((sampled > 0.5).mean()),
        "without_partner": hard.without_partner,
    }


_SHORT: Final = "short"  # utterances too short for training
_MOST_SHORT: Final = 2_000
_MANY_WITHOUT: Final = 0.5  # of the responses have no hard negative, as a share: the limit for a warning


@dataclass(frozen=True, kw_only=True)
class RaterOrder(TrainingOrder):
    """The order of a rater by name: its logs, sizes and training."""

    kind: ClassVar[str] = KIND

    model: RaterConfig = field(default_factory=RaterConfig)
    examples: ExampleSettings = field(default_factory=ExampleSettings)
    shared: SharedSettings | None = None  # None: the default of the logs' language

    @classmethod
    def read_settings(cls, written: Mapping[str, Any]) -> dict[str, object]:
        """Return which utterances count."""
        return {"shared": None if written["shared"] is None else SharedSettings(**written["shared"])}

    def shared_utterances(self, sources: TrainingLogs) -> SharedSettings:
        """Return which utterances count."""
        return self.shared or SharedSettings.for_language(sources.languages[0], seed=self.examples.seed)

    def own_inputs(self, sources: TrainingLogs) -> dict[str, object]:
        """Return its settings, and which utterances count."""
        return {**super().own_inputs(sources), "shared": asdict(self.shared_utterances(sources))}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.examples.negatives != "random" and self.start != "vectors":
            raise Usage(
                f"{self.examples.negatives} negatives are found by vectors of the pieces, and there are none where "
                f"embeddings start {self.start}",
                remedy="--embeddings vectors, or --negatives random",
            )


@dataclass(frozen=True, kw_only=True)
class RaterPreset(NetworkPreset):
    """Sizes of a rater that were tested together."""

    features: Features = "products"


PRESETS: Final[Mapping[str, RaterPreset]] = {
    "paper": RaterPreset(
        embedding=512, hidden=512, width=1024, batch=1_000, start="random", features="texts", decay="none", epochs=15
    ),
    "base": RaterPreset(embedding=128, hidden=128, width=256, batch=256, dropout=0.3),
    "small": RaterPreset(embedding=64, hidden=64, width=128, batch=128, pieces=2_000),
}


def train_rater(
    places: TrainingPlaces,
    order: RaterOrder,
    progress: Progress,
    **told: Unpack[TrainingKeywords],
) -> TrainedVersion:
    """Mine examples, train a tokenizer and the network, measure and publish; resume an interrupted run.

    If the published rater was trained on exactly these inputs, it is returned as it is, unless `again` is set.
    """

    def train(training: Training[RaterOrder]) -> PreparedVersion:
        tokenizer = prepare(training, places.cache)
        if training.cluster is not None:
            train_on(training.cluster, RaterMember, training)
        splits, without_partner = _splits(order, training.folder, progress)
        model = _new_rater(order, tokenizer, training.folder)
        course = training.run(task_of(model, splits["train"], splits["validation"], order.training))
        report = _report(model, course, splits, without_partner, training)
        shared = asdict(order.shared_utterances(training.sources))
        return training.rater_version(FILES, model, tokenizer, report, order.examples, shared=shared)

    return train_network(places, order, progress, train, **told)


def prepare(training: Training[RaterOrder], cache: Path, *, with_short: bool = True) -> SentencePieceTokenizer:
    """Run all stages before the first batch: shared utterances as pieces, the tokenizer, the initial embeddings."""
    order, stages, progress, logs = training.order, training.stages, training.progress, training.sources.logs
    shared, folder = order.shared_utterances(training.sources), stages.folder
    with QueryEngine(scratch_in(cache), memory=order.memory, threads=order.training.threads) as engine:
        stages.run("shared", lambda: mine(engine, logs, shared, folder, progress))
        if with_short:
            stages.run("short", lambda: _mine_short(engine, logs, shared, folder / _SHORT, progress))
    tokenizer = training.tokenizer(order.examples.seed)
    stages.run("pieces", lambda: code_texts(tokenizer, folder, order.model.max_tokens, progress))
    if with_short and stages.facts("short")["utterances"]:
        stages.run("short pieces", lambda: code_texts(tokenizer, folder / _SHORT, order.model.max_tokens, progress))
    training.embeddings(tokenizer, order.model.embedding)
    return tokenizer


def find_hard_partners(
    corpus: ExampleCorpus, split: Split, order: RaterOrder, folder: Path, progress: Progress
) -> HardPartners:
    """Find the hard negatives of one split, from that split alone; initial embeddings compare the utterances."""
    embeddings = read_embeddings(folder / EMBEDDINGS)
    settings = HardSettings(seed=order.examples.seed)
    return hard_partners(corpus, corpus.of_split(split, order.examples), embeddings, settings, progress)


def _hard_partners_for_training(
    corpus: ExampleCorpus, order: RaterOrder, folder: Path, progress: Progress
) -> HardPartners | None:
    """Find the hard negatives of the training split if the order requests any."""
    if order.examples.negatives == "random":
        return None
    hard = find_hard_partners(corpus, "train", order, folder, progress)
    if hard.without_partner > _MANY_WITHOUT:
        progress.warn(
            f"{100 * hard.without_partner:.0f} % of the responses have no hard negative, and get random ones: too few "
            "of these logs' words are rare and shared"
        )
    return hard


def _measure_on_hard(
    model: BiGRURater, corpus: ExampleCorpus, order: RaterOrder, folder: Path, progress: Progress
) -> Mapping[str, Any] | None:
    """Measure the rater on hard negatives; None if there are no vectors to find them, or too few."""
    if order.start == "random":
        return None
    return hard_report(model, corpus, order.examples, find_hard_partners(corpus, "validation", order, folder, progress))


def _new_rater(order: RaterOrder, tokenizer: SentencePieceTokenizer, folder: Path) -> BiGRURater:
    """Return the network with its initial weights."""
    config = replace(order.model, vocabulary=tokenizer.vocab_size)
    embeddings = None if order.start == "random" else folder / EMBEDDINGS
    return new_network(lambda: BiGRURater(config), order.training.seed, embeddings)


class RaterMember(TrainingMember):
    """One process of a rater's training on a cluster."""

    def task(self, progress: Progress, **arguments: Any) -> Task[Any]:
        """Return the task of the rater whose stages before the first batch lie in a folder."""
        order, folder = arguments["order"], arguments["folder_of_stages"]
        splits, _ = _splits(order, folder, progress)
        model = _new_rater(order, open_sentencepiece(folder / TOKENIZER), folder)
        return task_of(model, splits["train"], splits["validation"], order.training)


def _splits(order: RaterOrder, folder: Path, progress: Progress) -> tuple[Mapping[Split, Examples], float | None]:
    """Return the examples to train on and to validate on, and the share of responses without a hard negative."""
    corpus = open_corpus(folder)
    hard = _hard_partners_for_training(corpus, order, folder, progress)
    partners = None if hard is None else hard.partners
    splits: dict[Split, Examples] = {
        "train": Examples(corpus, "train", order.examples, order.model.max_tokens, partners),
        "validation": Examples(corpus, "validation", order.examples, order.model.max_tokens),
    }
    _require_both(splits)
    return splits, None if hard is None else hard.without_partner


def _report(
    model: BiGRURater,
    course: TrainingCourse,
    splits: Mapping[Split, Examples],
    without_partner: float | None,
    training: Training[RaterOrder],
) -> dict[str, Any]:
    """Return the report: what the rater was trained on, and its quality."""
    order, folder, stages = training.order, training.folder, training.stages
    corpus = open_corpus(folder)
    return {
        "examples": {name: statistics_of(corpus, examples) for name, examples in splits.items()},
        **training.facts(mined="shared", tokenizer="tokenizer", texts="pieces", embeddings="embeddings"),
        "negatives": {"kind": order.examples.negatives, "without_partner": without_partner},
        **report_of(model, course, splits["validation"]),
        "hard": _measure_on_hard(model, corpus, order, folder, training.progress),
        "short": short_report(model, order.examples, folder / _SHORT, stages.facts("short")),
    }


def _require_both(splits: Mapping[Split, Examples]) -> None:
    for name, examples in splits.items():
        if not examples.has_negatives:
            raise BadInput(
                f"{examples.positive_count} positive examples of {len(examples.utterances)} utterances are left for "
                f"{name}: too few to find as many pairs that do not belong together",
                remedy="give more logs, or another --validation-share",
            )


def _mine_short(
    engine: QueryEngine, logs: Sequence[StoredLog], shared: SharedSettings, folder: Path, progress: Progress
) -> Mapping[str, Any]:
    """Write some of the utterances that are too short for training: the rater is asked about them all the same."""
    make_folder(folder)
    progress.stage("finding short utterances", None, "utterances")
    return write_shared(engine, logs, replace(shared, too_short=True), folder, progress, most=_MOST_SHORT)


# ── Hard negatives of logs as texts, to be read before training on them ───────────────────────────────────────────────


READ: Final = 100


@dataclass(frozen=True, kw_only=True)
class HardNegative:
    """A response to an utterance, and a response to another utterance that the rater must separate from it."""

    utterance: str
    response: str
    hard: str
    answered: str  # the utterance that the hard negative answers


@dataclass(frozen=True, kw_only=True)
class HardNegatives:
    """Some hard negatives, and the share of the responses without one."""

    negatives: tuple[HardNegative, ...]
    without_partner: float


def hard_negatives(
    logs: Path, cache: Path, order: RaterOrder, learn_vectors: LearnVectors, progress: Progress, *, count: int = READ
) -> HardNegatives:
    """Return up to `count` hard negatives that the training of an order would draw, of different responses.

    No network is trained. The vectors and shared utterances computed for it are deleted afterwards.
    """
    if order.start != "vectors":
        raise Usage("hard negatives are found by vectors of the pieces", remedy="start=vectors")
    sources = open_training_logs(logs, order)
    with _scratch(cache) as folder:
        training = Training(
            order=order, sources=sources, stages=Stages(folder), progress=progress, learn_vectors=learn_vectors
        )
        prepare(training, cache, with_short=False)
        corpus = open_corpus(folder)
        partners = find_hard_partners(corpus, "train", order, folder, progress)
        rows = _draw_rows(corpus, partners, count, order.examples.seed)
        texts = _texts(folder, rows)
    return HardNegatives(
        negatives=tuple(
            HardNegative(utterance=texts[u], response=texts[r], hard=texts[h], answered=texts[v])
            for u, r, v, h in rows.tolist()
        ),
        without_partner=partners.without_partner,
    )


@contextmanager
def _scratch(cache: Path) -> Iterator[Path]:
    """Create a folder that is deleted when the block ends or, after a kill, when the next engine starts."""
    folder = scratch_in(cache)
    with occupy_scratch(folder):
        try:
            yield folder
        finally:
            remove_tree(folder)


def _draw_rows(corpus: ExampleCorpus, hard_partners: HardPartners, count: int, seed: int) -> Texts:
    """Return rows of texts: utterance, response, utterance, hard negative, as in examples."""
    rng = np.random.default_rng(seed)
    responses = rng.permutation(np.flatnonzero(hard_partners.partners[:, 0] >= 0))[:count]
    choices = (hard_partners.partners[responses] >= 0).sum(axis=1)
    hard_responses = hard_partners.partners[responses, rng.integers(0, np.maximum(choices, 1))]
    return np.stack(
        [corpus.utterances_of(responses), responses, corpus.utterances_of(hard_responses), hard_responses], axis=1
    )


def _texts(folder: Path, rows: Texts) -> Mapping[int, str]:
    """Read the texts with these numbers from the file of all texts."""
    numbers = set(rows.ravel().tolist())
    every = chain.from_iterable((row["utterance"], *row["responses"]) for row in shared_rows(folder))
    return {number: text for number, text in enumerate(every) if number in numbers}
