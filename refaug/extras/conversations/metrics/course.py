"""The course of a conversation: what the scores of a bot's replies, one after the other, say of the whole."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FIGURES: Final = ("mean", "worst", "slope", "first", "second")


@dataclass(frozen=True, kw_only=True, slots=True)
class Course:
    """Figures of the scores of a conversation; NaN where one is not defined."""

    mean: float
    worst: float
    slope: float  # of the least-squares line through the scores, a reply further
    first: float  # the mean of the first half of the replies; a reply in the middle belongs to neither
    second: float
    scored: int
    replies: int


def course_of(scores: Floats) -> Course:
    """Return the course of scores that are higher for better replies, in order; NaN is a reply without a score."""
    places = np.flatnonzero(~np.isnan(scores))
    half = len(scores) // 2
    return Course(
        mean=_mean(scores),
        worst=float(scores[places].min()) if len(places) else math.nan,
        slope=_slope(places.astype(np.float64), scores[places]),
        first=_mean(scores[:half]),
        second=_mean(scores[len(scores) - half :]),
        scored=len(places),
        replies=len(scores),
    )


def _slope(places: Floats, scores: Floats) -> float:
    if len(places) < 2:
        return math.nan
    distances = places - places.mean()
    return float(distances @ (scores - scores.mean()) / (distances @ distances))


def _mean(scores: Floats) -> float:
    defined = scores[~np.isnan(scores)]
    return math.fsum(defined) / len(defined) if len(defined) else math.nan
