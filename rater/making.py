"""Making a rater: from logs to a published version, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

from core.artefacts import MANIFEST
from core.engine import Engine, scratch_in
from core.errors import BadInput, Conflict, Corrupt, NotFound, Usage
from core.files import make_folder, read_json, remove_tree, require_name, write_aside, write_json
from core.log_store import StoredLog, now
from core.pairs import SharedSettings
from core.progress import Progress
from core.stages import Stages, hash_of_inputs
from core.text import SentencePieceTokenizer, open_sentencepiece
from core.tokenizer_training import TokenizerTraining, train_sentencepiece
from core.versions import Versions
from rater.checkpoint import TOKENIZER, save_rater
from rater.coverage import Coverage
from rater.embeddings import LearnVectors, Start, VectorsWanted, first_model, read_embeddings, write_embeddings
from rater.examples import Corpus, Examples, ExampleSettings, Split
from rater.hard import Hard, HardSettings, hard_partners
from rater.mining import code, mine, open_corpus, turns_of, write_shared
from rater.model import BiGRURater, Features, RaterConfig
from rater.report import of_hard, of_short, report_of, statistics_of
from rater.stopped import ORDER
from rater.train import Decay, OnEpoch, OnNow, TrainConfig, train

Illustrate = Callable[[Mapping[str, Any]], Mapping[str, bytes]]

_EMBEDDINGS: Final = "embeddings.npy"
_SHORT: Final = "short"  # utterances, which nothing is trained on
_MOST_SHORT: Final = 2_000
_MANY_WITHOUT: Final = 0.5  # responses without a hard negative, as a share: worth a warning
_SENTENCES: Final = 200_000  # turns that the tokenizer is trained on: 550 MiB while it is


@dataclass(frozen=True, kw_only=True)
class RaterPlaces:
    """The folders that training a rater needs."""

    logs: Path
    raters: Versions
    cache: Path


@dataclass(frozen=True, kw_only=True)
class RaterOrder:
    """A rater by name: of which logs, how large, trained how."""

    name: str
    logs: tuple[str, ...]
    model: RaterConfig = field(default_factory=RaterConfig)
    examples: ExampleSettings = field(default_factory=ExampleSettings)
    training: TrainConfig = field(default_factory=TrainConfig)
    shared: SharedSettings | None = None  # None: what suits the logs' language
    more_texts: tuple[str, ...] = ()  # further logs: pieces and vectors are learnt of their turns too, no examples
    pieces: int = 16_000  # of the tokenizer; pad and unk come on top
    start: Start = "random"  # of the embeddings: drawn, or vectors of the pieces that were learnt from the same logs
    memory: int = 2 << 30
    publish: bool = True

    def __post_init__(self) -> None:
        require_name("rater", self.name)
        if not self.logs or len(set(self.logs)) < len(self.logs):
            raise Usage("a rater is trained on one log or more, each named once", remedy="refaug log list")
        if twice := next((name for name in self.more_texts if (*self.logs, *self.more_texts).count(name) > 1), None):
            raise Usage(f"log {twice} is named twice", remedy="name it among the logs, or once as more texts")
        if self.start not in get_args(Start):
            raise Usage(f"embeddings that start {self.start!r}", remedy=f"one of: {', '.join(get_args(Start))}")
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


@dataclass(frozen=True, kw_only=True)
class MadeRater:
    """A finished version."""

    name: str
    version: str
    id: str
    published: bool
    report: Mapping[str, Any]
    is_new: bool = True


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
) -> MadeRater:
    """Mine, learn a vocabulary, train, measure, publish; an interrupted run goes on where it stopped.

    `learn_vectors` is what embeddings start from where the order asks for that; `illustrate` gives files to lie beside
    the report. Nothing is done where the published rater was made of exactly this, unless it is to be done `again`.
    """
    ground = ground_of(places.logs, order)
    inputs = _inputs(order, ground)
    with places.raters.writing(order.name, f"training rater {order.name}") as writer:
        made_of = hash_of_inputs(inputs)
        if not again and (there := _published(places.raters, order.name, made_of)) is not None:
            left = places.cache / f"rater-{order.name}-{made_of[:12]}"
            if left.is_dir():  # by a kill right after publishing
                Stages(left).drop()
            return there
        stages = Stages.of(places.cache, f"rater-{order.name}", inputs)
        folder = stages.folder
        write_json(folder / ORDER, asdict(order))
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
            first_model(config, order.training.seed, None if order.start == "random" else folder / _EMBEDDINGS),
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
        details = {
            "at": now(),
            "inputs": made_of,
            "logs": _parts(ground.logs),
            "more_texts": _parts(ground.more_texts),
            "shared": asdict(ground.shared),
            "examples": asdict(order.examples),
            "training": asdict(order.training),
            "seconds": stages.seconds,
        }
        version_folder = folder / "version"
        remove_tree(version_folder)
        make_folder(version_folder)
        pictures = illustrate(report)
        for file, content in pictures.items():
            with write_aside(version_folder / file) as written:
                written.write(content)
        name = save_rater(
            version_folder,
            trained.model,
            tokenizer,
            temperature=report["temperature"],
            languages=ground.languages,
            coverage=Coverage.read(coded["coverage"]),
            report=report,
            details=details,
            beside=list(pictures),
        )
        version = str(stages.run("added", lambda: {"version": writer.add(version_folder)})["version"])
        if order.publish:
            writer.publish(version)
        stages.drop()
    return MadeRater(name=order.name, version=version, id=name, published=order.publish, report=report)


class Ground(NamedTuple):
    """What a rater is made from: logs, further ones for their texts, languages, and which utterances count."""

    logs: tuple[StoredLog, ...]
    more_texts: tuple[StoredLog, ...]
    languages: tuple[str, ...]
    shared: SharedSettings


def ground_of(logs: Path, order: RaterOrder) -> Ground:
    """The logs of an order, opened."""
    opened = tuple(StoredLog.open(logs, name) for name in sorted(order.logs))
    more = tuple(StoredLog.open(logs, name) for name in sorted(order.more_texts))
    languages = sorted({one.language for log in opened for one in log.manifest.ingests})
    shared = order.shared or SharedSettings.for_language(languages[0], seed=order.examples.seed)
    return Ground(opened, more, tuple(languages), shared)


def _parts(logs: Sequence[StoredLog]) -> dict[str, list[str]]:
    return {log.manifest.name: [part.sha256 for part in log.manifest.parts] for log in logs}


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
    (logs, more_texts, languages, shared), folder = ground, stages.folder
    texts = (*logs, *more_texts)
    with Engine(scratch_in(cache), memory=order.memory, threads=order.training.threads) as engine:
        stages.run("shared", lambda: mine(engine, logs, shared, folder, progress))
        if with_short:
            stages.run("short", lambda: _mine_short(engine, logs, shared, folder / _SHORT, progress))
    stages.run("tokenizer", lambda: _tokenizer(texts, languages, order, folder, progress))
    tokenizer = open_sentencepiece(folder / TOKENIZER)
    stages.run("pieces", lambda: code(tokenizer, folder, order.model.max_tokens, progress))
    if with_short and stages.facts("short")["utterances"]:
        stages.run("short pieces", lambda: code(tokenizer, folder / _SHORT, order.model.max_tokens, progress))
    stages.run("embeddings", lambda: _embeddings(texts, tokenizer, order, learn_vectors, folder, progress))
    remove_tree((folder / _EMBEDDINGS).with_suffix(""))
    return tokenizer


def hard_of(corpus: Corpus, split: Split, order: RaterOrder, folder: Path, progress: Progress) -> Hard:
    """The hard negatives of one side, out of that side alone: utterances are compared by what embeddings start from."""
    embeddings = read_embeddings(folder / _EMBEDDINGS)
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
) -> MadeRater:
    """Go on with a training that was stopped, as it was ordered; the newest, if there are several."""
    require_name("rater", name)
    orders = sorted(places.cache.glob(f"rater-{name}-????????????/{ORDER}"), key=lambda path: path.stat().st_mtime)
    if not orders:
        raise NotFound(f"no training of rater {name!r} was stopped", remedy=f"refaug rater train LOG --name {name}")
    order = _order_of(read_json(orders[-1]))
    made_of = hash_of_inputs(_inputs(order, ground_of(places.logs, order)))
    if not orders[-1].parent.name.endswith(made_of[:12]):
        raise Conflict(
            f"{', '.join((*order.logs, *order.more_texts))}: changed since the training of rater {name!r} was stopped, "
            "so it cannot go on",
            remedy="train anew with refaug rater train, which removes what is left of it",
        )
    return train_rater(
        places, order, progress, on_now, on_epoch, learn_vectors=learn_vectors, illustrate=illustrate, again=True
    )


def _order_of(written: Mapping[str, Any]) -> RaterOrder:
    """What was ordered; Corrupt, if it was written by a version with other settings."""
    try:
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
    except (KeyError, TypeError) as error:
        raise Corrupt(
            f"the order of the training that was stopped cannot be read: {error}",
            remedy="train anew with refaug rater train, which removes what is left of it",
        ) from error


def _inputs(order: RaterOrder, ground: Ground) -> dict[str, Any]:
    """What decides over the rater; not where it is trained, nor by how many threads."""
    training = {name: value for name, value in asdict(order.training).items() if name not in ("threads", "device")}
    return {
        "logs": _parts(ground.logs),
        "more_texts": _parts(ground.more_texts),
        "languages": ground.languages,
        "shared": asdict(ground.shared),
        "model": asdict(order.model),
        "examples": asdict(order.examples),
        "training": training,
        "pieces": order.pieces,
        "start": order.start,
    }


def _published(raters: Versions, name: str, made_of: str) -> MadeRater | None:
    """The published version, if it was made of exactly this."""
    if raters.current(name) is None:
        return None
    with raters.open(name) as held:
        manifest: dict[str, Any] = read_json(held.folder / MANIFEST)
        if manifest.get("details", {}).get("inputs") != made_of:
            return None
        report: dict[str, Any] = read_json(held.folder / "report.json")
        return MadeRater(
            name=name, version=held.version, id=manifest["id"], published=True, report=report, is_new=False
        )


def _tokenizer(
    logs: Sequence[StoredLog], languages: Sequence[str], order: RaterOrder, folder: Path, progress: Progress
) -> Mapping[str, Any]:
    settings = TokenizerTraining(
        vocab_size=order.pieces, at_most=True, sample=_SENTENCES, seed=order.examples.seed, language=languages[0]
    )
    made = train_sentencepiece(turns_of(logs, progress), folder / TOKENIZER, settings)
    return {"pieces": made.vocab_size, "sha256": made.sha256, "sentences": made.sentences_used}


def _embeddings(
    logs: Sequence[StoredLog],
    tokenizer: SentencePieceTokenizer,
    order: RaterOrder,
    learn: LearnVectors | None,
    folder: Path,
    progress: Progress,
) -> Mapping[str, Any]:
    """Write what the embeddings start from, if it is not drawn."""
    if order.start == "random":
        return {"start": order.start}
    if learn is None:
        raise Usage("nobody is there to learn the vectors that embeddings are to start from", remedy="start=random")
    wanted = VectorsWanted(
        dimensions=order.model.embedding,
        seed=order.training.seed,
        threads=order.training.threads,
        memory=order.memory,
    )
    return {"start": order.start, **write_embeddings(folder / _EMBEDDINGS, logs, tokenizer, wanted, learn, progress)}


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
