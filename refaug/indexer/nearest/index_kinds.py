"""The kinds of index that are supported, named by FAISS's factory strings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Self

import faiss
import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.core.kernels.kernel import compiled, frozen
from refaug.indexer.nearest.faiss_calls import Kind, padded, shorten_error

_MOST_LISTS: Final = 1 << 20  # FAISS allocates every list before it checks whether the number makes sense
KINDS: Final[dict[str, Kind]] = {
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


@dataclass(frozen=True, kw_only=True)
class AnnKind:
    """A kind of index, from a factory string."""

    factory: str
    kind: Kind
    lists: int  # of an IVF index, else 0
    components: int  # that a projection leaves, else 0
    row_bytes: int  # of a vector: its code, its id and its links
    list_bytes: int  # of a list, beside the vectors in it: its centroid, place and length, half a block of fast scan

    @property
    def reranking_bytes(self) -> int:
        """Bytes per utterance stored beside FAISS's file: one byte for each projected component, and a base."""
        return self.components + 4 if self.components else 0

    @classmethod
    def of(cls, factory: str, dimensions: int) -> Self:
        """Return the kind of this name; raise Usage if it is not supported."""
        index = make_index(factory, dimensions)
        kind, lists = KINDS[type(index).__name__], lists_of(index)
        row_bytes = index.sa_code_size() if kind != "hnsw" else index.storage.sa_code_size() + _link_bytes(index)
        unfilled = 0
        if kind == "ivf":
            row_bytes = index.code_size + 8
            unfilled = index.bbs // 2 * index.code_size if isinstance(index, faiss.IndexIVFFastScan) else 0
        return cls(
            factory=factory,
            kind=kind,
            lists=lists,
            components=components_of(factory),
            row_bytes=int(row_bytes),
            list_bytes=4 * int(index.d) + 24 + int(unfilled) if lists else 0,
        )


def make_index(factory: str, dimensions: int) -> Any:
    """Return an empty index of a supported kind; raise Usage for any other."""
    largest = max((int(number[:12]) for number in re.findall(r"\d+", factory)), default=0)
    if not re.fullmatch(r"[A-Za-z0-9_,]+", factory) or largest > _MOST_LISTS or re.search(r"[A-Z]0", factory):
        raise Usage(f"{factory!r} names no kind of index that is used here", remedy=f"such as {_SUPPORTED}")
    components = components_of(factory)
    if components % 8 or components > padded(dimensions):
        raise Usage(
            f"{factory!r} leaves {components} components of {dimensions}",
            remedy=f"leave a multiple of 8, at most {padded(dimensions)}",
        )
    metric = faiss.METRIC_L2 if components else faiss.METRIC_INNER_PRODUCT
    inner = factory.split(",", 1)[1] if components else factory
    try:
        index: Any = faiss.index_factory(components or padded(dimensions), inner, metric)
    except RuntimeError as error:
        raise Usage(
            f"FAISS makes nothing of {factory!r} with {dimensions} dimensions: {shorten_error(error)}",
            remedy=f"such as {_SUPPORTED}",
        ) from error
    if (why := objection_to(index, projected=components > 0)) is not None:
        raise Usage(f"{factory!r} cannot be used here: {why}", remedy=f"such as {_SUPPORTED}")
    if components:
        index.pq.cp.min_points_per_centroid = 1  # else FAISS warns of small logs on stderr
    return index


def components_of(factory: str) -> int:
    """Return how many components the projection of a factory string leaves, 0 without a projection."""
    match = re.match(r"PCAR(\d{1,6}),.", factory)
    return int(match[1]) if match else 0


def objection_to(index: Any, *, projected: bool) -> str | None:
    """Return why an index, or the index behind a projection, is not supported; None if it is."""
    name = type(index).__name__
    if projected and name != "IndexIVFPQFastScan":
        return "behind a projection, only lists with codes such as PQ64x4fs were tried"
    if isinstance(index, faiss.IndexPreTransform):
        return "vectors are transformed first, by sums that depend on how many queries are asked at once"
    if name.startswith("IndexRefine"):
        return "candidates are ranked again with exact vectors anyway"
    if "PQ" in name and not projected:
        return "product quantisation finds less than RaBitQ of the same size, unless a projection comes first"
    if name not in KINDS:
        return f"{name} is not among the kinds that were tried"
    if index.metric_type != (faiss.METRIC_L2 if projected else faiss.METRIC_INNER_PRODUCT):
        return "it does not compare by inner product" if not projected else "it does not compare by distance"
    if KINDS[name] == "ivf" and not isinstance(
        quantizer := faiss.downcast_index(index.quantizer), faiss.IndexFlat | faiss.IndexHNSWFlat
    ):
        return f"its lists are found by {type(quantizer).__name__}, which was not tried"
    return None


def lists_of(index: Any) -> int:
    """Return the number of lists of an IVF index, else 0."""
    return int(index.nlist) if isinstance(index, faiss.IndexIVF) else 0


def _link_bytes(index: Any) -> int:
    """Return the bytes of a vector's links in a graph: neighbours on its levels, an offset and the number of levels."""
    hnsw, per_level = index.hnsw, 4 * index.hnsw.nb_neighbors(1)
    return int(4 * hnsw.nb_neighbors(0) + per_level / max(1, hnsw.nb_neighbors(1) - 1) + 12)


# ── Projection of vectors to fewer components, rotated so that each has about the same variance ───────────────────────
#
# The principal components of a sample are followed by a random rotation with a seed: codes that spend the same bits
# on each component need components of about the same variance. Of mean word vectors of 200 components (GloVe, an
# English log of two million utterances), 128 hold .994 of the variance. Among 512 candidates, codes of these 128
# found .962 of the right 15 without the rotation, and .982 with it.
#
# A compiled loop projects queries one at a time: the order of summation in a product of matrices depends on their
# number, so a query's candidates would depend on the other queries of its batch.

Vectors = NDArray[np.float32]

_SAMPLE: Final = 65_536  # vectors that the components are computed from
_WIDEST: Final = 127  # of a signed byte
_ROOM: Final = 1.1  # for values beyond the largest component of the sample


@dataclass(frozen=True, eq=False)
class Projection:
    """`vector @ matrix + shift`, (dimensions, components) and (components,)."""

    matrix: Vectors
    shift: Vectors

    @classmethod
    def learn(cls, sample: Vectors, components: int, seed: int) -> Self:
        """Compute the principal components of a sample, rotated; its mean becomes the origin."""
        sample = sample[:_SAMPLE]
        mean = sample.mean(axis=0, dtype=np.float64) if len(sample) else np.zeros(sample.shape[1])
        _, axes = np.linalg.eigh(_products(frozen(sample), mean))
        drawn = np.random.default_rng(seed).standard_normal((components, components))
        turn, triangle = np.linalg.qr(drawn)
        main = axes[:, ::-1][:, :components]
        matrix = (main * _signs(main)) @ (turn * np.sign(np.diag(triangle)))
        return cls(frozen(matrix.astype(np.float32)), frozen((-mean @ matrix).astype(np.float32)))

    @property
    def components(self) -> int:
        """The number of components that remain."""
        return int(self.matrix.shape[1])

    def project_stored(self, vectors: Vectors) -> Vectors:
        """Project many vectors for storing."""
        return np.ascontiguousarray(vectors @ self.matrix + self.shift)

    def project_queries(self, queries: Vectors) -> Vectors:
        """Project queries, the same to the last bit in any batch."""
        return _project(self.matrix, self.shift, frozen(queries))

    def bases(self, projected: Vectors) -> Vectors:
        """Return the part that all of a stored vector's cosines share, up to what the projection loses.

        For a vector x = m + v and a query q = m + u, where m is the sample's mean, x·q is the sum of m·q, which
        depends on the query alone, v·m, which is this part, and v·u, the product of the projected vectors.
        Each row is added up by itself: BLAS's sums depend on the number of threads, so files would, too.
        """
        return np.asarray(-np.einsum("ij,j->i", projected, self.shift), np.float32)

    def query_bases(self, projected: Vectors) -> NDArray[np.float64]:
        """Return the part of a query's cosines that depends on the query alone: m·q in the words of `bases`."""
        mean = -self.shift.astype(np.float64)
        return np.asarray(((projected.astype(np.float64) + mean) * mean).sum(axis=1))


def _signs(axes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the signs that make the largest part of each axis positive: an axis and its opposite are equivalent."""
    largest: NDArray[np.float64] = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    return np.sign(largest)


@compiled
def _products(sample: Vectors, mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of products of components, added up in a fixed order."""
    size = mean.size
    sums, row = np.zeros((size, size)), np.empty(size)
    for sample_row in range(sample.shape[0]):
        for at in range(size):
            row[at] = sample[sample_row, at] - mean[at]
        for row_component in range(size):
            factor = row[row_component]
            for column_component in range(row_component + 1):
                sums[row_component, column_component] += factor * row[column_component]
    for row_component in range(size):
        for column_component in range(row_component):
            sums[column_component, row_component] = sums[row_component, column_component]
    return sums


@compiled
def _project(matrix: Vectors, shift: Vectors, queries: Vectors) -> Vectors:
    projected = np.empty((queries.shape[0], matrix.shape[1]), np.float32)
    for query in range(queries.shape[0]):
        projected[query] = shift
        for at in range(matrix.shape[0]):
            factor = queries[query, at]
            for component in range(matrix.shape[1]):
                projected[query, component] += factor * matrix[at, component]
    return projected


# A byte a component


def quantisation_steps(projected: Vectors) -> Vectors:
    """Return what one step of a byte stands for in each component, (components,), with room for a sample's values."""
    largest = np.abs(projected).max(axis=0, initial=0.0)
    return np.asarray(np.where(largest > 0, largest, 1.0) * (_ROOM / _WIDEST), np.float32)


def quantise(projected: Vectors, steps: Vectors) -> NDArray[np.int8]:
    """Return vectors as one byte a component."""
    rounded: Vectors = np.rint(projected / steps)
    return np.asarray(np.clip(rounded, -_WIDEST, _WIDEST), np.int8)
