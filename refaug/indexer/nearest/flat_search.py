"""Exact search among flat vectors for several queries at once, with the bits of one query's search.

A query that is compared alone reads every vector from memory; so does a search that adds the products of each pair one
by one, which FAISS's matrix products do not: their sums depend on the batch. Here matrix products only say which chunks
of vectors can hold a query's nearest ones, with room for how far such a sum can be off; the vectors of these chunks are
then compared one by one, by the function with which FAISS compares a single query. Among 64,000 vectors of 200
dimensions a query takes .9 instead of 3 ms in a batch of 16, and 1.6 instead of 4 in one of 8.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import faiss
import numpy as np
from numpy.typing import NDArray

from refaug.indexer.nearest.faiss_calls import Ids, Vectors, untyped_faiss

_EVERY_ID: Final = faiss.IDSelectorAll()
ONE_PATH: Final = untyped_faiss.SearchParameters(sel=_EVERY_ID)
_CHUNK: Final = 16  # vectors that are compared one by one if one of them may be near; 32 and 16 take as long
_BLOCK: Final = 8_192  # vectors of a product, which fits into the cache; 2,048 to 16,384 take as long
_FEW: Final = 3  # queries; fewer are as quick one by one
_PRODUCTS: Final = 1 << 22  # chunks of all queries at once, each with four numbers: 64 MiB
_QUERIES: Final = 64  # at once, or fewer that have so many chunks
_COMPARED: Final = 1 << 16  # chunks that may be near, of all queries at once: 40 MiB, unless a single query has more
_ROUNDING: Final = 2.0**-24  # of a number in single precision, relative


class FlatSearch:
    """Searches an index of unit vectors whose similarity is the inner product."""

    def __init__(self, index: Any) -> None:
        self._index, (self.size, dimensions) = index, (int(index.ntotal), int(index.d))
        self._vectors: Vectors = untyped_faiss.rev_swig_ptr(index.get_xb(), self.size * dimensions).reshape(
            self.size, dimensions
        )
        self._chunks = -(-self.size // _CHUNK)
        self._room = 4 * dimensions * _ROUNDING  # two sums of a pair, each off by half of this at most

    def search(self, queries: Vectors, width: int) -> tuple[Ids, Vectors]:
        """Return ids and similarities of the `width` nearest, best first, and equal ones in their order.

        Where that many chunks are more than a quarter of all, any of equal vectors may be left out, the same in every
        batch; elsewhere it is the last of them.
        """
        if 4 * width > self._chunks:
            return _first_of_equal(*self._one_by_one(queries, width))
        if len(queries) < _FEW:
            where, near = self._one_by_one(queries, width + 1)
            if (near[:, width - 1] > near[:, width]).all():  # else FAISS need not leave out the last of equal ones
                return _first_of_equal(where[:, :width], near[:, :width])
        some = max(1, min(_QUERIES, _PRODUCTS // self._chunks))
        return _joined(self._by_chunks(queries[first : first + some], width) for first in range(0, len(queries), some))

    def _one_by_one(self, queries: Vectors, width: int) -> tuple[Ids, Vectors]:
        near, where = self._index.search(queries, width, params=ONE_PATH)
        return where, near

    def _by_chunks(self, queries: Vectors, width: int) -> tuple[Ids, Vectors]:
        best = self._best_of_chunks(queries)
        least = np.partition(best, self._chunks - width, axis=1)[:, self._chunks - width] - self._room
        near_enough = ~(best < least[:, None])  # for NaN, all of them
        some = max(1, _COMPARED // int(near_enough.sum(axis=1).max()))  # of the queries, at once
        return _joined(
            self._among(queries[first : first + some], near_enough[first : first + some], width)
            for first in range(0, len(queries), some)
        )

    def _among(self, queries: Vectors, near_enough: NDArray[np.bool_], width: int) -> tuple[Ids, Vectors]:
        """Return the nearest vectors of the chunks (queries, chunks) that are near enough."""
        query, chunk = np.nonzero(near_enough)
        place = np.arange(len(query)) - np.searchsorted(query, query)
        chunks = np.full((len(queries), int(place.max()) + 1, _CHUNK), -1, np.int64)
        chunks[query, place] = chunk[:, None] * _CHUNK + np.arange(_CHUNK)
        where: Ids = chunks.reshape(len(queries), -1)
        where[where >= self.size] = -1
        near = np.empty(where.shape, np.float32)
        pointers = [untyped_faiss.swig_ptr(array) for array in (np.ascontiguousarray(queries), near, where)]
        self._index.compute_distance_subset(len(queries), pointers[0], where.shape[1], *pointers[1:])
        where[np.isnan(near)] = -1
        near[where < 0] = -np.inf
        where, near = _first_of_equal(where, near)
        return where[:, :width], near[:, :width]

    def _best_of_chunks(self, queries: Vectors) -> Vectors:
        """Return the largest similarity (queries, chunks) in every chunk, as matrix products have it."""
        best = np.empty((self._chunks, len(queries)), np.float32)
        columns, starts = queries.T, np.arange(0, _BLOCK, _CHUNK)
        for first in range(0, self.size, _BLOCK):
            similarities = self._vectors[first : first + _BLOCK] @ columns
            chunks = slice(first // _CHUNK, first // _CHUNK - (-len(similarities) // _CHUNK))
            np.maximum.reduceat(similarities, starts[: chunks.stop - chunks.start], axis=0, out=best[chunks])
        return np.ascontiguousarray(best.T)


def _joined(parts: Iterable[tuple[Ids, Vectors]]) -> tuple[Ids, Vectors]:
    where, near = zip(*parts, strict=True)
    return np.concatenate(where), np.concatenate(near)


def _first_of_equal(where: Ids, near: Vectors) -> tuple[Ids, Vectors]:
    order = np.lexsort((where, -near), axis=-1)
    return np.take_along_axis(where, order, axis=-1), np.take_along_axis(near, order, axis=-1)
