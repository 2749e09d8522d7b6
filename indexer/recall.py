"""How much of exact search an index finds: asked with utterances of the log itself, each one's own row left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexer.ann import nearest
from indexer.likeness import CANDIDATES, Levels, Likeness
from indexer.ranking import NO_LEVEL, Rows
from indexer.segments import Segment

AT: Final = 15
QUERIES: Final = 1_000
KEPT: Final = 64  # exact neighbours that are kept, so that a later check can do without those that are gone


class ExactSearch:
    """The nearest of all vectors to some queries, found while the vectors pass by in blocks."""

    def __init__(self, queries: NDArray[np.float32], kept: int = KEPT) -> None:
        self._queries, self._kept = queries, kept
        self._rows: Rows = np.full((len(queries), kept), -1, np.int64)
        self._similarities = np.full((len(queries), kept), -np.inf, np.float32)

    def look_at(self, rows: Rows, vectors: NDArray[np.float32]) -> None:
        """One block: the utterance of each vector, and the vectors."""
        if not len(rows) or not len(self._queries):
            return
        places, similarities = nearest(self._queries, vectors, min(self._kept, len(rows)))
        both_rows = np.concatenate([self._rows, rows[places]], axis=1)
        both = np.concatenate([self._similarities, similarities], axis=1)
        best = np.argsort(-both, axis=1, kind="stable")[:, : self._kept]
        self._rows = np.take_along_axis(both_rows, best, axis=1)
        self._similarities = np.take_along_axis(both, best, axis=1)

    @property
    def rows(self) -> Rows:
        """The nearest utterances of each query (queries, kept), −1 where there are fewer."""
        return self._rows


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What was found of the exact results, over the queries that have enough of them."""

    queries: int
    recall: float
    low: float
    high: float
    lost_similarity: float


class Truth(NamedTuple):
    """The queries of a check, rows of the main segment, and the nearest utterances of each in every segment."""

    queries: Rows
    nearest: Sequence[Rows]  # one table (queries, kept) a segment


def measure(
    segments: Sequence[Segment], efforts: Sequence[int], likeness: Likeness, truth: Truth, *, at: int = AT
) -> Measured:
    """Recall@`at` of candidates taken from all segments and ranked again.

    A result is right when it is as similar as the `at`-th exact one, or less so by a millionth at most: of equals, any
    may be found.
    """
    which = np.arange(len(truth.queries))
    exact = _best(segments, likeness, which, truth.nearest, truth, at)
    found = _best(
        segments,
        likeness,
        which,
        [
            likeness.candidates(segment, which, min(CANDIDATES + 1, max(1, segment.utterance_count)), effort)
            for segment, effort in zip(segments, efforts, strict=True)
        ],
        truth,
        at,
    )
    enough = exact[:, -1] != NO_LEVEL
    exact, found = exact[enough], found[enough]
    if not len(exact):
        return Measured(queries=0, recall=1.0, low=1.0, high=1.0, lost_similarity=0.0)
    right = (found >= exact[:, -1:] - 1).mean(axis=1)
    spread = float(1.96 * right.std(ddof=1) / np.sqrt(len(right))) if len(right) > 1 else 0.0
    recall = float(right.mean())
    lost = 1.0 - float(np.maximum(found, 0).sum()) / max(1.0, float(np.maximum(exact, 0).sum()))
    return Measured(
        queries=len(exact),
        recall=round(recall, 6),
        low=round(max(0.0, recall - spread), 6),
        high=round(min(1.0, recall + spread), 6),
        lost_similarity=round(max(0.0, lost), 6),
    )


def _best(
    segments: Sequence[Segment], likeness: Likeness, which: Rows, tables: Sequence[Rows], truth: Truth, at: int
) -> Levels:
    """The `at` highest levels of each query's rows in all segments, without its own row and what is superseded."""
    all_levels = [np.full((len(which), at), NO_LEVEL)]
    for number, (segment, rows) in enumerate(zip(segments, tables, strict=True)):
        levels = likeness.utterances(segment, which, rows)
        superseded = segment.tables.superseded
        if len(superseded):
            levels[superseded[np.maximum(rows, 0)]] = NO_LEVEL
        if number == 0:
            levels[rows == truth.queries[:, None]] = NO_LEVEL
        all_levels.append(levels)
    return -np.sort(-np.concatenate(all_levels, axis=1), axis=1)[:, :at]
