"""Collecting candidates: the best of all segments by their codes, merged to one depth, then by a finer comparison.

A segment names its best utterances, as many as its share of all utterances lets expect in the pool. The pool has the
best of all segments together, as if they lay in one: the same for any number of segments that share a quantizer. A
segment is asked for more where what it did not name could belong to the pool: where it has more of the best than its
share, where outdated utterances took up places, or where its last one ties with the last of the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, sqrt
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from refaug.core.kernels.kernel import compiled
from refaug.indexer.search.search_tables import Keys, Rows
from refaug.indexer.search.segments import SegmentFacts

# ── Choosing the best of the candidates of all segments: by similarity, then by the hashes of the utterance's text ────
#
# The hashes are the same in whichever segment an utterance lies, and so is the choice.

Similarities = NDArray[np.float64]
Marks = NDArray[np.bool_]


class UtteranceHashes(Protocol):
    """What knows the hashes of utterances, by which ties are broken."""

    def hashes(self, rows: Sequence[Rows]) -> Sequence[tuple[Keys, Keys]]:
        """Return the hashes and the keys of these utterances of each segment."""
        ...


def choose_best(
    segments: UtteranceHashes, tables: Sequence[Rows], similarities: Sequence[Similarities], count: int
) -> list[Marks]:
    """Mark the `count` most similar candidates of each query over all segments; fewer where there are fewer."""
    joined = np.concatenate(similarities, axis=1)
    is_best, is_tied, places = _best_and_tied(joined, count)
    if is_tied.any():
        _fill_with_tied(segments, tables, is_best, is_tied, places)
    borders = np.cumsum([0, *(table.shape[1] for table in tables)])
    return [is_best[:, first:last] for first, last in pairwise(borders)]


def _fill_with_tied(
    segments: UtteranceHashes, tables: Sequence[Rows], is_best: Marks, is_tied: Marks, places: Rows
) -> None:
    """Give the last places to those of the tied candidates whose utterances have the smallest hashes."""
    query, column = np.nonzero(is_tied)
    borders = np.cumsum([0, *(table.shape[1] for table in tables)])
    sha, key = np.empty(len(query), np.uint64), np.empty(len(query), np.uint64)
    inside = [(column >= first) & (column < last) for first, last in pairwise(borders)]
    rows = [
        table[query[here], column[here] - first]
        for table, here, first in zip(tables, inside, borders[:-1], strict=True)
    ]
    for here, (of_sha, of_key) in zip(inside, segments.hashes(rows), strict=True):
        sha[here], key[here] = of_sha, of_key
    order = np.lexsort((key, sha, query))
    query, column = query[order], column[order]
    rank = np.arange(len(query)) - np.searchsorted(query, query)
    is_first = rank < places[query]
    is_best[query[is_first], column[is_first]] = True


@compiled
def _best_and_tied(similarities: Similarities, count: int) -> tuple[Marks, Marks, Rows]:
    """Mark the best of each row, and those equal to the last of them where not all equals have a place.

    The third array says how many places are left for the tied ones. −∞ marks an empty place in the table.
    """
    is_best = np.zeros(similarities.shape, np.bool_)
    is_tied = np.zeros(similarities.shape, np.bool_)
    places = np.zeros(similarities.shape[0], np.int64)
    for query in range(similarities.shape[0]):
        row = similarities[query]
        least = -np.inf if len(row) <= count else -np.partition(-row, count - 1)[count - 1]
        above, equal = 0, 0
        for at in range(len(row)):
            above += row[at] > least
            equal += row[at] == least
        fits = above + equal <= count
        for at in range(len(row)):
            if row[at] > least or (fits and row[at] == least and least > -np.inf):
                is_best[query, at] = True
            elif row[at] == least and least > -np.inf:
                is_tied[query, at] = True
        places[query] = count - above
    return is_best, is_tied, places


@compiled
def least_of_best(similarities: Similarities, count: int) -> NDArray[np.float64]:
    """Return the `count`-th highest similarity of each row, −∞ where there are fewer."""
    least = np.full(similarities.shape[0], -np.inf)
    if similarities.shape[1] >= count:
        for query in range(similarities.shape[0]):
            least[query] = -np.partition(-similarities[query], count - 1)[count - 1]
    return least


@compiled
def pack(rows: Rows, similarities: Similarities, marks: Marks) -> tuple[Rows, Similarities]:
    """Return the marked candidates of each query, moved together; −1 and −∞ fill the rest."""
    most = 0
    for query in range(rows.shape[0]):
        count = 0
        for place in range(rows.shape[1]):
            count += marks[query, place]
        most = max(most, count)
    packed = np.full((rows.shape[0], most), -1, np.int64)
    packed_similarities = np.full((rows.shape[0], most), -np.inf)
    for query in range(rows.shape[0]):
        used = 0
        for place in range(rows.shape[1]):
            if marks[query, place]:
                packed[query, used] = rows[query, place]
                packed_similarities[query, used] = similarities[query, place]
                used += 1
    return packed, packed_similarities


# ── Collecting candidates: the best of all segments by their codes, merged to one depth, then by a finer comparison ───

_SPARE: Final = 16  # beyond an eighth more, where outdated or tied utterances may take up places
_GROWTH: Final = 2
_DEVIATIONS: Final = 4.0


class CandidateSegments(UtteranceHashes, Protocol):
    """The segments of an index, wherever they lie, as one search asks them for candidates."""

    @property
    def facts(self) -> Sequence[SegmentFacts]:
        """The facts of each segment, for which nothing is searched."""
        ...

    def code_depth(self, count: int) -> int:
        """Return how many candidates by codes include the best `count`."""
        ...

    def ask(
        self, numbers: Sequence[int], query_numbers: Sequence[Rows], widths: Sequence[int], efforts: Sequence[int]
    ) -> Sequence[tuple[Rows, Similarities]]:
        """Ask some segments for their best utterances: each for some queries, so many, with so much effort.

        Returned are those of each segment, best first, and their similarities; −1 and −∞ fill the rest, where the
        segment has nothing more. An outdated utterance is −1, too, beside its similarity.
        """
        ...

    def finer(self, query_numbers: Rows, tables: Sequence[Rows]) -> Sequence[Similarities | None]:
        """Return finer similarities of each segment's candidates; None where those by codes are fine enough."""
        ...


def collect(
    segments: CandidateSegments,
    query_numbers: Rows,
    count: int,
    efforts: Sequence[int],
    *,
    resolves_ties: bool = True,
) -> tuple[list[Rows], Marks]:
    """Return the best candidates of all segments together: at least `count` of each query, if there are so many.

    They are one table (queries, …) a segment; the marks say which queries have fewer than asked for.
    Without `resolves_ties`, any of several equally similar ones may be left out at the end, which costs less.
    """
    if not segments.facts:
        return [], np.ones(len(query_numbers), np.bool_)
    total = sum(facts.utterance_count for facts in segments.facts)
    width = max(1, min(segments.code_depth(count), max(count, total)))
    named = _name(segments, query_numbers, width, efforts, resolves_ties=resolves_ties)
    tables, similarities = [rows for rows, _ in named], [live_similarities(*of_segment) for of_segment in named]
    if sum(table.shape[1] for table in tables) > width:
        tables, similarities = _best(segments, tables, similarities, width)
    finer = segments.finer(query_numbers, tables)
    if any(table is not None for table in finer):
        width = count
        merged = [rough if fine is None else fine for rough, fine in zip(similarities, finer, strict=True)]
        tables, similarities = _best(segments, tables, merged, width)
    sizes = sum((table >= 0).sum(axis=1) for table in tables)
    return tables, np.asarray(sizes < width)


def live_similarities(rows: Rows, similarities: Similarities) -> Similarities:
    """Return the similarities of what a segment has named without those of outdated utterances."""
    return np.where(rows >= 0, similarities, -np.inf)


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
    segments: CandidateSegments, tables: Sequence[Rows], similarities: Sequence[Similarities], count: int
) -> tuple[list[Rows], list[Similarities]]:
    marks = choose_best(segments, tables, similarities, count)
    packed = [pack(*table) for table in zip(tables, similarities, marks, strict=True)]
    return [rows for rows, _ in packed], [levels for _, levels in packed]


def _name(
    segments: CandidateSegments,
    query_numbers: Rows,
    width: int,
    efforts: Sequence[int],
    *,
    resolves_ties: bool,
) -> list[tuple[Rows, Similarities]]:
    """Ask every segment for its likely part of the best, and again until nothing that belongs to them is left out."""
    total = max(1, sum(facts.utterance_count for facts in segments.facts))
    asked_for, at_most = list[int](), list[int]()
    for facts in segments.facts:
        part = likely_part(width, facts.utterance_count / total) if resolves_ties else width
        has_spare = resolves_ties or facts.has_superseded
        asked_for.append(asked_width(part) if has_spare else part)
        at_most.append(asked_width(width) if has_spare else width)
    everything = range(len(efforts))
    named = list(segments.ask(everything, [query_numbers] * len(efforts), asked_for, efforts))
    while True:
        live = [live_similarities(*of_segment) for of_segment in named]
        least = least_of_best(np.concatenate(live, axis=1), width)
        last = [similarities[:, -1] for _, similarities in named]
        lacking = [np.isfinite(of) & ((of > least) | ((of == least) & resolves_ties)) for of in last]
        numbers = [number for number, queries in enumerate(lacking) if queries.any()]
        if not numbers:
            return named
        for number in numbers:
            asked_for[number] = max(_GROWTH * asked_for[number], at_most[number])
        further = segments.ask(
            numbers,
            [query_numbers[lacking[number]] for number in numbers],
            [asked_for[number] for number in numbers],
            [efforts[number] for number in numbers],
        )
        for number, more in zip(numbers, further, strict=True):
            named[number] = _replace_queries(*named[number], *more, lacking[number])


def _replace_queries(
    rows: Rows, similarities: Similarities, more_rows: Rows, more: Similarities, queries: Marks
) -> tuple[Rows, Similarities]:
    """Return what a segment has named, wider, with the new answers of some queries."""
    shape = len(rows), max(rows.shape[1], more_rows.shape[1])
    wider, wider_similarities = np.full(shape, -1, np.int64), np.full(shape, -np.inf)
    wider[:, : rows.shape[1]], wider_similarities[:, : rows.shape[1]] = rows, similarities
    wider[queries], wider_similarities[queries] = -1, -np.inf
    places = np.ix_(np.flatnonzero(queries), np.arange(more_rows.shape[1]))
    wider[places], wider_similarities[places] = more_rows, more
    return wider, wider_similarities
