"""What an index version holds and how it was made; written last, so that no manifest means no index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, Self

from core.artefacts import content_id, require_format
from core.errors import Corrupt
from core.files import read_json, write_json
from indexer.sentence_vectors import SentenceSettings

FORMAT_VERSION: Final = 1
KIND: Final = "index"
MANIFEST: Final = "manifest.json"


@dataclass(frozen=True, kw_only=True)
class LogState:
    """A log as it was when the index was built or updated."""

    name: str
    pairs: int
    parts: Mapping[str, str]  # file → SHA-256
    removed: int = 0  # pairs that had been deleted from it by then


@dataclass(frozen=True, kw_only=True)
class VectorSource:
    """Whose vectors the sentences have: word vectors, by name and hash, or an encoder on the user's disk."""

    kind: Literal["words", "encoder"]
    name: str  # name@version of word vectors; an encoder's own name
    sha256: str  # of the words and their rows; an encoder's name holds its hash
    dimensions: int
    path: str = ""  # where the encoder lay


@dataclass(frozen=True, kw_only=True)
class SegmentInfo:
    """One part of an index: the main one, or what an update added."""

    folder: str
    factory: str
    effort: int  # how many lists are searched, or how far a graph is walked
    depth: int  # candidates for 15 references that are ranked again: more of them where codes are coarse
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
    lost_similarity: float  # the share of the exact results' similarity that is not found
    target: float
    depth: int  # candidates taken from the index and ranked again
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether the target was reached."""
        return self.recall >= self.target


@dataclass(frozen=True, kw_only=True)
class ErasedKeys:
    """What was deleted from the index alone, as hashes: pairs, dialogues, speakers."""

    pairs: tuple[str, ...] = ()
    dialogues: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class IndexManifest:
    """All that can change an answer of the index, and what there is in it."""

    name: str
    created: str
    logs: tuple[LogState, ...]
    vectors: VectorSource
    sentence: SentenceSettings
    tokenizer: str
    tokenizer_version: str
    bm25: Mapping[str, float] | None
    seed: int
    check_queries: int  # so many utterances were to be asked for; the check tells of how many there were
    segments: tuple[SegmentInfo, ...]
    check: RecallCheck | None
    plan: Mapping[str, Any]
    limits: Mapping[str, Any]
    seconds: Mapping[str, float]
    software: Mapping[str, str]
    files: Mapping[str, Mapping[str, Any]]
    erased: ErasedKeys = field(default_factory=ErasedKeys)
    inputs: str = ""  # the hash of all that decided over this version, so that it is not built twice
    erasures: int = 0  # how often something was deleted: a version that knows of fewer must not come back
    format_version: int = FORMAT_VERSION
    kind: str = KIND

    @cached_property
    def id(self) -> str:
        """What signatures call this content: the same files searched in the same way."""
        settings = {
            "vectors": self.vectors.sha256,
            "sentence": asdict(self.sentence),
            "tokenizer": [self.tokenizer, self.tokenizer_version],
            "bm25": self.bm25,
            "segments": [asdict(segment) for segment in self.segments],
        }
        return content_id({"files": self.files}, settings)

    @property
    def utterances(self) -> int:
        """Distinct utterances that can be found."""
        return sum(one.utterances - one.superseded for one in self.segments)

    @property
    def pairs(self) -> int:
        """Distinct pairs that can be found."""
        return sum(one.pairs - one.superseded_pairs for one in self.segments)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read and check a manifest; Corrupt names the file and what is wrong with it."""
        path = folder / MANIFEST
        value = read_json(path)
        require_format(path, value, KIND, FORMAT_VERSION)
        try:
            return cls(**_fields(value))
        except (KeyError, TypeError, ValueError) as error:
            raise Corrupt(f"{path}: {error}", remedy="restore it from a backup, or build the index again") from error

    def write(self, folder: Path) -> None:
        """The last step: from now on the folder is an index version."""
        write_json(folder / MANIFEST, {**asdict(self), "id": self.id})


def _fields(value: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object as the manifest's fields, the records inside it made anew."""
    fields = {name: field for name, field in value.items() if name != "id"}
    check = value["check"]
    return {
        **fields,
        "logs": tuple(LogState(**log) for log in value["logs"]),
        "vectors": VectorSource(**value["vectors"]),
        "sentence": SentenceSettings(**value["sentence"]),
        "segments": tuple(SegmentInfo(**segment) for segment in value["segments"]),
        "check": None if check is None else RecallCheck(**check),
        "erased": ErasedKeys(**{kind: tuple(keys) for kind, keys in value["erased"].items()}),
    }
