"""Compiled loops of `index.py`: for each word, the texts that contain it and the score it gives each of them.

A search goes through the texts in blocks. The sums of a block stay in the processor's cache, and its best texts are
taken before the next block, so sums of all texts need not be stored, cleared or sorted. The best texts are a heap with
the worst on top. Of equal scores the lower row is better; as rows only rise, a text must beat the worst one to enter.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refaug.core.kernels import compiled
from refaug.indexer.bm25.scores import Bm25Queries, Codes, Offsets

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
