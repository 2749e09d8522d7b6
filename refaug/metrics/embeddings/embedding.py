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

from refaug.metrics.embeddings import embedding_kernels

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
        embedding_kernels.scale_to_unit(self._matrix, rows, self._unit[new])
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
            precision, recall = embedding_kernels.greedy_pairs(
                self._unit, self._weights, *texts, _MOST_ROWS, _MOST_COLUMNS
            )
            return _combine_directions(precision, recall, measure)
        if similarity is Similarity.EXTREMA:
            return np.asarray(embedding_kernels.extrema_pairs(self._matrix, self._rows, *texts))
        if similarity is Similarity.POOLED:
            return np.asarray(embedding_kernels.pooled_pairs(self._matrix, self._rows, *texts))
        return np.asarray(embedding_kernels.average_pairs(self._matrix, self._rows, self._weights, *texts))

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
