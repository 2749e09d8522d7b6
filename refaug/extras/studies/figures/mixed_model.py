"""A mixed model of the ratings of one question: bots, with random intercepts of participants and of items crossed.

The plain means of bots differ also because their raters or items do, where participants judged different things. The
model takes these apart, and says which share of the ratings' variance lies between participants, between items, and
neither. It takes the numbers of a scale for equally spaced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from refaug.core.errors import BadInput
from refaug.extras.studies.figures.crossed_rows import (
    CrossedRows,
    VarianceShare,
    crossed_rows,
    model_sizes,
    variance_shares,
    wald_tests,
)
from refaug.extras.studies.figures.disagreements import go_on
from refaug.extras.studies.questions import RatingRow
from refaug.extras.studies.records import StudyTask
from refaug.metrics.statistics.crossed_model import MOST_CELLS, CrossedFit, crossed_fit, fit_cost
from refaug.metrics.statistics.resampling import Floats

_A_CELL: Final = 0.003  # units (refaug.metrics.costs) of a fit for each cell of its largest product
_A_FIT: Final = 10_000.0


@dataclass(frozen=True, kw_only=True)
class ModelMean:
    """A bot's mean for the usual participant and item; too few participants of the bot give no interval."""

    bot: str
    mean: float
    se: float
    df: float  # Satterthwaite's
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class ModelDifference:
    """The first bot's mean less the second's, with Wald's interval and test by t of Satterthwaite's degrees."""

    first: str
    second: str
    difference: float
    se: float
    df: float
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None


@dataclass(frozen=True, kw_only=True)
class MixedModel:
    """The fitted model, the highest mean first; `why` says why there is none."""

    ratings: int
    means: tuple[ModelMean, ...] = ()
    differences: tuple[ModelDifference, ...] = ()
    variances: tuple[VarianceShare, ...] = ()
    deviance: float | None = None  # −2 log restricted likelihood
    why: str | None = None


def mixed_model(
    rows: Sequence[RatingRow], *, level: float, openings: Collection[str] = (), check: Callable[[], None] = go_on
) -> MixedModel:
    """Fit the ratings of one question by restricted maximum likelihood.

    `check` is called before each product of matrices, and ends the work by raising.
    """
    crossed = crossed_rows(rows, openings)
    if crossed.why is not None:
        return MixedModel(ratings=len(rows), why=crossed.why)
    cells = fit_cost(crossed.sizes, len(crossed.bots))
    if cells > MOST_CELLS:
        return MixedModel(ratings=len(rows), why=f"too many participants and items, {cells:,} of {MOST_CELLS:,} cells")
    try:
        fit = crossed_fit(crossed.numbers, crossed.bot, list(crossed.factors.values()), check)
    except BadInput as refusal:
        return MixedModel(ratings=len(rows), why=refusal.message)
    order = sorted(range(len(crossed.bots)), key=lambda place: (-fit.means[place], crossed.bots[place]))
    return MixedModel(
        ratings=len(rows),
        means=_means(fit, crossed, order, level),
        differences=_differences(fit, crossed, order, level),
        variances=variance_shares(fit.variances, fit.residual, crossed),
        deviance=fit.deviance,
    )


def model_cost(tasks: Sequence[StudyTask], openings: Collection[str] = ()) -> float:
    """Return an upper bound of the units of the model of one question."""
    return _A_FIT + _A_CELL * min(MOST_CELLS, fit_cost(*model_sizes(tasks, openings)))


def _means(fit: CrossedFit, crossed: CrossedRows, order: Sequence[int], level: float) -> tuple[ModelMean, ...]:
    contrasts = np.eye(len(crossed.bots))[list(order)]
    tests = wald_tests(
        (
            (*_estimated(fit, contrast), crossed.has_enough(place))
            for place, contrast in zip(order, contrasts, strict=True)
        ),
        level,
    )
    return tuple(
        ModelMean(bot=crossed.bots[place], mean=test.estimate, se=test.se, df=test.df, low=test.low, high=test.high)
        for place, test in zip(order, tests, strict=True)
    )


def _differences(
    fit: CrossedFit, crossed: CrossedRows, order: Sequence[int], level: float
) -> tuple[ModelDifference, ...]:
    pairs, bots = list(combinations(order, 2)), np.eye(len(crossed.bots))
    tests = wald_tests(
        ((*_estimated(fit, bots[first] - bots[second]), crossed.has_enough(first, second)) for first, second in pairs),
        level,
    )
    return tuple(
        ModelDifference(
            first=crossed.bots[first],
            second=crossed.bots[second],
            difference=test.estimate,
            se=test.se,
            df=test.df,
            low=test.low,
            high=test.high,
            p=test.p,
            p_holm=test.p_holm,
        )
        for (first, second), test in zip(pairs, tests, strict=True)
    )


def _estimated(fit: CrossedFit, contrast: Floats) -> tuple[float, float, float]:
    """Return a contrast of the means, its standard error, and its degrees of freedom."""
    return float(fit.means @ contrast), fit.standard_error(contrast), fit.degrees_of_freedom(contrast)
