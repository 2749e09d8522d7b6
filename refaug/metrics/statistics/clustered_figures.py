"""Figures over rows that are not independent, with Student's intervals and tests by the jackknife over clusters.

A figure is a function of sums over rows. Each cluster in turn is left out of the sums, and the spread of the figures
without it is their error: for a mean that is the error of means of clusters, to their degrees of freedom. It costs one
call of the function, where a bootstrap that resolves p = .005 costs thousands.
"""

from __future__ import annotations

from math import sqrt
from typing import Literal

import numpy as np
import scipy

from refaug.metrics.statistics.resampling import Estimate, Floats, Labels, ValueOfSums, check_level

Side = Literal["two-sided", "greater"]
_ROUNDING = 1e-12


def jackknifed(
    rows: Floats, clusters: Labels, value_of: ValueOfSums, *, side: Side = "two-sided", level: float = 0.95
) -> Estimate:
    """Return a figure of sums (…, columns) → (…) over rows (rows, columns), and the p of its being 0.

    With the side `greater`, only a figure above 0 speaks against that.
    """
    check_level(level)
    labels, place = np.unique(clusters, return_inverse=True)
    if len(labels) < 2:
        return Estimate(why="fewer than 2 contexts")
    sums = np.zeros((len(labels), rows.shape[1]))
    np.add.at(sums, place, rows)
    total = sums.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        value, without = float(value_of(total)), np.asarray(value_of(total - sums))
    if not np.isfinite(value) or not np.isfinite(without).all():
        return Estimate(why="the figure is not defined without some of the contexts")
    freedom = len(labels) - 1
    error = sqrt(freedom / len(labels) * float(((without - without.mean()) ** 2).sum()))
    if error < _ROUNDING:
        p = _p_of_signs(0.0 if abs(value) < _ROUNDING else value, len(labels), side)
        return Estimate(value=value, p=p, why="all contexts show the same, which does not show how others would vary")
    half = float(scipy.stats.t.ppf((1 + level) / 2, freedom)) * error
    return Estimate(value=value, low=value - half, high=value + half, p=_p(value, error, freedom, side))


def clustered_mean(values: Floats, clusters: Labels, *, side: Side = "two-sided", level: float = 0.95) -> Estimate:
    """Return the mean of the values that are not NaN, with its interval and p."""
    defined = ~np.isnan(values)
    rows = np.stack([values[defined], np.ones(int(defined.sum()))], axis=1)
    return jackknifed(
        rows, np.asarray(clusters)[defined], lambda sums: sums[..., 0] / sums[..., 1], side=side, level=level
    )


def _p(value: float, error: float, freedom: int, side: Side) -> float:
    if side == "greater":
        return float(scipy.stats.t.sf(value / error, freedom))
    return float(2 * scipy.stats.t.sf(abs(value) / error, freedom))


def _p_of_signs(value: float, clusters: int, side: Side) -> float:
    """Return how often all clusters would be on the side of the value, or on one side, if each were so by chance."""
    if value == 0 or (side == "greater" and value < 0):
        return 1.0
    return 0.5**clusters if side == "greater" else 0.5 ** (clusters - 1)
