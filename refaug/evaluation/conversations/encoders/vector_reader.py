"""What the components ask about texts: words and meaning from vectors, sentiment from a reader of it."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from refaug.core.text.words import WordTokenizer
from refaug.core.vectors.word_vectors import WordVectors
from refaug.evaluation.conversations.encoders.sentiment_readers import SentimentReader
from refaug.metrics.conversations.components import Sentiment

Floats = NDArray[np.float64]

_HELD: Final = 65_536  # texts whose sentiment or vectors are kept: a person's answer is read three times


class MeaningEncoder(Protocol):
    """What gives a text one vector for its meaning."""

    @property
    def name(self) -> str:
        """The name in signatures."""

    def encode(self, text: str) -> Floats | None:
        """Return the vector of a text; None where nothing in it is known."""


class VectorReader:
    """A reader whose sentence vector is an encoder's, or without one the mean of the unit vectors of its words."""

    def __init__(
        self, vectors: WordVectors, sentiment: SentimentReader | None, meaning: MeaningEncoder | None = None
    ) -> None:
        self._vectors = vectors
        self._meaning = lru_cache(_HELD)(meaning.encode) if meaning is not None else self._mean_of_words
        self._tokenize = WordTokenizer().tokenize
        self._words = lru_cache(_HELD)(self._read_words)
        self._sentiments = lru_cache(_HELD)(lambda text: sentiment.read(text) if sentiment is not None else None)

    def sentiment(self, text: str) -> Sentiment | None:
        """Return the sentiment of a text; None without words, or without a reader of sentiment."""
        return self._sentiments(text)

    def sentence_vector(self, text: str) -> Floats | None:
        """Return the vector of the whole text; None where nothing in it is known."""
        return self._meaning(text)

    def _mean_of_words(self, text: str) -> Floats | None:
        """Return the mean of the words' vectors, each scaled to unit length."""
        words = self._words(text)
        if not len(words):
            return None
        lengths = np.linalg.norm(words, axis=1, keepdims=True)
        return np.asarray(np.divide(words, lengths, out=np.zeros_like(words), where=lengths > 0).mean(axis=0))

    def word_vectors(self, text: str) -> Floats:
        """Return the vectors of the known words of a text."""
        return self._words(text)

    def tokens(self, text: str) -> list[str]:
        """Return the words and marks of a text."""
        return self._tokenize(text)

    def _read_words(self, text: str) -> Floats:
        rows = self._vectors.rows_of(self._tokenize(text))
        return np.asarray(self._vectors.matrix[rows[rows >= 0]], np.float64)
