"""Collecting candidates: the best of all segments by their codes, merged to one depth, then by a finer comparison.

A segment names its best utterances, as many as its share of all utterances lets expect in the pool. The pool has the
best of all segments together, as if they lay in one: the same for any number of segments that share a quantizer. A
segment is asked for more where what it did not name could belong to the pool: where it has more of the best than its
share, where outdated utterances took up places, or where its last one ties with the last of the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from refaug.indexer.search.candidates import choice
from refaug.indexer.search.search_tables import Rows
from refaug.indexer.search.segments import SegmentFacts

_SPARE: Final = 16  # beyond an eighth more, where outdated or tied utterances may take up places
_GROWTH: Final = 2
_DEVIATIONS: Final = 4.0


class CandidateSegments(choice.UtteranceHashes, Protocol):
    """The segments of an index, wherever they lie, as one search asks them for candidates."""

    @property
    def facts(self) -> Sequence[SegmentFacts]:
        """The facts of each segment, for which nothing is searched."""
        ...

    def code_depth(self, count: int) -> int:
        """Return how many candidates by codes include the best `count`."""
        ...

    def ask(self, calls: Sequence[AskCall]) -> Sequence[Asked]:
        """Ask some segments for their best utterances."""
        ...

    def finer(self, query_numbers: Rows, tables: Sequence[Rows]) -> Sequence[choice.Similarities | None]:
        """Return finer similarities of each segment's candidates; None where those by codes are fine enough."""
        ...


class AskCall(NamedTuple):
    """A question to one segment: which, for which queries, for how many utterances, with how much effort."""

    number: int
    query_numbers: Rows
    width: int
    effort: int


class Asked(NamedTuple):
    """What one segment has named: live utterances, and how similar the last one was where there may be more."""

    rows: Rows
    similarities: choice.Similarities
    last: NDArray[np.float64]  # −∞ where the segment has nothing more


def collect(
    segments: CandidateSegments,
    query_numbers: Rows,
    count: int,
    efforts: Sequence[int],
    *,
    resolves_ties: bool = True,
) -> tuple[list[Rows], choice.Marks]:
    """Return the best candidates of all segments together: at least `count` of each query, if there are so many.

    They are one table (queries, …) a segment; the marks say which queries have fewer than asked for.
    Without `resolves_ties`, any of several equally similar ones may be left out at the end, which costs less.
    """
    if not segments.facts:
        return [], np.ones(len(query_numbers), np.bool_)
    total = sum(facts.utterance_count for facts in segments.facts)
    width = max(1, min(segments.code_depth(count), max(count, total)))
    named = _name(segments, query_numbers, width, efforts, resolves_ties=resolves_ties)
    tables, similarities = [asked.rows for asked in named], [asked.similarities for asked in named]
    if sum(table.shape[1] for table in tables) > width:
        tables, similarities = _best(segments, tables, similarities, width)
    finer = segments.finer(query_numbers, tables)
    if any(table is not None for table in finer):
        width = count
        merged = [rough if fine is None else fine for rough, fine in zip(similarities, finer, strict=True)]
        tables, similarities = _best(segments, tables, merged, width)
    sizes = sum((table >= 0).sum(axis=1) for table in tables)
    return tables, np.asarray(sizes < width)


def likely_part(count: int, share: float) -> int:
    """Return the most of the best `count` that a segment with this share of all utterances is likely to have.

    Utterances lie in shards by their hashes, so this is a binomial distribution: its mean and four deviations.
    """
    mean = count * share
    return min(count, ceil(mean + _DEVIATIONS * sqrt(mean * (1 - share))))


def asked_width(part: int) -> int:
    """Return for how many utterances a segment is asked of which so many are wanted."""
    return part + part // 8 + _SPARE


def _best(
    segments: CandidateSegments, tables: Sequence[Rows], similarities: Sequence[choice.Similarities], count: int
) -> tuple[list[Rows], list[choice.Similarities]]:
    marks = choice.choose_best(segments, tables, similarities, count)
    packed = [choice.pack(*table) for table in zip(tables, similarities, marks, strict=True)]
    return [rows for rows, _ in packed], [levels for _, levels in packed]


def _name(
    segments: CandidateSegments,
    query_numbers: Rows,
    width: int,
    efforts: Sequence[int],
    *,
    resolves_ties: bool,
) -> list[Asked]:
    """Ask every segment for its likely part of the best, and again until nothing that belongs to them is left out."""
    total = max(1, sum(facts.utterance_count for facts in segments.facts))
    asked_for, at_most = list[int](), list[int]()
    for facts in segments.facts:
        part = likely_part(width, facts.utterance_count / total) if resolves_ties else width
        has_spare = resolves_ties or facts.has_superseded
        asked_for.append(asked_width(part) if has_spare else part)
        at_most.append(asked_width(width) if has_spare else width)
    calls = [
        AskCall(number, query_numbers, asked, effort)
        for number, (asked, effort) in enumerate(zip(asked_for, efforts, strict=True))
    ]
    named = list(segments.ask(calls))
    while True:
        least = choice.least_of_best(np.concatenate([asked.similarities for asked in named], axis=1), width)
        lacking = [
            np.isfinite(asked.last) & ((asked.last > least) | ((asked.last == least) & resolves_ties))
            for asked in named
        ]
        numbers = [number for number, queries in enumerate(lacking) if queries.any()]
        if not numbers:
            return named
        for number in numbers:
            asked_for[number] = max(_GROWTH * asked_for[number], at_most[number])
        calls = [
            AskCall(number, query_numbers[lacking[number]], asked_for[number], efforts[number]) for number in numbers
        ]
        for number, more in zip(numbers, segments.ask(calls), strict=True):
            named[number] = _replace_queries(named[number], more, lacking[number])


def _replace_queries(asked: Asked, more: Asked, queries: choice.Marks) -> Asked:
    """Return what a segment has named, wider, with the new answers of some queries."""
    shape = len(asked.rows), max(asked.rows.shape[1], more.rows.shape[1])
    rows, similarities = np.full(shape, -1, np.int64), np.full(shape, -np.inf)
    rows[:, : asked.rows.shape[1]], similarities[:, : asked.rows.shape[1]] = asked.rows, asked.similarities
    rows[queries], similarities[queries] = -1, -np.inf
    places = np.ix_(np.flatnonzero(queries), np.arange(more.rows.shape[1]))
    rows[places], similarities[places] = more.rows, more.similarities
    last = asked.last.copy()
    last[queries] = more.last
    return Asked(rows, similarities, last)
