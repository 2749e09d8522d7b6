"""Similarity of a test pair and a stored pair in each mode: candidates quickly, their similarity exactly.

The candidates come from FAISS or from BM25's postings. Where FAISS's codes are coarse, it returns more of them, and a
quick comparison chooses the best (`refaug.indexer.search.candidate_pool`). The similarity of the candidates is then
computed in double precision from the stored texts, in a fixed order of summation, and rounded to a millionth.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.core.kernels.compiler import fetch_ahead
from refaug.core.kernels.kernel import compiled, compiled_with
from refaug.core.vectors.encoders import Encoder, of_unit_length
from refaug.indexer.bm25.index import Bm25Index
from refaug.indexer.bm25.scores import Bm25Queries, bm25_row_score, brute_force, select_queries
from refaug.indexer.search.candidate_pool import Similarities
from refaug.indexer.search.ranking import MILLION, NO_LEVEL
from refaug.indexer.search.search_tables import Rows
from refaug.indexer.search.segments import Segment
from refaug.indexer.tokens import CodedTexts
from refaug.indexer.vectors.encoder_vectors import stored_similarity
from refaug.indexer.vectors.sentence_vectors import WordWeights, query_vectors, row_similarity

Levels = NDArray[np.int64]

CANDIDATES: Final = 32  # for 15 references; choosing them from 512 loses nothing
_ROWS_A_CANDIDATE: Final = 2  # compared for each candidate if codes are coarse; at least the index's depth
_ROWS_AHEAD: Final = 12
_LINE: Final = 64  # bytes that memory delivers at once
COARSE: Final = 64  # a depth above this means that codes are coarse


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

    def code_depth(self, most_depth: int, count: int) -> int:
        """Return how many candidates by codes include the best `count`; `most_depth` is that of the segments."""
        ...

    def code_candidates(
        self, segment: Segment, query_numbers: Rows, width: int, effort: int
    ) -> tuple[Rows, Similarities]:
        """Return the best utterances of a segment by its codes, best first; −1 and −∞ fill the rest."""
        ...

    def finer(self, segment: Segment, query_numbers: Rows, rows: Rows) -> Similarities | None:
        """Return finer similarities of candidates; None where those by codes are fine enough."""
        ...

    def utterance_levels(self, segment: Segment, query_numbers: Rows, rows: Rows) -> Levels:
        """Return the similarity of utterances (queries, depth) to the queries' own."""
        ...

    def list_levels(self, segment: Segment, query_numbers: Rows, start: Rows, rows: Rows, *, golds: bool) -> Levels:
        """Return similarities for a list of utterances, or of responses to golds; query i's begin at `start[i]`."""
        ...


class _ByLists(ABC):
    """Similarity to tables of utterances, which is that to lists of one length."""

    @abstractmethod
    def list_levels(self, segment: Segment, query_numbers: Rows, start: Rows, rows: Rows, *, golds: bool) -> Levels:
        """Return similarities for a list of utterances or responses; for −1 there is none."""

    def utterance_levels(self, segment: Segment, query_numbers: Rows, rows: Rows) -> Levels:
        """Return similarities for utterances (queries, depth), computed again from what is stored of them."""
        start = np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1]
        return self.list_levels(segment, query_numbers, start, rows.ravel(), golds=False).reshape(rows.shape)


# Vectors


@dataclass(frozen=True, eq=False, kw_only=True)
class _VectorLikeness(_ByLists):
    """The cosine of vectors, of which FAISS finds the largest."""

    vectors: NDArray[np.float64]  # (queries, dimensions), of unit length
    able: NDArray[np.bool_]
    threads: int

    def code_depth(self, most_depth: int, count: int) -> int:
        """Return how many utterances FAISS must name to include the best `count` of all segments."""
        return max(most_depth, count * (_ROWS_A_CANDIDATE if most_depth > COARSE else 1))

    def code_candidates(
        self, segment: Segment, query_numbers: Rows, width: int, effort: int
    ) -> tuple[Rows, Similarities]:
        """Return FAISS's candidates."""
        vectors = self.vectors[query_numbers]
        if segment.ann is None:
            return np.full((len(vectors), width), -1, np.int64), np.full((len(vectors), width), -np.inf)
        ids, similarities = segment.ann.search(vectors.astype(np.float32), width, effort, threads=self.threads)
        rows: Rows = np.where(ids >= 0, segment.vector_rows[np.maximum(ids, 0)], -1).astype(np.int64)
        return rows, similarities.astype(np.float64)


@dataclass(frozen=True, eq=False, kw_only=True)
class WordVectorLikeness(_VectorLikeness):
    """The cosine of mean word vectors."""

    weights: WordWeights
    gold_vectors: NDArray[np.float64]
    margin: int = 20  # single precision in FAISS and in the quick comparison

    @classmethod
    def of(
        cls, weights: WordWeights, utterances: CodedTexts, golds: CodedTexts | None, threads: int
    ) -> WordVectorLikeness:
        """Compute the vectors of the test utterances, and of the golds if the mode uses them."""
        vectors, able = query_vectors(weights, utterances.codes, utterances.offsets)
        gold_vectors = vectors[:0]
        if golds is not None:
            gold_vectors, gold_able = query_vectors(weights, golds.codes, golds.offsets)
            able = able & gold_able
        return cls(weights=weights, vectors=vectors, gold_vectors=gold_vectors, able=able, threads=threads)

    def finer(self, segment: Segment, query_numbers: Rows, rows: Rows) -> Similarities | None:
        """Return similarities by bytes or by words where FAISS's codes are coarse."""
        if segment.quick is not None or segment.lengths is None:
            return _finer_by_bytes(segment, self.vectors[query_numbers], rows)
        words = (self.weights, *segment.words(responses=False), segment.lengths)
        return _by_words(*words, self.vectors[query_numbers].astype(np.float32), rows).astype(np.float64)

    def list_levels(self, segment: Segment, query_numbers: Rows, start: Rows, rows: Rows, *, golds: bool) -> Levels:
        """Return similarities with vectors computed again from the stored words."""
        vectors = (self.gold_vectors if golds else self.vectors)[query_numbers]
        return _vector_levels(self.weights, *segment.words(responses=golds), vectors, start, rows)


@dataclass(frozen=True, eq=False, kw_only=True)
class EncoderLikeness(_VectorLikeness):
    """The cosine of an encoder's sentence vectors."""

    margin: int = 2

    @classmethod
    def of(cls, encoder: Encoder, texts: Sequence[str], threads: int) -> EncoderLikeness:
        """Compute the vectors of the test utterances."""
        vectors = of_unit_length(encoder.sentence_vectors(texts))
        able = np.asarray(np.isfinite(vectors).all(axis=1))
        return cls(vectors=np.where(able[:, None], vectors, 0.0), able=able, threads=threads)

    def finer(self, segment: Segment, query_numbers: Rows, rows: Rows) -> Similarities | None:
        """Return similarities by bytes where FAISS's codes are coarse."""
        return _finer_by_bytes(segment, self.vectors[query_numbers], rows)

    def list_levels(self, segment: Segment, query_numbers: Rows, start: Rows, rows: Rows, *, golds: bool) -> Levels:
        """Return similarities with the stored vectors of utterances; an index stores none of responses."""
        if golds:
            raise Usage(
                "an index with an encoder keeps no vectors of responses",
                remedy="use the mode embedding-utterance, or bm25-dialog",
            )
        if segment.exact is None:
            return np.full(len(rows), NO_LEVEL)
        return _stored_levels(segment.exact, self.vectors[query_numbers], start, rows)


def _finer_by_bytes(segment: Segment, vectors: NDArray[np.float64], rows: Rows) -> Similarities | None:
    """Return similarities by a byte a component; None where the segment has no bytes."""
    quick, ann = segment.quick, segment.ann
    if quick is None or ann is None or ann.projection is None:
        return None
    projected = ann.project(vectors.astype(np.float32))
    similarities = _by_bytes(quick.rows, quick.bases, projected * quick.steps, rows).astype(np.float64)
    return similarities + ann.projection.query_bases(projected)[:, None]


@compiled_with(fastmath={"reassoc", "contract"})
def _by_bytes(
    stored: NDArray[np.int8], bases: NDArray[np.float32], scaled: NDArray[np.float32], rows: Rows
) -> NDArray[np.float32]:
    """Return products with vectors of a byte a component; `scaled` already includes the size of a byte's step."""
    similarities = np.full(rows.shape, np.float32(-np.inf))
    flat, width = stored.reshape(-1), stored.shape[1]
    for query in range(rows.shape[0]):
        for place in range(rows.shape[1]):
            row, ahead = rows[query, place], min(place + _ROWS_AHEAD, rows.shape[1] - 1)
            fetch_ahead(bases, rows[query, ahead])
            for component in range(0, width, _LINE):
                fetch_ahead(flat, rows[query, ahead] * width + component)
            if row >= 0:
                total = np.float32(0.0)
                for component in range(width):
                    total += np.float32(stored[row, component]) * scaled[query, component]
                similarities[query, place] = bases[row] + total
    return similarities


@compiled
def _vector_levels(
    weights: WordWeights,
    tokens: NDArray[np.int32],
    token_start: Rows,
    vectors: NDArray[np.float64],
    start: Rows,
    rows: Rows,
) -> Levels:
    levels = np.full(len(rows), NO_LEVEL)
    scratch = np.empty(vectors.shape[1], np.float64)
    matrix, width = weights.matrix.reshape(-1), weights.matrix.shape[1]
    for query in range(len(start) - 1):
        for place in range(start[query], start[query + 1]):
            fetch_ahead(token_start, rows[place])
        for place in range(start[query], start[query + 1]):
            fetch_ahead(tokens, token_start[max(0, rows[place])])
        for place in range(start[query], start[query + 1]):
            row = rows[place]
            if row >= 0:
                ahead = max(0, rows[min(place + 1, start[query + 1] - 1)])
                for at in range(token_start[ahead], token_start[ahead + 1]):
                    if tokens[at] < weights.scale.size:
                        for component in range(0, width, _LINE // 4):
                            fetch_ahead(matrix, tokens[at] * width + component)
                begin, end = token_start[row], token_start[row + 1]
                similarity = row_similarity(weights, tokens, begin, end, vectors[query], scratch)
                levels[place] = np.int64(np.rint(similarity * MILLION))
    return levels


@compiled_with(fastmath={"reassoc", "contract"})
def _by_words(
    weights: WordWeights,
    tokens: NDArray[np.int32],
    token_start: Rows,
    lengths: NDArray[np.float32],
    vectors: NDArray[np.float32],
    rows: Rows,
) -> NDArray[np.float32]:
    """Return the cosine as a sum over words: each word is multiplied with a query once, however many rows have it.

    It is off by a few millionths at most, so a row that it ranks below others by more than that is below them.
    """
    similarities = np.full(rows.shape, np.float32(-np.inf))
    last_query, product = np.zeros(weights.scale.size, np.int32), np.empty(weights.scale.size, np.float32)
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
                if last_query[code] != query + 1:
                    last_query[code] = query + 1
                    dot_product = np.float32(0.0)
                    for component in range(vectors.shape[1]):
                        dot_product += weights.matrix[code, component] * vectors[query, component]
                    product[code] = dot_product * np.float32(weights.scale[code])
                total += product[code]
            similarities[query, place] = total / lengths[row]
    return similarities


@compiled
def _stored_levels(matrix: NDArray[np.float32], vectors: NDArray[np.float64], start: Rows, rows: Rows) -> Levels:
    levels = np.full(len(rows), NO_LEVEL)
    for query in range(len(start) - 1):
        for place in range(start[query], start[query + 1]):
            if rows[place] >= 0:
                similarity = stored_similarity(matrix, rows[place], vectors[query])
                levels[place] = np.int64(np.rint(similarity * MILLION))
    return levels


# ── Similarity by words: BM25 with the statistics of the main segment, exactly, in every segment ──────────────────────

Scores = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Bm25Likeness(_ByLists):
    """BM25 of the stored text for the test pair's; in the dialog mode divided by the test text's own score."""

    words: Bm25Queries  # of the test utterances
    scale: Scores  # the divisor of each score
    gold_words: Bm25Queries
    gold_scale: Scores
    able: NDArray[np.bool_]
    threads: int
    margin: int = 100  # float32 sums, of scores up to some dozens; more for long queries

    @classmethod
    def of(
        cls, index: Bm25Index | None, utterances: CodedTexts, responses: CodedTexts, *, dialog: bool, threads: int
    ) -> Bm25Likeness:
        """Weigh the words of the test pairs by the statistics of the index of the main segments."""
        if index is None:
            raise Usage("the index was built without BM25", remedy="build it again with BM25, or use another mode")
        words = index.queries(utterances.codes, utterances.offsets, utterances.hashes)
        golds = index.response_queries(responses.codes, responses.offsets, responses.hashes)
        able, scale, gold_scale = np.diff(words.start) > 0, np.ones(len(words.start) - 1), np.ones(len(words.start) - 1)
        if dialog:
            able = able & (np.diff(golds.start) > 0)
            scale = index.self_scores(utterances.codes, utterances.hashes, utterances.offsets)
            gold_scale = index.response_self_scores(responses.codes, responses.hashes, responses.offsets)
        return cls(
            words=words,
            scale=scale,
            gold_words=golds,
            gold_scale=gold_scale,
            able=able,
            threads=threads,
            margin=max(100, 3 * int(np.diff(words.start).max(initial=0))),
        )

    def code_depth(self, _most_depth: int, count: int) -> int:
        """Return the same: postings give scores that are fine enough."""
        return count

    def code_candidates(
        self, segment: Segment, query_numbers: Rows, width: int, _effort: int
    ) -> tuple[Rows, Similarities]:
        """Return candidates from the postings; in a segment without postings, score all texts."""
        words = select_queries(self.words, query_numbers)
        if segment.bm25 is not None:
            rows, scores = segment.bm25.search(words, width, self.threads)
        else:
            rows, scores = _best_of_all(words, *segment.words(responses=False), width)
        return rows, np.where(rows >= 0, scores.astype(np.float64), -np.inf)

    def finer(self, _segment: Segment, _query_numbers: Rows, _rows: Rows) -> None:
        """Return nothing: the scores of the postings are fine enough."""

    def list_levels(self, segment: Segment, query_numbers: Rows, start: Rows, rows: Rows, *, golds: bool) -> Levels:
        """Compute each score again, in double precision; those of responses with the statistics of responses."""
        words, scale = (self.gold_words, self.gold_scale) if golds else (self.words, self.scale)
        return _levels(words, scale, query_numbers, *segment.words(responses=golds), start, rows)


@compiled
def _best_of_all(
    words: Bm25Queries, tokens: NDArray[np.int32], token_start: Rows, depth: int
) -> tuple[Rows, NDArray[np.float32]]:
    """Return the rows with the highest scores above 0, best first, then by row, and these scores."""
    best = np.full((len(words.start) - 1, depth), -1, np.int64)
    best_scores = np.zeros((len(words.start) - 1, depth), np.float32)
    for query in range(len(best)):
        scores = brute_force(words, query, tokens, token_start)
        rows = np.flatnonzero(scores > 0)
        order = np.argsort(-scores[rows], kind="mergesort")[:depth]
        best[query, : len(order)] = rows[order]
        best_scores[query, : len(order)] = scores[rows[order]]
    return best, best_scores


@compiled
def _levels(
    words: Bm25Queries,
    scale: Scores,
    query_numbers: Rows,
    tokens: NDArray[np.int32],
    token_start: Rows,
    start: Rows,
    rows: Rows,
) -> Levels:
    levels = np.full(len(rows), NO_LEVEL)
    for at in range(len(start) - 1):
        for place in range(start[at], start[at + 1]):
            row = rows[place]
            if row >= 0:
                score = bm25_row_score(words, query_numbers[at], tokens, token_start[row], token_start[row + 1])
                levels[place] = np.int64(np.rint(score / scale[query_numbers[at]] * MILLION))
    return levels
