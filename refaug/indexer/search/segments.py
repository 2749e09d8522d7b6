"""One part of an index, opened: its arrays and texts memory-mapped, its vectors ready to be searched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refaug.core.artefacts.verified_files import Stamp, stamp_of
from refaug.core.errors import Corrupt
from refaug.core.memory import BoundedCache
from refaug.core.processes.kept import cached_property
from refaug.indexer.bm25.index import Bm25Index
from refaug.indexer.columns import TextColumn, map_array
from refaug.indexer.manifest import IndexManifest, SegmentInfo
from refaug.indexer.nearest.index_builder import AnnIndex
from refaug.indexer.search.search_tables import Rows, SegmentTables

UTTERANCES: Final = "utterances.arrow"
PAIRS: Final = "pairs.arrow"
OCCURRENCES: Final = "occurrences.arrow"
SPEAKERS: Final = "speakers.arrow"  # of occurrences; only where a log names any
UTTERANCE_TOKENS: Final = "utterance_tokens.npy"
UTTERANCE_TOKEN_START: Final = "utterance_token_start.npy"  # noqa: S105  no secret
RESPONSE_TOKENS: Final = "response_tokens.npy"
RESPONSE_TOKEN_START: Final = "response_token_start.npy"  # noqa: S105
EXTRA_WORDS: Final = "extra_words.npy"  # of a segment, or of a version whose shards were compacted in part
VECTOR_ROWS: Final = "vector_rows.npy"
VECTORS: Final = "vectors.faiss"
LENGTHS: Final = "lengths.npy"  # of utterances' sums of words, where many candidates of coarse codes are compared
QUICK: Final = "quick.npy"  # a byte a component of the projected vectors, for the same purpose
QUICK_BASES: Final = "quick_bases.npy"  # added to a product with such a row
QUICK_STEPS: Final = "quick_steps.npy"  # what a step of such a byte stands for
EXACT: Final = "vectors.npy"  # of an encoder, whose vectors cannot be computed again from words
BM25: Final = "bm25"
SUPERSEDED: Final = "superseded-{}.npy"  # beside the segments, one for each that has lost utterances

_NONE_SUPERSEDED: Final = np.zeros(0, np.bool_)
_NONE_SUPERSEDED.flags.writeable = False  # read-only as mapped arrays are: loops are compiled for one kind


class QuickRows(NamedTuple):
    """Utterances' vectors, (utterances, components), a byte a component: enough to choose which to compare exactly."""

    rows: NDArray[np.int8]
    bases: NDArray[np.float32]
    steps: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class SegmentFacts:
    """What a search needs to know of a segment before it asks it."""

    info: SegmentInfo
    utterance_count: int
    is_exact: bool  # a search among its vectors compares all of them as they are
    most_effort: int  # that is of any use
    has_superseded: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Segment:
    """A part of an index; row numbers of utterances, pairs and occurrences count within it."""

    info: SegmentInfo
    tables: SegmentTables
    utterance_tokens: NDArray[np.int32]
    utterance_token_start: Rows
    vector_rows: NDArray[np.int32]  # the utterance of each vector
    ann: AnnIndex | None  # None where no utterance has a vector
    exact: NDArray[np.float32] | None
    lengths: NDArray[np.float32] | None
    quick: QuickRows | None
    bm25: Bm25Index | None  # of the main segment alone
    utterances: TextColumn
    responses: TextColumn
    dialogues: TextColumn
    positions: TextColumn
    speakers: TextColumn | None

    @property
    def utterance_count(self) -> int:
        """The number of distinct utterances, including superseded ones."""
        return len(self.tables.utterance_key)

    @cached_property
    def facts(self) -> SegmentFacts:
        """What a search needs to know of it first."""
        return SegmentFacts(
            info=self.info,
            utterance_count=self.utterance_count,
            is_exact=self.ann is None or self.ann.is_exact,
            most_effort=self.info.effort if self.ann is None else max(self.ann.efforts(), default=1),
            has_superseded=len(self.tables.superseded) > 0,
        )

    def utterance(self, row: int) -> str | None:
        """Return the text of an utterance; None where it is superseded."""
        if len(self.tables.superseded) and self.tables.superseded[row]:
            return None
        return self.utterances.take(np.array([row], np.int64))[0] or ""

    def words(self, *, responses: bool) -> tuple[NDArray[np.int32], Rows]:
        """Return the codes of all utterances, or of all responses, and where each text's begin."""
        if responses:
            return self.tables.response_tokens, self.tables.response_token_start
        return self.utterance_tokens, self.utterance_token_start


def word_hashes(version: Path, manifest: IndexManifest, *, later: bool = True) -> Iterator[NDArray[np.uint64]]:
    """Yield the words without a vector in the order of their codes.

    Those of the main segments come first, then those that compacting some shards has added, and with `later` those of
    the segments of updates.
    """
    mains = len(manifest.main_segments)
    for info in manifest.segments[:mains]:
        yield map_array(version / info.folder / EXTRA_WORDS, np.uint64)
    if (version / EXTRA_WORDS).exists():
        yield map_array(version / EXTRA_WORDS, np.uint64)
    for info in manifest.segments[mains:] if later else ():
        yield map_array(version / info.folder / EXTRA_WORDS, np.uint64)


def open_segment(version: Path, number: int, info: SegmentInfo) -> Segment:
    """Map all files of a segment; nothing is read before it is needed."""
    folder = version / info.folder
    superseded = version / SUPERSEDED.format(number)
    tables = open_tables(folder, superseded)
    token_start = map_array(folder / UTTERANCE_TOKEN_START, np.int64)
    tokens = map_array(folder / UTTERANCE_TOKENS, np.int32)
    _require_agreement(folder, tables, token_start, tokens)
    exact, lengths, bm25 = folder / EXACT, folder / LENGTHS, folder / BM25
    ann = AnnIndex.open(folder / VECTORS) if (folder / VECTORS).exists() else None
    return Segment(
        info=info,
        tables=tables,
        utterance_tokens=tokens,
        utterance_token_start=token_start,
        vector_rows=map_array(folder / VECTOR_ROWS, np.int32),
        ann=ann,
        exact=map_array(exact, np.float32) if exact.exists() else None,
        lengths=map_array(lengths, np.float32) if lengths.exists() else None,
        quick=_quick_rows(folder, ann, len(tables.utterance_key)),
        bm25=Bm25Index.open(bm25) if bm25.exists() else None,
        utterances=TextColumn.open(folder / UTTERANCES, "text"),
        responses=TextColumn.open(folder / PAIRS, "text"),
        dialogues=TextColumn.open(folder / OCCURRENCES, "dialogue"),
        positions=TextColumn.open(folder / OCCURRENCES, "position"),
        speakers=TextColumn.open(folder / SPEAKERS, "speaker") if (folder / SPEAKERS).exists() else None,
    )


def _quick_rows(folder: Path, ann: AnnIndex | None, utterances: int) -> QuickRows | None:
    if ann is None or ann.projection is None:
        return None
    rows = map_array(folder / QUICK, np.int8)
    bases, steps = (map_array(folder / name, np.float32) for name in (QUICK_BASES, QUICK_STEPS))
    shape = (utterances, ann.projection.components)
    if rows.shape != shape or bases.shape != shape[:1] or steps.shape != shape[1:]:
        raise Corrupt(
            f"{folder / QUICK}: {shape} were expected; {rows.shape}, {len(bases)} bases and {len(steps)} steps were "
            "found",
            remedy="restore it from a backup, or build the index again",
        )
    return QuickRows(rows, bases, steps)


def _require_agreement(folder: Path, tables: SegmentTables, token_start: Rows, tokens: NDArray[np.int32]) -> None:
    """Refuse arrays that do not belong together before a compiled loop follows one into another."""
    ends = {
        "pair_start.npy": (tables.pair_start, len(tables.utterance_key), len(tables.response_key)),
        "occurrence_start.npy": (tables.occurrence_start, len(tables.response_key), len(tables.occurrence_log)),
        UTTERANCE_TOKEN_START: (token_start, len(tables.utterance_key), len(tokens)),
        RESPONSE_TOKEN_START: (tables.response_token_start, len(tables.response_key), len(tables.response_tokens)),
    }
    for name, (starts, rows, end) in ends.items():
        if len(starts) != rows + 1 or starts[0] != 0 or starts[-1] != end:
            raise Corrupt(
                f"{folder / name}: {rows:,} rows that end at {end:,} were expected, "
                f"{len(starts) - 1:,} that end at {int(starts[-1]) if len(starts) else 0:,} were found",
                remedy="restore it from a backup, or build the index again",
            )


def open_tables(folder: Path, superseded: Path) -> SegmentTables:
    """Map the arrays that decide order and exclusion."""
    return SegmentTables(
        utterance_key=map_array(folder / "utterance_key.npy", np.uint64),
        utterance_sha=map_array(folder / "utterance_sha.npy", np.uint64),
        pair_start=map_array(folder / "pair_start.npy", np.int64),
        response_key=map_array(folder / "response_key.npy", np.uint64),
        response_sha=map_array(folder / "response_sha.npy", np.uint64),
        occurrence_start=map_array(folder / "occurrence_start.npy", np.int64),
        occurrence_log=map_array(folder / "occurrence_log.npy", np.uint16),
        occurrence_dialogue=map_array(folder / "occurrence_dialogue.npy", np.uint64),
        occurrence_time=map_array(folder / "occurrence_time.npy", np.int64),
        response_tokens=map_array(folder / RESPONSE_TOKENS, np.int32),
        response_token_start=map_array(folder / RESPONSE_TOKEN_START, np.int64),
        superseded=map_array(superseded, np.bool_) if superseded.exists() else _NONE_SUPERSEDED,
    )


def common_order(segments: Sequence[Segment], rows: Sequence[Rows] | None = None) -> tuple[Rows, Rows]:
    """Return the place of the segment, and the row in it, of all utterances or of these, in the order of one segment.

    That is by their hashes, then by their keys. What is drawn by number in this order is the same for the same pairs,
    however many shards and updates an index has.
    The order of equal utterances of two segments, of which one is masked, is that of the segments.
    """
    if rows is None:
        rows = [np.arange(len(segment.tables.utterance_key)) for segment in segments]
    places = np.repeat(np.arange(len(rows)), [len(of_segment) for of_segment in rows])
    shas = [segment.tables.utterance_sha[of_segment] for segment, of_segment in zip(segments, rows, strict=True)]
    keys = [segment.tables.utterance_key[of_segment] for segment, of_segment in zip(segments, rows, strict=True)]
    order = np.lexsort((np.concatenate(keys), np.concatenate(shas)))
    return places[order], np.concatenate(rows)[order]


# ── Checks of a segment's arrays when it is opened: compiled loops and lookups of rows follow them without looking ────
#
# A number in one array is a row of another, or a place in it. Where one leads out of its array, a compiled loop reads
# memory that is not its own. All numbers are compared with their bounds, in pieces, so that the memory used is
# bounded; a file that was checked before in this process, with the same bounds, is not read again.

_PIECE: Final = 1 << 20  # numbers
_REMEDY: Final = "restore it from a backup, or build the index again"
_CHECKED: Final = BoundedCache[tuple[Stamp, str], bool](65_536)


def require_sound(version: Path, number: int, segment: Segment, *, words: int, logs: int, dimensions: int) -> None:
    """Refuse a segment whose arrays do not fit together; `words` is the size of the index's vocabulary."""
    folder = version / segment.info.folder
    _require_lengths(folder, version / SUPERSEDED.format(number), segment, dimensions)
    _require_tables(folder, segment, words, logs)
    _require_vectors(folder, version / SUPERSEDED.format(number), segment)
    _require_texts(folder, segment)
    if segment.bm25 is not None:
        _require_bm25(folder / BM25, segment, segment.bm25, words)


def _require_lengths(folder: Path, superseded: Path, segment: Segment, dimensions: int) -> None:
    """Compare how many rows each array has."""
    tables = segment.tables
    utterances, pairs, occurrences = len(tables.utterance_key), len(tables.response_key), len(tables.occurrence_log)
    shapes: dict[Path, tuple[tuple[int, ...], tuple[int, ...]]] = {
        folder / "utterance_sha.npy": (tables.utterance_sha.shape, (utterances,)),
        folder / "response_sha.npy": (tables.response_sha.shape, (pairs,)),
        folder / "occurrence_dialogue.npy": (tables.occurrence_dialogue.shape, (occurrences,)),
        folder / "occurrence_time.npy": (tables.occurrence_time.shape, (occurrences,)),
        folder / UTTERANCES: ((len(segment.utterances),), (utterances,)),
        folder / PAIRS: ((len(segment.responses),), (pairs,)),
        folder / OCCURRENCES: ((len(segment.dialogues),), (occurrences,)),
        folder / VECTOR_ROWS: (segment.vector_rows.shape, (segment.info.with_vector,)),
    }
    if segment.speakers is not None:
        shapes[folder / SPEAKERS] = (len(segment.speakers),), (occurrences,)
    if len(tables.superseded):
        shapes[superseded] = tables.superseded.shape, (utterances,)
    if segment.lengths is not None:
        shapes[folder / LENGTHS] = segment.lengths.shape, (utterances,)
    if segment.exact is not None:
        shapes[folder / EXACT] = segment.exact.shape, (utterances, dimensions)
    expected_rows = segment.info.utterances, segment.info.pairs, segment.info.occurrences
    if expected_rows != (utterances, pairs, occurrences):
        rows = utterances, pairs, occurrences
        raise Corrupt(f"{folder}: {expected_rows} rows were expected, {rows} were found", remedy=_REMEDY)
    for path, (shape, expected) in shapes.items():
        if shape != expected:
            raise Corrupt(f"{path}: the shape {expected} was expected, {shape} was found", remedy=_REMEDY)


def _require_tables(folder: Path, segment: Segment, words: int, logs: int) -> None:
    tables = segment.tables
    for name, starts in (
        ("pair_start.npy", tables.pair_start),
        ("occurrence_start.npy", tables.occurrence_start),
        (UTTERANCE_TOKEN_START, segment.utterance_token_start),
        (RESPONSE_TOKEN_START, tables.response_token_start),
    ):
        _once(folder / name, "rises", partial(_fall, starts))
    _require_between(folder / UTTERANCE_TOKENS, segment.utterance_tokens, words)
    _require_between(folder / RESPONSE_TOKENS, tables.response_tokens, words)
    _require_between(folder / "occurrence_log.npy", tables.occurrence_log, logs)


def _require_vectors(folder: Path, superseded: Path, segment: Segment) -> None:
    _require_between(folder / VECTOR_ROWS, segment.vector_rows, segment.utterance_count)
    if len(segment.tables.superseded):
        _require_between(superseded, segment.tables.superseded.view(np.uint8), 2)
    if segment.lengths is not None:
        _require_finite(folder / LENGTHS, segment.lengths)
    if segment.exact is not None:
        _require_finite(folder / EXACT, segment.exact.reshape(-1))
    if segment.quick is not None:
        _require_finite(folder / QUICK_BASES, segment.quick.bases)
        _require_finite(folder / QUICK_STEPS, segment.quick.steps)


def _require_texts(folder: Path, segment: Segment) -> None:
    for name, column in (
        (UTTERANCES, segment.utterances),
        (PAIRS, segment.responses),
        (OCCURRENCES, segment.dialogues),
        (OCCURRENCES, segment.positions),
        *(((SPEAKERS, segment.speakers),) if segment.speakers is not None else ()),
    ):
        _once(folder / name, f"texts of {column.column}", column.problem)


def _require_bm25(folder: Path, segment: Segment, index: Bm25Index, words: int) -> None:
    postings, documents = index.postings, index.postings.document_count
    if documents != segment.utterance_count or len(postings.start) > words + 1:
        raise Corrupt(
            f"{folder}: {documents:,} texts of {len(postings.start) - 1:,} words; the index has "
            f"{segment.utterance_count:,} of {words:,}",
            remedy=_REMEDY,
        )
    start, document = folder / "indptr.csc.index.npy", folder / "indices.csc.index.npy"
    if len(postings.start) and postings.start[0] != 0:
        raise Corrupt(f"{start}: the first list begins at {int(postings.start[0]):,}", remedy=_REMEDY)
    _once(start, "rises", lambda: _fall(postings.start))
    _require_between(document, postings.document, documents)
    _once(document, f"lists of {stamp_of(start)}", lambda: _unordered(postings.document, postings.start))
    _require_finite(folder / "data.csc.index.npy", postings.score)
    for name, statistics in (("texts", index.statistics), ("responses", index.responses)):
        if statistics is not None:
            _require_between(folder / f"{name}.df.npy", statistics.df, statistics.document_count + 1)


# ── One array ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _once(path: Path, check: str, problem_of: Callable[[], str | None]) -> None:
    """Run a check of a file, unless the same check of the same file has passed before."""
    key = stamp_of(path), check
    if _CHECKED.get(key):
        return
    problem = problem_of()
    if problem is not None:
        raise Corrupt(f"{path}: {problem}", remedy=_REMEDY)
    _CHECKED.put(key, True)


def _require_between(path: Path, numbers: NDArray[Any], end: int) -> None:
    """Require numbers from 0 to below `end`."""
    _once(path, f"below {end}", lambda: _outside(numbers, end))


def _require_finite(path: Path, numbers: NDArray[Any]) -> None:
    _once(path, "finite", lambda: _not_finite(numbers))


def _pieces(numbers: NDArray[Any], overlap: int = 0) -> Iterator[tuple[int, NDArray[Any]]]:
    return ((at, numbers[at : at + _PIECE + overlap]) for at in range(0, len(numbers), _PIECE))


def _outside(numbers: NDArray[Any], end: int) -> str | None:
    for at, piece in _pieces(numbers):
        low, high = int(piece.min()), int(piece.max())
        if low < 0 or high >= end:
            bad = low if low < 0 else high
            row = at + int((piece == bad).argmax())
            return f"row {row:,} holds {bad:,}; from 0 to {end - 1:,} was expected"
    return None


def _fall(starts: NDArray[Any]) -> str | None:
    for at, piece in _pieces(starts, overlap=1):
        falls = piece[1:] < piece[:-1]
        if falls.any():
            row = at + 1 + int(falls.argmax())
            return f"row {row:,} holds {int(starts[row]):,}, less than the row before, {int(starts[row - 1]):,}"
    return None


def _unordered(documents: NDArray[Any], starts: NDArray[Any]) -> str | None:
    """Return which place does not rise within its list; a search goes through each list once, forwards."""
    for at, piece in _pieces(documents, overlap=1):
        places = at + 1 + np.flatnonzero(piece[1:] <= piece[:-1])
        inside = places[starts[np.searchsorted(starts, places)] != places]
        if len(inside):
            return f"row {int(inside[0]):,} is not above the row before, in the list of one word"
    return None


def _not_finite(numbers: NDArray[Any]) -> str | None:
    for at, piece in _pieces(numbers):
        bad = ~np.isfinite(piece)
        if bad.any():
            return f"number {at + int(bad.argmax()):,} is not finite"
    return None
