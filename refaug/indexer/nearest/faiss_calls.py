"""What every use of FAISS here shares: types, threads, and vectors padded to a multiple of eight.

*Multiples of eight.* FAISS decodes eight components at once when the dimension is a multiple of eight, and one by one
otherwise: comparing a code of 100 or 300 dimensions, as GloVe has, takes 105 or 320 ns, one of 104 or 304 takes 8 or
15. So vectors are padded with zeros, which do not change an inner product.

*Threads.* OpenMP counts threads separately for each calling thread: `omp_set_num_threads` in one Python thread has no
effect on the others. So this module stores the number given to `set_threads` and sets it before every call. FAISS
releases Python's lock, and several threads may search one index at once; each then starts as many OpenMP threads, so
divide the cores between them. The child of a process that has used FAISS hangs with more threads than one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, Literal

import faiss
import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage

Vectors = NDArray[np.float32]
Ids = NDArray[np.int64]
Kind = Literal["flat", "ivf", "hnsw", "codes"]
untyped_faiss: Final[Any] = faiss  # for what FAISS's stubs lack


@dataclass
class _SearchThreads:
    count: int = faiss.omp_get_max_threads()  # from OMP_NUM_THREADS or the machine until set_threads changes it


search_threads: Final = _SearchThreads()


def set_threads(count: int) -> None:
    """Set how many threads a search may use, whichever Python thread calls it."""
    if count < 1:
        raise Usage(f"{count} threads cannot search", remedy="give one or more")
    search_threads.count = count


def shorten_error(error: Exception) -> str:
    """Return FAISS's error in one line, without the position in its source."""
    text = " ".join(str(error).split())
    return re.sub(r"^Error in .*? at \S+:\d+: (Error: '.*?' failed:? ?)?", "", text) or text


def nearest(queries: Vectors, vectors: Vectors, k: int, *, threads: int | None = None) -> tuple[Ids, Vectors]:
    """Return the k vectors most similar to each query, best first, by BLAS; meant for measuring, not for serving."""
    with openmp_threads(threads or search_threads.count):
        near, where = faiss.knn(queries, vectors, min(k, len(vectors)), metric=faiss.METRIC_INNER_PRODUCT)
    order = np.lexsort((where, -near), axis=-1)
    return np.take_along_axis(where, order, axis=-1), np.take_along_axis(near, order, axis=-1)


@contextmanager
def openmp_threads(threads: int) -> Iterator[None]:
    """Set the number of OpenMP threads for FAISS's calls from this Python thread."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(threads)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


@contextmanager
def one_path() -> Iterator[None]:
    """Keep FAISS from multiplying matrices, whose sums depend on how many vectors are added at once, and which.

    The setting is the process's: another thread's search is not affected, as it takes this path anyway, and measuring
    (`nearest`) gets slower meanwhile.
    """
    settings = untyped_faiss.cvar
    with _one_path_lock:
        before = settings.distance_compute_blas_threshold
        settings.distance_compute_blas_threshold = np.iinfo(np.int32).max
        try:
            yield
        finally:
            settings.distance_compute_blas_threshold = before


_one_path_lock: Final = Lock()


def padded(dimensions: int) -> int:
    """Return the next multiple of eight."""
    return -(-dimensions // 8) * 8


def padded_rows(vectors: Vectors, stored: int) -> Vectors:
    """Return vectors as they are stored: contiguous, in single precision, padded with zeros."""
    dimensions = vectors.shape[1]
    assert padded(dimensions) == stored, (vectors.shape, stored)
    if dimensions == stored:
        return np.ascontiguousarray(vectors, np.float32)
    rows = np.zeros((len(vectors), stored), np.float32)
    rows[:, :dimensions] = vectors
    return rows
