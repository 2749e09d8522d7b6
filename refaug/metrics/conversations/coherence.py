"""How close two texts of a conversation are by the vectors of their words: average, extrema, greedy.

They are the published ones, for a pair of texts at a time. A text without a known word has no direction: its similarity
with any other is 0, as in the released code.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.metrics.conversations.variants import Greedy

Floats = NDArray[np.float64]

_SMALLEST: Final = 1e-12  # a shorter vector has no direction


def cosine(left: Floats, right: Floats) -> float:
    """Return the cosine of two vectors; 0 where one of them has no direction."""
    lengths = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float(left @ right) / lengths if lengths > _SMALLEST else 0.0


def average_coherence(left: Floats, right: Floats) -> float:
    """Return the cosine of the mean vectors of two texts, given as (words, dimensions)."""
    if not len(left) or not len(right):
        return 0.0
    return cosine(left.mean(axis=0), right.mean(axis=0))


def extrema_coherence(left: Floats, right: Floats) -> float:
    """Return the cosine of the extrema of two texts; a dimension whose ends are equally far takes the larger."""
    if not len(left) or not len(right):
        return 0.0
    return cosine(_extrema(left), _extrema(right))


def greedy_coherence(user: Floats, bot: Floats, form: Greedy = "both") -> float:
    """Return the mean of each word's best cosine in the other text.

    `both` is the mean of the two directions, as published. `user` is the released code's: for each word of the user
    the best word of the bot.
    """
    if not len(user) or not len(bot):
        return 0.0
    cosines = _unit(user) @ _unit(bot).T
    of_user = float(cosines.max(axis=1).mean())
    return of_user if form == "user" else (of_user + float(cosines.max(axis=0).mean())) / 2


def _extrema(words: Floats) -> Floats:
    largest, smallest = words.max(axis=0), words.min(axis=0)
    return np.asarray(np.where(largest >= np.abs(smallest), largest, smallest))


def _unit(words: Floats) -> Floats:
    lengths = np.linalg.norm(words, axis=1, keepdims=True)
    return np.asarray(np.divide(words, lengths, out=np.zeros_like(words), where=lengths > _SMALLEST))
