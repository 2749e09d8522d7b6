"""Intervals of correlations over bots: bots are drawn with replacement, then the conversations of each drawn bot.

Everything is fitted again in each draw. A bot that was drawn twice stands for two bots with conversations of their
own; both are left out when either is predicted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refaug.metrics.hybrid.fit import Intercept, Labels, column_means, fit_fold
from refaug.metrics.statistics.correlation import row_correlations
from refaug.metrics.statistics.resampling import percentile_interval

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Interval:
    """The middle of the draws, and how many of them had a value."""

    low: float
    high: float
    draws: int


@dataclass(frozen=True, eq=False)
class ResampledCorrelations:
    """Pearson's r of each draw, by the name of the set of components; the draws of two sets belong together."""

    of_set: Mapping[str, Floats]

    def interval(self, name: str, level: float = 0.95) -> Interval:
        """Return the interval of one set's correlation."""
        return _interval(self.of_set[name], level)

    def difference(self, name: str, baseline: str, level: float = 0.95) -> Interval:
        """Return the interval of how much more one set has than another."""
        return _interval(self.of_set[name] - self.of_set[baseline], level)


def resampled_correlations(
    features: Mapping[str, Floats],
    ratings: Floats,
    bots: Labels,
    *,
    intercept: Intercept = "common",
    penalty: float = 0.0,
    draws: int = 1000,
    seed: int = 1,
) -> ResampledCorrelations:
    """Draw bots and conversations, and correlate the predictions of each set of components with the means.

    A draw with fewer than three different bots has no value.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    rows_of = [np.flatnonzero(bots == number) for number in np.unique(bots)]
    correlations = {name: np.full(draws, math.nan) for name in features}
    for draw in range(draws):
        chosen = random.integers(0, len(rows_of), len(rows_of))
        rows = [random.choice(rows_of[number], len(rows_of[number])) for number in chosen]
        if len(set(chosen.tolist())) < 3:
            continue
        drawn = np.concatenate(rows)
        copies = np.repeat(np.arange(len(chosen)), [len(part) for part in rows])
        means = np.array([ratings[part].mean() for part in rows])
        for name, table in features.items():
            predictions = _predictions(
                table[drawn], ratings[drawn], bots[drawn], copies, intercept=intercept, penalty=penalty
            )
            correlations[name][draw] = row_correlations("pearson", predictions[None], means[None])[0]
    return ResampledCorrelations(correlations)


def _predictions(
    features: Floats, ratings: Floats, bots: Labels, copies: Labels, *, intercept: Intercept, penalty: float
) -> Floats:
    """Return the prediction of each copy of a bot, by the fit on the copies of other bots."""
    predictions = np.zeros(int(copies.max()) + 1)
    centre = column_means(features) if intercept == "common" else None
    for number in np.unique(bots):
        is_training = bots != number
        fold = fit_fold(features[is_training], penalty)
        coefficients = fold.coefficients(ratings[is_training])
        level = ratings[is_training].mean() if intercept == "fold" else 0.0
        for copy in np.unique(copies[~is_training]):
            place = fold.place(features[copies == copy], centre)
            predictions[copy] = place @ coefficients + level
    return predictions


def _interval(drawn: Floats, level: float) -> Interval:
    defined = drawn[~np.isnan(drawn)]
    if not len(defined):
        return Interval(low=-math.inf, high=math.inf, draws=0)
    low, high = percentile_interval(defined, level)
    return Interval(low=low, high=high, draws=len(defined))
