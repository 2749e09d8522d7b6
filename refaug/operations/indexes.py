"""Operations on indexes: build, update, compact, encode, and removal of old versions, of other artefacts too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from refaug.core.artefacts.kinds import ArtefactKind
from refaug.core.errors import Usage
from refaug.core.options.declaring import Argument, Doc, Ge, Gt, Le, Length, Metavar, Panel, Size
from refaug.core.options.decoding import made_of
from refaug.indexer.search.search_settings import Mode
from refaug.operations.operation import MEMORY, Cluster, Memory, Name, Operation, Seed, Share, Spec, Text, Threads
from refaug.scoring.settings import find_preset

if TYPE_CHECKING:
    from refaug.indexer.building.order import IndexOrder


def named_encoder(text: str | None) -> Path | str | None:
    """Return the folder that a text with a slash names; a name of the home stays as it is."""
    return Path(text) if text is not None and "/" in text else text


@dataclass(frozen=True, kw_only=True)
class BuildIndex(Operation):
    """Build an index of some logs, measure its recall, and publish it; an interrupted build goes on where it was."""

    operation: ClassVar[str] = "index-build"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.indexing:build_job"
    panel: ClassVar[Panel] = Panel(
        "Index",
        rare=(
            *("tokenizer", "preset", "weighting", "norm_words", "oov", "bm25", "check_queries", "least_coverage"),
            *("on", "again", "seed", "publish", "threads", "memory"),
        ),
    )

    logs: Annotated[tuple[Name, ...], Length(1, 100), Argument("LOG…"), Doc("Logs whose pairs are indexed.")]
    name: Annotated[Name | None, Doc("Name of the index; by default that of the first log.")] = None
    vectors: Annotated[
        Spec | None, Doc("Word vectors; by default those named as the first log, unless there is an encoder.")
    ] = None
    encoder: Annotated[
        Text | None,
        Metavar("ENCODER"),
        Doc(
            "Sentence encoder instead of word vectors: NAME or NAME@VERSION of the home, or a folder with an ONNX "
            "model, whose path has a slash (of a job, in inbox/ or a source folder)."
        ),
    ] = None
    fit: Annotated[int | None, Size(), Doc("Memory that serving the index may take, such as 4GiB.")] = None
    recall: Annotated[float, Gt(0), Le(1), Doc("The share of exact search's 15 best that must be found.")] = 0.95
    latency_ms: Annotated[float | None, Gt(0), Doc("Milliseconds that a single search may take.")] = None
    factory: Annotated[
        str | None, Length(1, 200), Metavar("FACTORY"), Doc("A kind of index by FAISS's name, e.g. IVF4096,SQ8.")
    ] = None
    tokenizer: Annotated[
        str | None, Length(1, 200), Doc("Tokenizer; by default the one that the vectors were trained with.")
    ] = None
    preset: Annotated[
        Literal["tsuta20"] | None,
        Metavar("NAME"),
        Doc("tsuta20: sentences as in the code of Tsuta et al. (2020): mean, unk."),
    ] = None
    weighting: Annotated[Literal["mean", "sif"], Doc("How words weigh in a sentence.")] = "mean"
    norm_words: Annotated[bool, Doc("Scale each word's vector to unit length first.")] = True
    oov: Annotated[Literal["skip", "unk"], Doc("What words without a vector count as.")] = "skip"
    bm25: Annotated[bool, Doc("Make the modes of BM25 possible as well.")] = True
    check_queries: Annotated[
        int, Ge(0), Le(100_000), Doc("Utterances on which recall is measured; 0 measures nothing.")
    ] = 1_000
    least_coverage: Annotated[Share, Doc("The share of the log's words that the vectors must know.")] = 0.3
    shards: Annotated[
        int, Ge(1), Le(1_024), Doc("Build it in this many parts, one after the other: less memory, the same answers.")
    ] = 1
    on: Annotated[
        Cluster,
        Doc("Build the shards side by side on a cluster of Ray: HOST:PORT, auto on one of its machines, or local."),
    ] = None
    again: Annotated[bool, Doc("Build even if the published version was made of exactly this.")] = False
    seed: Annotated[Seed, Doc("Seed of the sampling for training and for the check.")] = 1
    publish: Annotated[bool, Doc("Let the new version serve.")] = True
    threads: Threads = None
    memory: Memory = MEMORY

    def check(self) -> None:
        """Take over the preset's way of making sentences, and refuse what contradicts it."""
        if self.vectors is not None and self.encoder is not None:
            raise Usage("vectors of words and of an encoder at once", remedy="one of the two", field="encoder")
        if self.on is not None and self.shards < 2:
            raise Usage("a cluster builds shards side by side", remedy="shards from 2", field="shards")
        if (preset := find_preset(self.preset)) is not None:
            stated = {name: getattr(self, name) for name in self.stated}
            for name, setting in preset.complete(preset.sentence, stated).items():
                object.__setattr__(self, name, setting)
            if self.encoder is not None:
                message = f"an encoder contradicts preset {preset.name}, which has means of word vectors"
                raise Usage(message, remedy="word vectors", field="encoder")

    @property
    def index_name(self) -> str:
        """The index that is built."""
        return self.name or self.logs[0]

    def order(self, *, threads: int, encoder: Path | str | None = None, tokenizer: str | None = None) -> IndexOrder:
        """Return it as the index is built; encoder and tokenizer as the face has found them."""
        from refaug.indexer.bm25.scores import Bm25Settings  # noqa: PLC0415
        from refaug.indexer.building.order import IndexOrder  # noqa: PLC0415  compiles
        from refaug.indexer.building.plan import Limits  # noqa: PLC0415
        from refaug.indexer.vectors.sentence_vectors import SentenceSettings  # noqa: PLC0415

        return made_of(
            IndexOrder,
            self,
            name=self.index_name,
            vectors=self.vectors or (self.logs[0] if self.encoder is None else None),
            encoder=encoder,
            tokenizer=tokenizer,
            sentence=SentenceSettings(norm_words=self.norm_words, oov=self.oov, weighting=self.weighting),
            bm25=Bm25Settings() if self.bm25 else None,
            limits=Limits(memory=self.fit, recall=self.recall, latency_ms=self.latency_ms, factory=self.factory),
            threads=threads,
        )

    def sources_named(self) -> list[str]:
        """Return the folder of the encoder, where one is named."""
        return [self.encoder] if self.encoder is not None and "/" in self.encoder else []

    def resources(self) -> tuple[str, ...]:
        """Return the index."""
        return (f"index/{self.index_name}",)


@dataclass(frozen=True, kw_only=True)
class UpdateIndex(Operation):
    """Bring an index up to its logs as they are now."""

    operation: ClassVar[str] = "index-update"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.indexing:update_job"

    index: Annotated[Name, Argument("INDEX"), Doc("The index.")]
    publish: Annotated[bool, Doc("Let the new version serve.")] = True
    least_recall: Annotated[
        Share | None,
        Doc("Compare the new version with a search through all of it; with less recall it is not published."),
    ] = None
    mode: Annotated[Mode, Doc("For `least_recall`: the way of searching that is compared.")] = "embedding-utterance"
    check_queries: Annotated[int, Ge(1), Le(100_000), Doc("For `least_recall`: utterances that are searched for.")] = (
        200
    )
    seed: Annotated[Seed, Doc("Another seed, other utterances.")] = 1
    threads: Threads = None
    memory: Memory = MEMORY

    def resources(self) -> tuple[str, ...]:
        """Return the index."""
        return (f"index/{self.index}",)


@dataclass(frozen=True, kw_only=True)
class CompactIndex(Operation):
    """Build an index again with its own settings, without what was deleted; of shards, only those that have changed."""

    operation: ClassVar[str] = "index-compact"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.indexing:compact_job"

    index: Annotated[Name, Argument("INDEX"), Doc("The index.")]
    whole: Annotated[bool, Doc("Build and train every shard again.")] = False
    publish: Annotated[bool, Doc("Let the new version serve.")] = True
    threads: Threads = None
    memory: Memory = MEMORY

    def resources(self) -> tuple[str, ...]:
        """Return the index."""
        return (f"index/{self.index}",)


@dataclass(frozen=True, kw_only=True)
class EncodeIndex(Operation):
    """Encode all utterances and responses of an index, and keep their vectors; kept ones stay."""

    operation: ClassVar[str] = "index-encode"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.indexing:encode_job"

    index: Annotated[Spec, Argument("INDEX"), Doc("The index: NAME or NAME@VERSION.")]
    encoder: Annotated[
        Spec | None, Doc("Encoder of the home: NAME or NAME@VERSION; by default the one that the index was built with.")
    ] = None
    rater: Annotated[
        Spec | None,
        Doc("Rater of the home: keep what its network reads of each text instead, and new items are rated faster."),
    ] = None
    threads: Threads = None

    def check(self) -> None:
        """Raise Usage for both an encoder and a rater."""
        if self.encoder is not None and self.rater is not None:
            raise Usage("both an encoder and a rater are named", remedy="one after the other", field="rater")


@dataclass(frozen=True, kw_only=True)
class RemoveVersions(Operation):
    """Remove old versions; those stay that are published, in use, or needed by an index or a frozen set."""

    operation: ClassVar[str] = "gc"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.indexing:gc_job"

    artefact: Annotated[ArtefactKind, Doc("What kind of artefact.")]
    name: Annotated[Name, Argument("NAME"), Doc("Which one.")]
    keep: Annotated[int, Ge(0), Le(100_000), Doc("So many of the newest versions stay.")] = 3
    even_pinned: Annotated[bool, Doc("Also remove versions that frozen sets name.")] = False

    def resources(self) -> tuple[str, ...]:
        """Return the artefact."""
        return (f"{self.artefact}/{self.name}",)
