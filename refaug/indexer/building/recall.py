"""Measuring recall: how much of exact search an index finds for utterances of the log, each without its own row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refaug.indexer.nearest.faiss_calls import nearest
from refaug.indexer.search.candidate_pool import collect
from refaug.indexer.search.ranking import NO_LEVEL
from refaug.indexer.search.search_tables import Rows
from refaug.indexer.search.searched_segments import LocalCandidates
from refaug.indexer.search.segments import Segment
from refaug.indexer.search.similarity import CANDIDATES, Levels, Likeness

AT: Final = 15
QUERIES: Final = 1_000
NEIGHBOURS: Final = 64  # exact neighbours stored, so that a later check still has enough when some are deleted


class ExactSearch:
    """Exact search for the nearest of all vectors to some queries, fed with vectors in blocks."""

    def __init__(self, queries: NDArray[np.float32], count: int = NEIGHBOURS) -> None:
        self._queries, self._count = queries, count
        self._rows: Rows = np.full((len(queries), count), -1, np.int64)
        self._similarities = np.full((len(queries), count), -np.inf, np.float32)

    def add_block(self, rows: Rows, vectors: NDArray[np.float32]) -> None:
        """Compare one block: the utterance of each vector, and the vectors."""
        if not len(rows) or not len(self._queries):
            return
        places, similarities = nearest(self._queries, vectors, min(self._count, len(rows)))
        both_rows = np.concatenate([self._rows, rows[places]], axis=1)
        both = np.concatenate([self._similarities, similarities], axis=1)
        best = np.argsort(-both, axis=1, kind="stable")[:, : self._count]
        self._rows = np.take_along_axis(both_rows, best, axis=1)
        self._similarities = np.take_along_axis(both, best, axis=1)

    @property
    def rows(self) -> Rows:
        """The nearest utterances of each query (queries, count), −1 where there are fewer."""
        return self._rows


@dataclass(frozen=True, kw_only=True)
class MeasuredRecall:
    """The recall over the queries that have enough exact results."""

    queries: int
    recall: float
    low: float
    high: float
    lost_similarity: float


class GroundTruth(NamedTuple):
    """The queries of a check, and the nearest utterances of each in every segment."""

    own: Sequence[Rows]  # the row of each query in a segment, −1 where it lies in another one
    nearest: Sequence[Rows]  # one table (queries, count) a segment


class RecallMeasure:
    """Measures recall@`at` of candidates taken from all segments and ranked again, at one effort after the other.

    A result is right if its similarity is at most a millionth below the `at`-th exact one: of equals, any may be
    found.
    """

    def __init__(self, segments: Sequence[Segment], likeness: Likeness, truth: GroundTruth, *, at: int = AT) -> None:
        self._segments, self._likeness, self._truth, self._at = segments, likeness, truth, at
        self._query_numbers = np.arange(len(truth.own[0]))
        exact = self._best(truth.nearest)
        self._counted = exact[:, -1] != NO_LEVEL  # queries with enough exact results
        self._exact = exact[self._counted]

    def at_efforts(self, efforts: Sequence[int]) -> MeasuredRecall:
        """Measure with each segment searched so deep."""
        exact = self._exact
        if not len(exact):
            return MeasuredRecall(queries=0, recall=1.0, low=1.0, high=1.0, lost_similarity=0.0)
        candidates = LocalCandidates(self._segments, self._likeness)
        rows, _ = collect(candidates, self._query_numbers, CANDIDATES + 1, efforts)
        approximate = self._best(rows)[self._counted]
        right = (approximate >= exact[:, -1:] - 1).mean(axis=1)
        spread = float(1.96 * right.std(ddof=1) / np.sqrt(len(right))) if len(right) > 1 else 0.0
        recall = float(right.mean())
        lost = 1.0 - float(np.maximum(approximate, 0).sum()) / max(1.0, float(np.maximum(exact, 0).sum()))
        return MeasuredRecall(
            queries=len(exact),
            recall=round(recall, 6),
            low=round(max(0.0, recall - spread), 6),
            high=round(min(1.0, recall + spread), 6),
            lost_similarity=round(max(0.0, lost), 6),
        )

    def _best(self, tables: Sequence[Rows]) -> Levels:
        """Return the `at` highest levels of each query's rows in all segments, without its own and superseded ones."""
        all_levels = [np.full((len(self._query_numbers), self._at), NO_LEVEL)]
        for segment, own, rows in zip(self._segments, self._truth.own, tables, strict=True):
            levels = self._likeness.utterance_levels(segment, self._query_numbers, rows)
            superseded = segment.tables.superseded
            if len(superseded):
                levels[superseded[np.maximum(rows, 0)]] = NO_LEVEL
            levels[rows == own[:, None]] = NO_LEVEL
            all_levels.append(levels)
        return -np.sort(-np.concatenate(all_levels, axis=1), axis=1)[:, : self._at]
