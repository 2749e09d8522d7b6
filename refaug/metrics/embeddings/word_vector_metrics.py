"""Embedding average, vector extrema, pooling and greedy matching as metrics.

A text without a known word has no score: as a reference it is left out, as a reply it gives a row of NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.metrics.base import Floats, Indexes, Problem, References
from refaug.metrics.embeddings.embedding import EmbeddingSpace, Measure, PackedWords, Similarity, Weighting
from refaug.metrics.metric_info import MetricInfo
from refaug.metrics.models.model_kinds import PathVectors, VectorOpener
from refaug.metrics.shared_parameters import VECTORS
from refaug.metrics.single_reference import MetricTokenizer, SingleReferenceMetric

# ── Explanations: the word of the other text that each word resembles most, and how much ──────────────────────────────

_MAX_WORDS: Final = 200  # of a text
_MAX_REFERENCES: Final = 30  # those that the reply resembles most


@dataclass(frozen=True, eq=False)
class WordVectorsOfText:
    """The words of a text in order, with their vectors; a word without a vector has a row of zeros."""

    words: Sequence[str]
    vectors: NDArray[np.floating[Any]]  # (words, dimensions)

    def cosines(self, other: WordVectorsOfText) -> NDArray[np.float64]:
        """Return the cosine of every word of this text and every word of the other; NaN where one has no vector."""
        return _unit(self.vectors[:_MAX_WORDS]) @ _unit(other.vectors[:_MAX_WORDS]).T


def _unit(vectors: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    rows = vectors.astype(np.float64)
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return rows / np.where(lengths > 0, lengths, np.nan)


def soft_matches(
    reply: WordVectorsOfText, texts: Sequence[WordVectorsOfText], references: References
) -> list[dict[str, Any]]:
    """Return the best match of each word of the reply in each reference, and of each word of these in the reply.

    References that the reply resembles most come first, each counted with its weight; beyond a number they are left
    out.
    """
    matches = list[dict[str, Any]]()
    for place, text in enumerate(texts):
        cosines = reply.cosines(text)
        of_reply, of_text = _best_words(reply, text, cosines), _best_words(text, reply, cosines.T)
        matches.append({"reference": place, "weight": references.weights[place], "reply": of_reply, "words": of_text})
    return sorted(matches, key=lambda match: (-_mean_similarity(match) * match["weight"], match["reference"]))[
        :_MAX_REFERENCES
    ]


def _best_words(
    text: WordVectorsOfText, other: WordVectorsOfText, cosines: NDArray[np.float64]
) -> list[dict[str, Any]]:
    """Return each word with the word of the other text that is most similar; None where there is none."""
    rows = list[dict[str, Any]]()
    for word, row in zip(text.words[:_MAX_WORDS], cosines, strict=True):
        if not len(row) or np.isnan(row).all():
            rows.append({"word": word, "match": None, "similarity": None})
        else:
            best = int(np.nanargmax(row))
            rows.append({"word": word, "match": other.words[best], "similarity": round(float(row[best]), 6)})
    return rows


def _mean_similarity(match: dict[str, Any]) -> float:
    similarities = [row["similarity"] for row in match["reply"] if row["similarity"] is not None]
    return sum(similarities) / len(similarities) if similarities else 0.0


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

    def __init__(self, info: MetricInfo, settings: Mapping[str, str], source: VectorOpener | None = None) -> None:
        chosen = dict(settings)
        if not chosen["vectors"]:
            raise VECTORS.missing(info.name)
        self._words = MetricTokenizer(info.name, chosen)
        self._vectors, spec = (source or PathVectors()).vectors(chosen["vectors"])
        self._space = EmbeddingSpace(self._vectors, Weighting(chosen.get("weighting", "none")))
        self._similarity = _SIMILARITIES[info.name]
        self._measure = Measure(chosen.get("measure", "mean"))
        self.info = info
        self.settings = {**chosen, "vectors": spec, **self._words.settings}
        self.choose_references(chosen)

    def versions(self) -> Mapping[str, str]:
        """Return the tokenizer's, and the source of the word probabilities if they count."""
        has_weights = self._space.weighting is Weighting.SIF
        return {
            **({"frequencies": self._vectors.frequency_source} if has_weights else {}),
            **self._words.versions(),
        }

    def undefined(self) -> Problem:
        """The reply has no known word; references without one are left out."""
        return NO_KNOWN_WORD

    def unusable(self) -> Problem:
        """No reference has a known word."""
        return NO_KNOWN_REFERENCE

    def matches(self, reply: str, references: References) -> list[dict[str, object]] | None:
        """Return the best match of each word; only greedy matching compares words with words."""
        if self._similarity is not Similarity.GREEDY:
            return None
        first, *others = (
            WordVectorsOfText(words, self._space.vectors_of(words))
            for words in self._words.of([reply, *references.texts])
        )
        return soft_matches(first, others, references)

    def words_of(self, reply: str) -> list[str] | None:
        """Return the words that are compared with words."""
        return self._words.of([reply])[0] if self._similarity is Similarity.GREEDY else None

    def read(self, texts: list[str]) -> PackedWords:
        """Return the known words."""
        return self._space.pack(self._words.of(texts))

    def usable(self, read: Any) -> NDArray[np.bool_]:
        """Return which texts have a known word."""
        return np.asarray(read.known > 0)

    def pair_values(self, replies: Any, references: Any, reply_places: Indexes, reference_places: Indexes) -> Floats:
        """Return the similarity of each pair."""
        return self._space.pair_scores(
            replies, references, reply_places, reference_places, similarity=self._similarity, measure=self._measure
        )
