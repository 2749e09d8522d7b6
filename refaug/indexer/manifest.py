"""The manifest of an index version: its contents and how it was made.

It is written last, so a folder without a manifest is not an index.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any, Final, Literal, Self

from refaug.core.artefacts.manifests import content_id, require_format
from refaug.core.errors import Corrupt
from refaug.core.files import read_json, with_checksum, write_json
from refaug.core.processes.kept import cached_property
from refaug.core.version import VERSION
from refaug.indexer.vectors.sentence_vectors import SentenceSettings

FORMAT_VERSION: Final = 1
KIND: Final = "index"
MANIFEST: Final = "manifest.json"
MAIN: Final = "segments/0"
COMMON_ORDER: Final = 2  # of sampling
SHARDS: Final = "shards"  # the folder that holds the main segments of a version with several


@dataclass(frozen=True, kw_only=True)
class LogState:
    """A log as it was when the index was built or updated."""

    name: str
    pairs: int
    parts: Mapping[str, str]  # file → SHA-256
    removed: int = 0  # pairs deleted from it by then


@dataclass(frozen=True, kw_only=True)
class VectorSource:
    """The source of the sentences' vectors: word vectors or an encoder of the home, or an encoder in some folder."""

    kind: Literal["words", "encoder"]
    name: str  # name@version; of an encoder in a folder, its name with its hash
    sha256: str  # of the words and their rows, or of an encoder's files and settings
    dimensions: int
    path: str = ""  # where an encoder lay that was named by a path

    @property
    def spec(self) -> str:
        """The name with the hash of the content, for signatures."""
        return f"{self.name}#{self.sha256[:12]}"

    @property
    def encoder(self) -> Path | str:
        """The encoder as an order names it: its folder, or its name and version in the home."""
        return Path(self.path) if self.path else self.name


@dataclass(frozen=True, kw_only=True)
class SegmentInfo:
    """One part of an index: the main segment, or one that an update added."""

    folder: str
    factory: str
    effort: int  # how many lists are searched, or how broad the walk in a graph is
    depth: int  # candidates for 15 references that are ranked again: more where codes are coarse
    utterances: int
    with_vector: int
    pairs: int
    occurrences: int
    extra_words: int
    superseded: int = 0  # utterances whose pairs have changed since: a later segment has them, or none
    superseded_pairs: int = 0


@dataclass(frozen=True, kw_only=True)
class RecallCheck:
    """How much of exact search the index finds, measured on utterances of the log itself."""

    at: int
    queries: int
    recall: float
    low: float  # of the 95 % interval
    high: float
    lost_similarity: float  # the share of the exact results' similarity that the index misses
    target: float
    depth: int  # candidates taken from the index and ranked again
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether the target was reached."""
        return self.recall >= self.target


@dataclass(frozen=True, kw_only=True)
class ErasedKeys:
    """Pairs, dialogues and speakers that were deleted from the index alone, as hashes."""

    pairs: tuple[str, ...] = ()
    dialogues: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class IndexManifest:
    """Everything that can change an answer of the index, and its contents."""

    name: str
    created: str
    logs: tuple[LogState, ...]
    vectors: VectorSource
    sentence: SentenceSettings
    tokenizer: str
    tokenizer_version: str
    bm25: Mapping[str, float] | None
    seed: int
    check_queries: int  # how many queries were requested; the check says how many there were
    segments: tuple[SegmentInfo, ...]
    check: RecallCheck | None
    plan: Mapping[str, Any]
    limits: Mapping[str, Any]
    seconds: Mapping[str, float]
    software: Mapping[str, str]
    files: Mapping[str, Mapping[str, Any]]
    erased: ErasedKeys = field(default_factory=ErasedKeys)
    inputs: str = ""  # the hash of everything this version was built from, so that it is not built twice
    erasures: int = 0  # counts deletions: a version with a smaller count must not be published again
    shards: int = 1  # ranges of the utterances' keys that the main segments were cut into
    trained_utterances: int = 0  # at the last training, where some shards are younger than it; else 0
    sampling: int = 1  # 2: what is drawn from several segments is numbered in the order that they would have in one
    format_version: int = FORMAT_VERSION
    kind: str = KIND

    @cached_property
    def id(self) -> str:
        """The hash of this content in signatures: the same files searched in the same way."""
        settings = {
            "vectors": self.vectors.sha256,
            "sentence": asdict(self.sentence),
            "tokenizer": [self.tokenizer, self.tokenizer_version],
            "bm25": self.bm25,
            "segments": [asdict(segment) for segment in self.segments],
        }
        return content_id({"files": self.files}, settings)

    @property
    def main_segments(self) -> tuple[SegmentInfo, ...]:
        """The segments that the build made, one for each shard that has utterances; updates add others."""
        return tuple(info for info in self.segments if info.folder == MAIN or info.folder.startswith(f"{SHARDS}/"))

    @property
    def utterances(self) -> int:
        """The number of distinct utterances that can be found."""
        return sum(segment.utterances - segment.superseded for segment in self.segments)

    @property
    def pairs(self) -> int:
        """The number of distinct pairs that can be found."""
        return sum(segment.pairs - segment.superseded_pairs for segment in self.segments)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read and check a manifest; Corrupt names the file and what is wrong with it."""
        path = folder / MANIFEST
        content = read_json(path)
        require_format(path, content, KIND, FORMAT_VERSION)
        try:
            return cls(**_fields(content))
        except (KeyError, TypeError, ValueError) as error:
            raise Corrupt(f"{path}: {error}", remedy="restore it from a backup, or build the index again") from error

    def write(self, folder: Path) -> None:
        """Write the manifest as the last step, which makes the folder an index version."""
        content = {**asdict(self), "id": self.id}
        if self.shards == 1:
            del content["shards"]
        if self.sampling == 1:
            del content["sampling"]
        if not self.trained_utterances:
            del content["trained_utterances"]
        write_json(folder / MANIFEST, with_checksum(content))


def _fields(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the JSON object as the manifest's fields, with the records inside it as objects."""
    fields = {name: field for name, field in content.items() if name != "id"}
    check = content["check"]
    return {
        **fields,
        "logs": tuple(LogState(**log) for log in content["logs"]),
        "vectors": VectorSource(**content["vectors"]),
        "sentence": SentenceSettings(**content["sentence"]),
        "segments": tuple(SegmentInfo(**segment) for segment in content["segments"]),
        "check": None if check is None else RecallCheck(**check),
        "erased": ErasedKeys(**{kind: tuple(keys) for kind, keys in content["erased"].items()}),
    }


# ── The versions of the software that can change an index or an answer ────────────────────────────────────────────────

PACKAGES: Final = ("faiss-cpu", "bm25s", "numpy", "numba", "pyarrow", "duckdb")


def software() -> Mapping[str, str]:
    """Return the versions of the software that can change an index or an answer."""
    return {
        "refaug": VERSION,
        "python": platform.python_version(),
        **{package: version_of(package) for package in PACKAGES},
    }
