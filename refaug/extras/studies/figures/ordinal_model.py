"""A mixed model of ratings on a scale of few levels that takes them for ordered, not for equally spaced.

The cumulative logit beside the linear mixed model: bots, with random intercepts of participants and of items crossed.
The effect of a bot is in log odds: of being rated above a level, whichever it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, inf, pi
from typing import Final

import numpy as np

from refaug.core.errors import BadInput
from refaug.extras.studies.figures.crossed_rows import (
    CrossedRows,
    VarianceShare,
    WaldTest,
    crossed_rows,
    model_sizes,
    variance_shares,
    wald_tests,
)
from refaug.extras.studies.figures.disagreements import go_on
from refaug.extras.studies.questions import RatingRow
from refaug.extras.studies.records import StudyTask
from refaug.metrics.statistics.cumulative_logit import (
    MOST_OPERATIONS,
    CumulativeLogitFit,
    cumulative_logit_cost,
    cumulative_logit_fit,
)
from refaug.metrics.statistics.resampling import Floats

MOST_LEVELS: Final = 7  # from the lowest to the highest rating: above, the numbers of a scale are as good as its order
MOST_OF_A_REPORT: Final = 4 * MOST_OPERATIONS  # operations, which the fits of a report share alike
_AN_OPERATION: Final = 0.00015  # units (refaug.metrics.costs) of a fit
_A_FIT: Final = 10_000.0
_RESIDUAL: Final = pi**2 / 3  # variance of a logistic variable
_NEAR: Final = 1e-3  # log odds below which a series of the chance is exact


@dataclass(frozen=True, kw_only=True)
class OddsDifference:
    """The log odds that the first bot is rated above any level, less those of the second, or of the mean of all.

    `better` is the chance that a participant rates the first higher on one item, levels being as fine as need be.
    """

    first: str
    second: str | None
    log_odds: float
    se: float
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    better: float


@dataclass(frozen=True, kw_only=True)
class OrdinalModel:
    """The fitted model, the highest bot first; `why` says why there is none."""

    ratings: int
    levels: tuple[float, ...]  # that were given
    thresholds: tuple[float, ...] = ()  # between them, at the mean of the bots
    bots: tuple[OddsDifference, ...] = ()  # against the mean of all, of three or more
    differences: tuple[OddsDifference, ...] = ()
    variances: tuple[VarianceShare, ...] = ()  # of the log odds
    log_likelihood: float | None = None
    why: str | None = None


def ordinal_model(
    rows: Sequence[RatingRow],
    *,
    level: float,
    scale: tuple[float, float] | None = None,
    openings: Collection[str] = (),
    most: int = MOST_OPERATIONS,
    check: Callable[[], None] = go_on,
) -> OrdinalModel | None:
    """Fit the ratings of one question by Laplace's approximation; None where its scale has not few whole levels.

    Without the ends of the scale, they are those of the ratings. `check` is called before each factorisation, and ends
    the work by raising.
    """
    crossed = crossed_rows(rows, openings)
    levels, places = np.unique(crossed.numbers, return_inverse=True)
    lowest, highest = scale or (levels[0], levels[-1])
    if highest - lowest >= MOST_LEVELS or (levels % 1).any():
        return None
    shown = tuple(levels.tolist())
    if crossed.why is not None:
        return OrdinalModel(ratings=len(rows), levels=shown, why=crossed.why)
    cost = cumulative_logit_cost(len(rows), crossed.sizes, len(levels), len(crossed.bots))
    if cost > min(most, MOST_OPERATIONS):
        why = f"too many participants and items, {cost:,} of {min(most, MOST_OPERATIONS):,} operations"
        return OrdinalModel(ratings=len(rows), levels=shown, why=why)
    try:
        fit = cumulative_logit_fit(places, crossed.bot, list(crossed.factors.values()), check)
    except BadInput as refusal:
        return OrdinalModel(ratings=len(rows), levels=shown, why=refusal.message)
    order = sorted(range(len(crossed.bots)), key=lambda place: (-fit.effects[place], crossed.bots[place]))
    return OrdinalModel(
        ratings=len(rows),
        levels=shown,
        thresholds=tuple((fit.thresholds - fit.effects.mean()).tolist()),
        bots=_compared(fit, crossed, [(place, None) for place in order if len(order) > 2], level),
        differences=_compared(fit, crossed, list(combinations(order, 2)), level),
        variances=variance_shares(fit.variances, _RESIDUAL, crossed),
        log_likelihood=fit.log_likelihood,
    )


def ordinal_cost(tasks: Sequence[StudyTask], openings: Collection[str] = ()) -> float:
    """Return an upper bound of the units of the model of one question."""
    factors, bots = model_sizes(tasks, openings)
    cost = cumulative_logit_cost(sum(len(task.bots) for task in tasks), factors, MOST_LEVELS, bots)
    return _A_FIT + _AN_OPERATION * min(MOST_OPERATIONS, cost)


def most_ordinal_cost(fits: int) -> float:
    """Return the most units of all ordinal models of a report."""
    return fits * _A_FIT + _AN_OPERATION * MOST_OF_A_REPORT


def better_share(log_odds: float) -> float:
    """Return how often one of two logistic variables so far apart is the greater."""
    if log_odds < 0:
        return 1 - better_share(-log_odds)
    if log_odds < _NEAR:
        return 0.5 + log_odds / 6
    odds = exp(-log_odds)
    return (1 - odds - log_odds * odds) / (1 - odds) ** 2


def _compared(
    fit: CumulativeLogitFit, crossed: CrossedRows, pairs: Sequence[tuple[int, int | None]], level: float
) -> tuple[OddsDifference, ...]:
    bots = np.eye(len(crossed.bots))
    contrasts = [bots[first] - (bots.mean(axis=0) if second is None else bots[second]) for first, second in pairs]
    tests = wald_tests(
        (
            (*_estimated(fit, contrast), crossed.has_enough(first, first if second is None else second))
            for (first, second), contrast in zip(pairs, contrasts, strict=True)
        ),
        level,
    )
    return tuple(
        _difference(crossed.bots[first], None if second is None else crossed.bots[second], test)
        for (first, second), test in zip(pairs, tests, strict=True)
    )


def _estimated(fit: CumulativeLogitFit, contrast: Floats) -> tuple[float, float, float]:
    """Return a contrast of the effects and its standard error, with the degrees of freedom of the normal."""
    return float(fit.effects @ contrast), fit.standard_error(contrast), inf


def _difference(first: str, second: str | None, test: WaldTest) -> OddsDifference:
    return OddsDifference(
        first=first,
        second=second,
        log_odds=test.estimate,
        se=test.se,
        low=test.low,
        high=test.high,
        p=test.p,
        p_holm=test.p_holm,
        better=better_share(test.estimate),
    )
