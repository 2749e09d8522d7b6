"""The six intraclass correlations of Shrout & Fleiss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from refaug.metrics.statistics.correlation import (
    FEWEST_ROWS,
)
from refaug.metrics.statistics.ratings import ONE_ANNOTATOR, ratings_matrix
from refaug.metrics.statistics.resampling import Floats, check_level

_ROUNDING = 1e-24  # a mean square of ratings up to 1 that is as small as this is only rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class IntraclassCorrelation:
    """One form of the ICC with its interval, as named by Shrout & Fleiss, with k annotators."""

    form: str
    value: float | None
    low: float | None = None
    high: float | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IntraclassCorrelations:
    """All six forms, over the complete rows.

    ICC(1): every row has other annotators. ICC(2): the same annotators, a sample of many. ICC(3): the same, and only
    these, so that differences in strictness do not count. The second number is 1 for a single rating, and k for the
    mean.
    """

    forms: tuple[IntraclassCorrelation, ...]
    rows: int
    annotators: int

    def of(self, form: str) -> IntraclassCorrelation:
        """Return one form by its name, such as `ICC(2,k)`."""
        return next(correlation for correlation in self.forms if correlation.form == form)


FORMS = ("ICC(1,1)", "ICC(1,k)", "ICC(2,1)", "ICC(2,k)", "ICC(3,1)", "ICC(3,k)")


def intraclass_correlations(ratings: ArrayLike, level: float = 0.95) -> IntraclassCorrelations:
    """Return the six ICCs of Shrout & Fleiss (1979) from the mean squares, over rows that every annotator rated.

    The intervals are theirs, from F; those of ICC(2,k) are those of ICC(2,1) stepped up.
    """
    check_level(level)
    matrix = ratings_matrix(ratings)
    complete = matrix[~np.isnan(matrix).any(axis=1)]
    rows, annotators = complete.shape
    why = None
    if annotators < 2:
        why = ONE_ANNOTATOR
    elif rows < FEWEST_ROWS:
        why = f"fewer than {FEWEST_ROWS} rows were rated by all {annotators} annotators"
    elif complete.min() == complete.max():
        why = "all ratings are equal"
    if why is not None:
        forms = tuple(IntraclassCorrelation(form=form, value=None, why=why) for form in FORMS)
    else:
        squares = _MeanSquares.of(complete)
        forms = (*squares.one_way(level), *squares.two_way_random(level), *squares.two_way_fixed(level))
    return IntraclassCorrelations(forms=forms, rows=rows, annotators=annotators)


@dataclass(frozen=True)
class _MeanSquares:
    """The analysis of variance of n rows by k annotators."""

    n: int
    k: int
    rows: float  # BMS of Shrout & Fleiss: between rows
    within: float  # WMS: within rows
    annotators: float  # JMS: between annotators
    error: float  # EMS: residual

    @classmethod
    def of(cls, table: Floats) -> _MeanSquares:
        n, k = table.shape
        table = table / np.abs(table).max()  # a correlation has no unit, and then rounding has a known size
        mean, row_means, annotator_means = table.mean(), table.mean(axis=1), table.mean(axis=0)
        residuals = table - row_means[:, None] - annotator_means[None] + mean
        return cls(
            n=n,
            k=k,
            rows=_above_rounding(k * ((row_means - mean) ** 2).sum() / (n - 1)),
            within=_above_rounding(((table - row_means[:, None]) ** 2).sum() / (n * (k - 1))),
            annotators=_above_rounding(n * ((annotator_means - mean) ** 2).sum() / (k - 1)),
            error=_above_rounding((residuals**2).sum() / ((n - 1) * (k - 1))),
        )

    def one_way(self, level: float) -> tuple[IntraclassCorrelation, IntraclassCorrelation]:
        return self._against("ICC(1,1)", "ICC(1,k)", self.within, self.n * (self.k - 1), level)

    def two_way_fixed(self, level: float) -> tuple[IntraclassCorrelation, IntraclassCorrelation]:
        return self._against("ICC(3,1)", "ICC(3,k)", self.error, (self.n - 1) * (self.k - 1), level)

    def _against(
        self, single: str, mean: str, noise: float, freedom: int, level: float
    ) -> tuple[IntraclassCorrelation, IntraclassCorrelation]:
        """Return both forms that compare the rows with one kind of noise.

        The bounds put F/F_q for F = rows/noise; written without the division, they hold for noise 0, too.
        """
        k, rows = self.k, self.rows
        below = _quantile(level, self.n - 1, freedom)
        above = _quantile(level, freedom, self.n - 1)
        single_figures = [
            _ratio(rows - noise, rows + (k - 1) * noise),
            _ratio(rows - below * noise, rows + (k - 1) * below * noise),
            _ratio(above * rows - noise, above * rows + (k - 1) * noise),
        ]
        mean_figures = [
            _ratio(rows - noise, rows),
            _ratio(rows - below * noise, rows),
            _ratio(above * rows - noise, above * rows),
        ]
        return _form(single, single_figures), _form(mean, mean_figures)

    def two_way_random(self, level: float) -> tuple[IntraclassCorrelation, IntraclassCorrelation]:
        n, k, rows, error, annotators = self.n, self.k, self.rows, self.error, self.annotators
        single_value = _ratio(rows - error, rows + (k - 1) * error + k * (annotators - error) / n)
        freedom = self._freedom(single_value or 0.0)
        below = _quantile(level, n - 1, freedom)
        above = _quantile(level, freedom, n - 1)
        noise = k * annotators + (k * n - k - n) * error
        bounds = [
            _ratio(n * (rows - below * error), below * noise + n * rows),
            _ratio(n * (above * rows - error), noise + n * above * rows),
        ]
        stepped = [None if bound is None else _ratio(k * bound, 1 + (k - 1) * bound) for bound in bounds]
        mean_value = _ratio(rows - error, rows + (annotators - error) / n)
        return _form("ICC(2,1)", [single_value, *bounds]), _form("ICC(2,k)", [mean_value, *stepped])

    def _freedom(self, icc: float) -> float:
        """Return Satterthwaite's degrees of freedom of the noise in ICC(2), with annotators/error multiplied out."""
        n, k = self.n, self.k
        judges = k * icc * self.annotators
        error = (n * (1 + (k - 1) * icc) - k * icc) * self.error
        spread = (n - 1) * judges**2 + error**2
        return (k - 1) * (n - 1) * (judges + error) ** 2 / spread if spread > 0 else 1.0


def _above_rounding(square: float) -> float:
    return float(square) if square > _ROUNDING else 0.0


def _quantile(level: float, numerator: float, denominator: float) -> float:
    return float(stats.f.ppf((1 + level) / 2, numerator, denominator))


def _ratio(part: float, whole: float) -> float | None:
    """Return None where noise leaves nothing to compare with: a variance of 0 (but for rounding), or below 0."""
    return part / whole if whole > 1e-12 * abs(part) else None


def _form(form: str, figures: list[float | None]) -> IntraclassCorrelation:
    estimate, low, high = figures
    if estimate is None:
        return IntraclassCorrelation(
            form=form, value=None, why="the mean ratings of the rows do not differ beyond noise"
        )
    if low is None or high is None:
        return IntraclassCorrelation(form=form, value=estimate, why="its interval has no bounds")
    return IntraclassCorrelation(form=form, value=estimate, low=low, high=high)
