"""Building an index of unit vectors: training on a sample, adding, writing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, Self

import faiss
import numpy as np

from refaug.core.errors import Corrupt, Usage
from refaug.core.files import write_aside
from refaug.core.progress import Progress, Silent
from refaug.indexer.nearest import faiss_calls
from refaug.indexer.nearest.faiss_calls import (
    Vectors,
    one_path,
    openmp_threads,
    padded,
    padded_rows,
    shorten_error,
    untyped_faiss,
)
from refaug.indexer.nearest.flat_search import ONE_PATH, FlatSearch
from refaug.indexer.nearest.index_kinds import KINDS, Projection, components_of, lists_of, make_index, objection_to

# ── Reading and writing the files of FAISS ────────────────────────────────────────────────────────────────────────────


def mapping_flags(path: Path) -> int:
    """Return how FAISS maps a file: the lists of IVF indexes (whose four letters begin with Iw), the codes of others.

    Behind a projection (Ix) there are lists too.
    """
    try:
        with path.open("rb") as file:
            is_ivf = file.read(2) in (b"Iw", b"Ix")
    except FileNotFoundError as error:
        raise Corrupt(f"{path} is missing", remedy="build the index again") from error
    return int(faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY if is_ivf else faiss.IO_FLAG_MMAP_IFC)


def with_projection(projection: Projection, index: Any) -> Any:
    """Return an index that FAISS itself would search through the same projection."""
    linear = untyped_faiss.LinearTransform(*projection.matrix.shape, True)
    faiss.copy_array_to_vector(np.ascontiguousarray(projection.matrix.T).ravel(), linear.A)
    faiss.copy_array_to_vector(projection.shift, linear.b)
    linear.is_trained = True
    return faiss.IndexPreTransform(linear, index)


def _split_projection(index: Any) -> tuple[Any, Projection]:
    """Split an index into its inner index and its projection; raise RuntimeError if it has no projection."""
    linear = faiss.downcast_VectorTransform(index.chain.at(0)) if index.chain.size() == 1 else None
    if not isinstance(linear, faiss.LinearTransform) or not (linear.have_bias and linear.is_trained):
        raise RuntimeError("its vectors are transformed by something else than one projection")
    matrix = faiss.vector_to_array(linear.A).reshape(linear.d_out, linear.d_in).T
    inner: Any = faiss.downcast_index(index.index)
    inner.referenced_objects = [index]  # keeps the outer index alive; giving the inner one ownership crashes this FAISS
    return inner, Projection(np.ascontiguousarray(matrix), faiss.vector_to_array(linear.b))


def read_index(path: Path, flags: int) -> tuple[Any, Projection | None]:
    """Read an index and its projection from a file; raise Corrupt if refaug did not write it."""
    projection = None
    try:
        index: Any = faiss.read_index(str(path), flags)
        if isinstance(index, faiss.IndexPreTransform):
            index, projection = _split_projection(index)
    except (RuntimeError, MemoryError) as error:
        raise Corrupt(f"{path} is not an index: {shorten_error(error)}", remedy="build the index again") from error
    if (why := objection_to(index, projected=projection is not None)) is not None:
        raise Corrupt(f"{path} is not an index of refaug: {why}", remedy="build the index again")
    if isinstance(index, faiss.IndexIVF):
        lists: Any = untyped_faiss.downcast_InvertedLists(index.invlists)
        if lists.compute_ntotal() != index.ntotal:
            raise Corrupt(f"{path}: the lists do not hold {index.ntotal:,} vectors", remedy="build the index again")
        if isinstance(lists, faiss.OnDiskInvertedLists):
            lists.prefetch_nthread = 0  # else FAISS starts up to 32 threads per search that read every list beforehand
    return index, projection


# ── Approximate nearest neighbours among unit vectors with FAISS ──────────────────────────────────────────────────────
#
# *One code path for every batch.* FAISS multiplies matrices with BLAS when queries × dimensions reach
# `distance_compute_blas_threshold` (128,000), or when there are fewer queries than threads and at least 10,000
# vectors; otherwise it adds the products one by one. The two sums differ in their last bits, so a query's candidates
# would depend on the other queries of its batch and on the number of threads. A selector that selects every id keeps
# FAISS on the second path, both for flat indexes and for the search among the centroids of an IVF index, without any
# global setting. Per 1,000 queries, on one core and with 200 dimensions, it costs 72 instead of 34 ms among 4,096
# centroids (of 1 s that such a search takes with 64 lists). A flat index, where it would take seven times as long, has
# a search of its own with the same bits (`refaug.indexer.nearest.flat_search`). FAISS's own projections have no such
# switch. For an index behind a projection (`PCAR128,IVF4096,PQ64x4fs`), FAISS therefore gets only the inner index, and
# the queries go through the loop of `refaug.indexer.nearest.index_kinds`; the file is the one FAISS would write. A
# projection moves the origin, so behind it the nearest vectors are those at the least distance, which is the same order
# for unit vectors.


class AnnIndex:
    """An index that several threads may search at once; settings of a search are arguments of the call."""

    def __init__(self, index: Any, projection: Projection | None = None) -> None:
        self._index, self.projection = index, projection
        self.kind: faiss_calls.Kind = KINDS[type(index).__name__]
        self.size, self.lists = int(index.ntotal), lists_of(index)
        self.dimensions = int(index.d) if projection is None else len(projection.matrix)  # a multiple of eight
        self._parameters_by_lists = dict[int, Any]()  # creating them takes longer than using them
        self._flat = FlatSearch(index) if self.kind == "flat" else None
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
                if self._flat is not None:
                    where, near = self._flat.search(queries, width)
                else:
                    near, where = self._index.search(queries, width, params=self._parameters(effort))
            if where.max() >= self.size or where.min() < -1:
                raise Corrupt(
                    "the index of vectors names vectors that it does not hold", remedy="build the index again"
                )
            ids[:, :width] = where
            similarities[:, :width] = near if self.projection is None else 1 - near / 2
            similarities[ids < 0] = -np.inf
        return ids, similarities

    def project(self, queries: faiss_calls.Vectors) -> faiss_calls.Vectors:
        """Return queries padded and projected like the stored vectors."""
        rows = faiss_calls.padded_rows(queries, self.dimensions)
        return rows if self.projection is None else self.projection.project_queries(rows)

    def _parameters(self, effort: int) -> Any:
        if self.kind == "hnsw":
            return faiss_calls.untyped_faiss.SearchParametersHNSW(efSearch=effort)
        if self.kind == "codes":
            return None
        lists = min(max(1, effort), self.lists)
        if lists not in self._parameters_by_lists:
            within = ONE_PATH if self._one_path else None
            self._parameters_by_lists[lists] = faiss_calls.untyped_faiss.SearchParametersIVF(
                nprobe=lists, quantizer_params=within
            )
        return self._parameters_by_lists[lists]


# ── Building an index of unit vectors: training on a sample, adding, writing ──────────────────────────────────────────

# Points per centroid, 100,000 utterances, 1,024 lists, 16 of them searched: recall@15 is .866 with 39, .867 with 64 and
# .864 with 97, while training takes 1.8, 3.2 and 5.3 s; more were not tried. FAISS warns below 39; 64 leaves room for a
# sample that falls short because some utterances have no vector.
POINTS_A_LIST: Final = 64
LEAST_POINTS_A_LIST: Final = 39
ITERATIONS: Final = 10  # of k-means
_CODE_SAMPLE: Final = 65_536  # vectors from which codes learn their range; other numbers were not tried


class AnnBuilder:
    """Builds an index: trained on a sample, then filled with all vectors in blocks; ids are 0, 1, … in that order."""

    def __init__(self, index: Any, projection: Projection | None, threads: int) -> None:
        self._index, self.projection, self.search_threads = index, projection, threads

    @staticmethod
    def training_rows(factory: str, rows: int) -> int:
        """Return how many of so many vectors the training sample should have."""
        if re.fullmatch(r"Flat|SQ(fp|bf)16|HNSW\d*(,Flat)?", factory):
            return 0
        lists = re.match(r"(?:PCAR\d+,)?IVF(\d+)", factory)
        return min(rows, max(_CODE_SAMPLE, POINTS_A_LIST * int(lists[1]) if lists else 0))

    @classmethod
    def train(
        cls,
        factory: str,
        dimensions: int,
        sample: Vectors,
        *,
        seed: int = 0,
        threads: int = 1,
        progress: Progress | None = None,
    ) -> Self:
        """Learn lists and codes from a random sample; the result does not depend on the number of threads."""
        index, progress, components = make_index(factory, dimensions), progress or Silent(), components_of(factory)
        sample, lists = padded_rows(sample, padded(dimensions)), lists_of(index)
        if len(sample) < LEAST_POINTS_A_LIST * lists:
            raise Usage(
                f"{factory!r} has {lists:,} lists, which take {LEAST_POINTS_A_LIST * lists:,} vectors to be found; "
                f"there are {len(sample):,}",
                remedy="use fewer lists, or Flat",
            )
        if not lists and not index.is_trained and not len(sample):
            raise Usage(f"{factory!r} learns from vectors, and there is none", remedy="use Flat")
        projection = Projection.learn(sample, components, seed) if components else None
        builder = cls(index, projection, threads)
        if projection is not None:
            sample = projection.project_stored(sample)
        with openmp_threads(threads):
            if lists:
                progress.stage("finding lists", ITERATIONS, "rounds")
                centroids = _k_means(sample, lists, seed, progress, spherical=projection is None)
                builder._add_centroids(centroids)
            if not index.is_trained:
                index.train(sample[:_CODE_SAMPLE])
        return builder

    def _add_centroids(self, centroids: Vectors) -> None:
        """Give an IVF index its centroids, so that FAISS does not compute them itself."""
        quantizer = faiss.downcast_index(self._index.quantizer)
        with openmp_threads(_threads_to_add(quantizer, self.search_threads)):
            quantizer.add(centroids)

    def write_trained(self, path: Path) -> None:
        """Save the trained state, so that an interrupted build need not train again."""
        assert not self._index.ntotal, "vectors were added already"
        self.write(path)

    @classmethod
    def open_trained(cls, path: Path, *, threads: int = 1) -> Self:
        """Return a builder that continues after training."""
        return cls(*read_index(path, 0), threads)

    @classmethod
    def open_emptied(cls, path: Path, *, threads: int = 1) -> Self:
        """Return a builder with the training of a finished index, and none of its vectors."""
        index, projection = read_index(path, 0)
        index.reset()
        return cls(index, projection, threads)

    def project(self, block: Vectors) -> Vectors:
        """Return these vectors as they are stored: padded, and projected if there is a projection."""
        stored = self._index.d if self.projection is None else len(self.projection.matrix)
        rows = padded_rows(block, stored)
        return rows if self.projection is None else self.projection.project_stored(rows)

    def add(self, block: Vectors) -> Vectors:
        """Project and add further vectors, which get the next ids; return what `project` makes of them.

        A graph depends on how the vectors are cut into blocks, lists and codes do not.
        """
        stored = self.project(block)
        if len(block):
            with openmp_threads(_threads_to_add(self._index, self.search_threads)), one_path():
                self._index.add(stored)
        return stored

    def write(self, path: Path) -> None:
        """Write the index, whole or not at all."""
        whole = self._index if self.projection is None else with_projection(self.projection, self._index)
        with write_aside(path) as file:
            faiss.write_index(whole, untyped_faiss.PyCallbackIOWriter(file.write))

    def index(self) -> AnnIndex:
        """Return the vectors added so far as an index that can be searched without writing it."""
        return AnnIndex(self._index, self.projection)


def _threads_to_add(index: Any, threads: int) -> int:
    """Return how many threads add vectors: one for graphs.

    FAISS does not promise the same graph from several threads, though two made the same one of 30,000 vectors.
    """
    return 1 if isinstance(index, faiss.IndexHNSW) else threads


def _k_means(sample: Vectors, lists: int, seed: int, progress: Progress, *, spherical: bool) -> Vectors:
    """Compute centroids, of unit length if spherical, one round per call, so that progress shows and Ctrl-C works."""
    most_points = POINTS_A_LIST * lists
    if len(sample) > most_points:
        sample = sample[np.sort(np.random.default_rng(seed).permutation(len(sample))[:most_points])]
    settings = faiss.ClusteringParameters()
    settings.niter, settings.seed, settings.spherical = 1, seed, spherical
    settings.min_points_per_centroid, settings.max_points_per_centroid = 1, POINTS_A_LIST
    centroids = np.empty(0, np.float32)
    for _ in range(ITERATIONS):
        clustering = faiss.Clustering(sample.shape[1], lists, settings)
        faiss.copy_array_to_vector(centroids, clustering.centroids)  # empty in the first round: FAISS draws points
        clustering.train(sample, (faiss.IndexFlatIP if spherical else faiss.IndexFlatL2)(sample.shape[1]))
        centroids = faiss.vector_to_array(clustering.centroids)
        progress.advance(1)
    return centroids.reshape(lists, -1)
