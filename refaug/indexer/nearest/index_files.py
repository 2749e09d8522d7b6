"""Reading and writing the files of FAISS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np

from refaug.core.errors import Corrupt
from refaug.indexer.nearest.faiss_calls import shorten_error, untyped_faiss
from refaug.indexer.nearest.index_kinds import objection_to
from refaug.indexer.nearest.projection import Projection


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
        raise Corrupt(f"{path} is no index: {shorten_error(error)}", remedy="build the index again") from error
    if (why := objection_to(index, projected=projection is not None)) is not None:
        raise Corrupt(f"{path} is not an index of refaug: {why}", remedy="build the index again")
    if isinstance(index, faiss.IndexIVF):
        lists: Any = untyped_faiss.downcast_InvertedLists(index.invlists)
        if lists.compute_ntotal() != index.ntotal:
            raise Corrupt(f"{path}: the lists do not hold {index.ntotal:,} vectors", remedy="build the index again")
        if isinstance(lists, faiss.OnDiskInvertedLists):
            lists.prefetch_nthread = 0  # else FAISS starts up to 32 threads per search that read every list beforehand
    return index, projection
