"""Approximate nearest neighbours among unit vectors with FAISS.

*One code path for every batch.* FAISS multiplies matrices with BLAS when queries × dimensions reach
`distance_compute_blas_threshold` (128,000), or when there are fewer queries than threads and at least 10,000 vectors;
otherwise it adds the products one by one. The two sums differ in their last bits, so a query's candidates would depend
on the other queries of its batch and on the number of threads. A selector that selects every id keeps FAISS on the
second path, both for flat indexes and for the search among the centroids of an IVF index, without any global setting.
Per 1,000 queries, on one core and with 200 dimensions, it costs 72 instead of 34 ms among 4,096 centroids (of 1 s that
such a search takes with 64 lists), and 3.7 instead of 0.5 s in a flat index of 100,000 vectors. A compiled loop that
keeps a block of rows in the cache for many queries takes 1.7 s, but three times as long for a single query. FAISS's own
projections have no such switch. For an index behind a projection (`PCAR128,IVF4096,PQ64x4fs`), FAISS therefore gets
only the inner index, and the queries go through the loop of `refaug.indexer.nearest.projection`; the file is the one
FAISS would write. A projection moves the origin, so behind it the nearest vectors are those at the least distance,
which is the same order for unit vectors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Self

import faiss
import numpy as np

from refaug.core.errors import Corrupt
from refaug.indexer.nearest import faiss_calls
from refaug.indexer.nearest.index_files import mapping_flags, read_index
from refaug.indexer.nearest.index_kinds import KINDS, lists_of
from refaug.indexer.nearest.projection import Projection

_EVERY_ID: Final = faiss.IDSelectorAll()
_ONE_PATH: Final = faiss_calls.untyped_faiss.SearchParameters(sel=_EVERY_ID)


class AnnIndex:
    """An index that several threads may search at once; settings of a search are arguments of the call."""

    def __init__(self, index: Any, projection: Projection | None = None) -> None:
        self._index, self.projection = index, projection
        self.kind: faiss_calls.Kind = KINDS[type(index).__name__]
        self.size, self.lists = int(index.ntotal), lists_of(index)
        self.dimensions = int(index.d) if projection is None else len(projection.matrix)  # a multiple of eight
        self._parameters_by_lists = dict[int, Any]()  # creating them takes longer than using them
        self._one_path = self.lists > 0 and isinstance(faiss.downcast_index(index.quantizer), faiss.IndexFlat)

    @classmethod
    def open(cls, path: Path, *, mapped: bool = True) -> Self:
        """Open a file that a builder wrote; if mapped, its vectors are read on access."""
        return cls(*read_index(path, mapping_flags(path) if mapped else 0))

    @property
    def is_exact(self) -> bool:
        """Whether a search compares every vector as it was added."""
        return self.kind == "flat"

    def efforts(self) -> tuple[int, ...]:
        """Return the steps of search effort: lists of an IVF index, breadth of the walk in a graph, else nothing."""
        if self.kind == "hnsw":
            return tuple(16 << step for step in range(9))
        steps = tuple(1 << step for step in range(max(0, (self.lists - 1).bit_length())))
        return (*steps, self.lists) if self.lists else ()

    def search(
        self, queries: faiss_calls.Vectors, depth: int, effort: int = 1, *, threads: int | None = None
    ) -> tuple[faiss_calls.Ids, faiss_calls.Vectors]:
        """Return ids and similarities (queries, depth), best first; −1 and −∞ fill the rest.

        Behind a projection, similarities are computed from distances and as rough as the codes. `effort` is how
        many lists are searched, or how broad the walk in a graph is; exact indexes and plain codes ignore it.
        Without `threads`, the number of `set_threads` applies. The answer for a query is the same, to the last
        bit, in any batch and on any number of threads; among equal similarities, any may be left out.
        """
        return self.search_projected(self.project(queries), depth, effort, threads=threads)

    def search_projected(
        self, queries: faiss_calls.Vectors, depth: int, effort: int = 1, *, threads: int | None = None
    ) -> tuple[faiss_calls.Ids, faiss_calls.Vectors]:
        """Search for queries that `project` has already transformed."""
        width = min(depth, self.size) if len(queries) else 0
        ids = np.full((len(queries), depth), -1, np.int64)
        similarities = np.full((len(queries), depth), -np.inf, np.float32)
        if width:
            with faiss_calls.openmp_threads(threads or faiss_calls.search_threads.count):
                near, where = self._index.search(queries, width, params=self._parameters(effort))
            if where.max() >= self.size or where.min() < -1:
                raise Corrupt(
                    "the index of vectors names vectors that it does not hold", remedy="build the index again"
                )
            if self.projection is not None:
                near = 1 - near / 2
            ids[:, :width], similarities[:, :width] = where, near
            similarities[ids < 0] = -np.inf
        return ids, similarities

    def project(self, queries: faiss_calls.Vectors) -> faiss_calls.Vectors:
        """Return queries padded and projected like the stored vectors."""
        rows = faiss_calls.padded_rows(queries, self.dimensions)
        return rows if self.projection is None else self.projection.project_queries(rows)

    def _parameters(self, effort: int) -> Any:
        if self.kind == "flat":
            return _ONE_PATH
        if self.kind == "hnsw":
            return faiss_calls.untyped_faiss.SearchParametersHNSW(efSearch=effort)
        if self.kind == "codes":
            return None
        lists = min(max(1, effort), self.lists)
        if lists not in self._parameters_by_lists:
            within = _ONE_PATH if self._one_path else None
            self._parameters_by_lists[lists] = faiss_calls.untyped_faiss.SearchParametersIVF(
                nprobe=lists, quantizer_params=within
            )
        return self._parameters_by_lists[lists]
