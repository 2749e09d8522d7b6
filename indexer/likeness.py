"""How alike a test pair and a stored one are, in each of the modes: candidates quickly, their similarity exactly.

The candidates come from FAISS or from BM25's postings. Their similarity is computed again in double precision from
what the index has stored of their texts, in an order of summation that nothing changes, and rounded to a millionth.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from core.encoders import Encoder
from core.errors import Usage
from core.kernels import compiled, compiled_with
from indexer.exact_vectors import stored_similarity
from indexer.queries import Queries
from indexer.ranking import MILLION, NO_LEVEL, Rows
from indexer.segments import Segment
from indexer.sentence_vectors import WordWeights, query_vectors, row_similarity

Levels = NDArray[np.int64]

QUICK_ABOVE: Final = 128  # candidates; of more, the better ones are found in single precision first
_KEPT_OF: Final = 8  # so many looked at, one is kept, but half of QUICK_ABOVE at least


class Likeness(Protocol):
    """One way to compare, for the queries of one search."""

    @property
    def margin(self) -> int:
        """By how many millionths a candidate's first similarity may be off."""
        ...

    @property
    def able(self) -> NDArray[np.bool_]:
        """Which queries have something to compare."""
        ...

    def candidates(self, segment: Segment, which: Rows, depth: int, effort: int) -> Rows:
        """Utterances (queries, depth) that may be the most similar, −1 where there are no more."""
        ...

    def utterances(self, segment: Segment, which: Rows, rows: Rows) -> Levels:
        """The similarity of utterances (queries, depth) to the queries' own."""
        ...

    def listed(self, segment: Segment, which: Rows, start: Rows, rows: Rows, *, golds: bool) -> Levels:
        """The same for a list of rows, those of query i from `start[i]` on; or of responses to the queries' golds."""
        ...


# Vectors


@dataclass(frozen=True, eq=False, kw_only=True)
class WordVectorLikeness:
    """The cosine of mean word vectors."""

    weights: WordWeights
    vectors: NDArray[np.float64]  # (queries, dimensions), of unit length
    gold_vectors: NDArray[np.float64]
    able: NDArray[np.bool_]
    threads: int
    margin: int = 20  # single precision in FAISS, and in the quick look

    @classmethod
    def of(cls, weights: WordWeights, queries: Queries, *, dialog: bool, threads: int) -> WordVectorLikeness:
        """The vectors of the test utterances, and of the golds where those count."""
        vectors, able = query_vectors(weights, queries.utterances.codes, queries.utterances.offsets)
        golds = vectors[:0]
        if dialog:
            golds, known = query_vectors(weights, queries.golds.codes, queries.golds.offsets)
            able = able & known
        return cls(weights=weights, vectors=vectors, gold_vectors=golds, able=able, threads=threads)

    def candidates(self, segment: Segment, which: Rows, depth: int, effort: int) -> Rows:
        """FAISS's."""
        return _from_faiss(segment, self.vectors[which], depth, effort)

    def utterances(self, segment: Segment, which: Rows, rows: Rows) -> Levels:
        """Vectors made again out of the stored words; of many candidates, the better ones' by a quick look."""
        given, lengths = (self.weights, *segment.words(responses=False)), segment.lengths
        if lengths is None or rows.shape[1] <= QUICK_ABOVE:
            return in_pieces(
                self.threads, len(which), lambda some: _vector_levels(*given, self.vectors[which[some]], rows[some])
            )

        def better(some: slice) -> Levels:
            vectors = self.vectors[which[some]]
            quick = _quick_similarities(*given, lengths, vectors.astype(np.float32), rows[some])
            kept = max(QUICK_ABOVE // 2, rows.shape[1] // _KEPT_OF)
            worse = np.argpartition(-quick, kept, axis=1)[:, kept:]
            chosen = rows[some].copy()
            np.put_along_axis(chosen, worse, -1, axis=1)
            return _vector_levels(*given, vectors, chosen)

        return in_pieces(self.threads, len(which), better)

    def listed(self, segment: Segment, which: Rows, start: Rows, rows: Rows, *, golds: bool) -> Levels:
        """The same for a list of utterances or responses."""
        vectors = (self.gold_vectors if golds else self.vectors)[which]
        return _listed_vector_levels(self.weights, *segment.words(responses=golds), vectors, start, rows)


@dataclass(frozen=True, eq=False, kw_only=True)
class EncoderLikeness:
    """The cosine of an encoder's sentence vectors."""

    vectors: NDArray[np.float64]
    able: NDArray[np.bool_]
    threads: int
    margin: int = 2

    @classmethod
    def of(cls, encoder: Encoder, texts: Sequence[str], threads: int) -> EncoderLikeness:
        """The vectors of the test utterances."""
        vectors = encoder.sentence_vectors(texts).astype(np.float64)
        able = np.asarray(np.isfinite(vectors).all(axis=1))
        return cls(vectors=np.where(able[:, None], vectors, 0.0), able=able, threads=threads)

    def candidates(self, segment: Segment, which: Rows, depth: int, effort: int) -> Rows:
        """FAISS's."""
        return _from_faiss(segment, self.vectors[which], depth, effort)

    def utterances(self, segment: Segment, which: Rows, rows: Rows) -> Levels:
        """Stored vectors."""
        exact = segment.exact
        if exact is None:
            return np.full(rows.shape, NO_LEVEL)
        return in_pieces(
            self.threads, len(which), lambda some: _stored_levels(exact, self.vectors[which[some]], rows[some])
        )

    def listed(self, segment: Segment, which: Rows, start: Rows, rows: Rows, *, golds: bool) -> Levels:
        """Utterances alone: vectors of responses are not kept, and take too long to make on the spot."""
        if golds:
            raise Usage(
                "an index with an encoder keeps no vectors of responses",
                remedy="use the mode embedding-utterance, or bm25-dialog",
            )
        lengths = np.diff(start)
        table = np.full((len(which), int(lengths.max(initial=0))), -1, np.int64)
        places = np.repeat(np.arange(len(which)), lengths), np.arange(len(rows)) - np.repeat(start[:-1], lengths)
        table[places] = rows
        return self.utterances(segment, which, table)[places]


def _from_faiss(segment: Segment, vectors: NDArray[np.float64], depth: int, effort: int) -> Rows:
    if segment.ann is None:
        return np.full((len(vectors), depth), -1, np.int64)
    found, _ = segment.ann.search(vectors.astype(np.float32), depth, effort)
    rows: Rows = np.where(found >= 0, segment.vector_rows[np.maximum(found, 0)], -1).astype(np.int64)
    return rows


@compiled
def _vector_levels(
    weights: WordWeights,
    tokens: NDArray[np.int32],
    token_start: Rows,
    vectors: NDArray[np.float64],
    rows: Rows,
) -> Levels:
    levels = np.full(rows.shape, NO_LEVEL)
    scratch = np.empty(vectors.shape[1], np.float64)
    for query in range(rows.shape[0]):
        for place in range(rows.shape[1]):
            row = rows[query, place]
            if row >= 0:
                begin, end = token_start[row], token_start[row + 1]
                similarity = row_similarity(weights, tokens, begin, end, vectors[query], scratch)
                levels[query, place] = np.int64(np.rint(similarity * MILLION))
    return levels


@compiled_with(fastmath={"reassoc", "contract"})
def _quick_similarities(
    weights: WordWeights,
    tokens: NDArray[np.int32],
    token_start: Rows,
    lengths: NDArray[np.float32],
    vectors: NDArray[np.float32],
    rows: Rows,
) -> NDArray[np.float32]:
    """The cosine as a sum over words: each word is multiplied with a query once, however many candidates have it.

    It is off by a few millionths at most, so what it ranks below others by more than that is below them.
    """
    similarities = np.full(rows.shape, np.float32(-2.0))
    known_for, product = np.zeros(weights.scale.size, np.int32), np.empty(weights.scale.size, np.float32)
    for query in range(rows.shape[0]):
        unknown = np.float32(0.0)
        for at in range(weights.unknown.size):
            unknown += np.float32(weights.unknown[at]) * vectors[query, at]
        for place in range(rows.shape[1]):
            row = rows[query, place]
            if row < 0 or lengths[row] == 0:
                continue
            total = np.float32(0.0)
            for at in range(token_start[row], token_start[row + 1]):
                code = tokens[at]
                if code >= weights.scale.size:
                    total += unknown
                    continue
                if known_for[code] != query + 1:
                    known_for[code] = query + 1
                    one = np.float32(0.0)
                    for component in range(vectors.shape[1]):
                        one += weights.matrix[code, component] * vectors[query, component]
                    product[code] = one * np.float32(weights.scale[code])
                total += product[code]
            similarities[query, place] = total / lengths[row]
    return similarities


@compiled
def _listed_vector_levels(
    weights: WordWeights,
    tokens: NDArray[np.int32],
    token_start: Rows,
    vectors: NDArray[np.float64],
    start: Rows,
    rows: Rows,
) -> Levels:
    levels = np.empty(len(rows), np.int64)
    scratch = np.empty(vectors.shape[1], np.float64)
    for query in range(len(start) - 1):
        for at in range(start[query], start[query + 1]):
            begin, end = token_start[rows[at]], token_start[rows[at] + 1]
            similarity = row_similarity(weights, tokens, begin, end, vectors[query], scratch)
            levels[at] = np.int64(np.rint(similarity * MILLION))
    return levels


@compiled
def _stored_levels(matrix: NDArray[np.float32], vectors: NDArray[np.float64], rows: Rows) -> Levels:
    levels = np.full(rows.shape, NO_LEVEL)
    for query in range(rows.shape[0]):
        for place in range(rows.shape[1]):
            if rows[query, place] >= 0:
                similarity = stored_similarity(matrix, rows[query, place], vectors[query])
                levels[query, place] = np.int64(np.rint(similarity * MILLION))
    return levels


# Threads

Piece = TypeVar("Piece")
_LEAST: Final = 64  # queries that are worth a thread of their own


def in_pieces(threads: int, queries: int, work: Callable[[slice], Levels]) -> Levels:
    """Rows of levels, some queries a thread."""
    return np.concatenate(list(pieces(threads, queries, work)))


def pieces(threads: int, queries: int, work: Callable[[slice], Piece]) -> Iterator[Piece]:
    """The work on some queries at a time, in order; compiled loops let go of Python's lock."""
    count = max(1, min(threads, queries // _LEAST))
    borders = [queries * place // count for place in range(count + 1)]
    slices = [slice(first, last) for first, last in itertools.pairwise(borders)]
    if count == 1:
        yield work(slices[0])
        return
    with ThreadPoolExecutor(count) as pool:
        yield from pool.map(work, slices)
