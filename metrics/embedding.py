"""How alike two texts are by the vectors of their words: average, vector extrema and greedy matching.

average    the cosine of the mean vectors (Foltz et al. 1998; Mitchell & Lapata 2008)
extrema    the cosine of the vectors made, in each dimension, of the value farthest from zero (Forgues et al. 2014)
greedy     each word's best cosine in the other text, averaged over the words (Rus & Lintean 2012)

A pair's value depends on the pair alone, to the last bit: sums run over the words in the order of the text and over
the dimensions in an order that only their number decides, whatever else is in the batch. On processors with another
width of vector registers the last bits may differ.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from itertools import chain
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from core.kernels import compiled, compiled_with

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

SIF_A: Final = 1e-3  # a in a / (a + p(w)), as Arora et al. (2017) set it
_MOST_COLUMNS: Final = 4096  # a reply's table of cosines is made for so many words of its references at a time


class Similarity(StrEnum):
    """What is compared of two texts."""

    AVERAGE = "average"
    EXTREMA = "extrema"
    GREEDY = "greedy"


class Measure(StrEnum):
    """Which direction of greedy matching counts; the others are symmetric."""

    PRECISION = "precision"  # the mean over the words of the reply
    RECALL = "recall"  # the mean over the words of the reference
    F = "f"  # their harmonic mean, 0 where one of them is not above 0
    MEAN = "mean"  # their arithmetic mean, as published


class Weighting(StrEnum):
    """What a word counts in average and greedy; extrema knows no weights."""

    NONE = "none"  # all the same, as published
    SIF = "sif"  # a / (a + p(w)): frequent words count less


class Missing(IntEnum):
    """Why a pair has no value."""

    NOTHING = 0  # it has one
    REPLY = 1  # no word of the reply has a vector (whether or not one of the reference has)
    REFERENCE = 2  # no word of the reference has one


class Vectors(Protocol):
    """What is asked of word vectors."""

    @property
    def index(self) -> dict[str, int]:
        """The row of each word."""

    @property
    def matrix(self) -> NDArray[np.float32]:
        """The vectors, (words, dimensions)."""

    def frequencies(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The probabilities p(w) of the words of these rows."""


@dataclass(frozen=True, eq=False)
class Packed:
    """The known words of many texts, as numbers that the space gave them; unknown words are only counted."""

    words: NDArray[np.int32]  # of all texts, one after the other
    starts: NDArray[np.int64]  # (texts + 1,): where each text begins in `words`
    unknown: NDArray[np.int64]  # (texts,): words without a vector
    space: EmbeddingSpace

    def __len__(self) -> int:
        return len(self.unknown)

    @property
    def known(self) -> NDArray[np.int64]:
        """How many words of each text have a vector."""
        return np.diff(self.starts)


class EmbeddingSpace:
    """Word vectors made ready for the words that were met, which are few beside the words of published vectors.

    It grows as texts are packed and forgets nothing; all threads may share one.
    """

    def __init__(self, vectors: Vectors, weighting: Weighting = Weighting.NONE) -> None:
        self.weighting = Weighting(weighting)
        self._vectors = vectors
        self._matrix = _read_only(vectors.matrix, np.float32)
        self._lock = threading.Lock()
        self._numbers = _Numbers(vectors.index)
        self._ready = 0  # words whose rows below are filled
        self._rows = np.empty(0, np.int64)  # number → row of the matrix
        self._weights = np.empty(0, np.float64)
        self._unit = np.empty((0, self._matrix.shape[1]), np.float32)  # rows scaled to length one; a zero row stays

    def pack(self, texts: Sequence[Sequence[str]]) -> Packed:
        """Look the words of many texts up."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        with self._lock:
            words = np.fromiter(
                map(self._numbers.__getitem__, chain.from_iterable(texts)), np.int32, int(lengths.sum())
            )
            self._make_ready()
        ends = np.concatenate(([0], np.cumsum(lengths)))
        known = np.concatenate(([0], np.cumsum(words >= 0)))
        starts = known[ends]
        return Packed(words=words[words >= 0], starts=starts, unknown=lengths - np.diff(starts), space=self)

    def _make_ready(self) -> None:
        """Fill in rows for new words; arrays that a running kernel holds are never changed below `_ready`."""
        rows = np.array(self._numbers.rows[self._ready :], np.int64)
        if not len(rows):
            return
        needed = self._ready + len(rows)
        if needed > len(self._rows):
            room = max(needed, 2 * len(self._rows), 1024)
            self._rows, self._weights, self._unit = (
                _grown(array, self._ready, room) for array in (self._rows, self._weights, self._unit)
            )
        new = slice(self._ready, needed)
        self._rows[new] = rows
        self._weights[new] = 1.0
        if self.weighting is Weighting.SIF:
            self._weights[new] = SIF_A / (SIF_A + self._vectors.frequencies(rows))
        _scale_to_unit(self._matrix, rows, self._unit[new])
        self._ready = needed

    def pair_scores(
        self,
        replies: Packed,
        references: Packed,
        reply_of: NDArray[np.integer],
        reference_of: NDArray[np.integer],
        *,
        similarity: Similarity = Similarity.GREEDY,
        measure: Measure = Measure.MEAN,
    ) -> Floats:
        """The similarity of each pair `(reply_of[i], reference_of[i])`; NaN where `missing` says why.

        Pairs of the same reply are quickest when they stand together. A zero vector has the cosine 0 with everything.
        """
        reply_of, reference_of = self._checked(replies, references, reply_of, reference_of)
        texts = (replies.words, replies.starts, references.words, references.starts, reply_of, reference_of)
        if similarity is Similarity.GREEDY:
            precision, recall = _greedy_pairs(self._unit, self._weights, *texts)
            return _combined(precision, recall, measure)
        if similarity is Similarity.EXTREMA:
            return np.asarray(_extrema_pairs(self._matrix, self._rows, *texts))
        return np.asarray(_average_pairs(self._matrix, self._rows, self._weights, *texts))

    def _checked(
        self,
        replies: Packed,
        references: Packed,
        reply_of: NDArray[np.integer],
        reference_of: NDArray[np.integer],
    ) -> tuple[Rows, Rows]:
        """The indexes as the kernels take them: compiled loops look nowhere whether an index is inside."""
        assert replies.space is self, "the replies were packed by another space"
        assert references.space is self, "the references were packed by another space"
        assert len(reply_of) == len(reference_of), "every pair has a reply and a reference"
        for indexes, texts in ((reply_of, replies), (reference_of, references)):
            assert not len(indexes) or (indexes.min() >= 0 and indexes.max() < len(texts)), "a text that is not there"
        return _read_only(reply_of, np.int64), _read_only(reference_of, np.int64)


def missing(
    replies: Packed, references: Packed, reply_of: NDArray[np.integer], reference_of: NDArray[np.integer]
) -> NDArray[np.uint8]:
    """Why each pair has no value, as numbers of `Missing`."""
    no_reply, no_reference = replies.known[reply_of] == 0, references.known[reference_of] == 0
    reasons = np.select([no_reply, no_reference], [Missing.REPLY, Missing.REFERENCE], Missing.NOTHING)
    return reasons.astype(np.uint8)


class _Numbers(dict[str, int]):
    """A number for every known word that was met, in that order; -1 for others, which are not kept."""

    def __init__(self, index: dict[str, int]) -> None:
        super().__init__()
        self._index = index
        self.rows: list[int] = []

    def __missing__(self, word: str) -> int:
        row = self._index.get(word)
        if row is None:
            return -1
        self[word] = len(self.rows)
        self.rows.append(row)
        return self[word]


def _combined(precision: Floats, recall: Floats, measure: Measure) -> Floats:
    if measure is Measure.PRECISION:
        return precision
    if measure is Measure.RECALL:
        return recall
    if measure is Measure.MEAN:
        return (precision + recall) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        harmonic = 2 * precision * recall / (precision + recall)
    unscored = np.isnan(precision)
    return np.where(unscored | ((precision > 0) & (recall > 0)), harmonic, 0.0)


def _read_only(array: NDArray[Any], dtype: type[Any]) -> NDArray[Any]:
    """The same memory, where it can be, as a type of array that is always the same: so kernels are compiled once."""
    view = np.ascontiguousarray(array, dtype).view(np.ndarray)
    view.flags.writeable = False
    return view


def _grown(array: NDArray[Any], used: int, room: int) -> NDArray[Any]:
    grown = np.zeros((room, *array.shape[1:]), array.dtype)
    grown[:used] = array[:used]
    return grown


# Loops. Texts come as words and starts; a pair without a known word on one side is NaN.


@compiled
def _scale_to_unit(matrix: Any, rows: Any, out: Any) -> None:
    for i in range(rows.size):
        vector = matrix[rows[i]]
        squares = 0.0
        for k in range(vector.size):
            squares += np.float64(vector[k]) * np.float64(vector[k])
        scale = 1.0 / np.sqrt(squares) if squares > 0.0 else 0.0
        for k in range(vector.size):
            out[i, k] = vector[k] * scale


@compiled_with(fastmath={"reassoc"})
def _dot(left: Any, right: Any) -> float:
    total = 0.0
    for k in range(left.size):
        total += left[k] * right[k]
    return total


@compiled
def _cosine(left: Any, left_square: float, right: Any) -> Any:
    """A vector and itself give exactly one, as the square root of a rounded square is the number squared."""
    squares = left_square * _dot(right, right)
    if squares > 0.0:
        return min(1.0, max(-1.0, _dot(left, right) / np.sqrt(squares)))
    return 0.0


@compiled
def _add_up(matrix: Any, rows: Any, weights: Any, words: Any, total: Any) -> None:
    """The weighted sum of a text's vectors; its length does not matter to the cosine, so it need not be divided."""
    total[:] = 0.0
    for i in range(words.size):
        weight, vector = weights[words[i]], matrix[rows[words[i]]]
        for k in range(total.size):
            total[k] += weight * vector[k]


@compiled
def _average_pairs(
    matrix: Any, rows: Any, weights: Any,
    reply_words: Any, reply_starts: Any, reference_words: Any, reference_starts: Any, reply_of: Any, reference_of: Any,
) -> Any:  # fmt: skip
    out = np.full(reply_of.size, np.nan)
    reply, reference = np.empty(matrix.shape[1]), np.empty(matrix.shape[1])
    square, at = 0.0, -1
    for i in range(reply_of.size):
        words = reply_words[reply_starts[reply_of[i]] : reply_starts[reply_of[i] + 1]]
        others = reference_words[reference_starts[reference_of[i]] : reference_starts[reference_of[i] + 1]]
        if words.size == 0 or others.size == 0:
            continue
        if reply_of[i] != at:
            at = reply_of[i]
            _add_up(matrix, rows, weights, words, reply)
            square = _dot(reply, reply)
        _add_up(matrix, rows, weights, others, reference)
        out[i] = _cosine(reply, square, reference)
    return out


@compiled
def _go_to_extremes(matrix: Any, rows: Any, words: Any, low: Any, extreme: Any) -> None:
    """The largest value of each dimension if it is larger than the magnitude of the smallest, else the smallest."""
    first = matrix[rows[words[0]]]
    for k in range(low.size):
        low[k] = extreme[k] = first[k]
    for i in range(1, words.size):
        vector = matrix[rows[words[i]]]
        for k in range(low.size):
            low[k] = min(low[k], np.float64(vector[k]))
            extreme[k] = max(extreme[k], np.float64(vector[k]))
    for k in range(low.size):
        extreme[k] = extreme[k] if extreme[k] > abs(low[k]) else low[k]


@compiled
def _extrema_pairs(
    matrix: Any, rows: Any,
    reply_words: Any, reply_starts: Any, reference_words: Any, reference_starts: Any, reply_of: Any, reference_of: Any,
) -> Any:  # fmt: skip
    out = np.full(reply_of.size, np.nan)
    reply, reference, low = np.empty(matrix.shape[1]), np.empty(matrix.shape[1]), np.empty(matrix.shape[1])
    square, at = 0.0, -1
    for i in range(reply_of.size):
        words = reply_words[reply_starts[reply_of[i]] : reply_starts[reply_of[i] + 1]]
        others = reference_words[reference_starts[reference_of[i]] : reference_starts[reference_of[i] + 1]]
        if words.size == 0 or others.size == 0:
            continue
        if reply_of[i] != at:
            at = reply_of[i]
            _go_to_extremes(matrix, rows, words, low, reply)
            square = _dot(reply, reply)
        _go_to_extremes(matrix, rows, others, low, reference)
        out[i] = _cosine(reply, square, reference)
    return out


@compiled_with(fastmath={"reassoc"})
def _four_dots(four: Any, vector: Any, out: Any) -> None:
    """A vector of the reference with four of the reply: it is read once, and all four sums run in the same order."""
    a = b = c = d = np.float32(0.0)
    for k in range(vector.size):
        value = vector[k]
        a += four[0, k] * value
        b += four[1, k] * value
        c += four[2, k] * value
        d += four[3, k] * value
    out[0], out[1], out[2], out[3] = a, b, c, d


@compiled
def _distinct(words: Any, place: Any, distinct: Any, count: int) -> int:
    """Number the words not met yet from `count` on: `place` is -1 for those, and has the number of the others."""
    for i in range(words.size):
        if place[words[i]] < 0:
            place[words[i]] = count
            distinct[count] = words[i]
            count += 1
    return count


@compiled
def _forget(place: Any, distinct: Any) -> None:
    for i in range(distinct.size):
        place[distinct[i]] = -1


@compiled
def _fill_table(unit: Any, reply_words: Any, block: Any, columns: Any, table: Any, best: Any) -> None:
    """The cosines of a reply's distinct words with those of its references, (columns, words), and each column's best.

    The reply is filled up with zero vectors to fours, so that every cosine comes out of the same loop.
    """
    for j in range(columns.size):
        vector = unit[columns[j]]
        for i in range(0, block.shape[0], 4):
            _four_dots(block[i : i + 4], vector, table[j, i : i + 4])
        best[j] = -1.0
        for i in range(reply_words.size):
            if reply_words[i] == columns[j] and table[j, i] > 0.5:  # all but a zero vector: exactly one with itself
                table[j, i] = 1.0
            table[j, i] = min(np.float32(1.0), max(np.float32(-1.0), table[j, i]))
            best[j] = max(best[j], table[j, i])


@compiled
def _best_of_columns(weights: Any, others: Any, place: Any, table: Any, best_column: Any, best: Any) -> float:
    """The recall of one reference; on the way, the best cosine in it of each distinct word of the reply."""
    best[:] = -1.0
    total, mass = 0.0, 0.0
    for j in range(others.size):
        column = place[others[j]]
        total += weights[others[j]] * best_column[column]
        mass += weights[others[j]]
        for i in range(best.size):
            best[i] = max(best[i], table[column, i])
    return total / mass


@compiled
def _best_of_rows(weights: Any, words: Any, row_of: Any, best: Any) -> float:
    """The precision, from what `_best_of_columns` has found."""
    total, mass = 0.0, 0.0
    for i in range(words.size):
        total += weights[words[i]] * best[row_of[i]]
        mass += weights[words[i]]
    return total / mass


@compiled
def _batch_end(start: int, reply_of: Any, reference_of: Any, reference_starts: Any) -> Any:
    """Where a run of pairs with one reply ends, or has enough words; and how many words it has."""
    stop, size = start, 0
    while stop < reply_of.size and reply_of[stop] == reply_of[start]:
        length = reference_starts[reference_of[stop] + 1] - reference_starts[reference_of[stop]]
        if stop > start and size + length > _MOST_COLUMNS:
            break
        size += length
        stop += 1
    return stop, size


@compiled
def _greedy_pairs(
    unit: Any, weights: Any,
    reply_words: Any, reply_starts: Any, reference_words: Any, reference_starts: Any, reply_of: Any, reference_of: Any,
) -> Any:  # fmt: skip
    """Precision and recall. For each reply, one table of cosines with the words of all its references together."""
    precision, recall = np.full(reply_of.size, np.nan), np.full(reply_of.size, np.nan)
    most_words, most_columns = 0, 0
    start = 0
    while start < reply_of.size:
        most_words = max(most_words, reply_starts[reply_of[start] + 1] - reply_starts[reply_of[start]])
        start, size = _batch_end(start, reply_of, reference_of, reference_starts)
        most_columns = max(most_columns, size)
    most_words = (most_words + 3) // 4 * 4
    place = np.full(unit.shape[0], np.int32(-1))  # all -1 again after each use
    row_of = np.empty(most_words, np.int32)
    distinct, columns = np.empty(most_words, np.int32), np.empty(most_columns, np.int32)
    block = np.zeros((most_words, unit.shape[1]), np.float32)
    cosines = np.empty((most_columns, most_words), np.float32)
    best_column, best = np.empty(most_columns, np.float32), np.empty(most_words, np.float32)
    at, rows, padded = -1, 0, 0

    start = 0
    while start < reply_of.size:
        stop, _ = _batch_end(start, reply_of, reference_of, reference_starts)
        words = reply_words[reply_starts[reply_of[start]] : reply_starts[reply_of[start] + 1]]
        if reply_of[start] != at:
            at = reply_of[start]
            rows = _distinct(words, place, distinct, 0)
            for i in range(words.size):
                row_of[i] = place[words[i]]
            _forget(place, distinct[:rows])
            padded = (rows + 3) // 4 * 4
            for i in range(rows):
                block[i] = unit[distinct[i]]
            block[rows:padded] = 0.0
        count = 0
        for pair in range(start, stop):
            text = reference_of[pair]
            others = reference_words[reference_starts[text] : reference_starts[text + 1]]
            count = _distinct(others, place, columns, count)
        _fill_table(unit, distinct[:rows], block[:padded], columns[:count], cosines, best_column)
        for pair in range(start, stop):
            text = reference_of[pair]
            others = reference_words[reference_starts[text] : reference_starts[text + 1]]
            if words.size > 0 and others.size > 0:
                recall[pair] = _best_of_columns(weights, others, place, cosines, best_column, best[:rows])
                precision[pair] = _best_of_rows(weights, words, row_of, best)
        _forget(place, columns[:count])
        start = stop
    return precision, recall
