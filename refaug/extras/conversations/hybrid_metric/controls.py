"""What the procedure gives where there is nothing to be found: what a figure of the hybrid metric stands beside."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.extras.conversations.hybrid_metric.fit import Fit, Intercept, Labels, column_means, fit_fold
from refaug.metrics.statistics.correlation import row_correlations
from refaug.metrics.statistics.resampling import percentile_interval

Floats = NDArray[np.float64]

MOST_EXACT_BOTS: Final = 8  # 40,320 orders
_BLOCK: Final = 256
_TIE: Final = 1e-12


@dataclass(frozen=True, kw_only=True)
class ShuffledRatings:
    """The correlation over bots, refitted on ratings that were shuffled over all conversations.

    With as many conversations for each bot the expected covariance is exactly 0: the weights of a bot's prediction add
    up to 0 over the ratings of the others, and shuffled ratings of any two conversations covary equally. `centre` is
    the mean covariance over the root of the mean variances. The mean correlation lies a little below 0, since each draw
    is divided by its own spread.
    """

    draws: int
    mean: float
    centre: float
    low: float  # of the middle 95 % of the draws
    high: float

    def contains(self, correlation: float) -> bool:
        """Whether a correlation is one that shuffled ratings reach, too."""
        return self.low <= correlation <= self.high


@dataclass(frozen=True, kw_only=True)
class PermutedBots:
    """The share of orders of the bots whose correlation is at least as large as the observed one."""

    orders: int
    is_exact: bool
    p: float


def shuffled_ratings(fit: Fit, ratings: Floats, bots: Labels, *, draws: int = 1000, seed: int = 1) -> ShuffledRatings:
    """Shuffle the ratings over conversations, refit, and correlate with the bots' means of the shuffled ratings."""
    random = np.random.Generator(np.random.PCG64(seed))
    means = _mean_operator(bots)
    correlations, moments = [], []
    for start in range(0, draws, _BLOCK):
        shuffled = np.stack([random.permutation(ratings) for _ in range(min(_BLOCK, draws - start))], axis=1)
        predicted, observed = (fit.operator @ shuffled).T, (means @ shuffled).T
        correlations.append(row_correlations("pearson", predicted, observed))
        moments.append(_moments(predicted, observed))
    drawn = np.concatenate(correlations)
    drawn = drawn[~np.isnan(drawn)]
    if not len(drawn):
        return ShuffledRatings(draws=draws, mean=math.nan, centre=math.nan, low=-1.0, high=1.0)
    low, high = percentile_interval(drawn, 0.95)
    covariance, of_predictions, of_means = np.concatenate(moments).mean(axis=0).tolist()
    return ShuffledRatings(
        draws=draws,
        mean=float(drawn.mean()),
        centre=covariance / math.sqrt(of_predictions * of_means),
        low=low,
        high=high,
    )


@dataclass(frozen=True, kw_only=True)
class ShuffledInFolds:
    """The correlation over bots when each fold learns from shuffled ratings, and the bots keep their own means.

    A bot's own ratings enter neither its prediction nor the shuffle. With `icpt:common` the expected prediction of
    every bot is 0, so the expected covariance is 0 for any numbers of conversations; opposite coefficients are as
    likely, so that the mean correlation is 0, too, but for the error of so many draws. With the published intercept it
    is far below 0: each prediction contains the mean of the others, which the bot's own mean lowers.
    """

    draws: int
    mean: float
    error: float  # the standard error of the mean
    low: float  # of the middle 95 % of the draws
    high: float


def shuffled_in_folds(fit: Fit, ratings: Floats, bots: Labels, *, draws: int = 1000, seed: int = 1) -> ShuffledInFolds:
    """Shuffle the ratings that each fold learns from, and correlate its predictions with the bots' own means.

    One order of the conversations is drawn for all folds, so that their coefficients are as alike as those of the fit.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    means = _mean_operator(bots) @ ratings
    is_training = [bots != number for number in fit.bots]
    predicted = np.empty((draws, len(fit.bots)))
    for draw in range(draws):
        order = random.permutation(len(ratings))
        for row, is_other in enumerate(is_training):
            shuffled = ratings[order[is_other[order]]]
            predicted[draw, row] = fit.operator[row, is_other] @ shuffled
    drawn = row_correlations("pearson", predicted, np.broadcast_to(means, predicted.shape))
    drawn = drawn[~np.isnan(drawn)]
    if len(drawn) < 2:
        return ShuffledInFolds(draws=draws, mean=math.nan, error=math.nan, low=-1.0, high=1.0)
    low, high = percentile_interval(drawn, 0.95)
    error = float(drawn.std(ddof=1) / math.sqrt(len(drawn)))
    return ShuffledInFolds(draws=draws, mean=float(drawn.mean()), error=error, low=low, high=high)


def _moments(predicted: Floats, observed: Floats) -> Floats:
    """Return the covariance and both variances of each row, (draws, 3)."""
    predicted, observed = (values - values.mean(axis=1, keepdims=True) for values in (predicted, observed))
    pairs = ((predicted, observed), (predicted, predicted), (observed, observed))
    return np.stack([np.asarray((first * second).mean(axis=1)) for first, second in pairs], axis=1)


def permuted_bots(predictions: Floats, means: Floats, *, draws: int = 10_000, seed: int = 1) -> PermutedBots:
    """Compare Pearson's r with that of the bots in other orders: all of them up to eight bots, else drawn ones.

    The test is one-sided: a prediction that orders the bots the wrong way round is no success. Drawn orders count the
    observed one, so that p is never 0.
    """
    observed = row_correlations("pearson", predictions[None], means[None])[0]
    if math.isnan(observed):
        return PermutedBots(orders=0, is_exact=False, p=1.0)
    is_exact = len(means) <= MOST_EXACT_BOTS
    reached = orders = 0
    for block in _orders(len(means), draws, seed, is_exact=is_exact):
        table = np.broadcast_to(predictions, block.shape)
        reached += int((row_correlations("pearson", table, means[block]) >= observed - _TIE).sum())
        orders += len(block)
    if not is_exact:
        reached, orders = reached + 1, orders + 1
    return PermutedBots(orders=orders, is_exact=is_exact, p=reached / orders)


def _orders(bots: int, draws: int, seed: int, *, is_exact: bool) -> Iterator[NDArray[np.int64]]:
    if is_exact:
        yield np.array(list(permutations(range(bots))), np.int64)
        return
    random = np.random.Generator(np.random.PCG64(seed))
    for start in range(0, draws, _BLOCK):
        yield random.permuted(np.tile(np.arange(bots), (min(_BLOCK, draws - start), 1)), axis=1)


def _mean_operator(bots: Labels) -> Floats:
    """Return the matrix whose product with ratings is the mean of each bot."""
    is_bot = bots == np.unique(bots)[:, None]
    return np.asarray(is_bot / is_bot.sum(axis=1, keepdims=True), np.float64)


# ── Intervals of correlations over bots: bots are drawn with replacement, then the conversations of each drawn bot ────
#
# Everything is fitted again in each draw. A bot that was drawn twice stands for two bots with conversations of their
# own; both are left out when either is predicted.


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
