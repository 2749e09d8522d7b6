"""Collecting candidates: the best of all segments by their codes, merged to one depth, then by a finer comparison.

A segment names its best utterances. The pool has the best of all of them together, as if they lay in one segment: the
same for any number of segments that share a quantizer. A segment is asked for more where what it did not name could
belong to the pool: where outdated utterances took up places, or where its last one ties with the last of the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from refaug.indexer.search.candidates.choice import Marks, Similarities, choose_best, least_of_best, pack
from refaug.indexer.search.search_tables import Rows
from refaug.indexer.search.segments import Segment

_SPARE: Final = 16  # beyond an eighth more, where outdated or tied utterances may take up places
_GROWTH: Final = 2


class CandidateSource(Protocol):
    """What finds candidates in a segment; see `refaug.indexer.search.similarity.Likeness`."""

    def code_depth(self, segments: Sequence[Segment], count: int) -> int:
        """Return how many candidates by codes include the best `count`."""
        ...

    def code_candidates(
        self, segment: Segment, query_numbers: Rows, width: int, effort: int
    ) -> tuple[Rows, Similarities]:
        """Return the best utterances of a segment by its codes, best first; −1 and −∞ fill the rest."""
        ...

    def finer(self, segment: Segment, query_numbers: Rows, rows: Rows) -> Similarities | None:
        """Return finer similarities of candidates; None where those by codes are fine enough."""
        ...


class CandidatePool(NamedTuple):
    """Candidates of some queries: one table (queries, …) a segment, and which queries have fewer than asked for."""

    rows: list[Rows]
    is_short: Marks


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What one segment has named: live utterances, and how similar the last one was where there may be more."""

    rows: Rows
    similarities: Similarities
    last: NDArray[np.float64]  # −∞ where the segment has nothing more


def collect(
    segments: Sequence[Segment],
    source: CandidateSource,
    query_numbers: Rows,
    count: int,
    efforts: Sequence[int],
    *,
    resolves_ties: bool = True,
) -> CandidatePool:
    """Return the best candidates of all segments together: at least `count` of each query, if there are so many.

    Without `resolves_ties`, any of several equally similar ones may be left out at the end, which costs less.
    """
    if not segments:
        return CandidatePool([], np.ones(len(query_numbers), np.bool_))
    total = sum(segment.utterance_count for segment in segments)
    width = max(1, min(source.code_depth(segments, count), max(count, total)))
    named = _name(segments, source, query_numbers, width, efforts, resolves_ties=resolves_ties)
    tables, similarities = [asked.rows for asked in named], [asked.similarities for asked in named]
    if sum(table.shape[1] for table in tables) > width:
        tables, similarities = _best(segments, tables, similarities, width)
    finer = [
        source.finer(segment, query_numbers, rows) if rows.shape[1] else None
        for segment, rows in zip(segments, tables, strict=True)
    ]
    if any(table is not None for table in finer):
        width = count
        merged = [rough if fine is None else fine for rough, fine in zip(similarities, finer, strict=True)]
        tables, similarities = _best(segments, tables, merged, width)
    sizes = sum((table >= 0).sum(axis=1) for table in tables)
    return CandidatePool(tables, np.asarray(sizes < width))


def _best(
    segments: Sequence[Segment], tables: Sequence[Rows], similarities: Sequence[Similarities], count: int
) -> tuple[list[Rows], list[Similarities]]:
    marks = choose_best(segments, tables, similarities, count)
    packed = [pack(*table) for table in zip(tables, similarities, marks, strict=True)]
    return [rows for rows, _ in packed], [levels for _, levels in packed]


def _name(
    segments: Sequence[Segment],
    source: CandidateSource,
    query_numbers: Rows,
    width: int,
    efforts: Sequence[int],
    *,
    resolves_ties: bool,
) -> list[_Asked]:
    """Ask every segment for its best, and again until nothing that belongs to the best of all is left out."""
    spare = width // 8 + _SPARE
    asked_for = [width + spare * (resolves_ties or len(segment.tables.superseded) > 0) for segment in segments]
    named = [
        _ask(segment, source, query_numbers, asked, effort)
        for segment, asked, effort in zip(segments, asked_for, efforts, strict=True)
    ]
    while True:
        least = least_of_best(np.concatenate([asked.similarities for asked in named], axis=1), width)
        lacking = [
            np.isfinite(asked.last) & ((asked.last > least) | ((asked.last == least) & resolves_ties))
            for asked in named
        ]
        if not any(queries.any() for queries in lacking):
            return named
        for number, queries in enumerate(lacking):
            if not queries.any():
                continue
            asked_for[number] *= _GROWTH
            more = _ask(segments[number], source, query_numbers[queries], asked_for[number], efforts[number])
            named[number] = _replace_queries(named[number], more, queries)


def _ask(segment: Segment, source: CandidateSource, query_numbers: Rows, width: int, effort: int) -> _Asked:
    """Return the best of one segment without outdated ones."""
    width = min(width, segment.utterance_count + 1)  # one more than there are shows that nothing is left
    rows, similarities = source.code_candidates(segment, query_numbers, width, effort)
    last = np.where(rows[:, -1] >= 0, similarities[:, -1], -np.inf)
    if len(segment.tables.superseded):
        is_outdated = segment.tables.superseded[np.maximum(rows, 0)] & (rows >= 0)
        rows, similarities = np.where(is_outdated, -1, rows), np.where(is_outdated, -np.inf, similarities)
    return _Asked(rows=rows, similarities=similarities, last=last)


def _replace_queries(asked: _Asked, more: _Asked, queries: Marks) -> _Asked:
    """Return what a segment has named, wider, with the new answers of some queries."""
    shape = len(asked.rows), max(asked.rows.shape[1], more.rows.shape[1])
    rows, similarities = np.full(shape, -1, np.int64), np.full(shape, -np.inf)
    rows[:, : asked.rows.shape[1]], similarities[:, : asked.rows.shape[1]] = asked.rows, asked.similarities
    rows[queries], similarities[queries] = -1, -np.inf
    places = np.ix_(np.flatnonzero(queries), np.arange(more.rows.shape[1]))
    rows[places], similarities[places] = more.rows, more.similarities
    last = asked.last.copy()
    last[queries] = more.last
    return _Asked(rows=rows, similarities=similarities, last=last)
