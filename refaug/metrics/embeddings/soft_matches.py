"""Explanations of soft matches: the word of the other text that each word resembles most, and how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.metrics.base import References

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
