"""Making a rater: from logs to a published version, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from core.engine import Engine, scratch_in
from core.errors import BadInput, Usage
from core.files import make_folder, write_aside
from core.log_store import StoredLog, now
from core.pairs import SharedSettings
from core.progress import Progress
from core.stages import Stages
from core.text import SentencePieceTokenizer, open_sentencepiece
from core.versions import Versions
from rater.checkpoint import KIND, save_rater
from rater.coverage import Coverage
from rater.embeddings import LearnVectors, Start, first_model, read_embeddings
from rater.examples import Corpus, Examples, ExampleSettings, Split
from rater.folder import TOKENIZER
from rater.hard import Hard, HardSettings, hard_partners
from rater.loop import Decay, OnEpoch, OnNow, TrainConfig
from rater.mining import code, mine, open_corpus, write_shared
from rater.model import BiGRURater, Features, RaterConfig
from rater.orders import (
    EMBEDDINGS,
    Made,
    Sources,
    TrainingOrder,
    Written,
    deciding,
    learn_embeddings,
    learn_tokenizer,
    make,
    sources_of,
    stopped_order,
    version_folder,
)
from rater.report import of_hard, of_short, report_of, statistics_of
from rater.train import train

Illustrate = Callable[[Mapping[str, Any]], Mapping[str, bytes]]

_SHORT: Final = "short"  # utterances, which nothing is trained on
_MOST_SHORT: Final = 2_000
_MANY_WITHOUT: Final = 0.5  # responses without a hard negative, as a share: worth a warning


@dataclass(frozen=True, kw_only=True)
class RaterPlaces:
    """The folders that training a rater needs."""

    logs: Path
    raters: Versions
    cache: Path


@dataclass(frozen=True, kw_only=True)
class RaterOrder(TrainingOrder):
    """A rater by name: of which logs, how large, trained how."""

    kind: ClassVar[str] = KIND

    model: RaterConfig = field(default_factory=RaterConfig)
    examples: ExampleSettings = field(default_factory=ExampleSettings)
    shared: SharedSettings | None = None  # None: what suits the logs' language

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.examples.negatives != "random" and self.start != "vectors":
            raise Usage(
                f"{self.examples.negatives} negatives are found by vectors of the pieces, and there are none where "
                f"embeddings start {self.start}",
                remedy="--embeddings vectors, or --negatives random",
            )


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Sizes that were tried together."""

    embedding: int
    hidden: int
    width: int
    batch: int
    pieces: int = 16_000
    start: Start = "vectors"
    features: Features = "products"
    decay: Decay = "linear"
    dropout: float = 0.0
    epochs: int = 5


PRESETS: Final[Mapping[str, Preset]] = {
    "paper": Preset(
        embedding=512, hidden=512, width=1024, batch=1_000, start="random", features="texts", decay="none", epochs=15
    ),
    "base": Preset(embedding=128, hidden=128, width=256, batch=256, dropout=0.3),
    "small": Preset(embedding=64, hidden=64, width=128, batch=128, pieces=2_000),
}


def train_rater(
    places: RaterPlaces,
    order: RaterOrder,
    progress: Progress,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
    *,
    learn_vectors: LearnVectors | None = None,
    illustrate: Illustrate = lambda _report: {},
    again: bool = False,
) -> Made:
    """Mine, learn a vocabulary, train, measure, publish; an interrupted run goes on where it stopped.

    `learn_vectors` is what embeddings start from where the order asks for that; `illustrate` gives files to lie beside
    the report. Nothing is done where the published rater was made of exactly this, unless it is to be done `again`.
    """
    ground = ground_of(places.logs, order)

    def work(stages: Stages, made_of: str) -> Written:
        folder = stages.folder
        tokenizer = prepare(ground, order, stages, places.cache, learn_vectors, progress)
        short, coded = stages.facts("short"), stages.facts("pieces")
        config = replace(order.model, vocabulary=tokenizer.vocab_size)
        corpus = open_corpus(folder)
        hard = _to_train_on(corpus, order, folder, progress)
        partners = None if hard is None else hard.partners
        splits = {
            "train": Examples(corpus, "train", order.examples, config.max_tokens, partners),
            "validation": Examples(corpus, "validation", order.examples, config.max_tokens),
        }
        _require_both(splits)
        trained = train(
            first_model(config, order.training.seed, None if order.start == "random" else folder / EMBEDDINGS),
            splits["train"],
            splits["validation"],
            order.training,
            folder / "training",
            progress,
            on_now,
            on_epoch,
        )
        progress.stage("measuring")
        report = {
            "examples": {name: statistics_of(corpus, one) for name, one in splits.items()},
            "mined": stages.facts("shared"),
            "tokenizer": stages.facts("tokenizer"),
            "texts": coded,
            "embeddings": stages.facts("embeddings"),
            "negatives": {
                "kind": order.examples.negatives,
                "without_partner": None if hard is None else hard.without_partner,
            },
            **report_of(trained, splits["validation"]),
            "hard": _measured_on_hard(trained.model, corpus, order, folder, progress),
            "short": of_short(trained.model, order.examples, folder / _SHORT, short),
        }
        version = version_folder(stages)
        pictures = illustrate(report)
        for file, content in pictures.items():
            with write_aside(version / file) as written:
                written.write(content)
        name = save_rater(
            version,
            trained.model,
            tokenizer,
            temperature=report["temperature"],
            languages=ground.sources.languages,
            coverage=Coverage.read(coded["coverage"]),
            report=report,
            details={
                "at": now(),
                "inputs": made_of,
                **ground.sources.parts,
                "shared": asdict(ground.shared),
                "examples": asdict(order.examples),
                "training": asdict(order.training),
                "seconds": stages.seconds,
            },
            beside=list(pictures),
        )
        return Written(version, name, report)

    return make(places.raters, places.cache, order, _inputs(order, ground), work, again=again)


class Ground(NamedTuple):
    """What a rater is made from: logs, and which utterances count."""

    sources: Sources
    shared: SharedSettings

    @property
    def logs(self) -> tuple[StoredLog, ...]:
        """Those that examples are made of."""
        return self.sources.logs

    @property
    def languages(self) -> tuple[str, ...]:
        """Of these."""
        return self.sources.languages


def ground_of(logs: Path, order: RaterOrder) -> Ground:
    """The logs of an order, opened."""
    sources = sources_of(logs, order)
    return Ground(sources, order.shared or SharedSettings.for_language(sources.languages[0], seed=order.examples.seed))


def prepare(
    ground: Ground,
    order: RaterOrder,
    stages: Stages,
    cache: Path,
    learn_vectors: LearnVectors | None,
    progress: Progress,
    *,
    with_short: bool = True,
) -> SentencePieceTokenizer:
    """All before the first batch: shared utterances as pieces, their tokenizer, what embeddings start from."""
    sources, shared, folder = ground.sources, ground.shared, stages.folder
    with Engine(scratch_in(cache), memory=order.memory, threads=order.training.threads) as engine:
        stages.run("shared", lambda: mine(engine, sources.logs, shared, folder, progress))
        if with_short:
            stages.run("short", lambda: _mine_short(engine, sources.logs, shared, folder / _SHORT, progress))
    stages.run("tokenizer", lambda: learn_tokenizer(sources, order, order.examples.seed, folder, progress))
    tokenizer = open_sentencepiece(folder / TOKENIZER)
    stages.run("pieces", lambda: code(tokenizer, folder, order.model.max_tokens, progress))
    if with_short and stages.facts("short")["utterances"]:
        stages.run("short pieces", lambda: code(tokenizer, folder / _SHORT, order.model.max_tokens, progress))
    learn_embeddings(sources, tokenizer, order, order.model.embedding, learn_vectors, stages, progress)
    return tokenizer


def hard_of(corpus: Corpus, split: Split, order: RaterOrder, folder: Path, progress: Progress) -> Hard:
    """The hard negatives of one side, out of that side alone: utterances are compared by what embeddings start from."""
    embeddings = read_embeddings(folder / EMBEDDINGS)
    settings = HardSettings(seed=order.examples.seed)
    return hard_partners(corpus, corpus.of_split(split, order.examples), embeddings, settings, progress)


def _to_train_on(corpus: Corpus, order: RaterOrder, folder: Path, progress: Progress) -> Hard | None:
    """The hard negatives of the training's side, if the order wants any."""
    if order.examples.negatives == "random":
        return None
    found = hard_of(corpus, "train", order, folder, progress)
    if found.without_partner > _MANY_WITHOUT:
        progress.warn(
            f"{100 * found.without_partner:.0f} % of the responses have no hard negative, and get random ones: too few "
            "of these logs' words are rare and shared"
        )
    return found


def _measured_on_hard(
    model: BiGRURater, corpus: Corpus, order: RaterOrder, folder: Path, progress: Progress
) -> Mapping[str, Any] | None:
    """How the rater does on hard negatives; None where there is nothing to find them by, or are too few."""
    if order.start == "random":
        return None
    return of_hard(model, corpus, order.examples, hard_of(corpus, "validation", order, folder, progress))


def resume_rater(
    places: RaterPlaces,
    name: str,
    progress: Progress,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
    *,
    learn_vectors: LearnVectors | None = None,
    illustrate: Illustrate = lambda _report: {},
) -> Made:
    """Go on with a training that was stopped, as it was ordered; the newest, if there are several."""
    order = stopped_order(
        places.cache, KIND, name, _order_of, lambda order: _inputs(order, ground_of(places.logs, order))
    )
    return train_rater(
        places, order, progress, on_now, on_epoch, learn_vectors=learn_vectors, illustrate=illustrate, again=True
    )


def _order_of(written: Mapping[str, Any]) -> RaterOrder:
    """What was ordered."""
    shared = written["shared"]
    return RaterOrder(
        **{
            **written,
            "logs": tuple(written["logs"]),
            "more_texts": tuple(written["more_texts"]),
            "model": RaterConfig(**written["model"]),
            "examples": ExampleSettings(**written["examples"]),
            "training": TrainConfig(**written["training"]),
            "shared": None if shared is None else SharedSettings(**shared),
        }
    )


def _inputs(order: RaterOrder, ground: Ground) -> dict[str, Any]:
    """What decides over the rater."""
    return {
        **ground.sources.parts,
        "languages": ground.languages,
        "shared": asdict(ground.shared),
        "model": asdict(order.model),
        "examples": asdict(order.examples),
        "training": deciding(order.training),
        "pieces": order.pieces,
        "start": order.start,
    }


def _require_both(splits: Mapping[str, Examples]) -> None:
    for name, examples in splits.items():
        if not examples.has_negatives:
            raise BadInput(
                f"{examples.positive_count} positive examples of {len(examples.utterances)} utterances are left for "
                f"{name}: too few to find as many pairs that do not belong together",
                remedy="give more logs, or another --validation-share",
            )


def _mine_short(
    engine: Engine, logs: Sequence[StoredLog], shared: SharedSettings, folder: Path, progress: Progress
) -> Mapping[str, Any]:
    """Write some of the utterances that are too short to be trained on: the rater is asked for them all the same."""
    make_folder(folder)
    progress.stage("finding short utterances", None, "utterances")
    return write_shared(engine, logs, replace(shared, too_short=True), folder, progress, most=_MOST_SHORT)
