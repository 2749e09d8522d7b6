"""Embedding average, vector extrema and greedy matching as nlg-eval computes them.

Words without a vector have the mean of all vectors, so that they pull every text towards the same point; the metrics of
`refaug.metrics` leave them out. Cosines with a zero vector are 0. An empty reply scores 0, where nlg-eval stops.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.vectors.word_vectors import WordVectors, open_word_vectors
from refaug.library.nlgeval.meteor_words import english_words
from refaug.library.nlgeval.named_scores import AVERAGE, EXTREMA, GREEDY

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EmbeddedText:
    """The vectors of a text's words, with their sum, extreme values and unit vectors."""

    total: Floats
    extrema: Floats
    units: Floats  # (words, dimensions)


class EmbeddingScorer:
    """The three similarities over one file of word vectors."""

    def __init__(self, vectors: Path) -> None:
        self._vectors: WordVectors = open_word_vectors(vectors)
        self._unknown = np.asarray(self._vectors.matrix.mean(axis=0), np.float64)
        self._tokenize = word_tokenizer()
        self.name = self._vectors.name

    def embed(self, text: str) -> EmbeddedText | None:
        """Return a text's vectors; None for a text without a word."""
        rows = self._vectors.rows_of(self._tokenize(text))
        if not len(rows):
            return None
        words = np.where((rows >= 0)[:, None], np.asarray(self._vectors.matrix[rows], np.float64), self._unknown)
        high, low = words.max(axis=0), words.min(axis=0)
        return EmbeddedText(
            total=words.sum(axis=0),
            extrema=np.where((low != 0) & (high > np.abs(low)), high, low),  # nlg-eval takes the 0 of a lowest 0
            units=_units(words),
        )

    def mean_scores(self, items: Sequence[tuple[str, Sequence[str]]], names: Collection[str]) -> dict[str, float]:
        """Return the named similarities of replies to their references, each the mean over the replies."""
        embed = functools.lru_cache(maxsize=2**14)(self.embed)
        pairs = [
            (embed(reply), [embedded for text in references if (embedded := embed(text)) is not None])
            for reply, references in items
        ]
        return {name: _mean_best(pairs, similarity) for name, similarity in _SIMILARITIES.items() if name in names}


def _mean_best(
    pairs: Sequence[tuple[EmbeddedText | None, Sequence[EmbeddedText]]],
    similarity: Callable[[EmbeddedText, EmbeddedText], float],
) -> float:
    """Return the mean over the replies of the similarity to the most similar reference."""
    best = [
        max((similarity(reply, reference) for reference in references), default=0.0) if reply is not None else 0.0
        for reply, references in pairs
    ]
    return sum(best) / len(best)


def _average(reply: EmbeddedText, reference: EmbeddedText) -> float:
    return _cosine(reply.total, reference.total)


def _extrema(reply: EmbeddedText, reference: EmbeddedText) -> float:
    return _cosine(reply.extrema, reference.extrema)


def _greedy(reply: EmbeddedText, reference: EmbeddedText) -> float:
    cosines = reference.units @ reply.units.T
    return float(cosines.max(axis=0).mean() + cosines.max(axis=1).mean()) / 2


_SIMILARITIES: Final = {AVERAGE: _average, EXTREMA: _extrema, GREEDY: _greedy}


def _cosine(first: Floats, second: Floats) -> float:
    norms = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / norms if norms > 0 else 0.0


def _units(vectors: Floats) -> Floats:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1.0))


@functools.cache
def word_tokenizer() -> Callable[[str], list[str]]:
    """Return nltk's tokenizer of words, after its splitter of sentences without the trained model, a download."""
    from nltk.tokenize import NLTKWordTokenizer  # noqa: PLC0415  half a second
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer  # noqa: PLC0415

    parameters: Any = PunktParameters()
    parameters.abbrev_types = set(english_words("abbreviations"))  # nlg-eval has a trained list of them
    sentences, words = PunktSentenceTokenizer(parameters), NLTKWordTokenizer()
    return lambda text: [word for sentence in sentences.tokenize(text) for word in words.tokenize(sentence)]
