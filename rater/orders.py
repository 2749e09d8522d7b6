"""What all trainings share: an order, the way from it to a version, and going on with one that was stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, TypeVar, get_args

from core.artefacts import MANIFEST
from core.errors import Conflict, Corrupt, NotFound, Usage
from core.files import make_folder, read_json, remove_tree, require_name, write_json
from core.log_store import StoredLog
from core.progress import Progress
from core.stages import Stages, hash_of_inputs
from core.text import SentencePieceTokenizer
from core.tokenizer_training import TokenizerTraining, train_sentencepiece
from core.versions import Versions
from rater.embeddings import LearnVectors, Start, VectorsWanted, write_embeddings
from rater.folder import TOKENIZER
from rater.loop import TrainConfig
from rater.mining import turns_of
from rater.stopped import ORDER

EMBEDDINGS: Final = "embeddings.npy"
_SENTENCES: Final = 200_000  # turns that the tokenizer is trained on: 550 MiB while it is


@dataclass(frozen=True, kw_only=True)
class TrainingOrder:
    """A network by name: of which logs, and trained how."""

    kind: ClassVar[str]

    name: str
    logs: tuple[str, ...]
    training: TrainConfig = field(default_factory=TrainConfig)
    more_texts: tuple[str, ...] = ()  # further logs: pieces and vectors are learnt of their turns too, no examples
    pieces: int = 16_000  # of the tokenizer; pad and unk come on top
    start: Start = "random"  # of the embeddings: drawn, or vectors of the pieces that were learnt from the same logs
    memory: int = 2 << 30
    publish: bool = True

    def __post_init__(self) -> None:
        require_name(self.kind, self.name)
        if not self.logs or len(set(self.logs)) < len(self.logs):
            raise Usage(f"a {self.kind} is trained on one log or more, each named once", remedy="refaug log list")
        if twice := next((name for name in self.more_texts if (*self.logs, *self.more_texts).count(name) > 1), None):
            raise Usage(f"log {twice} is named twice", remedy="name it among the logs, or once as more texts")
        if self.start not in get_args(Start):
            raise Usage(f"embeddings that start {self.start!r}", remedy=f"one of: {', '.join(get_args(Start))}")


@dataclass(frozen=True, kw_only=True)
class Made:
    """A finished version."""

    name: str
    version: str
    id: str
    published: bool
    report: Mapping[str, Any]
    is_new: bool = True


class Written(NamedTuple):
    """A version that lies in its folder, ready to be added."""

    folder: Path
    id: str
    report: Mapping[str, Any]


class Sources(NamedTuple):
    """The logs of an order, opened, and the languages of those that it makes examples of."""

    logs: tuple[StoredLog, ...]
    more_texts: tuple[StoredLog, ...]
    languages: tuple[str, ...]

    @property
    def texts(self) -> tuple[StoredLog, ...]:
        """All whose turns are looked at."""
        return (*self.logs, *self.more_texts)

    @property
    def parts(self) -> dict[str, dict[str, list[str]]]:
        """What they hold, by hash: both for a manifest, and among what decides over a network."""
        return {"logs": _parts(self.logs), "more_texts": _parts(self.more_texts)}


def sources_of(logs: Path, order: TrainingOrder) -> Sources:
    """In the order of their names, so that the order in which they were given changes nothing."""
    opened = tuple(StoredLog.open(logs, name) for name in sorted(order.logs))
    more = tuple(StoredLog.open(logs, name) for name in sorted(order.more_texts))
    return Sources(opened, more, tuple(sorted({one.language for log in opened for one in log.manifest.ingests})))


def _parts(logs: Sequence[StoredLog]) -> dict[str, list[str]]:
    return {log.manifest.name: [part.sha256 for part in log.manifest.parts] for log in logs}


def deciding(training: TrainConfig) -> dict[str, Any]:
    """What of a training decides over the network; not where it is trained, nor by how many threads."""
    return {name: value for name, value in asdict(training).items() if name not in ("threads", "device")}


# From an order to a version


def make(
    versions: Versions,
    cache: Path,
    order: TrainingOrder,
    inputs: Mapping[str, Any],
    work: Callable[[Stages, str], Written],
    *,
    again: bool,
) -> Made:
    """Let `work` make a version of these inputs, and add it; what it has left from a stopped run is gone on with.

    It is given the stages and the hash of the inputs. Nothing is done where the published version was made of exactly
    this, unless it is to be done `again`.
    """
    made_of = hash_of_inputs(inputs)
    with versions.writing(order.name, f"training {order.kind} {order.name}") as writer:
        if not again and (there := _published(versions, order.name, made_of)) is not None:
            left = cache / f"{order.kind}-{order.name}-{made_of[:12]}"
            if left.is_dir():  # by a kill right after publishing
                Stages(left).drop()
            return there
        stages = Stages.of(cache, f"{order.kind}-{order.name}", inputs)
        write_json(stages.folder / ORDER, asdict(order))
        written = work(stages, made_of)
        version = str(stages.run("added", lambda: {"version": writer.add(written.folder)})["version"])
        if order.publish:
            writer.publish(version)
        stages.drop()
    return Made(name=order.name, version=version, id=written.id, published=order.publish, report=written.report)


def version_folder(stages: Stages) -> Path:
    """An empty folder for the version."""
    folder = stages.folder / "version"
    remove_tree(folder)
    make_folder(folder)
    return folder


def _published(versions: Versions, name: str, made_of: str) -> Made | None:
    """The published version, if it was made of exactly this."""
    if versions.current(name) is None:
        return None
    with versions.open(name) as held:
        manifest: dict[str, Any] = read_json(held.folder / MANIFEST)
        if manifest.get("details", {}).get("inputs") != made_of:
            return None
        report: dict[str, Any] = read_json(held.folder / "report.json")
        return Made(name=name, version=held.version, id=manifest["id"], published=True, report=report, is_new=False)


# Going on


AnyOrder = TypeVar("AnyOrder", bound=TrainingOrder)


def stopped_order(
    cache: Path,
    kind: str,
    name: str,
    read: Callable[[Mapping[str, Any]], AnyOrder],
    inputs_of: Callable[[AnyOrder], Mapping[str, Any]],
) -> AnyOrder:
    """The order of a training that was stopped, the newest if there are several; Conflict, if its logs have changed."""
    require_name(kind, name)
    found = sorted(cache.glob(f"{kind}-{name}-????????????/{ORDER}"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise NotFound(f"no training of {kind} {name!r} was stopped", remedy=f"refaug {kind} train LOG --name {name}")
    anew = f"train anew with refaug {kind} train, which removes what is left of it"
    try:
        order = read(read_json(found[-1]))
    except (KeyError, TypeError) as error:  # written by a version with other settings
        raise Corrupt(f"the order of the training that was stopped cannot be read: {error}", remedy=anew) from error
    if not found[-1].parent.name.endswith(hash_of_inputs(inputs_of(order))[:12]):
        raise Conflict(
            f"{', '.join((*order.logs, *order.more_texts))}: changed since the training of {kind} {name!r} was "
            "stopped, so it cannot go on",
            remedy=anew,
        )
    return order


# Stages


def learn_tokenizer(
    sources: Sources, order: TrainingOrder, seed: int, folder: Path, progress: Progress
) -> Mapping[str, Any]:
    """Train the tokenizer on the turns of all the logs."""
    settings = TokenizerTraining(
        vocab_size=order.pieces, at_most=True, sample=_SENTENCES, seed=seed, language=sources.languages[0]
    )
    made = train_sentencepiece(turns_of(sources.texts, progress), folder / TOKENIZER, settings)
    return {"pieces": made.vocab_size, "sha256": made.sha256, "sentences": made.sentences_used}


def learn_embeddings(
    sources: Sources,
    tokenizer: SentencePieceTokenizer,
    order: TrainingOrder,
    dimensions: int,
    learn: LearnVectors | None,
    stages: Stages,
    progress: Progress,
) -> Path | None:
    """Write what the embeddings start from, as a stage; None where they are drawn."""
    if order.start == "random":
        stages.run("embeddings", lambda: {"start": order.start})
        return None
    path = stages.folder / EMBEDDINGS

    def learnt() -> Mapping[str, Any]:
        if learn is None:
            raise Usage("nobody is there to learn the vectors that embeddings are to start from", remedy="start=random")
        wanted = VectorsWanted(
            dimensions=dimensions,
            seed=order.training.seed,
            threads=order.training.threads,
            memory=order.memory,
        )
        found = write_embeddings(path, sources.texts, tokenizer, wanted, learn, progress)
        return {"start": order.start, **found}

    stages.run("embeddings", learnt)
    remove_tree(path.with_suffix(""))  # what they were learnt from: half of it could not be gone on with
    return path
