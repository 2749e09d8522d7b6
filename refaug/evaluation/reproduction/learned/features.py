"""Features for ridge regression: products of the vectors of texts, as the bilinear score multiplies them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from refaug.core.text.words import WordTokenizer
from refaug.core.vectors.word_vectors import WordVectors, open_word_vectors
from refaug.evaluation.reproduction.learned.rated_rows import LearnedRows
from refaug.metrics.base import Floats
from refaug.rater.adem.scorer.encoding import VectorCache
from refaug.rater.adem.scorer.rated_triples import Form
from refaug.rater.nn.rate import NNRater

Features = Callable[[LearnedRows], Floats]
TextVectors = Callable[[Sequence[str]], NDArray[np.float32]]


def encoder_products(cache: VectorCache, form: Form) -> Features:
    """Return the products of the reply's vector with each vector that the form compares it with."""

    def features(rows: LearnedRows) -> Floats:
        vectors = cache.triple_vectors(rows.rated.triples, form)
        own = vectors.vectors.astype(np.float64)
        return np.concatenate([own[places] * own[vectors.replies] for places in vectors.compared], axis=1)

    return features


def text_products(read: TextVectors, form: Form, *, cosines: bool) -> Features:
    """Return the same products of vectors that are read text by text, the context as its last turn; with cosines."""

    def features(rows: LearnedRows) -> Floats:
        triples = rows.rated.triples
        replies = read([triple.reply for triple in triples]).astype(np.float64)
        compared = list[NDArray[np.float32]]()
        if form.has_context:
            compared.append(read([" ".join(triple.context[-1:]) for triple in triples]))
        if form.has_reference:
            compared.append(read([triple.reference for triple in triples]))
        blocks = [np.asarray(vectors, dtype=np.float64) * replies for vectors in compared]
        if cosines:
            blocks += [_cosine(np.asarray(vectors, dtype=np.float64), replies)[:, None] for vectors in compared]
        return np.concatenate(blocks, axis=1)

    return features


def _cosine(first: Floats, second: Floats) -> Floats:
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.asarray((first * second).sum(axis=1) / np.maximum(norms, 1e-9))


class MeanWordVectors:
    """The mean of the vectors of a text's words; zeros for a text without any known word."""

    def __init__(self, path: Path) -> None:
        self._vectors: WordVectors = open_word_vectors(path)
        self._means = dict[str, NDArray[np.float32]]()

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a vector for each text."""
        return np.stack([self._mean(text) for text in texts])

    def _mean(self, text: str) -> NDArray[np.float32]:
        if text not in self._means:
            rows = self._vectors.rows_of(self._words(text))
            rows = rows[rows >= 0]
            mean = self._vectors.matrix[rows].mean(axis=0) if len(rows) else np.zeros(self._vectors.dimensions)
            self._means[text] = np.asarray(mean, dtype=np.float32)
        return self._means[text]

    def _words(self, text: str) -> Iterable[str]:
        return WordTokenizer().tokenize(text)


def rater_vectors(rater: NNRater) -> TextVectors:
    """Return a function that reads texts with the frozen reader of a rater."""
    return rater.text_vectors
