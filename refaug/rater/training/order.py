"""The part that all trainings share: an order, the stages from it to a version, and resuming an interrupted one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    get_args,
)

from refaug.core.artefacts.build_stages import Stages, hash_of_inputs
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Conflict, Corrupt, Locked, NotFound, Usage
from refaug.core.files import make_folder, read_json, remove_tree, require_name, write_aside, write_json
from refaug.core.progress import Progress
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.logs.manifest import now
from refaug.logs.pairs import SharedSettings
from refaug.logs.store import StoredLog
from refaug.rater.language_coverage import Coverage
from refaug.rater.network_folder import TOKENIZER, NetworkFiles, SavedFacts, TrainingPlaces
from refaug.rater.training.corpus import turns_of
from refaug.rater.training.initial_embeddings import LearnVectors, PieceVectorSettings, Start, write_embeddings
from refaug.rater.training.loop import Decay, OnEpoch, OnNow, Task, TrainConfig, TrainingCourse, run

if TYPE_CHECKING:
    from refaug.core.clusters import ConnectedCluster

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
                **{kind.name: record(**written[kind.name]) for kind, record in cls._records()},
                **cls.read_settings(written),
            }
        )

    @classmethod
    def _records(cls) -> Iterator[tuple[Field[Any], Any]]:
        """Yield the fields that are records, each with its type."""
        for own in fields(cls):
            record: Any = own.default_factory
            if is_dataclass(record):
                yield own, record

    @classmethod
    def read_settings(cls, written: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003  most have no others
        """Return the settings of this kind of network that are neither plain JSON nor records."""
        return {}

    def own_inputs(self, sources: TrainingLogs) -> dict[str, Any]:  # noqa: ARG002  most are settings alone
        """Return what determines this kind of network beside its logs, pieces and training."""
        shared = {of_all.name for of_all in fields(TrainingOrder)}
        return {name: setting for name, setting in asdict(self).items() if name not in shared}

    def __post_init__(self) -> None:
        require_name(self.kind, self.name)
        if not self.logs or len(set(self.logs)) < len(self.logs):
            raise Usage(f"a {self.kind} is trained on one log or more, each named once", remedy="refaug log list")
        if twice := next((name for name in self.more_texts if (*self.logs, *self.more_texts).count(name) > 1), None):
            raise Usage(f"log {twice} is named twice", remedy="name it among the logs, or once as more texts")
        if self.start not in get_args(Start):
            raise Usage(f"embeddings that start {self.start!r}", remedy=f"one of: {', '.join(get_args(Start))}")


@dataclass(frozen=True, kw_only=True)
class NamedNetworkOrder(TrainingOrder):
    """The order of a rater that names its network, so that a stopped training tells which kind of rater it makes."""

    made: ClassVar[str]

    network: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.network != self.made:
            raise Usage(f"a network {self.network!r}", remedy=f"the order of a rater of kind {self.made}")


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


# From an order to a version

Illustrate = Callable[[Mapping[str, Any]], Mapping[str, bytes]]


class TrainingKeywords(TypedDict, total=False):
    """Keywords of every training, beside its order."""

    again: bool  # train even if the published version was trained on exactly these inputs
    on_now: OnNow
    on_epoch: OnEpoch
    learn_vectors: LearnVectors | None  # trains initial embeddings if the order requests them
    illustrate: Illustrate  # returns files that are stored beside the report
    cluster: ConnectedCluster | None  # whose workers train the network; this process does the rest


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
    cluster: ConnectedCluster | None = None

    @property
    def folder(self) -> Path:
        """The folder of unfinished work."""
        return self.stages.folder

    def tokenizer(self, seed: int, *, method: Literal["unigram", "bpe"] = "unigram") -> SentencePieceTokenizer:
        """Return the tokenizer, trained on the turns of all the logs, as a stage."""
        path = self.folder / TOKENIZER

        def train_tokenizer() -> Mapping[str, Any]:
            settings = TokenizerTraining(
                vocab_size=self.order.pieces,
                method=method,
                at_most=True,
                sample=_SENTENCES,
                seed=seed,
                language=self.sources.languages[0],
            )
            trained = train_sentencepiece(turns_of(self.sources.texts, self.progress), path, settings)
            return {"pieces": trained.vocab_size, "sha256": trained.sha256, "sentences": trained.sentences_used}

        self.stages.run("tokenizer", train_tokenizer)
        return open_sentencepiece(path)

    def embeddings(self, tokenizer: SentencePieceTokenizer, dimensions: int) -> Path | None:
        """Write the initial embeddings, as a stage; None if they are random."""
        order = self.order
        if order.start == "random":
            self.stages.run("embeddings", lambda: {"start": order.start})
            return None
        path, learn = self.folder / EMBEDDINGS, self.learn_vectors

        def train_embeddings() -> Mapping[str, Any]:
            if learn is None:
                raise Usage(
                    "nothing here can learn the vectors that embeddings are to start from", remedy="start=random"
                )
            settings = PieceVectorSettings(
                dimensions=dimensions,
                seed=order.training.seed,
                threads=order.training.threads,
                memory=order.memory,
            )
            details = write_embeddings(path, self.sources.texts, tokenizer, settings, learn, self.progress)
            return {"start": order.start, **details}

        self.stages.run("embeddings", train_embeddings)
        remove_tree(path.with_suffix(""))  # half of the training's folder could not be resumed
        return path

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
        tokenizer: SentencePieceTokenizer | None,
        report: Mapping[str, Any],
        *,
        coverage: Coverage | None,
        **settings: Any,
    ) -> PreparedVersion:
        """Write the folder of the new version, with the settings of its kind."""
        folder = self.folder / "version"
        remove_tree(folder)
        make_folder(folder)
        pictures = self.illustrate(report)
        for picture, content in pictures.items():
            with write_aside(folder / picture) as output:
                output.write(content)
        details = {
            "at": now(),
            "inputs": self.input_hash,
            **self.sources.parts,
            **settings,
            "training": asdict(self.order.training),
            "seconds": self.stages.seconds,
        }
        name = write(
            folder,
            model,
            tokenizer,
            languages=self.sources.languages,
            coverage=coverage,
            report=report,
            details=details,
            beside=list(pictures),
        )
        return PreparedVersion(folder, name, report)

    def rater_version(
        self,
        files: NetworkFiles[Any, Any],
        model: Any,
        tokenizer: SentencePieceTokenizer | None,
        report: Mapping[str, Any],
        examples: Any,
        **settings: Any,
    ) -> PreparedVersion:
        """Write the folder of the new version of a rater, whose report has its temperature and how its texts are cut.

        The shared utterances for pairs of a report are those of the logs' language, unless the settings name others.
        """
        shared = SharedSettings.for_language(self.sources.languages[0], seed=examples.seed)
        return self.version(
            partial(files.save, temperature=report["temperature"]),
            model,
            tokenizer,
            report,
            coverage=Coverage.read(report["texts"]["coverage"]),
            **{"shared": asdict(shared), **settings, "examples": asdict(examples)},
        )


def train_network(
    places: TrainingPlaces,
    order: AnyOrder,
    progress: Progress,
    train: Callable[[Training[AnyOrder]], PreparedVersion],
    *,
    again: bool = False,
    require: Callable[[TrainingLogs], object] = lambda _sources: None,
    **told: Any,
) -> TrainedVersion:
    """Let `train` make a version in the stages of a training, and add it; `train` resumes an interrupted run.

    If the published version was trained on exactly these inputs, it is returned as it is, unless `again` is set.
    `require` refuses logs; `told` is for the training.
    """
    sources = open_training_logs(places.logs, order)
    require(sources)
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
        prepared = train(
            Training(order=order, sources=sources, stages=stages, progress=progress, input_hash=input_hash, **told)
        )
        version = str(stages.run("added", lambda: {"version": writer.add(prepared.folder)})["version"])
        if order.publish:
            writer.publish(version)
        stages.drop()
    return TrainedVersion(
        name=order.name, version=version, id=prepared.id, published=order.publish, report=prepared.report
    )


def is_published(places: TrainingPlaces, order: TrainingOrder) -> bool:
    """Say whether the published version of this name was trained on exactly the inputs of an order."""
    inputs = _inputs_of(order, open_training_logs(places.logs, order))
    return _published_version(places.versions, order.name, hash_of_inputs(inputs)) is not None


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
