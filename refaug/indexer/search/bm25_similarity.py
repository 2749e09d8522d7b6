"""Similarity by words: BM25 with the statistics of the main segment, exactly, in every segment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.core.kernels import compiled
from refaug.indexer.bm25.index import Bm25Index, Bm25Queries, bm25_row_score, brute_force, select_queries
from refaug.indexer.search.candidates.choice import Similarities
from refaug.indexer.search.ranking import MILLION, NO_LEVEL
from refaug.indexer.search.search_tables import Rows
from refaug.indexer.search.segments import Segment
from refaug.indexer.search.similarity import Levels
from refaug.indexer.tokens.vocabulary import CodedTexts

Scores = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Bm25Likeness:
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

    def utterance_levels(self, segment: Segment, query_numbers: Rows, rows: Rows) -> Levels:
        """Compute each score again, in double precision."""
        return _levels(self.words, self.scale, query_numbers, *segment.words(responses=False), rows)

    def list_levels(self, segment: Segment, query_numbers: Rows, start: Rows, rows: Rows, *, golds: bool) -> Levels:
        """Return scores for a list of utterances, or of responses with the statistics of responses."""
        words, scale = (self.gold_words, self.gold_scale) if golds else (self.words, self.scale)
        return _listed_levels(words, scale, query_numbers, *segment.words(responses=golds), start, rows)


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
    words: Bm25Queries, scale: Scores, query_numbers: Rows, tokens: NDArray[np.int32], token_start: Rows, rows: Rows
) -> Levels:
    levels = np.full(rows.shape, NO_LEVEL)
    for at in range(rows.shape[0]):
        for place in range(rows.shape[1]):
            row = rows[at, place]
            if row >= 0:
                score = bm25_row_score(words, query_numbers[at], tokens, token_start[row], token_start[row + 1])
                levels[at, place] = np.int64(np.rint(score / scale[query_numbers[at]] * MILLION))
    return levels


@compiled
def _listed_levels(
    words: Bm25Queries,
    scale: Scores,
    query_numbers: Rows,
    tokens: NDArray[np.int32],
    token_start: Rows,
    start: Rows,
    rows: Rows,
) -> Levels:
    levels = np.empty(len(rows), np.int64)
    for at in range(len(start) - 1):
        for place in range(start[at], start[at + 1]):
            begin, end = token_start[rows[place]], token_start[rows[place] + 1]
            score = bm25_row_score(words, query_numbers[at], tokens, begin, end)
            levels[place] = np.int64(np.rint(score / scale[query_numbers[at]] * MILLION))
    return levels
