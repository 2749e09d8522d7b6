"""Sentence vectors from word codes: the weighted sum of a text's word vectors, scaled to unit length.

Everything is summed in float64 in one fixed order (the words of a text as they are stored, products in eight lanes that
are added up in a fixed order) and without fused operations: the same texts have the same vectors, to the last bit, in
any batch, on any number of threads and on every machine with IEEE arithmetic.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.core.kernels.kernel import compiled, frozen
from refaug.core.vectors.word_vectors import WordVectors

Codes = NDArray[np.int32]
Offsets = NDArray[np.int64]
Known = NDArray[np.bool_]
Numbers = NDArray[np.float64]
Vectors = NDArray[np.float32]

UNKNOWN_WORD: Final = "<unk>"
_RAREST: Final = 100  # the original GloVe program averages so many words for its <unk>
_STEPS: Final = 1e6  # similarities are distinguished to 1e-6


@dataclass(frozen=True, kw_only=True)
class SentenceSettings:
    """How word vectors become the vector of a sentence."""

    norm_words: bool = True  # scale each word vector to unit length first, as in the code of Tsuta et al. (2020)
    oov: Literal["skip", "unk"] = "skip"  # "unk": words without a vector count with the vector of <unk>
    weighting: Literal["mean", "sif"] = "mean"  # "sif": a / (a + p(w)), Arora et al. (2017), without their projection
    sif_a: float = 1e-3

    def __post_init__(self) -> None:
        if self.oov not in ("skip", "unk"):
            raise Usage(f"oov={self.oov!r} is not known", remedy="one of: skip, unk")
        if self.weighting not in ("mean", "sif"):
            raise Usage(f"weighting={self.weighting!r} is not known", remedy="one of: mean, sif")
        if not 0 < self.sif_a < np.inf:
            raise Usage(f"sif_a={self.sif_a} is not a positive number", remedy="give one such as 0.001")


class WordWeights(NamedTuple):
    """What a word adds to its sentence's vector: `scale` times its row; compiled loops take this tuple directly."""

    matrix: NDArray[np.float32]  # (words, dimensions), mapped, not copied
    scale: Numbers  # (words,)
    unknown: Numbers  # (dimensions,) what any unknown word adds; (0,) if they are skipped

    @classmethod
    def of(cls, vectors: WordVectors, settings: SentenceSettings) -> Self:
        """Weigh the words of these vectors; with norm_words every row is read once."""
        matrix = frozen(vectors.matrix)
        scale = np.ones(len(matrix))
        if settings.norm_words:
            _inverse_lengths(matrix, scale)
        if settings.weighting == "sif":
            scale *= _sif(vectors, np.arange(len(matrix)), settings.sif_a)
        unknown = _unknown(vectors, settings) if settings.oov == "unk" else np.zeros(0)
        return cls(matrix, frozen(scale), frozen(unknown))

    @property
    def dimensions(self) -> int:
        """The length of a sentence's vector."""
        return int(self.matrix.shape[1])


def _sif(vectors: WordVectors, rows: NDArray[np.int64], a: float) -> Numbers:
    """Return smooth inverse frequencies, a / (a + p(w))."""
    return np.asarray(a / (a + vectors.frequencies(rows)))


def _unknown(vectors: WordVectors, settings: SentenceSettings) -> Numbers:
    """Return what an unknown word adds: the vector of <unk>, else the mean of the rarest words.

    Its weight is that of the last word, the rarest one.
    """
    row = vectors.index.get(UNKNOWN_WORD)
    rows = vectors.matrix[-_RAREST:] if row is None else vectors.matrix[row : row + 1]
    unknown: Numbers = rows.sum(axis=0, dtype=np.float64) / max(1, len(rows))
    if settings.norm_words:
        length = float(np.sqrt(dot(unknown, unknown)))
        unknown *= 1 / length if length else 0.0
    if settings.weighting == "sif" and len(rows):
        unknown *= _sif(vectors, np.array([len(vectors.matrix) - 1]), settings.sif_a)
    return unknown


# One text


@compiled
def dot(first: Numbers, second: Numbers) -> float:
    """Return the sum of products in eight lanes: each eighth goes to one lane, and the lanes are added pairwise.

    The rest after the last whole eight goes to the first lane. A plain loop would wait for each addition; the order
    of numpy and BLAS depends on their version and the processor.
    """
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    whole = first.size - first.size % 8
    for j in range(0, whole, 8):
        a += first[j] * second[j]
        b += first[j + 1] * second[j + 1]
        c += first[j + 2] * second[j + 2]
        d += first[j + 3] * second[j + 3]
        e += first[j + 4] * second[j + 4]
        f += first[j + 5] * second[j + 5]
        g += first[j + 6] * second[j + 6]
        h += first[j + 7] * second[j + 7]
    for j in range(whole, first.size):
        a += first[j] * second[j]
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@compiled
def add_words(weights: WordWeights, codes: Codes, start: int, end: int, sums: Numbers) -> float:
    """Fill in the sum of a text's words, one after the other; return its length, 0 if the text has no vector."""
    has_known_word = False
    sums[:] = 0.0
    for place in range(start, end):
        code = codes[place]
        if 0 <= code < weights.scale.size:
            has_known_word = True
            scale, row = weights.scale[code], weights.matrix[code]
            for j in range(sums.size):
                sums[j] += scale * row[j]
        else:
            for j in range(weights.unknown.size):
                sums[j] += weights.unknown[j]
    return np.sqrt(dot(sums, sums)) if has_known_word else 0.0


@compiled
def row_similarity(weights: WordWeights, codes: Codes, start: int, end: int, query: Numbers, scratch: Numbers) -> float:
    """Return the cosine of a text, the codes from `start` to `end`, and a query of unit length, rounded to 1e-6.

    The text's vector is computed in `scratch`, (dimensions,). Without a vector the similarity is 0.
    """
    length = add_words(weights, codes, start, end, scratch)
    if length == 0.0:
        return 0.0
    return np.rint(dot(scratch, query) / length * _STEPS) / _STEPS  # type: ignore[no-any-return]


# Many texts


def embed(weights: WordWeights, codes: Codes, offsets: Offsets, threads: int = 1) -> tuple[Vectors, Known]:
    """Return the unit vectors of texts, (texts, dimensions), and which texts have one; the other rows are 0."""
    texts = offsets.size - 1
    vectors = np.empty((texts, weights.dimensions), np.float32)
    has_vector = np.empty(texts, np.bool_)
    codes, offsets = frozen(codes), frozen(offsets)
    parts = min(threads, texts)
    if parts <= 1:
        _embed_rows(weights, codes, offsets, 0, texts, vectors, has_vector)
        return vectors, has_vector
    bounds = np.searchsorted(offsets, np.linspace(offsets[0], offsets[-1], parts + 1)[1:-1]).tolist()
    with ThreadPoolExecutor(parts) as pool:
        tasks = [
            pool.submit(_embed_rows, weights, codes, offsets, first, last, vectors, has_vector)
            for first, last in zip([0, *bounds], [*bounds, texts], strict=True)
        ]
    for task in tasks:
        task.result()
    return vectors, has_vector


def sentence_lengths(weights: WordWeights, codes: Codes, offsets: Offsets) -> NDArray[np.float32]:
    """Return the lengths of texts' sums of words before scaling, 0 for a text without a vector."""
    lengths = np.empty(offsets.size - 1, np.float32)
    _measure_rows(weights, frozen(codes), frozen(offsets), lengths)
    return lengths


def query_vectors(weights: WordWeights, codes: Codes, offsets: Offsets) -> tuple[Numbers, Known]:
    """Return the vectors of texts in float64, from which similarities are computed, and which texts have one."""
    texts = offsets.size - 1
    vectors, has_vector = np.empty((texts, weights.dimensions)), np.empty(texts, np.bool_)
    _embed_rows(weights, frozen(codes), frozen(offsets), 0, texts, vectors, has_vector)
    return vectors, has_vector


@compiled
def _embed_rows(
    weights: WordWeights,
    codes: Codes,
    offsets: Offsets,
    first: int,
    last: int,
    vectors: NDArray[Any],
    has_vector: Known,
) -> None:
    """Fill in the vectors of texts `first` to `last`, rounded to the type of `vectors`."""
    sums = np.empty(weights.matrix.shape[1], np.float64)
    for text in range(first, last):
        length = add_words(weights, codes, offsets[text], offsets[text + 1], sums)
        has_vector[text] = length > 0.0
        if length > 0.0:
            for j in range(sums.size):
                vectors[text, j] = sums[j] / length
        else:
            vectors[text, :] = 0.0


@compiled
def _measure_rows(weights: WordWeights, codes: Codes, offsets: Offsets, lengths: NDArray[np.float32]) -> None:
    sums = np.empty(weights.matrix.shape[1], np.float64)
    for text in range(lengths.size):
        lengths[text] = add_words(weights, codes, offsets[text], offsets[text + 1], sums)


@compiled
def _inverse_lengths(matrix: NDArray[np.float32], scale: Numbers) -> None:
    """Fill in 1 / |row|, 0 for a row of zeros."""
    row = np.empty(matrix.shape[1], np.float64)
    for word in range(matrix.shape[0]):
        row[:] = matrix[word]
        length = np.sqrt(dot(row, row))
        scale[word] = 1.0 / length if length > 0.0 else 0.0
