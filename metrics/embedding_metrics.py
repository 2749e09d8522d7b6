"""Embedding average, vector extrema, pooling and greedy matching: tokens and word vectors to `metrics.embedding`.

A text none of whose words has a vector has no score: as a reference it is left out, as a reply it gives a row of NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from core.errors import Usage
from core.word_vectors import open_word_vectors
from metrics.base import Floats, Indexes, Problem
from metrics.catalogue import MetricInfo
from metrics.embedding import EmbeddingSpace, Measure, Packed, Similarity, Weighting
from metrics.several import SingleReferenceMetric, Words

_SIMILARITIES: Final = {
    "embedding-average": Similarity.AVERAGE,
    "vector-extrema": Similarity.EXTREMA,
    "pooled": Similarity.POOLED,
    "greedy": Similarity.GREEDY,
}
NO_KNOWN_WORD: Final = Problem("no_known_word", "no word of the reply has a vector")
NO_KNOWN_REFERENCE: Final = Problem("no_known_reference", "none of its references has a word that has a vector")


class EmbeddingMetric(SingleReferenceMetric):
    """One way to compare the word vectors of two texts."""

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        chosen = dict(settings)
        if not chosen["vectors"]:
            raise Usage(f"{info.name} needs word vectors", remedy=f"{info.name}:vectors=FILE")
        self._words = Words(info.name, chosen)
        self._vectors = open_word_vectors(Path(chosen["vectors"]))
        self._space = EmbeddingSpace(self._vectors, Weighting(chosen.get("weighting", "none")))
        self._similarity = _SIMILARITIES[info.name]
        self._measure = Measure(chosen.get("measure", "mean"))
        self.info = info
        self.settings = {**chosen, "vectors": self._vectors.name, **self._words.settings}
        self.choose_references(chosen)

    def versions(self) -> Mapping[str, str]:
        """The tokenizer's, and where the words' probabilities come from if they count."""
        weighed = self._space.weighting is Weighting.SIF
        return {
            **({"frequencies": self._vectors.frequency_source} if weighed else {}),
            **self._words.versions(),
        }

    def undefined(self) -> Problem:
        """The reply has no known word; references without one are not there."""
        return NO_KNOWN_WORD

    def unusable(self) -> Problem:
        """No reference has a known word."""
        return NO_KNOWN_REFERENCE

    def read(self, texts: list[str]) -> Packed:
        """The known words."""
        return self._space.pack(self._words.of(texts))

    def usable(self, read: Any) -> NDArray[np.bool_]:
        """Those with a known word."""
        return np.asarray(read.known > 0)

    def pair_values(self, replies: Any, references: Any, reply: Indexes, reference: Indexes) -> Floats:
        """The similarity of each pair."""
        return self._space.pair_scores(
            replies, references, reply, reference, similarity=self._similarity, measure=self._measure
        )


def build(info: MetricInfo, settings: Mapping[str, str]) -> EmbeddingMetric:
    """Make one from checked settings."""
    return EmbeddingMetric(info, settings)
