"""Checks of a segment's arrays when it is opened: compiled loops and lookups of rows follow them without looking.

A number in one array is a row of another, or a place in it. Where one leads out of its array, a compiled loop reads
memory that is not its own. All numbers are compared with their bounds, in pieces, so that the memory used is bounded;
a file that was checked before in this process, with the same bounds, is not read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.artefacts.verified_files import Stamp, stamp_of
from refaug.core.errors import Corrupt
from refaug.core.memory.bounded_cache import BoundedCache
from refaug.indexer.bm25.index import Bm25Index
from refaug.indexer.search import segments

_PIECE: Final = 1 << 20  # numbers
_REMEDY: Final = "restore it from a backup, or build the index again"
_CHECKED: Final = BoundedCache[tuple[Stamp, str], bool](65_536)


def require_sound(
    version: Path, number: int, segment: segments.Segment, *, words: int, logs: int, dimensions: int
) -> None:
    """Refuse a segment whose arrays do not fit together; `words` is the size of the index's vocabulary."""
    folder = version / segment.info.folder
    _require_lengths(folder, version / segments.SUPERSEDED.format(number), segment, dimensions)
    _require_tables(folder, segment, words, logs)
    _require_vectors(folder, version / segments.SUPERSEDED.format(number), segment)
    _require_texts(folder, segment)
    if segment.bm25 is not None:
        _require_bm25(folder / segments.BM25, segment, segment.bm25, words)


def _require_lengths(folder: Path, superseded: Path, segment: segments.Segment, dimensions: int) -> None:
    """Compare how many rows each array has."""
    tables = segment.tables
    utterances, pairs, occurrences = len(tables.utterance_key), len(tables.response_key), len(tables.occurrence_log)
    shapes: dict[Path, tuple[tuple[int, ...], tuple[int, ...]]] = {
        folder / "utterance_sha.npy": (tables.utterance_sha.shape, (utterances,)),
        folder / "response_sha.npy": (tables.response_sha.shape, (pairs,)),
        folder / "occurrence_dialogue.npy": (tables.occurrence_dialogue.shape, (occurrences,)),
        folder / "occurrence_time.npy": (tables.occurrence_time.shape, (occurrences,)),
        folder / segments.UTTERANCES: ((len(segment.utterances),), (utterances,)),
        folder / segments.PAIRS: ((len(segment.responses),), (pairs,)),
        folder / segments.OCCURRENCES: ((len(segment.dialogues),), (occurrences,)),
        folder / segments.VECTOR_ROWS: (segment.vector_rows.shape, (segment.info.with_vector,)),
    }
    if segment.speakers is not None:
        shapes[folder / segments.SPEAKERS] = (len(segment.speakers),), (occurrences,)
    if len(tables.superseded):
        shapes[superseded] = tables.superseded.shape, (utterances,)
    if segment.lengths is not None:
        shapes[folder / segments.LENGTHS] = segment.lengths.shape, (utterances,)
    if segment.exact is not None:
        shapes[folder / segments.EXACT] = segment.exact.shape, (utterances, dimensions)
    expected_rows = segment.info.utterances, segment.info.pairs, segment.info.occurrences
    if expected_rows != (utterances, pairs, occurrences):
        rows = utterances, pairs, occurrences
        raise Corrupt(f"{folder}: {expected_rows} rows were expected, {rows} were found", remedy=_REMEDY)
    for path, (shape, expected) in shapes.items():
        if shape != expected:
            raise Corrupt(f"{path}: the shape {expected} was expected, {shape} was found", remedy=_REMEDY)


def _require_tables(folder: Path, segment: segments.Segment, words: int, logs: int) -> None:
    tables = segment.tables
    for name, starts in (
        ("pair_start.npy", tables.pair_start),
        ("occurrence_start.npy", tables.occurrence_start),
        (segments.UTTERANCE_TOKEN_START, segment.utterance_token_start),
        (segments.RESPONSE_TOKEN_START, tables.response_token_start),
    ):
        _once(folder / name, "rises", partial(_fall, starts))
    _require_between(folder / segments.UTTERANCE_TOKENS, segment.utterance_tokens, words)
    _require_between(folder / segments.RESPONSE_TOKENS, tables.response_tokens, words)
    _require_between(folder / "occurrence_log.npy", tables.occurrence_log, logs)


def _require_vectors(folder: Path, superseded: Path, segment: segments.Segment) -> None:
    _require_between(folder / segments.VECTOR_ROWS, segment.vector_rows, segment.utterance_count)
    if len(segment.tables.superseded):
        _require_between(superseded, segment.tables.superseded.view(np.uint8), 2)
    if segment.lengths is not None:
        _require_finite(folder / segments.LENGTHS, segment.lengths)
    if segment.exact is not None:
        _require_finite(folder / segments.EXACT, segment.exact.reshape(-1))
    if segment.quick is not None:
        _require_finite(folder / segments.QUICK_BASES, segment.quick.bases)
        _require_finite(folder / segments.QUICK_STEPS, segment.quick.steps)


def _require_texts(folder: Path, segment: segments.Segment) -> None:
    for name, column in (
        (segments.UTTERANCES, segment.utterances),
        (segments.PAIRS, segment.responses),
        (segments.OCCURRENCES, segment.dialogues),
        (segments.OCCURRENCES, segment.positions),
        *(((segments.SPEAKERS, segment.speakers),) if segment.speakers is not None else ()),
    ):
        _once(folder / name, f"texts of {column.column}", column.problem)


def _require_bm25(folder: Path, segment: segments.Segment, index: Bm25Index, words: int) -> None:
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


# ── one array ─────────────────────────────────────────────────────────────────────────────────────────────────────


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
