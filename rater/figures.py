"""How good a rater's answers are: how well they tell positives from negatives, and whether they mean what they say."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

Probabilities = NDArray[np.float64]
Labels = NDArray[np.bool_]

_BINS: Final = 15
_WIDEST: Final = 40.0  # of a log-odds: beyond, a double is 0 or 1


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Answers of like probability: how many there are, what they say on average, and how many are positive."""

    count: int
    said: float
    true: float


def reliability(likely: Probabilities, positive: Labels, bins: int = _BINS) -> list[Bin]:
    """The answers in bins of equal width; empty ones are left out."""
    numbers = np.minimum((likely * bins).astype(np.int64), bins - 1)
    return [
        Bin(count=int(here.sum()), said=float(likely[here].mean()), true=float(positive[here].mean()))
        for here in (numbers == number for number in np.unique(numbers))
    ]


def calibration_error(likely: Probabilities, positive: Labels, bins: int = _BINS) -> float:
    """The expected calibration error: the mean distance between what is said and what is so, over all answers."""
    return sum(one.count * abs(one.said - one.true) for one in reliability(likely, positive, bins)) / len(likely)


def with_temperature(likely: Probabilities, temperature: float) -> Probabilities:
    """The same answers less sure of themselves (above 1), or surer."""
    odds = np.clip(logit(likely), -_WIDEST, _WIDEST)
    return np.asarray(expit(odds / temperature))


def fitted_temperature(likely: Probabilities, positive: Labels) -> float:
    """The temperature at which what was true was the most likely."""
    from scipy.optimize import minimize_scalar  # noqa: PLC0415  half a second to import, which a server does without

    odds = np.clip(logit(likely), -_WIDEST, _WIDEST)
    truth = np.where(positive, odds, -odds)

    def loss(log_temperature: float) -> float:
        return float(np.logaddexp(0, -truth / np.exp(log_temperature)).mean())

    found = minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded")
    return float(np.exp(found.x))


def auc(scores: NDArray[np.float64], positive: Labels) -> float:
    """The chance that a positive is scored above a negative, ties counted half; nan without one of either."""
    order = np.argsort(scores, kind="stable")
    _, starts, counts = np.unique(scores[order], return_index=True, return_counts=True)
    ranks = np.empty(len(scores))
    ranks[order] = np.repeat(starts + (counts + 1) / 2, counts)
    several, others = int(positive.sum()), int((~positive).sum())
    if not several or not others:
        return math.nan
    return float((ranks[positive].sum() - several * (several + 1) / 2) / (several * others))
