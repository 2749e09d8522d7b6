"""The order of an index: what to build, as the command line or a job specifies it; and where a cluster works on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from refaug.core.artefacts.build_stages import Stages
from refaug.core.errors import Usage
from refaug.core.files import remove_tree, require_name
from refaug.indexer.bm25.scores import Bm25Settings
from refaug.indexer.building.plan import Limits
from refaug.indexer.building.recall import QUERIES
from refaug.indexer.vectors.sentence_vectors import SentenceSettings

MOST_SHARDS: Final = 1_024


@dataclass(frozen=True, kw_only=True)
class IndexOrder:
    """An index by name: its logs, the source of its vectors, and its limits."""

    name: str
    logs: tuple[str, ...]
    vectors: str | None = None  # name or name@version of word vectors …
    encoder: Path | str | None = None  # … or an encoder's folder, or its name in the home
    tokenizer: str | None = None  # None: the one the vectors were trained with, else the default of the logs' language
    sentence: SentenceSettings = field(default_factory=SentenceSettings)
    bm25: Bm25Settings | None = field(default_factory=Bm25Settings)
    limits: Limits = field(default_factory=Limits)
    check_queries: int = QUERIES
    least_coverage: float = 0.3  # of the tokens; with less, the vectors are hardly of the log's language
    seed: int = 1
    shards: int = 1  # built one after the other, by the utterances' hashes: less memory, the same answers
    threads: int = 1
    memory: int = 2 << 30  # of the stages that sort; the plan covers the memory of vectors
    publish: bool = True

    def __post_init__(self) -> None:
        """Refuse names that cannot be folders and settings without meaning."""
        require_name("index", self.name)
        if not self.logs:
            raise Usage("an index needs a log", remedy="name one or more: refaug log list")
        if len(set(self.logs)) < len(self.logs):
            raise Usage("a log is named twice", remedy="name each once")
        if (self.vectors is None) == (self.encoder is None):
            raise Usage(
                "an index has its vectors from word vectors or from an encoder, not from both",
                remedy="--vectors NAME, or --encoder NAME",
            )
        if self.threads < 1:
            raise Usage(f"{self.threads} threads cannot work", remedy="give one or more")
        if not 1 <= self.shards <= MOST_SHARDS:
            raise Usage(f"an index cannot have {self.shards} shards", remedy=f"1 to {MOST_SHARDS:,}")
        if not 0 <= self.check_queries <= 100_000:
            raise Usage(f"recall cannot be measured on {self.check_queries} utterances", remedy="0 to 100,000")

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that determine the content, as JSON."""
        return {
            "sentence": asdict(self.sentence),
            "bm25": None if self.bm25 is None else asdict(self.bm25),
            "limits": asdict(self.limits),
            "check_queries": self.check_queries,
            "seed": self.seed,
            **({"shards": self.shards} if self.shards > 1 else {}),
        }


# ── Where tasks of a build on a cluster write what is no part of the index ────────────────────────────────────────────


def scratch_of(cache: Path, stages: Stages) -> Path:
    """Return the folder of what tasks of a build write that is no part of the index."""
    return cache.resolve() / f"cluster-{stages.folder.name}"


def remove_scratch(cache: Path, name: str, *, but: Path | None = None) -> None:
    """Remove what stopped builds of an index on a cluster left behind, texts among it, but this folder.

    Only the holder of the lock of the index may call this.
    """
    for folder in cache.resolve().glob(f"cluster-index-{name}-{'?' * 12}"):
        if folder != but:
            remove_tree(folder)
