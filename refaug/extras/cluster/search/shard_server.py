"""What a process of a cluster does for a search: it has some segments of a version open, and answers for them.

It keeps nothing between two calls, so any replica may answer any of them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from socket import gethostname
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refaug.core.artefacts.manifests import NamedFile
from refaug.core.errors import Unavailable, Usage
from refaug.core.kernels.kernel import frozen
from refaug.core.records import Item
from refaug.extras.cluster.messages import Messages
from refaug.extras.cluster.node_requirements import require_versions
from refaug.extras.cluster.search import node_copies
from refaug.indexer.bm25.scores import Bm25Queries
from refaug.indexer.columns import map_array
from refaug.indexer.manifest import SegmentInfo, software
from refaug.indexer.search import searched_segments
from refaug.indexer.search.candidate_pool import Similarities, live_similarities
from refaug.indexer.search.ranking import Events, ExclusionReason, chosen_events, first_k
from refaug.indexer.search.search_settings import SearchSettings
from refaug.indexer.search.search_tables import Keys, QueryTables, Rows
from refaug.indexer.search.segments import Segment, SegmentFacts, open_segment, require_sound
from refaug.indexer.search.similarity import Bm25Likeness, EncoderLikeness, Levels, Likeness, WordVectorLikeness
from refaug.indexer.vectors.sentence_vectors import WordWeights

VECTORS_FILE: Final = "vectors.npy"

NO_WEIGHTS: Final = WordWeights(np.zeros((0, 0), np.float32), np.zeros(0), np.zeros(0))  # each process has its own


@dataclass(frozen=True, kw_only=True)
class NumberedSegment:
    """A segment, and its place in the manifest."""

    number: int
    info: SegmentInfo


@dataclass(frozen=True, kw_only=True)
class ShardFiles:
    """One shard of a version with the files that a search in it reads; `name` is unique over all versions."""

    name: str
    segments: tuple[NumberedSegment, ...]
    files: tuple[NamedFile, ...]
    source: node_copies.CopySource


@dataclass(frozen=True, kw_only=True)
class VectorFiles:
    """The rows of the word vectors of an index, which compare texts exactly."""

    name: str
    file: NamedFile
    source: node_copies.CopySource


@dataclass(frozen=True, kw_only=True)
class IndexSizes:
    """The bounds of numbers in the files of a segment."""

    words: int
    logs: int
    dimensions: int


class WordScale(NamedTuple):
    """What weighs word vectors beside their rows; computed once, by the process that embeds."""

    scale: NDArray[np.float64]
    unknown: NDArray[np.float64]


class LookAhead(NamedTuple):
    """How many of the best candidates of a segment are compared exactly at once, and of how many pairs texts come."""

    candidates: int
    texts: int


NOTHING_AHEAD: Final = LookAhead(0, 0)


class AskedShard(NamedTuple):
    """What a segment has named, as it travels: row numbers and similarities in single precision."""

    rows: NDArray[np.int32]
    similarities: NDArray[np.float32]
    more: Foresight | None


class Foresight(NamedTuple):
    """What a search will ask for next of the best that a segment has named: so it need not ask again."""

    sha: Keys  # of all named
    key: Keys
    finer: Similarities | None
    rows: Rows  # the best of them (queries, …), whose pairs follow
    levels: Levels
    events: Events  # all pairs of these rows, whatever their number
    text_rows: Rows  # of pairs that are likely to be shown
    texts: searched_segments.Columns


_QUESTIONS: Final = ("ask", "hashes", "finer", "rank", "levels", "pair_events", "texts")

MESSAGES: Final = Messages(
    AskedShard,
    Bm25Likeness,
    Bm25Queries,
    EncoderLikeness,
    Events,
    Foresight,
    LookAhead,
    QueryTables,
    SearchSettings,
    WordVectorLikeness,
    WordWeights,
)


class ShardServer:
    """Some segments of a version, open in this process; several threads may ask at once."""

    def __init__(
        self,
        files: ShardFiles,
        vectors: VectorFiles | None,
        sizes: IndexSizes,
        expected: Mapping[str, str],
        shared: WordScale | None = None,
    ) -> None:
        require_versions(expected, software(), gethostname())
        self._files, self._vectors, self._sizes, self._scale = files, vectors, sizes, shared
        self._lock = threading.Lock()
        self._copies = list[node_copies.HeldCopy]()
        self._segments = list[Segment]()
        self._weights = NO_WEIGHTS
        self._open()

    def _open(self) -> None:
        """Fetch what is missing, and map it."""
        self.close()
        with ExitStack() as failing:
            copies = self._held_copies(failing)
            weights = self._mapped_weights(copies[-1].folder)
            segments = [open_segment(copies[0].folder, one.number, one.info) for one in self._files.segments]
            sizes = {"words": self._sizes.words, "logs": self._sizes.logs, "dimensions": self._sizes.dimensions}
            for one, segment in zip(self._files.segments, segments, strict=True):
                require_sound(copies[0].folder, one.number, segment, **sizes)
            failing.pop_all()
        self._copies, self._segments, self._weights = copies, segments, weights

    def _held_copies(self, failing: ExitStack) -> list[node_copies.HeldCopy]:
        """Hold the files of the shard, then those of the vectors that it compares with."""
        sources: list[tuple[str, Sequence[NamedFile], node_copies.CopySource]] = [
            (self._files.name, self._files.files, self._files.source)
        ]
        if self._vectors is not None and self._scale is not None:
            sources.append((self._vectors.name, [self._vectors.file], self._vectors.source))
        copies = list[node_copies.HeldCopy]()
        for name, files, source in sources:
            copies.append(node_copies.hold_copy(node_copies.cache_folder(), name, files, source))
            failing.callback(copies[-1].close)
        return copies

    def _mapped_weights(self, folder: Path) -> WordWeights:
        if self._vectors is None or self._scale is None:
            return NO_WEIGHTS
        matrix = map_array(folder / self._vectors.file.name, np.float32)
        scale, unknown = np.array(self._scale.scale), np.array(self._scale.unknown)
        return WordWeights(frozen(matrix), frozen(scale), frozen(unknown))

    def close(self) -> None:
        """Release the files; from then on nothing is answered."""
        for copy in self._copies:
            copy.close()

    # Without a search

    def probe(self) -> None:
        """Open the files again if any was written to."""
        with self._lock:
            if not all(copy.is_unchanged() for copy in self._copies):
                self._open()

    def facts(self) -> list[SegmentFacts]:
        """Return what a search needs to know of each segment."""
        return [segment.facts for segment in self._segments]

    def fetched(self) -> int:
        """Return how many files this process has fetched to this machine."""
        return sum(copy.fetched for copy in self._copies)

    def utterance(self, place: int, row: int) -> str | None:
        """Return the text of an utterance; None where it is superseded."""
        self._require_unchanged()
        return self._segments[place].utterance(row)

    def first_pair(self) -> Item:
        """Return the first pair of this shard, by which a search warms up."""
        self._require_unchanged()
        return searched_segments.first_pair_of(self._segments[0])

    def collect(self, keep: Sequence[str]) -> list[str]:
        """Remove copies of versions that no process of this machine has open; return those that some process has."""
        return node_copies.collect_copies(node_copies.cache_folder(), keep)

    # A search

    def answer(self, question: bytes, terms: bytes | None = None) -> bytes:
        """Answer one of the questions below, which names itself, its segments and its arguments."""
        name, *arguments = MESSAGES.unpack(question)
        if name not in _QUESTIONS:
            raise Usage(f"no question to a shard is called {name!r}", remedy=f"one of: {', '.join(_QUESTIONS)}")
        further = () if terms is None else MESSAGES.unpack(terms)
        self._require_unchanged()
        return MESSAGES.pack(getattr(self, name)(*arguments, *further))

    def _require_unchanged(self) -> None:
        """Raise Unavailable where a file was written to, which nothing may be read of."""
        if not all(copy.is_unchanged() for copy in self._copies):
            raise Unavailable(
                f"files of {self._files.name} were changed while they were searched", remedy="they are fetched again"
            )

    def _opened(
        self, places: Sequence[int], likeness: Likeness, tables: QueryTables, settings: SearchSettings
    ) -> searched_segments.LocalSegments:
        if isinstance(likeness, WordVectorLikeness):
            likeness = replace(likeness, weights=self._weights)
        return searched_segments.LocalSegments([self._segments[place] for place in places], likeness, tables, settings)

    def ask(
        self,
        places: Sequence[int],
        query_numbers: Sequence[Rows],
        widths: Sequence[int],
        efforts: Sequence[int],
        ahead: Sequence[LookAhead],
        *terms: Any,
    ) -> list[AskedShard]:
        """Return the best of some segments, and what will be asked of these next."""
        opened = self._opened(places, *terms)
        named = opened.ask(range(len(places)), query_numbers, widths, efforts)
        return [
            AskedShard(
                rows.astype(np.int32),
                similarities.astype(np.float32),
                _foresee(opened.subset([at]), query_numbers[at], rows, similarities, likely)
                if likely.candidates
                else None,
            )
            for at, (likely, (rows, similarities)) in enumerate(zip(ahead, named, strict=True))
        ]

    def hashes(self, places: Sequence[int], rows: Sequence[Rows]) -> list[tuple[Keys, Keys]]:
        """Return the hashes and the keys of utterances of some segments."""
        tables = [self._segments[place].tables for place in places]
        return [
            (of.utterance_sha[of_segment], of.utterance_key[of_segment])
            for of, of_segment in zip(tables, rows, strict=True)
        ]

    def finer(
        self, places: Sequence[int], query_numbers: Rows, tables: Sequence[Rows], *terms: Any
    ) -> list[Similarities | None]:
        """Return finer similarities of candidates."""
        return self._opened(places, *terms).finer(query_numbers, tables)

    def rank(
        self, places: Sequence[int], query_numbers: Rows, tables: Sequence[Rows], *terms: Any
    ) -> list[tuple[Events, Rows]]:
        """Compare candidates exactly, and return their pairs."""
        return self._opened(places, *terms).rank(query_numbers, tables)

    def levels(self, places: Sequence[int], query_numbers: Rows, tables: Sequence[Rows], *terms: Any) -> list[Levels]:
        """Return the exact similarities of candidates."""
        return self._opened(places, *terms).levels(query_numbers, tables)

    def pair_events(
        self,
        places: Sequence[int],
        query_numbers: Rows,
        tables: Sequence[Rows],
        levels: Sequence[Levels],
        *terms: Any,
    ) -> list[Events]:
        """Compare the responses of candidates with the gold."""
        opened = self._opened(places, *terms)
        events = opened.pair_events(query_numbers, tables, levels)
        return [trimmed(of_segment) for of_segment in events]

    def texts(self, places: Sequence[int], rows: Sequence[Rows]) -> list[searched_segments.Columns]:
        """Return what is shown of some pairs."""
        return [
            searched_segments.texts_of(self._segments[place], of_segment)
            for place, of_segment in zip(places, rows, strict=True)
        ]


def _foresee(
    segment: searched_segments.LocalSegments,
    query_numbers: Rows,
    rows: Rows,
    similarities: Similarities,
    likely: LookAhead,
) -> Foresight:
    """Return what will be asked of the best candidates of a segment."""
    sha, key = segment.hashes([np.maximum(rows, 0).ravel()])[0]
    finer = segment.finer(query_numbers, [rows])[0] if rows.shape[1] else None
    quality = live_similarities(rows, similarities) if finer is None else finer
    order = np.argsort(-quality, axis=1, kind="stable")[:, : likely.candidates]
    best: Rows = np.ascontiguousarray(np.take_along_axis(rows, order, axis=1))
    levels = segment.levels(query_numbers, [best])[0]
    events = trimmed(segment.all_events(query_numbers, best, levels))
    text_rows = _likely_shown(events, likely.texts)
    return Foresight(
        sha.reshape(rows.shape),
        key.reshape(rows.shape),
        finer,
        best,
        levels,
        events,
        text_rows,
        segment.texts([text_rows])[0],
    )


def _likely_shown(events: Events, count: int) -> Rows:
    """Return the pairs that are shown if no other shard has better ones."""
    queries = np.repeat(np.arange(len(events.start) - 1), np.diff(events.start))
    order = np.lexsort((events.utterance_sha, events.response_sha, -events.level, queries))
    chosen, _ = first_k(events.start, events.response_key, events.reason, order, count, len(ExclusionReason))
    return searched_segments.pair_rows(events, chosen[chosen >= 0])


def trimmed(events: Events) -> Events:
    """Return events without the room for more."""
    return chosen_events(events, events.start, slice(0, int(events.start[-1])))
