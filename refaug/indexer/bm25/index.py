"""The BM25 index of a set of texts: built from word codes, memory-mapped, searched for candidates.

The folder is one that bm25s writes and reads: a matrix of scores with a column for each word, which are summed over a
query's words. bm25s builds it in Python from lists, which takes 62 s and 67 bytes a word for 30 million words, all in
memory. The counting sort of `refaug.indexer.bm25.index` writes the same bytes, file by file through memory maps,
in 2 s.
bm25s's search also compiles for 11 s in every process and leaves the order of equal scores to chance; the search here
does neither.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from refaug.core.array_files import write_array
from refaug.core.errors import Corrupt, Usage
from refaug.core.files import make_folder, read_json, storage_errors, sync_file, write_json
from refaug.core.kernels.kernel import compiled, frozen
from refaug.core.progress import Progress
from refaug.indexer.bm25.scores import (
    Bm25Queries,
    Bm25Settings,
    Bm25Statistics,
    Codes,
    Offsets,
    Scores,
    self_scores,
    weigh_queries,
)

# ── Compiled loops of `index.py`: for each word, the texts that contain it and the score it gives each of them ────────
#
# A search goes through the texts in blocks. The sums of a block stay in the processor's cache, and its best texts are
# taken before the next block, so sums of all texts need not be stored, cleared or sorted. The best texts are a heap
# with the worst on top. Of equal scores the lower row is better; as rows only rise, a text must beat the worst one to
# enter.

Rows = NDArray[np.int64]
Sums = NDArray[np.float32]

_BLOCK: Final = 32_768  # texts; their sums take 128 KiB


class Postings(NamedTuple):
    """The texts of word w are those from start[w] to start[w + 1], in ascending order."""

    start: Offsets  # (vocabulary + 1,)
    document: NDArray[np.int32]
    score: Sums
    document_count: int


# Building: a counting sort of the words' occurrences


@compiled
def write_postings(
    codes: Codes,
    offsets: Offsets,
    first: int,
    last: int,
    idf: Sums,
    k1: float,
    b: float,
    average_length: float,
    counts: NDArray[np.int32],  # (vocabulary,), zeros; zeros again afterwards
    heads: Offsets,  # (vocabulary,), where the next text of each word goes; advanced
    document: NDArray[np.int32],
    score: Sums,
) -> None:
    """Write the postings of the texts from first to last; the calls must go through the texts in order."""
    for text in range(first, last):
        start, end = offsets[text], offsets[text + 1]
        norm = k1 * ((1 - b) + b * (end - start) / average_length)
        for place in range(start, end):
            counts[codes[place]] += 1
        for place in range(start, end):
            code = codes[place]
            if counts[code]:  # else an earlier occurrence in this text wrote it
                document[heads[code]] = text
                score[heads[code]] = idf[code] * (counts[code] / (norm + counts[code]))
                heads[code] += 1
                counts[code] = 0


# Searching


@compiled
def search_postings(
    postings: Postings, queries: Bm25Queries, first: int, last: int, documents: Rows, scores: Sums
) -> None:
    """Fill the rows from first to last with the best texts of these queries; unused places stay as they are."""
    sums = np.zeros(_BLOCK, np.float32)
    for query in range(first, last):
        places, ends, times = _query_postings(postings, queries, query)
        size = 0
        for begin in range(0, postings.document_count, _BLOCK):
            end = min(begin + _BLOCK, postings.document_count)
            if _add_up(postings, places, ends, times, begin, end, sums):
                size = _collect_best(sums, begin, end, size, documents[query], scores[query])
        _sort(size, documents[query], scores[query])


@compiled
def _query_postings(postings: Postings, queries: Bm25Queries, query: int) -> tuple[Offsets, Offsets, NDArray[np.int32]]:
    """Return where the postings of the query's words begin and end; words newer than the index have none."""
    first, last = queries.start[query], queries.start[query + 1]
    places, ends = np.zeros(last - first, np.int64), np.zeros(last - first, np.int64)
    for word in range(first, last):
        code = queries.code[word]
        if code < len(postings.start) - 1:
            places[word - first], ends[word - first] = postings.start[code], postings.start[code + 1]
    return places, ends, queries.times[first:last]


@compiled
def _add_up(
    postings: Postings,
    places: Offsets,  # advanced to the first text at or after `end`
    ends: Offsets,
    times: NDArray[np.int32],
    begin: int,
    end: int,
    sums: Sums,
) -> bool:
    """Add the words' scores to the texts of a block; return whether any text got one."""
    has_added = False
    for word in range(len(places)):
        place, last, factor = places[word], ends[word], np.float32(times[word])
        while place < last and postings.document[place] < end:
            sums[postings.document[place] - begin] += factor * postings.score[place]
            place += 1
        has_added |= place > places[word]
        places[word] = place
    return has_added


@compiled
def _collect_best(sums: Sums, begin: int, end: int, size: int, documents: Rows, scores: Sums) -> int:
    """Push the good texts of a block onto the heap and clear the block's sums; return the size of the heap."""
    depth = len(documents)
    least = scores[0] if size == depth else np.float32(0)
    for i in range(end - begin):
        if sums[i] > least:
            if size < depth:
                _sift_up(size, begin + i, sums[i], documents, scores)
                size += 1
            else:
                _sift_down(0, depth, begin + i, sums[i], documents, scores)
            least = scores[0] if size == depth else np.float32(0)
        sums[i] = 0
    return size


# The heap


@compiled
def _is_worse(document: int, score: float, than_document: int, than_score: float) -> bool:
    return score < than_score or (score == than_score and document > than_document)


@compiled
def _sift_up(at: int, document: int, score: float, documents: Rows, scores: Sums) -> None:
    """Append a text to the heap and move it up."""
    while at > 0:
        above = (at - 1) >> 1
        if not _is_worse(document, score, documents[above], scores[above]):
            break
        documents[at], scores[at] = documents[above], scores[above]
        at = above
    documents[at], scores[at] = document, score


@compiled
def _sift_down(at: int, size: int, document: int, score: float, documents: Rows, scores: Sums) -> None:
    """Replace a text in the heap and move the new one down."""
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and _is_worse(documents[below + 1], scores[below + 1], documents[below], scores[below]):
            below += 1
        if not _is_worse(documents[below], scores[below], document, score):
            break
        documents[at], scores[at] = documents[below], scores[below]
        at = below
    documents[at], scores[at] = document, score


@compiled
def _sort(size: int, documents: Rows, scores: Sums) -> None:
    """Sort the heap, best first, by moving the worst remaining text to the end again and again."""
    for end in range(size - 1, 0, -1):
        document, score = documents[end], scores[end]
        documents[end], scores[end] = documents[0], scores[0]
        _sift_down(0, end, document, score, documents, scores)


# ── The BM25 index of a set of texts: built from word codes, memory-mapped, searched for candidates ───────────────────

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
