"""What stands in for the published encoders of the hybrid metric: sentiment by a lexicon, meaning by word vectors.

The paper reads sentiment from DeepMoji, sentences from InferSent, and words from word2vec's news vectors. None of them
is part of refaug; a signature names what was used in their place.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput
from refaug.core.installation.extras import extras_named
from refaug.core.text.words import WordTokenizer
from refaug.core.vectors.word_vectors import WordVectors
from refaug.metrics.conversations.components import Sentiment

Floats = NDArray[np.float64]

_LEAST_ASCII: Final = 0.8  # of the letters of English texts
_HELD: Final = 65_536  # texts whose sentiment or vectors are kept: a person's answer is read three times


class SentimentReader(Protocol):
    """What reads the sentiment of a text."""

    @property
    def name(self) -> str:
        """The name in signatures."""

    def require_language(self, texts: Iterable[str]) -> None:
        """Refuse texts of a language that it does not read."""

    def read(self, text: str) -> Sentiment | None:
        """Return the sentiment of a text; None where it has no words."""


class VaderSentiment:
    """The lexicon and rules of VADER, for English.

    The score is its compound score; the vector holds the shares that it calls negative, neutral and positive.
    """

    def __init__(self) -> None:
        with extras_named():
            from importlib.metadata import version  # noqa: PLC0415

            from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer  # noqa: PLC0415  an extra
        self._analyzer: Any = SentimentIntensityAnalyzer()
        self.name = f"vader[{version('vaderSentiment')}]"

    def require_language(self, texts: Iterable[str]) -> None:
        """Refuse texts whose letters are not those of English."""
        letters = ascii_letters = 0
        for text in texts:
            letters += sum(map(str.isalpha, text))
            ascii_letters += sum(character.isascii() and character.isalpha() for character in text)
        if ascii_letters < _LEAST_ASCII * letters:
            raise BadInput(
                f"VADER reads English, and {1 - ascii_letters / letters:.0%} of the letters are of other scripts",
                remedy="leave out the components of sentiment: --sentiment none",
            )

    def read(self, text: str) -> Sentiment | None:
        """Return VADER's compound score and shares."""
        if not text.strip():
            return None
        scores = self._analyzer.polarity_scores(text)
        return Sentiment(scores["compound"], (scores["neg"], scores["neu"], scores["pos"]))


class VectorReader:
    """A reader whose sentence vector is the mean of the unit vectors of its words."""

    def __init__(self, vectors: WordVectors, sentiment: SentimentReader | None) -> None:
        self._vectors = vectors
        self._sentiment = sentiment
        self._tokenize = WordTokenizer().tokenize
        self._words = lru_cache(_HELD)(self._read_words)
        self._sentiments = lru_cache(_HELD)(lambda text: sentiment.read(text) if sentiment is not None else None)

    def sentiment(self, text: str) -> Sentiment | None:
        """Return the sentiment of a text; None without words, or without a reader of sentiment."""
        return self._sentiments(text)

    def sentence_vector(self, text: str) -> Floats | None:
        """Return the mean of the words' vectors, each scaled to unit length; None where no word is known."""
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
