"""Krippendorff's α: the agreement of annotators, whichever of them rated which row."""

from __future__ import annotations

from dataclasses import dataclass

import krippendorff
import numpy as np
from numpy.typing import ArrayLike

from refaug.core.errors import Usage
from refaug.metrics.statistics.ratings import ONE_ANNOTATOR, ratings_matrix
from refaug.metrics.statistics.resampling import Floats

LEVELS = ("interval", "ordinal")
_MOST_VALUES = 2_000  # the ordinal α needs memory for every pair of different ratings


@dataclass(frozen=True, slots=True, kw_only=True)
class Alpha:
    """Krippendorff's α over the rows with at least two ratings."""

    level: str
    value: float | None
    rows: int
    why: str | None = None


def krippendorff_alpha(ratings: ArrayLike, level: str = "interval") -> Alpha:
    """Return Krippendorff's α at the level interval or ordinal; it does not matter which annotator rated which row."""
    if level not in LEVELS:
        raise Usage(f"there is no α at the level {level!r} here", remedy=f"one of: {', '.join(LEVELS)}")
    matrix = ratings_matrix(ratings)
    rated = matrix[(~np.isnan(matrix)).sum(axis=1) >= 2]
    distinct = np.unique(rated[~np.isnan(rated)])
    why = None
    if matrix.shape[1] < 2:
        why = ONE_ANNOTATOR
    elif len(rated) == 0:
        why = "no row has two ratings"
    elif len(distinct) < 2:
        why = "all ratings are equal"
    elif level == "ordinal" and len(distinct) > _MOST_VALUES:
        why = f"more than {_MOST_VALUES} different ratings; round them, or use the level interval"
    if why is not None:
        return Alpha(level=level, value=None, rows=len(rated), why=why)
    alpha = _interval_alpha(rated) if level == "interval" else _ordinal_alpha(rated, distinct)
    return Alpha(level=level, value=alpha, rows=len(rated))


def _interval_alpha(rated: Floats) -> float:
    """Return 1 − observed / expected mean square of differences, both as sums of squares about a mean.

    Over all ordered pairs of m values, Σ (x − y)² is 2m times their sum of squares; within a row a pair counts 1 / (m −
    1). So neither pairs nor distinct values are listed, of which standardised ratings have very many.
    """
    m = (~np.isnan(rated)).sum(axis=1)
    within = np.nansum((rated - np.nanmean(rated, axis=1, keepdims=True)) ** 2, axis=1)
    observed = (m / (m - 1) * within).sum() / m.sum()
    expected = np.nansum((rated - np.nanmean(rated)) ** 2) / (m.sum() - 1)
    return float(1 - observed / expected)


def _ordinal_alpha(rated: Floats, distinct: Floats) -> float:
    rows, columns = np.nonzero(~np.isnan(rated))
    counts = np.zeros((len(rated), len(distinct)), dtype=np.int64)
    np.add.at(counts, (rows, np.searchsorted(distinct, rated[rows, columns])), 1)
    return float(krippendorff.alpha(value_counts=counts, value_domain=distinct, level_of_measurement="ordinal"))
