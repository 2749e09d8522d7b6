"""Nearest neighbours among unit vectors, by FAISS: kinds of index, training, adding, searching; nobody else imports it.

*One path for every batch.* FAISS multiplies matrices with BLAS when queries × dimensions reach
`distance_compute_blas_threshold` (128,000), or when there are fewer queries than threads and at least 10,000 vectors,
and adds products up one by one otherwise: sums that differ in their last bits, so that a query's candidates would
depend on its company and on the number of threads. A selector of ids that selects every id keeps it on the second
path, here for flat indexes and for the search among the centroids of an IVF one; nothing shared is set. Per 1,000
queries, on one core and with 200 dimensions, that costs 72 instead of 34 ms among 4,096 centroids (of 1 s that such a
search takes with 64 lists), and 3.7 instead of 0.5 s in a flat index of 100,000; a compiled loop that keeps a block of
rows in the cache for many queries took 1.7 s, but three times as long for a single one. FAISS's own projections have no
such switch. So of an index behind one (`PCAR128,IVF4096,PQ64x4fs`) FAISS is given the inner one alone, and its queries
go through the loop of `indexer.projection`; the file is what FAISS would write. Behind a projection, which moves the
origin, the nearest are those at the least distance: of unit vectors, the same.

*Whole eights.* FAISS decodes eight components at once if a vector has a multiple of eight, and otherwise one by one: a
code of 100 or 300 dimensions, as GloVe's are, takes 105 or 320 ns to compare where one of 104 or 304 takes 8 or 15. So
zeros are added, which no inner product notices.

*Threads.* OpenMP counts threads for each calling thread on its own: `omp_set_num_threads` in one Python thread says
nothing to the others. So the number given to `set_threads` is kept here and set before every call, whichever thread
makes it. FAISS lets go of Python's lock, and several threads may search one index at once; each then brings as many
OpenMP threads, so divide the cores between them. A process that has used FAISS must not fork: the child would hang.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

import faiss
import numpy as np
from numpy.typing import NDArray

from core.errors import Corrupt, Usage
from core.files import write_aside
from core.progress import Progress, Silent
from indexer.projection import Projection

Vectors = NDArray[np.float32]
Ids = NDArray[np.int64]
Kind = Literal["flat", "ivf", "hnsw", "codes"]

# Points per centroid, 100,000 utterances, 1,024 lists, 16 of them searched: recall@15 is .866 with 39, .867 with 64 and
# .864 with 97, while training takes 1.8, 3.2 and 5.3 s; more were not tried. FAISS warns below 39; 64 leaves room for a
# sample that falls short because some utterances have no vector.
POINTS_A_LIST: Final = 64
LEAST_POINTS_A_LIST: Final = 39
ITERATIONS: Final = 10  # of k-means
_CODE_SAMPLE: Final = 65_536  # vectors from which codes learn their range; other numbers were not tried
_MOST_LISTS: Final = 1 << 20  # FAISS makes room for every list before it is asked whether that is sensible

_KINDS: Final[dict[str, Kind]] = {
    "IndexFlat": "flat",
    "IndexFlatIP": "flat",
    "IndexIVFFlat": "ivf",
    "IndexIVFScalarQuantizer": "ivf",
    "IndexIVFRaBitQ": "ivf",
    "IndexIVFRaBitQFastScan": "ivf",  # read into memory: its lists cannot be mapped
    "IndexIVFPQFastScan": "ivf",  # the same
    "IndexHNSWFlat": "hnsw",
    "IndexHNSWSQ": "hnsw",
    "IndexScalarQuantizer": "codes",
}
_SUPPORTED: Final = (
    "Flat, SQ8, SQfp16, IVF4096,Flat, IVF4096,SQfp16, IVF4096,SQ8, IVF4096,RaBitQfs, PCAR128,IVF4096,PQ64x4fs, HNSW32 "
    "and the like"
)
_untyped: Final[Any] = faiss  # for what FAISS's stubs do not know
_EVERY_ID: Final = faiss.IDSelectorAll()
_ONE_PATH: Final = _untyped.SearchParameters(sel=_EVERY_ID)


@dataclass
class _Threads:
    count: int = faiss.omp_get_max_threads()  # what OMP_NUM_THREADS or the machine says, until set_threads says more


_threads: Final = _Threads()


def set_threads(count: int) -> None:
    """How many threads a search may take, from whichever Python thread it is called."""
    if count < 1:
        raise Usage(f"{count} threads cannot search", remedy="give one or more")
    _threads.count = count


# Kinds of index


@dataclass(frozen=True, kw_only=True)
class AnnKind:
    """What a factory string stands for."""

    factory: str
    kind: Kind
    lists: int  # of an IVF index, else 0
    components: int  # that are left by a projection, else 0
    row_bytes: int  # of a vector: its code, its id and its links
    list_bytes: int  # of a list, beside the vectors in it: its centroid, place and length, half a block of fast scan

    @property
    def looked_at_bytes(self) -> int:
        """What is kept of an utterance beside FAISS's file: a byte for each component that is left, and a base."""
        return self.components + 4 if self.components else 0

    @classmethod
    def of(cls, factory: str, dimensions: int) -> Self:
        """The kind of this name, or Usage."""
        index = _made(factory, dimensions)
        kind, lists = _KINDS[type(index).__name__], _lists_of(index)
        row_bytes = index.sa_code_size() if kind != "hnsw" else index.storage.sa_code_size() + _link_bytes(index)
        unfilled = 0
        if kind == "ivf":
            row_bytes = index.code_size + 8
            unfilled = index.bbs // 2 * index.code_size if isinstance(index, faiss.IndexIVFFastScan) else 0
        return cls(
            factory=factory,
            kind=kind,
            lists=lists,
            components=_components(factory),
            row_bytes=int(row_bytes),
            list_bytes=4 * int(index.d) + 24 + int(unfilled) if lists else 0,
        )


def _made(factory: str, dimensions: int) -> Any:
    """An empty index, of a kind that does all that is asked of it here."""
    largest = max((int(number[:12]) for number in re.findall(r"\d+", factory)), default=0)
    if not re.fullmatch(r"[A-Za-z0-9_,]+", factory) or largest > _MOST_LISTS or re.search(r"[A-Z]0", factory):
        raise Usage(f"{factory!r} names no kind of index that is used here", remedy=f"such as {_SUPPORTED}")
    components = _components(factory)
    if components % 8 or components > _padded(dimensions):
        raise Usage(
            f"{factory!r} leaves {components} components of {dimensions}",
            remedy=f"leave a multiple of 8, at most {_padded(dimensions)}",
        )
    metric = faiss.METRIC_L2 if components else faiss.METRIC_INNER_PRODUCT
    inner = factory.split(",", 1)[1] if components else factory
    try:
        index: Any = faiss.index_factory(components or _padded(dimensions), inner, metric)
    except RuntimeError as error:
        raise Usage(
            f"FAISS makes nothing of {factory!r} with {dimensions} dimensions: {_reason(error)}",
            remedy=f"such as {_SUPPORTED}",
        ) from error
    if (why := _objection(index, projected=components > 0)) is not None:
        raise Usage(f"{factory!r} cannot be used here: {why}", remedy=f"such as {_SUPPORTED}")
    if components:
        index.pq.cp.min_points_per_centroid = 1  # else FAISS warns of small logs on stderr
    return index


def _components(factory: str) -> int:
    """How many components are left of a vector by the projection that a factory's name begins with, 0 without one."""
    found = re.match(r"PCAR(\d{1,6}),.", factory)
    return int(found[1]) if found else 0


def _objection(index: Any, *, projected: bool) -> str | None:
    """Why an index, or the one behind a projection, does not do; None if it does."""
    name = type(index).__name__
    if projected and name != "IndexIVFPQFastScan":
        return "behind a projection, only lists with codes such as PQ64x4fs were tried"
    if isinstance(index, faiss.IndexPreTransform):
        return "vectors are transformed first, by sums that depend on how many queries are asked at once"
    if name.startswith("IndexRefine"):
        return "candidates are ranked again with exact vectors anyway"
    if "PQ" in name and not projected:
        return "product quantisation finds less than RaBitQ of the same size, unless a projection comes first"
    if name not in _KINDS:
        return f"{name} is not among the kinds that were tried"
    if index.metric_type != (faiss.METRIC_L2 if projected else faiss.METRIC_INNER_PRODUCT):
        return "it does not compare by inner product" if not projected else "it does not compare by distance"
    if _KINDS[name] == "ivf" and not isinstance(
        quantizer := faiss.downcast_index(index.quantizer), faiss.IndexFlat | faiss.IndexHNSWFlat
    ):
        return f"its lists are found by {type(quantizer).__name__}, which was not tried"
    return None


def _lists_of(index: Any) -> int:
    return int(index.nlist) if isinstance(index, faiss.IndexIVF) else 0


def _link_bytes(index: Any) -> int:
    """A vector's part of a graph: room for neighbours on its levels, an offset and the number of levels."""
    hnsw, per_level = index.hnsw, 4 * index.hnsw.nb_neighbors(1)
    return int(4 * hnsw.nb_neighbors(0) + per_level / max(1, hnsw.nb_neighbors(1) - 1) + 12)


def _reason(error: Exception) -> str:
    """FAISS's reason in one line, without the place in its source."""
    text = " ".join(str(error).split())
    return re.sub(r"^Error in .*? at \S+:\d+: (Error: '.*?' failed:? ?)?", "", text) or text


# Building


class AnnBuilder:
    """An index being made: trained on a sample, then given all vectors in blocks; ids are 0, 1, … in that order."""

    def __init__(self, index: Any, projection: Projection | None, threads: int) -> None:
        self._index, self.projection, self._threads = index, projection, threads

    @staticmethod
    def training_rows(factory: str, rows: int) -> int:
        """How many of so many vectors the sample should have."""
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
        """Learn lists and codes from a random sample: the same ones with any number of threads."""
        index, progress, components = _made(factory, dimensions), progress or Silent(), _components(factory)
        sample, lists = _rows(sample, _padded(dimensions)), _lists_of(index)
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
            sample = projection.all(sample)
        with _openmp(threads):
            if lists:
                progress.stage("finding lists", ITERATIONS, "rounds")
                centroids = _k_means(sample, lists, seed, progress, spherical=projection is None)
                builder._add_centroids(centroids)
            if not index.is_trained:
                index.train(sample[:_CODE_SAMPLE])
        return builder

    def _add_centroids(self, centroids: Vectors) -> None:
        """Give an IVF index its lists, so that FAISS looks for none itself."""
        quantizer = faiss.downcast_index(self._index.quantizer)
        with _openmp(_threads_to_add(quantizer, self._threads)):
            quantizer.add(centroids)

    def write_trained(self, path: Path) -> None:
        """Keep what was learnt, so that a build that was stopped need not learn it again."""
        assert not self._index.ntotal, "vectors were added already"
        self.write(path)

    @classmethod
    def open_trained(cls, path: Path, *, threads: int = 1) -> Self:
        """Go on after training."""
        return cls(*_read(path, 0), threads)

    def project(self, block: Vectors) -> Vectors:
        """What is stored of these vectors: all of them, or what a projection leaves."""
        stored = self._index.d if self.projection is None else len(self.projection.matrix)
        rows = _rows(block, stored)
        return rows if self.projection is None else self.projection.all(rows)

    def add(self, block: Vectors) -> Vectors:
        """Further vectors, projected here; they get the next ids.

        What a graph becomes depends on the blocks, lists do not. The answer is what `project` makes of the block.
        """
        stored = self.project(block)
        if len(block):
            with _openmp(_threads_to_add(self._index, self._threads)):
                self._index.add(stored)
        return stored

    def write(self, path: Path) -> None:
        """Write the index, whole or not at all."""
        whole = self._index if self.projection is None else _behind(self.projection, self._index)
        with write_aside(path) as file:
            faiss.write_index(whole, _untyped.PyCallbackIOWriter(file.write))

    def index(self) -> AnnIndex:
        """What was added so far, to be searched without writing it."""
        return AnnIndex(self._index, self.projection)


def _threads_to_add(index: Any, threads: int) -> int:
    """Graphs are made by one thread: FAISS promises nothing else, though two made the same one of 30,000 vectors."""
    return 1 if isinstance(index, faiss.IndexHNSW) else threads


def _k_means(sample: Vectors, lists: int, seed: int, progress: Progress, *, spherical: bool) -> Vectors:
    """Centroids, of unit length if spherical; round by round, so that progress is seen and the work can be stopped."""
    wanted = POINTS_A_LIST * lists
    if len(sample) > wanted:
        sample = sample[np.sort(np.random.default_rng(seed).permutation(len(sample))[:wanted])]
    settings = faiss.ClusteringParameters()
    settings.niter, settings.seed, settings.spherical = 1, seed, spherical
    settings.min_points_per_centroid, settings.max_points_per_centroid = 1, POINTS_A_LIST
    centroids = np.empty(0, np.float32)
    for _ in range(ITERATIONS):
        clustering = faiss.Clustering(sample.shape[1], lists, settings)
        faiss.copy_array_to_vector(centroids, clustering.centroids)  # none in the first round: points are drawn
        clustering.train(sample, (faiss.IndexFlatIP if spherical else faiss.IndexFlatL2)(sample.shape[1]))
        centroids = faiss.vector_to_array(clustering.centroids)
        progress.advance(1)
    return centroids.reshape(lists, -1)


# Searching


class AnnIndex:
    """An index that can be searched, by several threads at once; what a search is to do comes with the call."""

    def __init__(self, index: Any, projection: Projection | None = None) -> None:
        self._index, self.projection = index, projection
        self.kind: Kind = _KINDS[type(index).__name__]
        self.size, self.lists = int(index.ntotal), _lists_of(index)
        self.dimensions = int(index.d) if projection is None else len(projection.matrix)  # a multiple of eight
        self._kept_parameters = dict[int, Any]()  # by the number of lists: to make them takes longer than to use them
        self._one_path = self.lists > 0 and isinstance(faiss.downcast_index(index.quantizer), faiss.IndexFlat)

    @classmethod
    def open(cls, path: Path, *, mapped: bool = True) -> Self:
        """Open a file that a builder has written; mapped, its vectors are read when they are looked at."""
        return cls(*_read(path, _mapping_flags(path) if mapped else 0))

    @property
    def is_exact(self) -> bool:
        """Whether a search looks at every vector as it was added."""
        return self.kind == "flat"

    def efforts(self) -> tuple[int, ...]:
        """How hard a search can try, in steps: lists of an IVF index, breadth of the walk in a graph, else nothing."""
        if self.kind == "hnsw":
            return tuple(16 << step for step in range(9))
        steps = tuple(1 << step for step in range(max(0, (self.lists - 1).bit_length())))
        return (*steps, self.lists) if self.lists else ()

    def search(
        self, queries: Vectors, depth: int, effort: int = 1, *, threads: int | None = None
    ) -> tuple[Ids, Vectors]:
        """Ids and similarities (queries, depth), best first; where there are no more, −1 and −∞.

        Behind a projection, the similarities are reckoned from distances and as rough as the codes.
        `effort` is how many lists are searched, or how broad the walk in a graph is; exact indexes and plain codes have
        no use for it. Without `threads`, there are as many as `set_threads` was told. The answer for a query is the
        same, to the last bit, in any batch and on any number of threads; of equals, any may be left out.
        """
        return self.search_projected(self.projected(queries), depth, effort, threads=threads)

    def search_projected(
        self, queries: Vectors, depth: int, effort: int = 1, *, threads: int | None = None
    ) -> tuple[Ids, Vectors]:
        """The same for what `projected` has made of queries."""
        found = min(depth, self.size) if len(queries) else 0
        ids = np.full((len(queries), depth), -1, np.int64)
        similarities = np.full((len(queries), depth), -np.inf, np.float32)
        if found:
            with _openmp(threads or _threads.count):
                near, where = self._index.search(queries, found, params=self._parameters(effort))
            if self.projection is not None:
                near = 1 - near / 2
            ids[:, :found], similarities[:, :found] = where, near
            similarities[ids < 0] = -np.inf
        return ids, similarities

    def projected(self, queries: Vectors) -> Vectors:
        """Queries as they are compared with what is stored, which a projection may have left of vectors."""
        rows = _rows(queries, self.dimensions)
        return rows if self.projection is None else self.projection.each(rows)

    def _parameters(self, effort: int) -> Any:
        if self.kind == "flat":
            return _ONE_PATH
        if self.kind == "hnsw":
            return _untyped.SearchParametersHNSW(efSearch=effort)
        if self.kind == "codes":
            return None
        lists = min(max(1, effort), self.lists)
        if lists not in self._kept_parameters:
            within = _ONE_PATH if self._one_path else None
            self._kept_parameters[lists] = _untyped.SearchParametersIVF(nprobe=lists, quantizer_params=within)
        return self._kept_parameters[lists]


def nearest(queries: Vectors, vectors: Vectors, k: int, *, threads: int | None = None) -> tuple[Ids, Vectors]:
    """The k vectors most similar to each query, best first, by BLAS: for measuring, not for serving."""
    with _openmp(threads or _threads.count):
        near, where = faiss.knn(queries, vectors, min(k, len(vectors)), metric=faiss.METRIC_INNER_PRODUCT)
    order = np.lexsort((where, -near), axis=-1)
    return np.take_along_axis(where, order, axis=-1), np.take_along_axis(near, order, axis=-1)


def exact_top(queries: Vectors, blocks: Iterable[tuple[int, Vectors]], k: int) -> tuple[Ids, Vectors]:
    """The k most similar of all vectors, which come in blocks, each with its first row; −1 where there are no more."""
    ids = np.full((len(queries), k), -1, np.int64)
    similarities = np.full((len(queries), k), -np.inf, np.float32)
    for first, block in blocks:
        if not len(block) or not len(queries):
            continue
        where, near = nearest(queries, block, k)
        both_ids = np.concatenate([ids, where + first], axis=1)
        both = np.concatenate([similarities, near], axis=1)
        best = np.argsort(-both, axis=1, kind="stable")[:, :k]
        ids, similarities = np.take_along_axis(both_ids, best, axis=1), np.take_along_axis(both, best, axis=1)
    return ids, similarities


# FAISS


@contextmanager
def _openmp(threads: int) -> Iterator[None]:
    """So many OpenMP threads for FAISS's calls from this Python thread."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(threads)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _padded(dimensions: int) -> int:
    return -(-dimensions // 8) * 8


def _rows(vectors: Vectors, stored: int) -> Vectors:
    """Vectors as they are stored: single precision, one after the other, with zeros at the end."""
    given = vectors.shape[1]
    assert _padded(given) == stored, (vectors.shape, stored)
    if given == stored:
        return np.ascontiguousarray(vectors, np.float32)
    rows = np.zeros((len(vectors), stored), np.float32)
    rows[:, :given] = vectors
    return rows


def _mapping_flags(path: Path) -> int:
    """How FAISS maps a file: of IVF indexes (whose four letters begin with Iw) the lists, of others the codes.

    Behind a projection (Ix) there are lists too.
    """
    try:
        with path.open("rb") as file:
            is_ivf = file.read(2) in (b"Iw", b"Ix")
    except FileNotFoundError as error:
        raise Corrupt(f"{path} is missing", remedy="build the index again") from error
    return int(faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY if is_ivf else faiss.IO_FLAG_MMAP_IFC)


def _behind(projection: Projection, index: Any) -> Any:
    """An index that FAISS itself would search through the same projection."""
    linear = _untyped.LinearTransform(*projection.matrix.shape, True)
    faiss.copy_array_to_vector(np.ascontiguousarray(projection.matrix.T).ravel(), linear.A)
    faiss.copy_array_to_vector(projection.shift, linear.b)
    linear.is_trained = True
    return faiss.IndexPreTransform(linear, index)


def _taken_apart(index: Any) -> tuple[Any, Projection]:
    """The opposite: what lies behind a projection, and the projection, or RuntimeError."""
    linear = faiss.downcast_VectorTransform(index.chain.at(0)) if index.chain.size() == 1 else None
    if not isinstance(linear, faiss.LinearTransform) or not (linear.have_bias and linear.is_trained):
        raise RuntimeError("its vectors are transformed by something else than one projection")
    matrix = faiss.vector_to_array(linear.A).reshape(linear.d_out, linear.d_in).T
    inner: Any = faiss.downcast_index(index.index)
    inner.referenced_objects = [index]  # else it goes when the outer one does; to own it itself crashes this FAISS
    return inner, Projection(np.ascontiguousarray(matrix), faiss.vector_to_array(linear.b))


def _read(path: Path, flags: int) -> tuple[Any, Projection | None]:
    """An index of ours out of a file, and the projection before it, or Corrupt."""
    projection = None
    try:
        index: Any = faiss.read_index(str(path), flags)
        if isinstance(index, faiss.IndexPreTransform):
            index, projection = _taken_apart(index)
    except (RuntimeError, MemoryError) as error:
        raise Corrupt(f"{path} is no index: {_reason(error)}", remedy="build the index again") from error
    if (why := _objection(index, projected=projection is not None)) is not None:
        raise Corrupt(f"{path} is no index of ours: {why}", remedy="build the index again")
    if isinstance(index, faiss.IndexIVF):
        lists: Any = _untyped.downcast_InvertedLists(index.invlists)
        if lists.compute_ntotal() != index.ntotal:
            raise Corrupt(f"{path}: the lists do not hold {index.ntotal:,} vectors", remedy="build the index again")
        if isinstance(lists, faiss.OnDiskInvertedLists):
            lists.prefetch_nthread = 0  # else FAISS starts up to 32 threads a search that read every list beforehand
    return index, projection
