"""The part that all trainings share: an order, the stages from it to a version, and resuming an interrupted one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Literal, NamedTuple, Protocol, Self, TypeVar, Unpack, get_args

from refaug.core.artefacts.build_stages import Stages, hash_of_inputs
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Conflict, Corrupt, Locked, NotFound, Usage
from refaug.core.files import make_folder, read_json, remove_tree, require_name, write_aside, write_json
from refaug.core.progress import Progress
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.core.vectors.encoders import Encoder
from refaug.logs.manifest import now
from refaug.logs.store import StoredLog
from refaug.rater.language_coverage import Coverage
from refaug.rater.network_folder import TOKENIZER, SavedFacts
from refaug.rater.training.corpus import turns_of
from refaug.rater.training.initial_embeddings import LearnVectors, PieceVectorSettings, Start, write_embeddings
from refaug.rater.training.loop import Decay, OnEpoch, OnNow, Task, TrainConfig, TrainingCourse, run

# ── Interrupted trainings: their remains in the cache, which hold texts of the logs they began with ───────────────────

ORDER: Final = "order.json"


def remove_interrupted(networks: Versions, cache: Path, log: str) -> tuple[list[str], list[str]]:
    """Remove a kind's interrupted trainings that hold texts of a log; return their names, and those of running ones.

    After a deletion none of them could continue, and they hold what was deleted. A running training removes its
    texts itself when it finishes.
    """
    removed, running = list[str](), list[str]()
    for path in sorted(cache.glob(f"{networks.kind}-*/{ORDER}")):
        try:
            order: dict[str, Any] = read_json(path)
            name, logs = str(order["name"]), [*order["logs"], *order.get("more_texts", [])]
        except (Corrupt, KeyError, TypeError):
            continue
        if log not in logs:
            continue
        try:
            with networks.writing(name, f"removing what is left of a training of {networks.kind} {name}"):
                Stages(path.parent).drop()
            removed.append(name)
        except Locked:
            running.append(name)
    return removed, running


# ── The part that all trainings share: an order, the stages from it to a version, and resuming an interrupted one ─────

EMBEDDINGS: Final = "embeddings.npy"
_SENTENCES: Final = 200_000  # turns for training the tokenizer, which takes 550 MiB


class EncoderOpener(Protocol):
    """Opens an encoder of the home by NAME, NAME@VERSION or NAME@VERSION#HASH."""

    def __call__(self, spec: str, *, keep: bool = True) -> Encoder:
        """Return it; it keeps the vectors that it computes, unless they are of texts that no log has."""


@dataclass(frozen=True, kw_only=True)
class TrainingPlaces:
    """The folders that training a network needs: the logs, the versions of its kind, and one for unfinished work."""

    logs: Path
    versions: Versions
    cache: Path
    open_encoder: EncoderOpener | None = None  # for networks that read an encoder's vectors


@dataclass(frozen=True, kw_only=True)
class NetworkPreset:
    """Sizes that were tested together."""

    embedding: int
    hidden: int
    width: int
    batch: int
    pieces: int = 16_000
    start: Start = "vectors"
    decay: Decay = "linear"
    dropout: float = 0.0
    epochs: int = 5
    learning_rate: float = 1e-3


@dataclass(frozen=True, kw_only=True)
class TrainingOrder:
    """The order of a network by name: its logs and its training."""

    kind: ClassVar[str]

    name: str
    logs: tuple[str, ...]
    training: TrainConfig = field(default_factory=TrainConfig)
    more_texts: tuple[str, ...] = ()  # further logs, used for pieces and vectors but not for examples
    pieces: int = 16_000  # of the tokenizer, without pad and unk
    start: Start = "random"  # of the embeddings: random, or vectors of the pieces trained on the same logs
    memory: int = 2 << 30
    publish: bool = True

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Self:
        """Return the order that was saved as JSON."""
        return cls(
            **{
                **written,
                "logs": tuple(written["logs"]),
                "more_texts": tuple(written["more_texts"]),
                "training": TrainConfig(**written["training"]),
                **cls.read_settings(written),
            }
        )

    @classmethod
    def read_settings(cls, written: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of this kind of network that are no plain JSON."""
        raise NotImplementedError

    def own_inputs(self, sources: TrainingLogs) -> dict[str, Any]:
        """Return what determines this kind of network beside its logs, pieces and training."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        require_name(self.kind, self.name)
        if not self.logs or len(set(self.logs)) < len(self.logs):
            raise Usage(f"a {self.kind} is trained on one log or more, each named once", remedy="refaug log list")
        if twice := next((name for name in self.more_texts if (*self.logs, *self.more_texts).count(name) > 1), None):
            raise Usage(f"log {twice} is named twice", remedy="name it among the logs, or once as more texts")
        if self.start not in get_args(Start):
            raise Usage(f"embeddings that start {self.start!r}", remedy=f"one of: {', '.join(get_args(Start))}")


AnyOrder = TypeVar("AnyOrder", bound=TrainingOrder)


@dataclass(frozen=True, kw_only=True)
class TrainedVersion:
    """A finished version of a network."""

    name: str
    version: str
    id: str
    published: bool
    report: Mapping[str, Any]
    is_new: bool = True


class PreparedVersion(NamedTuple):
    """A version in its folder, ready to be added."""

    folder: Path
    id: str
    report: Mapping[str, Any]


class TrainingLogs(NamedTuple):
    """The opened logs of an order, and the languages of those that examples come from."""

    logs: tuple[StoredLog, ...]
    more_texts: tuple[StoredLog, ...]
    languages: tuple[str, ...]

    @property
    def texts(self) -> tuple[StoredLog, ...]:
        """All logs whose turns are read."""
        return (*self.logs, *self.more_texts)

    @property
    def pair_count(self) -> int:
        """The number of pairs that examples come from."""
        return sum(part.pairs for log in self.logs for part in log.manifest.parts)

    @property
    def parts(self) -> dict[str, dict[str, list[str]]]:
        """The parts of the logs by hash, for the manifest and among the inputs that determine a network."""
        return {"logs": _parts(self.logs), "more_texts": _parts(self.more_texts)}


def open_training_logs(logs: Path, order: TrainingOrder) -> TrainingLogs:
    """Open the logs of an order sorted by name, so that the order of the names does not matter."""
    opened = tuple(StoredLog.open(logs, name) for name in sorted(order.logs))
    more = tuple(StoredLog.open(logs, name) for name in sorted(order.more_texts))
    return TrainingLogs(
        opened, more, tuple(sorted({ingest.language for log in opened for ingest in log.manifest.ingests}))
    )


def _parts(logs: Sequence[StoredLog]) -> dict[str, list[str]]:
    return {log.manifest.name: [part.sha256 for part in log.manifest.parts] for log in logs}


def _inputs_of(order: TrainingOrder, sources: TrainingLogs) -> dict[str, Any]:
    """Return the inputs that determine a network; device, threads and workers do not."""
    return {
        **sources.parts,
        "languages": sources.languages,
        **order.own_inputs(sources),
        "training": {
            name: setting
            for name, setting in asdict(order.training).items()
            if name not in ("threads", "device", "workers") and (name, setting) != ("clip_norm", None)
        },
        "pieces": order.pieces,
        "start": order.start,
    }


def details_of(
    order: TrainingOrder, sources: TrainingLogs, stages: Stages, input_hash: str, **settings: Any
) -> dict[str, Any]:
    """Return the details of a training for the manifest, with the settings of its kind."""
    return {
        "at": now(),
        "inputs": input_hash,
        **sources.parts,
        **settings,
        "training": asdict(order.training),
        "seconds": stages.seconds,
    }


# From an order to a version

Illustrate = Callable[[Mapping[str, Any]], Mapping[str, bytes]]


class WriteNetwork(Protocol):
    """Writes the folder of a network."""

    def __call__(self, folder: Path, model: Any, tokenizer: Any, /, **facts: Unpack[SavedFacts]) -> str:
        """Return the network's id."""


@dataclass(frozen=True, kw_only=True)
class Training(Generic[AnyOrder]):
    """A training of a network under way: its logs and stages, and whom it tells how far it is."""

    order: AnyOrder
    sources: TrainingLogs
    stages: Stages
    progress: Progress
    input_hash: str = ""
    learn_vectors: LearnVectors | None = None
    illustrate: Illustrate = lambda _report: {}  # files that are stored beside the report
    on_now: OnNow = lambda _now: None
    on_epoch: OnEpoch = lambda _figures: None

    @property
    def folder(self) -> Path:
        """The folder of unfinished work."""
        return self.stages.folder

    def tokenizer(self, seed: int, *, method: Literal["unigram", "bpe"] = "unigram") -> SentencePieceTokenizer:
        """Return the tokenizer, trained on the turns of all the logs, as a stage."""
        return learn_tokenizer(self.sources, self.order, seed, self.stages, self.progress, method=method)

    def embeddings(self, tokenizer: SentencePieceTokenizer, dimensions: int) -> Path | None:
        """Write the initial embeddings, as a stage; None if they are random."""
        return learn_embeddings(
            self.sources, tokenizer, self.order, dimensions, self.learn_vectors, self.stages, self.progress
        )

    def run(self, task: Task[Any]) -> TrainingCourse:
        """Train the network of a task, on from the last checkpoint if there is one; measuring follows."""
        course = run(task, self.order.training, self.folder / "training", self.progress, self.on_now, self.on_epoch)
        self.progress.stage("measuring")
        return course

    def facts(self, **stages: str) -> dict[str, object]:
        """Return what stages have written, for a report."""
        return {name: self.stages.facts(stage) for name, stage in stages.items()}

    def version(
        self,
        write: WriteNetwork,
        model: Any,
        tokenizer: SentencePieceTokenizer,
        report: Mapping[str, Any],
        *,
        coverage: Coverage | None,
        **settings: Any,
    ) -> PreparedVersion:
        """Write the folder of the new version, with the settings of its kind."""
        folder = version_folder(self.stages)
        pictures = write_pictures(folder, self.illustrate(report))
        name = write(
            folder,
            model,
            tokenizer,
            languages=self.sources.languages,
            coverage=coverage,
            report=report,
            details=details_of(self.order, self.sources, self.stages, self.input_hash, **settings),
            beside=pictures,
        )
        return PreparedVersion(folder, name, report)


def train_network(
    places: TrainingPlaces,
    order: AnyOrder,
    progress: Progress,
    train: Callable[[Training[AnyOrder]], PreparedVersion],
    *,
    again: bool,
    require: Callable[[TrainingLogs], object] = lambda _sources: None,
    **told: Any,
) -> TrainedVersion:
    """Let `train` make a version in the stages of a training, as `train_version` does; `told` is for the training."""
    sources = open_training_logs(places.logs, order)
    require(sources)

    def train_stages(stages: Stages, input_hash: str) -> PreparedVersion:
        return train(
            Training(order=order, sources=sources, stages=stages, progress=progress, input_hash=input_hash, **told)
        )

    return train_version(places, order, sources, train_stages, again=again)


def train_version(
    places: TrainingPlaces,
    order: TrainingOrder,
    sources: TrainingLogs,
    train: Callable[[Stages, str], PreparedVersion],
    *,
    again: bool,
) -> TrainedVersion:
    """Let `train` make a version from the inputs of an order and add it; `train` resumes an interrupted run.

    `train` gets the stages and the hash of the inputs. If the published version was trained on exactly these
    inputs, it is returned as it is, unless `again` is set.
    """
    inputs, versions, cache = _inputs_of(order, sources), places.versions, places.cache
    input_hash = hash_of_inputs(inputs)
    with versions.writing(order.name, f"training {order.kind} {order.name}") as writer:
        if not again and (published := _published_version(versions, order.name, input_hash)) is not None:
            leftover = cache / f"{order.kind}-{order.name}-{input_hash[:12]}"
            if leftover.is_dir():  # from a kill right after publishing
                Stages(leftover).drop()
            return published
        stages = Stages.of(cache, f"{order.kind}-{order.name}", inputs)
        write_json(stages.folder / ORDER, asdict(order))
        prepared = train(stages, input_hash)
        version = str(stages.run("added", lambda: {"version": writer.add(prepared.folder)})["version"])
        if order.publish:
            writer.publish(version)
        stages.drop()
    return TrainedVersion(
        name=order.name, version=version, id=prepared.id, published=order.publish, report=prepared.report
    )


def version_folder(stages: Stages) -> Path:
    """Create an empty folder for the version."""
    folder = stages.folder / "version"
    remove_tree(folder)
    make_folder(folder)
    return folder


def write_pictures(version: Path, pictures: Mapping[str, bytes]) -> list[str]:
    """Write the pictures of a report into the folder of a version; return their names."""
    for name, content in pictures.items():
        with write_aside(version / name) as output:
            output.write(content)
    return list(pictures)


def _published_version(versions: Versions, name: str, input_hash: str) -> TrainedVersion | None:
    """Return the published version if it was trained on exactly these inputs."""
    if versions.current(name) is None:
        return None
    with versions.open(name) as held:
        manifest: dict[str, Any] = read_json(held.folder / MANIFEST)
        if manifest.get("details", {}).get("inputs") != input_hash:
            return None
        report: dict[str, Any] = read_json(held.folder / "report.json")
        return TrainedVersion(
            name=name, version=held.version, id=manifest["id"], published=True, report=report, is_new=False
        )


# Resuming


def interrupted_order_path(cache: Path, kind: str, name: str, command: str) -> Path:
    """Return the file with the order of an interrupted training, the newest if there are several."""
    require_name(kind, name)
    orders = sorted(cache.glob(f"{kind}-{name}-????????????/{ORDER}"), key=lambda path: path.stat().st_mtime)
    if not orders:
        raise NotFound(f"no training of {kind} {name!r} was stopped", remedy=f"{command} LOG --name {name}")
    return orders[-1]


def interrupted_order(places: TrainingPlaces, order_type: type[AnyOrder], name: str) -> AnyOrder:
    """Return the order of an interrupted training, the newest if there are several.

    Conflict if its logs have changed.
    """
    kind = order_type.kind
    command = f"refaug train {kind}"
    newest = interrupted_order_path(places.cache, kind, name, command)
    remedy = f"train anew with {command}, which removes what is left of it"
    try:
        order = order_type.read(read_json(newest))
    except (KeyError, TypeError) as error:  # written by a version with other settings
        raise Corrupt(f"the order of the training that was stopped cannot be read: {error}", remedy=remedy) from error
    inputs = _inputs_of(order, open_training_logs(places.logs, order))
    if not newest.parent.name.endswith(hash_of_inputs(inputs)[:12]):
        raise Conflict(
            f"{', '.join((*order.logs, *order.more_texts))}: changed since the training of {kind} {name!r} was "
            "stopped, so it cannot go on",
            remedy=remedy,
        )
    return order


# Stages


def learn_tokenizer(
    sources: TrainingLogs,
    order: TrainingOrder,
    seed: int,
    stages: Stages,
    progress: Progress,
    *,
    method: Literal["unigram", "bpe"] = "unigram",
) -> SentencePieceTokenizer:
    """Return the tokenizer, trained on the turns of all the logs, as a stage."""

    def train_tokenizer() -> Mapping[str, Any]:
        settings = TokenizerTraining(
            vocab_size=order.pieces,
            method=method,
            at_most=True,
            sample=_SENTENCES,
            seed=seed,
            language=sources.languages[0],
        )
        trained = train_sentencepiece(turns_of(sources.texts, progress), stages.folder / TOKENIZER, settings)
        return {"pieces": trained.vocab_size, "sha256": trained.sha256, "sentences": trained.sentences_used}

    stages.run("tokenizer", train_tokenizer)
    return open_sentencepiece(stages.folder / TOKENIZER)


def learn_embeddings(
    sources: TrainingLogs,
    tokenizer: SentencePieceTokenizer,
    order: TrainingOrder,
    dimensions: int,
    learn: LearnVectors | None,
    stages: Stages,
    progress: Progress,
) -> Path | None:
    """Write the initial embeddings, as a stage; None if they are random."""
    if order.start == "random":
        stages.run("embeddings", lambda: {"start": order.start})
        return None
    path = stages.folder / EMBEDDINGS

    def train_embeddings() -> Mapping[str, Any]:
        if learn is None:
            raise Usage("nobody is there to learn the vectors that embeddings are to start from", remedy="start=random")
        settings = PieceVectorSettings(
            dimensions=dimensions,
            seed=order.training.seed,
            threads=order.training.threads,
            memory=order.memory,
        )
        details = write_embeddings(path, sources.texts, tokenizer, settings, learn, progress)
        return {"start": order.start, **details}

    stages.run("embeddings", train_embeddings)
    remove_tree(path.with_suffix(""))  # half of the training's folder could not be resumed
    return path
