"""Similarity of two texts by the vectors of their words: average, vector extrema, pooling and greedy matching.

    average    the cosine of the mean vectors (Foltz et al. 1998; Mitchell & Lapata 2008)
    extrema    the cosine of the vectors made, in each dimension, of the value farthest from zero (Forgues et al. 2014)
    pooled     the cosine of the vectors made of the largest value in each dimension and then of the smallest in each,
               so that they have twice the dimensions (Tao et al. 2018)
    greedy     each word's best cosine in the other text, averaged over the words (Rus & Lintean 2012)

A pair's value depends on the pair alone, to the last bit: sums run over the words in the order of the text, and over
the dimensions in an order that only their number determines, whatever else is in the batch. On processors with another
width of vector registers the last bits may differ.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from refaug.core.kernels.kernel import compiled, compiled_with

# ── Compiled loops of `embedding.py`: words and starts of packed texts in, a number for each pair out ─────────────────
#
# A pair without a known word on one side is NaN. Greedy matching needs the cosines of all words of a reply with all
# words of a reference. They are computed in a table that many references of one reply share, and in parts for texts
# with more distinct words than a table holds: memory is bounded however long the texts are.

# Shared by all loops


@compiled
def scale_to_unit(matrix: Any, rows: Any, out: Any) -> None:
    """Write the vectors of these rows, scaled to length one; a zero vector stays."""
    for i in range(rows.size):
        vector = matrix[rows[i]]
        squares = 0.0
        for k in range(vector.size):
            squares += np.float64(vector[k]) * np.float64(vector[k])
        scale = 1.0 / np.sqrt(squares) if squares > 0.0 else 0.0
        for k in range(vector.size):
            out[i, k] = vector[k] * scale


@compiled_with(fastmath={"reassoc"})
def _dot(first: Any, second: Any) -> float:
    total = 0.0
    for k in range(first.size):
        total += first[k] * second[k]
    return total


@compiled
def _cosine(first: Any, first_square: float, second: Any) -> Any:
    """Return the cosine; a vector and itself give exactly 1, as the root of a rounded square is the number squared."""
    squares = first_square * _dot(second, second)
    if squares > 0.0:
        return min(1.0, max(-1.0, _dot(first, second) / np.sqrt(squares)))
    return 0.0


# Average


@compiled
def _add_up(matrix: Any, rows: Any, weights: Any, words: Any, total: Any) -> None:
    """Write the weighted sum of a text's vectors; its length does not change the cosine, so it is not divided."""
    total[:] = 0.0
    for i in range(words.size):
        weight, vector = weights[words[i]], matrix[rows[words[i]]]
        for k in range(total.size):
            total[k] += weight * vector[k]


# Extrema


@compiled
def _extreme_values(matrix: Any, rows: Any, words: Any, low: Any, extreme: Any) -> None:
    """Write the largest value of each dimension if it exceeds the magnitude of the smallest, else the smallest."""
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


# Pooling


@compiled
def _pool(matrix: Any, rows: Any, words: Any, pooled: Any) -> None:
    """Write the largest value of each dimension, and after all of those the smallest of each."""
    dimensions = matrix.shape[1]
    pooled[:dimensions] = -np.inf
    pooled[dimensions:] = np.inf
    for i in range(words.size):
        vector = matrix[rows[words[i]]]
        for k in range(dimensions):
            pooled[k] = max(pooled[k], np.float64(vector[k]))
            pooled[dimensions + k] = min(pooled[dimensions + k], np.float64(vector[k]))


# One vector a text

_AVERAGE, _EXTREMA, _POOLED = range(3)


@compiled
def _read(matrix: Any, rows: Any, weights: Any, words: Any, kind: int, low: Any, vector: Any) -> None:
    """Write the vector of a text; `low` has room for the smallest values."""
    if kind == _AVERAGE:
        _add_up(matrix, rows, weights, words, vector)
    elif kind == _EXTREMA:
        _extreme_values(matrix, rows, words, low, vector)
    else:
        _pool(matrix, rows, words, vector)


@compiled
def vector_pairs(
    matrix: Any, rows: Any, weights: Any, kind: int,
    reply_words: Any, reply_starts: Any, reference_words: Any, reference_starts: Any, reply_of: Any, reference_of: Any,
) -> Any:  # fmt: skip
    """Return the cosine of each pair's vectors, which are means, extreme values or pooled ones."""
    out = np.full(reply_of.size, np.nan)
    width = 2 * matrix.shape[1] if kind == _POOLED else matrix.shape[1]
    reply, reference, low = np.empty(width), np.empty(width), np.empty(matrix.shape[1])
    square, at = 0.0, -1
    for i in range(reply_of.size):
        words_of_reply = reply_words[reply_starts[reply_of[i]] : reply_starts[reply_of[i] + 1]]
        words_of_reference = reference_words[reference_starts[reference_of[i]] : reference_starts[reference_of[i] + 1]]
        if words_of_reply.size == 0 or words_of_reference.size == 0:
            continue
        if reply_of[i] != at:
            at = reply_of[i]
            _read(matrix, rows, weights, words_of_reply, kind, low, reply)
            square = _dot(reply, reply)
        _read(matrix, rows, weights, words_of_reference, kind, low, reference)
        out[i] = _cosine(reply, square, reference)
    return out


# Greedy matching


@compiled_with(fastmath={"reassoc"})
def _four_dots(four: Any, vector: Any, out: Any) -> None:
    """Multiply a vector of the reference with four of the reply, reading it once, all sums in the same order."""
    a = b = c = d = np.float32(0.0)
    for k in range(vector.size):
        component = vector[k]
        a += four[0, k] * component
        b += four[1, k] * component
        c += four[2, k] * component
        d += four[3, k] * component
    out[0], out[1], out[2], out[3] = a, b, c, d


@compiled
def _distinct(words: Any, place: Any, distinct: Any, count: int) -> int:
    """Number the new words from `count` on; `place` is -1 for new words, and the number of the others."""
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
    """Write the cosines of a reply's distinct words with those of its references, (columns, words), and update `best`.

    The reply is padded with zero vectors to a multiple of four, so that every cosine comes from the same loop.
    """
    for j in range(columns.size):
        vector = unit[columns[j]]
        for i in range(0, block.shape[0], 4):
            _four_dots(block[i : i + 4], vector, table[j, i : i + 4])
        for i in range(reply_words.size):
            if reply_words[i] == columns[j] and table[j, i] > 0.5:  # except for a zero vector, exactly one with itself
                table[j, i] = 1.0
            table[j, i] = min(np.float32(1.0), max(np.float32(-1.0), table[j, i]))
            best[j] = max(best[j], table[j, i])


@compiled
def _raise_to(best: Any, cosines: Any) -> None:
    for i in range(best.size):
        best[i] = max(best[i], cosines[i])


@compiled
def _match(
    unit: Any, words: Any, columns: Any, alone: bool, block: Any, table: Any, best: Any, best_column: Any
) -> None:
    """Compute the best cosine of each column among all words and, for a single pair, of each word among all columns.

    `block` and `table` hold a part of them at a time, and the parts take turns. Where all fit, their cosines remain in
    the table.
    """
    best_column[:] = -1.0
    best[:] = -1.0
    for row in range(0, words.size, block.shape[0]):
        rows_of_block = words[row : row + block.shape[0]]
        padded = (rows_of_block.size + 3) // 4 * 4
        for i in range(rows_of_block.size):
            block[i] = unit[rows_of_block[i]]
        block[rows_of_block.size : padded] = 0.0
        for start in range(0, columns.size, table.shape[0]):
            stop = min(start + table.shape[0], columns.size)
            _fill_table(unit, rows_of_block, block[:padded], columns[start:stop], table, best_column[start:stop])
            for column in range(stop - start if alone else 0):
                _raise_to(best[row : row + rows_of_block.size], table[column])


@compiled
def _mean_of_best(weights: Any, words: Any, numbers: Any, best: Any) -> Any:
    """Return the weighted mean, over the words of a text in their order, of each word's best cosine."""
    total, mass = 0.0, 0.0
    for i in range(words.size):
        total += weights[words[i]] * best[numbers[i]]
        mass += weights[words[i]]
    return total / mass


@compiled
def _numbers_of(words: Any, place: Any, numbers: Any) -> None:
    for i in range(words.size):
        numbers[i] = place[words[i]]


@compiled
def _run_end(start: int, reply_of: Any, reference_of: Any, reference_starts: Any, most_columns: int) -> Any:
    """Return where a run of pairs with one reply ends or has enough words, and its number of words."""
    stop, size = start, 0
    while stop < reply_of.size and reply_of[stop] == reply_of[start]:
        length = reference_starts[reference_of[stop] + 1] - reference_starts[reference_of[stop]]
        if stop > start and size + length > most_columns:
            break
        size += length
        stop += 1
    return stop, size


@compiled
def _largest(reply_starts: Any, reference_starts: Any, reply_of: Any, reference_of: Any, most_columns: int) -> Any:
    """Return the number of words of the longest reply, and of the references of the longest run."""
    most_words, most_others, start = 0, 0, 0
    while start < reply_of.size:
        most_words = max(most_words, reply_starts[reply_of[start] + 1] - reply_starts[reply_of[start]])
        start, size = _run_end(start, reply_of, reference_of, reference_starts, most_columns)
        most_others = max(most_others, size)
    return most_words, most_others


@compiled
def greedy_pairs(
    unit: Any, weights: Any,
    reply_words: Any, reply_starts: Any, reference_words: Any, reference_starts: Any, reply_of: Any, reference_of: Any,
    most_rows: int, most_columns: int,
) -> Any:  # fmt: skip
    """Return precision and recall; the table of cosines is at most (most_columns, most_rows), the rows a multiple of 4.

    The table holds the words of a reply and of a run of its references together. A pair with more distinct words on one
    side than fit is a separate run.
    """
    precision, recall = np.full(reply_of.size, np.nan), np.full(reply_of.size, np.nan)
    most_words, most_others = _largest(reply_starts, reference_starts, reply_of, reference_of, most_columns)
    width = min(most_rows, (most_words + 3) // 4 * 4)
    block = np.empty((max(width, 4), unit.shape[1]), np.float32)
    table = np.empty((max(min(most_columns, most_others), 1), width), np.float32)
    place = np.full(unit.shape[0], np.int32(-1))  # all -1 again after each use
    distinct, columns = np.empty(most_words, np.int32), np.empty(most_others, np.int32)
    row_of, column_of = np.empty(most_words, np.int32), np.empty(most_others, np.int32)  # of each word of a text
    best, best_column = np.empty(most_words, np.float32), np.empty(most_others, np.float32)
    at, rows, start = -1, 0, 0
    while start < reply_of.size:
        words = reply_words[reply_starts[reply_of[start]] : reply_starts[reply_of[start] + 1]]
        if reply_of[start] != at:
            at, rows = reply_of[start], _distinct(words, place, distinct, 0)
            _numbers_of(words, place, row_of)
            _forget(place, distinct[:rows])
        stop = start + 1
        if rows <= most_rows:
            stop, _ = _run_end(start, reply_of, reference_of, reference_starts, most_columns)
        alone, count = stop == start + 1, 0
        for pair in range(start, stop):
            text = reference_of[pair]
            reference_text = reference_words[reference_starts[text] : reference_starts[text + 1]]
            count = _distinct(reference_text, place, columns, count)
        _match(unit, distinct[:rows], columns[:count], alone, block, table, best[:rows], best_column[:count])
        for pair in range(start, stop):
            text = reference_of[pair]
            reference_text = reference_words[reference_starts[text] : reference_starts[text + 1]]
            if words.size == 0 or reference_text.size == 0:
                continue
            _numbers_of(reference_text, place, column_of)
            if not alone:
                best[:rows] = -1.0
                for i in range(reference_text.size):
                    _raise_to(best[:rows], table[column_of[i]])
            recall[pair] = _mean_of_best(weights, reference_text, column_of, best_column)
            precision[pair] = _mean_of_best(weights, words, row_of, best)
        _forget(place, columns[:count])
        start = stop
    return precision, recall


# ── Similarity of two texts by the vectors of their words: average, vector extrema, pooling and greedy matching ───────

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

SIF_A: Final = 1e-3  # a in a / (a + p(w)), as Arora et al. (2017) set it

# The cosines of greedy matching are computed for at most so many words of a reply and of its references: 32 MB. The
# first number is a multiple of four.
_MOST_ROWS: Final = 2048
_MOST_COLUMNS: Final = 4096


class Similarity(StrEnum):
    """How two texts are compared."""

    AVERAGE = "average"
    EXTREMA = "extrema"
    POOLED = "pooled"
    GREEDY = "greedy"


_KINDS: Final = {Similarity.AVERAGE: _AVERAGE, Similarity.EXTREMA: _EXTREMA, Similarity.POOLED: _POOLED}


class Measure(StrEnum):
    """The direction of greedy matching that counts; the other similarities are symmetric."""

    PRECISION = "precision"  # the mean over the words of the reply
    RECALL = "recall"  # the mean over the words of the reference
    F = "f"  # their harmonic mean, 0 where one of them is not above 0
    MEAN = "mean"  # their arithmetic mean, as published


class Weighting(StrEnum):
    """The weights of words in average and greedy; extrema and pooled have no weights."""

    NONE = "none"  # all the same, as published
    SIF = "sif"  # a / (a + p(w)): frequent words count less


class Vectors(Protocol):
    """The interface of word vectors."""

    @property
    def index(self) -> dict[str, int]:
        """The row of each word."""

    @property
    def matrix(self) -> NDArray[np.float32]:
        """The vectors, (words, dimensions)."""

    def frequencies(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probabilities p(w) of the words of these rows."""


@dataclass(frozen=True, eq=False)
class PackedWords:
    """The known words of many texts, as numbers of the space; unknown words are only counted."""

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
    """Word vectors prepared for the words that occur, which are few among the words of published vectors.

    It grows as texts are packed and never shrinks; all threads may share one.
    """

    def __init__(self, vectors: Vectors, weighting: Weighting = Weighting.NONE) -> None:
        self.weighting = Weighting(weighting)
        self._vectors = vectors
        self._matrix = _read_only(vectors.matrix, np.float32)
        self._lock = threading.Lock()
        self._numbers = _WordNumbers(vectors.index)
        self._ready = 0  # the number of words whose rows below are filled
        self._rows = np.empty(0, np.int64)  # number → row of the matrix
        self._weights = np.empty(0, np.float64)
        self._unit = np.empty((0, self._matrix.shape[1]), np.float32)  # rows scaled to length one; a zero row stays

    def pack(self, texts: Sequence[Sequence[str]]) -> PackedWords:
        """Look up the words of many texts."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        with self._lock:
            words = np.fromiter(
                map(self._numbers.__getitem__, chain.from_iterable(texts)), np.int32, int(lengths.sum())
            )
            self._make_ready()
        ends = np.concatenate(([0], np.cumsum(lengths)))
        known_before = np.concatenate(([0], np.cumsum(words >= 0)))
        starts = known_before[ends]
        return PackedWords(words=words[words >= 0], starts=starts, unknown=lengths - np.diff(starts), space=self)

    def vectors_of(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of words, one a row; zeros for a word without one."""
        rows = [self._vectors.index.get(word, -1) for word in words]
        vectors = np.zeros((len(rows), self._matrix.shape[1]), np.float32)
        known = [place for place, row in enumerate(rows) if row >= 0]
        vectors[known] = self._matrix[[rows[place] for place in known]]
        return vectors

    def _make_ready(self) -> None:
        """Fill in rows for new words; arrays that a running kernel uses never change below `_ready`."""
        rows = np.array(self._numbers.rows[self._ready :], np.int64)
        if not len(rows):
            return
        needed = self._ready + len(rows)
        if needed > len(self._rows):
            room = max(needed, 2 * len(self._rows), 1024)
            self._rows, self._weights, self._unit = (
                _grow(array, self._ready, room) for array in (self._rows, self._weights, self._unit)
            )
        new = slice(self._ready, needed)
        self._rows[new] = rows
        self._weights[new] = 1.0
        if self.weighting is Weighting.SIF:
            self._weights[new] = SIF_A / (SIF_A + self._vectors.frequencies(rows))
        scale_to_unit(self._matrix, rows, self._unit[new])
        self._ready = needed

    def pair_scores(
        self,
        replies: PackedWords,
        references: PackedWords,
        reply_of: NDArray[np.integer],
        reference_of: NDArray[np.integer],
        *,
        similarity: Similarity = Similarity.GREEDY,
        measure: Measure = Measure.MEAN,
    ) -> Floats:
        """Return the similarity of each pair `(reply_of[i], reference_of[i])`; NaN where a text has no known word.

        Pairs of the same reply are quickest when they are next to each other. A zero vector has the cosine 0 with
        everything.
        """
        reply_of, reference_of = self._check_indexes(replies, references, reply_of, reference_of)
        texts = (replies.words, replies.starts, references.words, references.starts, reply_of, reference_of)
        if similarity is Similarity.GREEDY:
            precision, recall = greedy_pairs(self._unit, self._weights, *texts, _MOST_ROWS, _MOST_COLUMNS)
            return _combine_directions(precision, recall, measure)
        return np.asarray(vector_pairs(self._matrix, self._rows, self._weights, _KINDS[similarity], *texts))

    def _check_indexes(
        self,
        replies: PackedWords,
        references: PackedWords,
        reply_of: NDArray[np.integer],
        reference_of: NDArray[np.integer],
    ) -> tuple[Rows, Rows]:
        """Return the indexes as the kernels take them, after checking them, since compiled loops do not."""
        assert replies.space is self, "the replies were packed by another space"
        assert references.space is self, "the references were packed by another space"
        assert len(reply_of) == len(reference_of), "every pair has a reply and a reference"
        for indexes, texts in ((reply_of, replies), (reference_of, references)):
            assert not len(indexes) or (indexes.min() >= 0 and indexes.max() < len(texts)), "a text that is not there"
        return _read_only(reply_of, np.int64), _read_only(reference_of, np.int64)


class _WordNumbers(dict[str, int]):
    """A number for every known word that occurred, in order of occurrence; -1 for other words, which are not stored."""

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


def _combine_directions(precision: Floats, recall: Floats, measure: Measure) -> Floats:
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
    """Return the same memory where possible, always as the same array type, so that kernels are compiled once."""
    view = np.ascontiguousarray(array, dtype).view(np.ndarray)
    view.flags.writeable = False
    return view


def _grow(array: NDArray[Any], used: int, room: int) -> NDArray[Any]:
    grown = np.zeros((room, *array.shape[1:]), array.dtype)
    grown[:used] = array[:used]
    return grown
