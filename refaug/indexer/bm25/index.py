"""The BM25 index of a set of texts: built from word codes, memory-mapped, searched for candidates.

The folder is one that bm25s writes and reads: a matrix of scores with a column for each word, which are summed over a
query's words. bm25s builds it in Python from lists, which takes 62 s and 67 bytes a word for 30 million words, all in
memory. The counting sort of `refaug.indexer.bm25.postings` writes the same bytes, file by file through memory maps,
in 2 s.
bm25s's search also compiles for 11 s in every process and leaves the order of equal scores to chance; the search here
does neither.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from refaug.core.array_files import write_array
from refaug.core.errors import Corrupt, Usage
from refaug.core.files import make_folder, read_json, sync_file, write_json
from refaug.core.full_disk import storage_errors
from refaug.core.kernels import frozen
from refaug.core.progress import Progress
from refaug.indexer.bm25.postings import Postings, search_postings, write_postings
from refaug.indexer.bm25.scores import (
    Bm25Queries,
    Bm25Settings,
    Bm25Statistics,
    Codes,
    Offsets,
    Scores,
    bm25_row_score,
    brute_force,
    select_queries,
    self_scores,
    weigh_queries,
)

__all__ = [
    "Bm25Index",
    "Bm25Queries",
    "Bm25Settings",
    "Bm25Statistics",
    "bm25_row_score",
    "brute_force",
    "build_bm25",
    "select_queries",
    "self_scores",
    "weigh_queries",
]

# The file names of bm25s
_SCORES: Final = "data.csc.index.npy"
_DOCUMENTS: Final = "indices.csc.index.npy"
_STARTS: Final = "indptr.csc.index.npy"
_PARAMETERS: Final = "params.index.json"

# File names of the statistics
_TEXTS: Final = "texts"
_RESPONSES: Final = "responses"

_TEXTS_A_PIECE: Final = 65_536
_REMEDY: Final = "build the index again"


# Building


def build_bm25(
    codes: Codes,
    offsets: Offsets,
    vocabulary_size: int,
    settings: Bm25Settings,
    folder: Path,
    progress: Progress,
    *,
    responses: tuple[Codes, Offsets] | None = None,
    of_all: tuple[Bm25Statistics, Bm25Statistics] | None = None,
) -> None:
    """Write the index of these texts, with their statistics, into a folder that has no readers yet.

    Responses are only compared and never searched, so only their statistics are written. For a shard, `of_all` are the
    statistics of the texts and of the responses of all shards.
    """
    own = Bm25Statistics.of(codes, offsets, vocabulary_size)
    statistics = own if of_all is None else of_all[0]
    make_folder(folder)
    starts = np.zeros(vocabulary_size + 1, np.int64)
    np.cumsum(own.df, out=starts[1:])
    write_array(folder / _STARTS, starts)
    _write_postings(codes, offsets, starts, statistics, settings, folder, progress)
    statistics.save(folder, _TEXTS)
    if of_all is not None:
        of_all[1].save(folder, _RESPONSES)
    elif responses is not None:
        Bm25Statistics.of(*responses, vocabulary_size).save(folder, _RESPONSES)
    write_json(folder / _PARAMETERS, _parameters(own.document_count, settings))


def _write_postings(
    codes: Codes,
    offsets: Offsets,
    starts: Offsets,
    statistics: Bm25Statistics,
    settings: Bm25Settings,
    folder: Path,
    progress: Progress,
) -> None:
    """Fill the two large arrays through memory maps, so that the system may reclaim their memory at any time."""
    count, vocabulary_size = len(offsets) - 1, len(statistics.df)
    # bm25s rounds the idf before it multiplies; doing the same gives the same last bit
    idf = statistics.idf(np.arange(vocabulary_size, dtype=np.int32)).astype(np.float32)
    counts, heads = np.zeros(vocabulary_size, np.int32), starts[:-1].copy()
    documents = _new_array(folder / _DOCUMENTS, np.int32, int(starts[-1]))
    scores = _new_array(folder / _SCORES, np.float32, int(starts[-1]))
    texts, form = (frozen(codes), frozen(offsets)), (float(settings.k1), float(settings.b), statistics.average_length)
    progress.stage("writing BM25 postings", count, "utterances")
    for first in range(0, count, _TEXTS_A_PIECE):
        last = min(first + _TEXTS_A_PIECE, count)
        write_postings(
            *texts, first, last, frozen(idf), *form, counts, heads, np.asarray(documents), np.asarray(scores)
        )
        progress.advance(last - first)
    for name, array in ((_DOCUMENTS, documents), (_SCORES, scores)):
        with storage_errors(folder / name):
            array.flush()
            sync_file(folder / name)


def _new_array(path: Path, dtype: type[np.generic], length: int) -> np.memmap[Any, Any]:
    """Map a file with all its space allocated: on a full disk, writing into a hole would kill the process."""
    with storage_errors(path):
        array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(length,))
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array


def _parameters(document_count: int, settings: Bm25Settings) -> dict[str, object]:
    """Return the parameters that bm25s reads with an index."""
    import bm25s  # noqa: PLC0415  it takes as long as all the rest of a search's imports

    return {
        "k1": float(settings.k1),
        "b": float(settings.b),
        "delta": 0.5,  # belongs to other variants, but is always written
        "method": "lucene",
        "idf_method": "lucene",
        "dtype": "float32",
        "int_dtype": "int32",
        "num_docs": document_count,
        "version": bm25s.__version__,
        "backend": "numpy",
    }


# Searching


@dataclass(frozen=True, eq=False, kw_only=True)
class Bm25Index:
    """An opened index; its scores are float32 sums, good for choosing candidates."""

    settings: Bm25Settings
    statistics: Bm25Statistics
    responses: Bm25Statistics | None
    postings: Postings

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map the files that `build_bm25` wrote."""
        statistics = Bm25Statistics.open(folder, _TEXTS)
        try:
            parameters: Any = read_json(folder / _PARAMETERS)
            settings = Bm25Settings(k1=parameters["k1"], b=parameters["b"])
            postings = Postings(
                start=_map(folder / _STARTS),
                document=_map(folder / _DOCUMENTS),
                score=_map(folder / _SCORES),
                document_count=parameters["num_docs"],
            )
        except (OSError, ValueError, TypeError, KeyError, Usage) as error:
            raise Corrupt(f"{folder} is not a BM25 index: {error}", remedy=_REMEDY) from error
        _require_agreement(folder, postings, statistics)
        responses = Bm25Statistics.open(folder, _RESPONSES) if (folder / f"{_RESPONSES}.json").exists() else None
        return cls(settings=settings, statistics=statistics, responses=responses, postings=postings)

    def queries(self, codes: Codes, offsets: Offsets, hashes: NDArray[np.uint64] | None = None) -> Bm25Queries:
        """Weigh texts as queries to the texts of this index, or to others scored by its statistics."""
        return weigh_queries(codes, offsets, hashes, statistics=self.statistics, settings=self.settings)

    def response_queries(self, codes: Codes, offsets: Offsets, hashes: NDArray[np.uint64] | None = None) -> Bm25Queries:
        """Weigh texts as queries to responses."""
        if self.responses is None:
            raise Corrupt("the BM25 index has no statistics of responses", remedy=_REMEDY)
        return weigh_queries(codes, offsets, hashes, statistics=self.responses, settings=self.settings)

    def self_scores(self, codes: Codes, hashes: NDArray[np.uint64], offsets: Offsets) -> Scores:
        """Return what each text scores as a query to itself."""
        return self_scores(codes, hashes, offsets, statistics=self.statistics, settings=self.settings)

    def response_self_scores(self, codes: Codes, hashes: NDArray[np.uint64], offsets: Offsets) -> Scores:
        """Return what each text scores as a query to itself, by the statistics of responses."""
        if self.responses is None:
            raise Corrupt("the BM25 index has no statistics of responses", remedy=_REMEDY)
        return self_scores(codes, hashes, offsets, statistics=self.responses, settings=self.settings)

    def search(
        self, queries: Bm25Queries, depth: int, threads: int = 1
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the rows and scores of each query's best texts, (queries, depth): by score, then row.

        Only texts that share a word with the query qualify; -1 and 0 fill the rest.
        """
        if depth < 1:
            raise Usage(f"{depth} candidates cannot be given", remedy="give a depth of at least 1")
        count = len(queries.start) - 1
        documents, scores = np.full((count, depth), -1, np.int64), np.zeros((count, depth), np.float32)

        def fill(first: int, last: int) -> None:
            search_postings(self.postings, queries, first, last, documents, scores)

        if threads == 1:
            fill(0, count)
            return documents, scores
        # Some queries take ten times as long as others, so there are more pieces than threads.
        cuts = np.linspace(0, count, min(count, 4 * threads) + 1).astype(np.int64).tolist()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(fill, cuts[:-1], cuts[1:]))
        return documents, scores


def _map(path: Path) -> NDArray[Any]:
    """Map an array, as bm25s does: importing it would take as long as the rest of opening an index."""
    return frozen(np.load(path, mmap_mode="r", allow_pickle=False))


def _require_agreement(folder: Path, postings: Postings, statistics: Bm25Statistics) -> None:
    """Refuse files that do not belong together before a compiled loop follows them."""
    types = [array.dtype.name for array in (postings.start, postings.document, postings.score)]
    if types != ["int64", "int32", "float32"]:
        raise Corrupt(f"{folder}: the arrays of the index have the types {types}", remedy=_REMEDY)
    lengths = (len(postings.start) - 1, len(postings.document), len(postings.score))
    expected = (len(statistics.df), int(postings.start[-1]), int(postings.start[-1]))
    if lengths != expected or postings.document_count > statistics.document_count:
        raise Corrupt(f"{folder}: the files of the index have the lengths {lengths}, not {expected}", remedy=_REMEDY)
