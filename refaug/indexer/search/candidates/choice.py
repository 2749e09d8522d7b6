"""Choosing the best of the candidates of all segments: by similarity, then by the hashes of the utterance's text.

The hashes are the same in whichever segment an utterance lies, and so is the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from refaug.core.kernels import compiled
from refaug.indexer.search.search_tables import Keys, Rows

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
