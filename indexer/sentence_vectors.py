"""Token codes to sentence vectors: the weighted sum of a text's word vectors, scaled to unit length.

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

from core.errors import Usage
from core.kernels import compiled, frozen
from core.word_vectors import WordVectors

Codes = NDArray[np.int32]
Offsets = NDArray[np.int64]
Known = NDArray[np.bool_]
Numbers = NDArray[np.float64]
Vectors = NDArray[np.float32]

UNKNOWN_WORD: Final = "<unk>"
_RAREST: Final = 100  # so many words the original GloVe program averages for its <unk>
_STEPS: Final = 1e6  # similarities are told apart to 1e-6


@dataclass(frozen=True, kw_only=True)
class SentenceSettings:
    """How the vectors of words become the vector of a sentence."""

    norm_words: bool = True  # each word vector is scaled to unit length first, as in the code of Tsuta et al. (2020)
    oov: Literal["skip", "unk"] = "skip"  # "unk": words without a vector count with that of <unk>
    weighting: Literal["mean", "sif"] = "mean"  # "sif": a / (a + p(w)), Arora et al. (2017), without their projection
    sif_a: float = 1e-3

    def __post_init__(self) -> None:
        if self.oov not in ("skip", "unk"):
            raise Usage(f"oov={self.oov!r} is not known", remedy="one of: skip, unk")
        if self.weighting not in ("mean", "sif"):
            raise Usage(f"weighting={self.weighting!r} is not known", remedy="one of: mean, sif")
        if not 0 < self.sif_a < np.inf:
            raise Usage(f"sif_a={self.sif_a} is no positive number", remedy="give one such as 0.001")


class WordWeights(NamedTuple):
    """What a word adds to its sentence's vector: `scale` times its row. Kernels take it as it is."""

    matrix: NDArray[np.float32]  # (words, dimensions), mapped, not copied
    scale: Numbers  # (words,)
    unknown: Numbers  # (dimensions,) what any unknown word adds; (0,) where they are skipped

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
    """Smooth inverse frequency, a / (a + p(w))."""
    return np.asarray(a / (a + vectors.frequencies(rows)))


def _unknown(vectors: WordVectors, settings: SentenceSettings) -> Numbers:
    """What an unknown word adds: the vector of <unk>, else the mean of the rarest words'; as rare as the last word."""
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
def dot(left: Numbers, right: Numbers) -> float:
    """The sum of products in eight lanes: each eighth to the same one, the rest to the first, the lanes added pairwise.

    A plain loop would wait for each addition; numpy's and BLAS's own order depends on their version and the processor.
    """
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    whole = left.size - left.size % 8
    for j in range(0, whole, 8):
        a += left[j] * right[j]
        b += left[j + 1] * right[j + 1]
        c += left[j + 2] * right[j + 2]
        d += left[j + 3] * right[j + 3]
        e += left[j + 4] * right[j + 4]
        f += left[j + 5] * right[j + 5]
        g += left[j + 6] * right[j + 6]
        h += left[j + 7] * right[j + 7]
    for j in range(whole, left.size):
        a += left[j] * right[j]
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@compiled
def add_words(weights: WordWeights, codes: Codes, start: int, end: int, sums: Numbers) -> float:
    """Fill in the sum of a text's words, one after the other; give its length, 0 where the text has no vector."""
    known = False
    sums[:] = 0.0
    for place in range(start, end):
        code = codes[place]
        if 0 <= code < weights.scale.size:
            known = True
            scale, row = weights.scale[code], weights.matrix[code]
            for j in range(sums.size):
                sums[j] += scale * row[j]
        else:
            for j in range(weights.unknown.size):
                sums[j] += weights.unknown[j]
    return np.sqrt(dot(sums, sums)) if known else 0.0


@compiled
def row_similarity(weights: WordWeights, codes: Codes, start: int, end: int, query: Numbers, scratch: Numbers) -> float:
    """The cosine of a text, the codes from `start` to `end`, and a query of unit length, rounded to 1e-6.

    The text's vector is made anew in `scratch`, (dimensions,). Without a vector the similarity is 0.
    """
    length = add_words(weights, codes, start, end, scratch)
    if length == 0.0:
        return 0.0
    return np.rint(dot(scratch, query) / length * _STEPS) / _STEPS  # type: ignore[no-any-return]


# Many texts


def embed(weights: WordWeights, codes: Codes, offsets: Offsets, threads: int = 1) -> tuple[Vectors, Known]:
    """The vectors of texts, (texts, dimensions), of unit length; and which texts have one. The others' rows are 0."""
    texts = offsets.size - 1
    vectors = np.empty((texts, weights.dimensions), np.float32)
    known = np.empty(texts, np.bool_)
    codes, offsets = frozen(codes), frozen(offsets)
    parts = min(threads, texts)
    if parts <= 1:
        _embed_rows(weights, codes, offsets, 0, texts, vectors, known)
        return vectors, known
    bounds = np.searchsorted(offsets, np.linspace(offsets[0], offsets[-1], parts + 1)[1:-1]).tolist()
    with ThreadPoolExecutor(parts) as pool:
        work = [
            pool.submit(_embed_rows, weights, codes, offsets, first, last, vectors, known)
            for first, last in zip([0, *bounds], [*bounds, texts], strict=True)
        ]
    for part in work:
        part.result()
    return vectors, known


def sentence_lengths(weights: WordWeights, codes: Codes, offsets: Offsets) -> NDArray[np.float32]:
    """How long the sums of texts' words are before they are scaled, 0 for a text without a vector."""
    lengths = np.empty(offsets.size - 1, np.float32)
    _measure_rows(weights, frozen(codes), frozen(offsets), lengths)
    return lengths


def query_vectors(weights: WordWeights, codes: Codes, offsets: Offsets) -> tuple[Numbers, Known]:
    """The vectors of texts before they are rounded to float32: what similarities are computed from."""
    texts = offsets.size - 1
    vectors, known = np.empty((texts, weights.dimensions)), np.empty(texts, np.bool_)
    _embed_rows(weights, frozen(codes), frozen(offsets), 0, texts, vectors, known)
    return vectors, known


def exact_similarities(
    weights: WordWeights, codes: Codes, offsets: Offsets, query: Numbers, rows: NDArray[np.int64]
) -> Numbers:
    """The similarity of these rows, texts of `offsets`, to a query of unit length, in the order of `rows`."""
    similarities = np.empty(rows.size)
    _similarities(weights, frozen(codes), frozen(offsets), frozen(query), frozen(rows), similarities)
    return similarities


@compiled
def _embed_rows(
    weights: WordWeights, codes: Codes, offsets: Offsets, first: int, last: int, vectors: NDArray[Any], known: Known
) -> None:
    """Fill in the vectors of texts `first` to `last`, rounded to the type of `vectors`."""
    sums = np.empty(weights.matrix.shape[1], np.float64)
    for text in range(first, last):
        length = add_words(weights, codes, offsets[text], offsets[text + 1], sums)
        known[text] = length > 0.0
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
def _similarities(
    weights: WordWeights,
    codes: Codes,
    offsets: Offsets,
    query: Numbers,
    rows: NDArray[np.int64],
    similarities: Numbers,
) -> None:
    scratch = np.empty(weights.matrix.shape[1], np.float64)
    for place in range(rows.size):
        start, end = offsets[rows[place]], offsets[rows[place] + 1]
        similarities[place] = row_similarity(weights, codes, start, end, query, scratch)


@compiled
def _inverse_lengths(matrix: NDArray[np.float32], scale: Numbers) -> None:
    """Fill in 1 / |row|, 0 for a row of zeros."""
    row = np.empty(matrix.shape[1], np.float64)
    for word in range(matrix.shape[0]):
        row[:] = matrix[word]
        length = np.sqrt(dot(row, row))
        scale[word] = 1.0 / length if length > 0.0 else 0.0
