"""Maps from scores to people's ratings, linear and isotonic, and from how many labels on each is worth its labels.

A map is fitted to the labels of some contexts and measured on those of others, so that no row is predicted by a map
that saw its context. Without a map, a score from 0 to 1 is a place on the scale of the ratings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np
from scipy.optimize import isotonic_regression

from refaug.metrics.statistics.clustered_figures import clustered_mean
from refaug.metrics.statistics.resampling import Floats, Labels

ScoreMap = Callable[[Floats], Floats]
_FOLDS: Final = 5
_SPLITS: Final = 20
_SIZES: Final = (10, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1_000)
_LEVEL: Final = 0.05


def linear_map(scores: Floats, ratings: Floats) -> ScoreMap:
    """Return the line of least squares."""
    spread = float(np.var(scores))
    slope = float(np.mean((scores - scores.mean()) * (ratings - ratings.mean()))) / spread if spread else 0.0
    return lambda values: ratings.mean() + slope * (values - scores.mean())


def isotonic_map(scores: Floats, ratings: Floats) -> ScoreMap:
    """Return the rising steps of least squares, linear between them and flat beyond them."""
    distinct, place = np.unique(scores, return_inverse=True)
    counts = np.bincount(place)
    means = np.bincount(place, weights=ratings) / counts
    steps = isotonic_regression(means, weights=counts).x
    return lambda values: np.interp(values, distinct, steps)


MAPS: Final[Mapping[str, Callable[[Floats, Floats], ScoreMap]]] = {"linear": linear_map, "isotonic": isotonic_map}


@dataclass(frozen=True, slots=True, kw_only=True)
class MapFigures:
    """The error of a map on contexts that it did not see, and the fewest labels from which on it is less than without.

    `pays_from` is None where no number of these labels shows that.
    """

    error: float  # root of the mean square
    pays_from: int | None = None


def map_figures(
    scores: Floats, ratings: Floats, contexts: Labels, scale: tuple[float, float], *, seed: int = 0
) -> dict[str, MapFigures]:
    """Return the errors without a map and with each, cross-fitted over contexts."""
    numbers = np.unique(contexts, return_inverse=True)[1]
    plain = (scale[0] + scores * (scale[1] - scale[0]) - ratings) ** 2
    figures = {"none": MapFigures(error=sqrt(float(plain.mean())))}
    folds = np.random.default_rng(seed).permutation(int(numbers.max()) + 1) % _FOLDS
    for name, fit in MAPS.items():
        errors = np.empty(len(scores))
        for fold in range(_FOLDS):
            is_out = folds[numbers] == fold
            if is_out.any():
                errors[is_out] = fit(scores[~is_out], ratings[~is_out])(scores[is_out]) - ratings[is_out]
        pays_from = _pays_from(fit, scores, ratings, numbers, plain, seed)
        figures[name] = MapFigures(error=sqrt(float((errors**2).mean())), pays_from=pays_from)
    return figures


def _pays_from(
    fit: Callable[[Floats, Floats], ScoreMap],
    scores: Floats,
    ratings: Floats,
    numbers: Labels,
    plain: Floats,
    seed: int,
) -> int | None:
    """Return the least number of labels at which, and beyond which, a map is shown to predict better than none.

    Splits of one size share contexts, so a row has one gain, the mean over the splits that left it out.
    """
    random, contexts = np.random.default_rng(seed), int(numbers.max()) + 1
    pays_from = None
    for size in [size for size in _SIZES if size <= 0.8 * len(scores)]:
        gains, counts = np.zeros(len(scores)), np.zeros(len(scores))
        for _ in range(_SPLITS):
            order = random.permutation(contexts)[numbers]
            chosen = np.argsort(order, kind="stable")[:size]
            is_out = order > order[chosen].max()
            if not is_out.any():
                continue
            error = (fit(scores[chosen], ratings[chosen])(scores[is_out]) - ratings[is_out]) ** 2
            gains[is_out] += plain[is_out] - error
            counts[is_out] += 1
        means = np.where(counts > 0, gains / np.maximum(counts, 1), np.nan)
        shown = clustered_mean(means, numbers, side="greater")
        if shown.p is None or shown.p >= _LEVEL:
            pays_from = None
        elif pays_from is None:
            pays_from = size
    return pays_from
