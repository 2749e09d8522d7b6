"""Systems on ordered levels under crossed random intercepts, such as of raters and of items.

    log odds of a rating above level j = effect of its system + of its rater + of its item − threshold j

The intercepts are normal with a variance each. This is `clmm(level ~ system + (1 | rater) + (1 | item))` of R's ordinal
(Christensen 2022): the likelihood by Laplace's approximation, standard errors by its Hessian. The most likely
intercepts come from Newton's method, of which the log likelihood is concave; the gradient of the approximation is
exact, and the Hessian its central difference. Standard deviations may be of either sign, so that one at 0 is no edge.

The larger factor's block is diagonal and eliminated first, the cross table is sparse: a factorisation costs
(ratings × smaller + smaller³).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy

from refaug.core.errors import BadInput
from refaug.metrics.statistics.crossed_model import Places
from refaug.metrics.statistics.resampling import Floats

MOST_OPERATIONS: Final = 20_000_000_000  # of `cumulative_logit_cost`: a fit takes about three seconds
_A_FACTORISATION: Final = 5_000_000  # operations, whatever its size
_OF_A_RATING: Final = (300, 5)  # … in each factorisation, and more for each level of the smaller factor
_FACTORISATIONS: Final = (60, 12)  # of a usual fit, and more for each parameter: the Hessian's differences
_MOST_STEPS: Final = 100
_MOST_HALVINGS: Final = 30
_FLAT: Final = 1e-6  # gradient at the peak
_SETTLED: Final = 1e-3  # standard errors from the peak
_AT_MODE: Final = 1e-6  # Newton's last step to the most likely intercepts: it leaves the square of this
_ROUNDING: Final = 1e-12  # of a log likelihood
_DIFFERENCE: Final = 1e-5  # of a parameter, for the Hessian
_LEAST_CURVE: Final = 1e-3
_LONGEST: Final = 2.0  # step of a parameter
_ENOUGH: Final = 1e-4  # of the rise that a step's slope promises
_FARTHEST: Final = 30.0  # log odds and standard deviations beyond have no end
_BESIDE: Final = 0.5  # a standard deviation to go on with from 0, where the likelihood is least along it


@dataclass(frozen=True)
class CumulativeLogitFit:
    """Thresholds between levels and effects of systems, the first at 0, and their covariance in that order."""

    thresholds: Floats  # (levels − 1,)
    effects: Floats  # (systems,)
    covariance: Floats  # (levels − 1 + systems, …): the first system has none
    variances: Floats  # (factors,) in the order given
    log_likelihood: float  # by Laplace's approximation

    def standard_error(self, contrast: Floats) -> float:
        """Return the standard error of a contrast of the effects."""
        start = len(self.thresholds)
        return float(np.sqrt(contrast @ self.covariance[start:, start:] @ contrast))


def cumulative_logit_cost(ratings: int, factors: Sequence[int], levels: int, systems: int) -> int:
    """Return what a usual fit costs, in operations, by the numbers of levels of the factors."""
    parameters = levels + systems + len(factors) - 2
    smaller = sum(sorted(factors)[:-1])
    factorisation = _A_FACTORISATION + smaller**3 + (_OF_A_RATING[0] + _OF_A_RATING[1] * smaller) * ratings
    return (_FACTORISATIONS[0] + _FACTORISATIONS[1] * parameters) * factorisation


def is_separated(level: Places, system: Places) -> bool:
    """Return whether a level parts the systems: none has ratings on both sides of it, so that effects have no end."""
    count = int(system.max()) + 1
    lowest, highest = np.full(count, level.max()), np.zeros(count, np.intp)
    np.minimum.at(lowest, system, level)
    np.maximum.at(highest, system, level)
    for between in range(int(level.max()) + 1):
        below, above = highest <= between, lowest >= between
        if count > 1 and below.any() and above.any() and (below | above).all():
            return True
    return False


def _no_peak() -> BadInput:
    return BadInput(
        "bots, participants or items part the levels: the estimates have no end", remedy="ratings that overlap more"
    )


def cumulative_logit_fit(
    level: Places, system: Places, factors: Sequence[Places], check: Callable[[], None] = lambda: None
) -> CumulativeLogitFit:
    """Fit one or two factors; levels, systems and levels of factors are numbered from 0, each with a rating.

    BadInput where there is no peak: there is one level, or systems or levels of factors part the levels. `check` is
    called before each factorisation, and ends the work by raising.
    """
    if not level.any():
        raise BadInput("all ratings are the same", remedy="ratings of two levels at least")
    if is_separated(level, system):
        raise BadInput("a level parts the bots: no bot has ratings on both sides of it", remedy="more ratings")
    try:
        return _LaplaceLikelihood(level, system, factors, check).fitted()
    except np.linalg.LinAlgError:
        raise _no_peak() from None


@dataclass(frozen=True)
class _RatingChances:
    """The chances of each rating at its linear predictor, from which all derivatives follow."""

    log_likelihood: float
    under: Floats  # chance to be under the threshold above it: 1 at the highest level
    over: Floats  # … over the threshold below it: 1 at the lowest

    @property
    def slopes(self) -> Floats:
        """Return the derivative of the log likelihood by the predictor."""
        return self.under - self.over

    @property
    def densities(self) -> tuple[Floats, Floats]:
        """Return the densities at the two thresholds."""
        return self.under * (1 - self.under), self.over * (1 - self.over)

    @property
    def weights(self) -> Floats:
        """Return the second derivative of the log likelihood by the predictor, turned."""
        above, below = self.densities
        return above + below

    @property
    def curves(self) -> tuple[Floats, Floats]:
        """Return the derivatives of the densities by the thresholds."""
        above, below = self.densities
        return above * (1 - 2 * self.under), below * (2 * self.over - 1)


@dataclass(frozen=True)
class _FactoredHessian:
    """The factored Hessian by the intercepts: a diagonal, and the Schur complement of the smaller factor."""

    diagonal: Floats  # (larger,)
    cross: Any  # sparse (larger, smaller)
    factor: Floats  # (smaller, smaller), Cholesky's

    @property
    def half_log_determinant(self) -> float:
        """Return half of the determinant's logarithm."""
        return float(np.log(self.diagonal).sum() / 2 + np.log(np.diag(self.factor)).sum())

    def solved(self, right: Floats) -> Floats:
        """Return the solution for one right-hand side, the larger factor first."""
        count = len(self.diagonal)
        first = right[:count] / self.diagonal
        if not len(self.factor):
            return first
        second = scipy.linalg.cho_solve((self.factor, True), right[count:] - self.cross.T @ first)
        return np.concatenate([first - (self.cross @ second) / self.diagonal, second])


@dataclass(frozen=True)
class _Height:
    """The approximated log likelihood at some parameters, its gradient by them, and the most likely intercepts."""

    parameters: Floats
    log_likelihood: float
    gradient: Floats
    modes: Floats


class _LaplaceLikelihood:
    """The log likelihood as a function of thresholds, effects but the first, and standard deviations of factors."""

    def __init__(self, level: Places, system: Places, factors: Sequence[Places], check: Callable[[], None]) -> None:
        self.check = check
        self.level, self.system = level, system
        self.counts = np.bincount(level).astype(np.float64)
        self.cuts, self.systems = int(level.max()), int(system.max()) + 1
        sizes = [int(factor.max()) + 1 for factor in factors]
        self.order = sorted(range(len(factors)), key=lambda place: -sizes[place])  # the larger one first
        self.sizes = [sizes[place] for place in self.order]
        self.factors = [factors[place] for place in self.order]
        self.smaller = sum(self.sizes[1:])
        self.fixed = self.cuts + self.systems - 1
        if self.smaller:  # the cells of the cross table that have ratings, and the cell of each rating
            cells, self.cell = np.unique(self.factors[0] * self.smaller + self.factors[1], return_inverse=True)
            self.cells = np.divmod(cells, self.smaller)
            self.cell_starts = np.searchsorted(self.cells[0], np.arange(self.sizes[0] + 1))

    def fitted(self) -> CumulativeLogitFit:
        """Return the fit at the peak."""
        peak = self._climbed(self._start())
        hessian = self._hessian(peak)
        is_valley = np.diag(hessian)[self.fixed :] > 0
        if is_valley.any():  # at 0, between two peaks
            parameters = peak.parameters.copy()
            parameters[self.fixed :][is_valley] = _BESIDE
            peak = self._climbed(self._height(parameters, peak.modes))
            hessian = self._hessian(peak)
        factor = np.linalg.cholesky(-hessian)
        if np.abs(scipy.linalg.solve_triangular(factor, peak.gradient, lower=True)).max() > _SETTLED:
            raise _no_peak()
        return self._fit_at(peak, hessian)

    def _fit_at(self, peak: _Height, hessian: Floats) -> CumulativeLogitFit:
        compared = [*range(self.cuts), *range(self.cuts + 1, self.fixed + 1)]  # all but the first system
        covariance = np.zeros((self.fixed + 1, self.fixed + 1))
        covariance[np.ix_(compared, compared)] = np.linalg.inv(-hessian)[: self.fixed, : self.fixed]
        return CumulativeLogitFit(
            thresholds=peak.parameters[: self.cuts],
            effects=np.concatenate([[0.0], peak.parameters[self.cuts : self.fixed]]),
            covariance=covariance,
            variances=(peak.parameters[self.fixed :] ** 2)[np.argsort(self.order)],
            log_likelihood=peak.log_likelihood,
        )

    def _start(self) -> _Height:
        """Return the height at systems that are alike, with the shares of levels, and a variance of 1 a factor."""
        shares = np.cumsum(self.counts)[:-1] / self.counts.sum()
        wider = np.sqrt(1 + 3 * len(self.sizes) / np.pi**2)  # of the scale, by the variances
        parameters = np.zeros(self.fixed + len(self.sizes))
        parameters[: self.cuts] = wider * scipy.special.logit(shares)
        parameters[self.fixed :] = 1.0
        return self._height(parameters, np.zeros(sum(self.sizes)))

    def _climbed(self, height: _Height) -> _Height:
        """Return the peak by the method of Broyden, Fletcher, Goldfarb and Shanno, from a Hessian of differences."""
        values, vectors = np.linalg.eigh(-self._hessian(height, is_rough=True))
        inverse = (vectors / np.maximum(np.abs(values), _LEAST_CURVE)) @ vectors.T
        for _ in range(_MOST_STEPS):
            if np.abs(height.gradient).max() < _FLAT:
                break
            reached = self._higher(height, inverse @ height.gradient)
            if reached is None:
                break
            moved, fallen = reached.parameters - height.parameters, height.gradient - reached.gradient
            bend = float(moved @ fallen)
            if bend > 0:
                turn = np.eye(len(moved)) - np.outer(moved, fallen) / bend
                inverse = turn @ inverse @ turn.T + np.outer(moved, moved) / bend
            height = reached
            if np.abs(height.parameters).max() > _FARTHEST:
                raise _no_peak()
        return height

    def _higher(self, height: _Height, step: Floats) -> _Height | None:
        """Return a height along the step that is greater enough, or None where none is."""
        step = step * min(1.0, _LONGEST / float(np.abs(step).max()))
        rise = float(step @ height.gradient)
        for halving in range(_MOST_HALVINGS):
            parameters = height.parameters + step / 2**halving
            if (np.diff(parameters[: self.cuts]) <= 0).any():
                continue
            reached = self._height(parameters, height.modes)
            if reached.log_likelihood >= height.log_likelihood + _ENOUGH * rise / 2**halving - _ROUNDING * abs(
                height.log_likelihood
            ):
                return reached
        return None

    def _hessian(self, height: _Height, *, is_rough: bool = False) -> Floats:
        """Return the differences of the gradient, to both sides of each parameter or, roughly, to one."""
        count = len(height.parameters)
        hessian = np.zeros((count, count))
        for place, step in enumerate(_DIFFERENCE * np.eye(count)):
            up = self._height(height.parameters + step, height.modes).gradient
            down = height.gradient if is_rough else self._height(height.parameters - step, height.modes).gradient
            hessian[place] = (up - down) / (_DIFFERENCE if is_rough else 2 * _DIFFERENCE)
        return (hessian + hessian.T) / 2

    def _rows(self, predictors: Floats, thresholds: Floats) -> _RatingChances:
        around = np.concatenate([[-np.inf], thresholds, [np.inf]])
        under: Floats = scipy.special.expit(around[self.level + 1] - predictors)
        over: Floats = scipy.special.expit(predictors - around[self.level])
        between = np.log(-np.expm1(-np.diff(thresholds)))  # p = under × over × (1 − e^−gap)
        with np.errstate(divide="ignore"):  # of a step too far
            likelihood = np.log(under).sum() + np.log(over).sum() + self.counts[1:-1] @ between
        return _RatingChances(log_likelihood=float(likelihood), under=under, over=over)

    def _split(self, intercepts: Floats) -> list[Floats]:
        return np.split(intercepts, [self.sizes[0]])[: len(self.sizes)]

    def _spread(self, intercepts: Floats, scales: Floats) -> Floats:
        """Return the intercepts of each rating, scaled and added."""
        split = zip(scales, self._split(intercepts), self.factors, strict=True)
        return np.asarray(np.sum([scale * own[factor] for scale, own, factor in split], axis=0))

    def _gathered(self, rows: Floats, scales: Floats) -> Floats:
        """Return the sums of what ratings have over each level of a factor, scaled: the other way of `_spread`."""
        scaled = zip(scales, self.factors, self.sizes, strict=True)
        return np.concatenate([scale * np.bincount(factor, rows, size) for scale, factor, size in scaled])

    def _block(self, weights: Floats, scales: Floats) -> _FactoredHessian:
        self.check()
        diagonals = self._split(1 + self._gathered(weights, scales**2))
        if not self.smaller:
            return _FactoredHessian(diagonal=diagonals[0], cross=None, factor=np.zeros((0, 0)))
        cross = scales[0] * scales[1] * np.bincount(self.cell, weights)
        rest = (
            np.diag(diagonals[1]) - (self._table(cross / diagonals[0][self.cells[0]]).T @ self._table(cross)).toarray()
        )
        return _FactoredHessian(diagonal=diagonals[0], cross=self._table(cross), factor=np.linalg.cholesky(rest))

    def _table(self, cells: Floats) -> Any:
        """Return the sparse cross table of the two factors."""
        return scipy.sparse.csr_array((cells, self.cells[1], self.cell_starts), shape=(self.sizes[0], self.smaller))

    def _at_modes(self, parameters: Floats, modes: Floats) -> tuple[Floats, _RatingChances, _FactoredHessian]:
        """Return the most likely intercepts, by Newton's method from those given, and what the ratings say there."""
        thresholds, scales = parameters[: self.cuts], parameters[self.fixed :]
        effects = np.concatenate([[0.0], parameters[self.cuts : self.fixed]])[self.system]

        def rows_at(intercepts: Floats) -> tuple[_RatingChances, float]:
            rows = self._rows(effects + self._spread(intercepts, scales), thresholds)
            return rows, rows.log_likelihood - float(intercepts @ intercepts) / 2

        rows, height = rows_at(modes)
        for _ in range(_MOST_STEPS):
            step = self._block(rows.weights, scales).solved(self._gathered(rows.slopes, scales) - modes)
            rows, reached = rows_at(modes + step)
            for _ in range(_MOST_HALVINGS):
                if reached >= height - _ROUNDING * abs(height):
                    break
                step = step / 2
                rows, reached = rows_at(modes + step)
            modes, height = modes + step, reached
            if np.abs(step).max() < _AT_MODE:
                break
        return modes, rows, self._block(rows.weights, scales)

    def _height(self, parameters: Floats, modes: Floats) -> _Height:
        modes, rows, block = self._at_modes(parameters, modes)
        approximated = rows.log_likelihood - float(modes @ modes) / 2 - block.half_log_determinant
        return _Height(parameters, approximated, self._gradient(parameters, modes, rows, block), modes)

    def _gradient(self, parameters: Floats, modes: Floats, rows: _RatingChances, block: _FactoredHessian) -> Floats:
        """Return the gradient: through the modes, by the adjoint of their equation, and through the determinant."""
        scales = parameters[self.fixed :]
        (above, below), (above_curve, below_curve) = rows.densities, rows.curves
        weights, turned = rows.weights, -(above_curve + below_curve)
        shares = self._leverages(block)  # of each rating, (H⁻¹) at its own intercepts
        leverage = np.einsum("k,kln,l->n", scales, shares, scales) / 2
        adjoint = block.solved(self._gathered(leverage * turned, scales))
        pulled = self._spread(adjoint, scales)
        between = np.concatenate([[0.0], 1 / np.expm1(np.diff(parameters[: self.cuts])), [0.0]])[self.level]
        up = 1 - rows.under + between - leverage * above_curve - pulled * above
        down = rows.over - 1 - between - leverage * below_curve - pulled * below
        by_scale = [
            rows.slopes @ (own[factor] - adjoint_own[factor])
            - weights @ (scales @ share)
            - (leverage * turned - pulled * weights) @ own[factor]
            for own, adjoint_own, factor, share in zip(
                self._split(modes), self._split(adjoint), self.factors, shares, strict=True
            )
        ]
        return np.concatenate(
            [
                np.bincount(self.level, up)[:-1] + np.bincount(self.level, down)[1:],
                -np.bincount(self.system, up + down)[1:],
                by_scale,
            ]
        )

    def _leverages(self, block: _FactoredHessian) -> Floats:
        """Return the inverse Hessian at the intercepts of each rating (factors, factors, ratings)."""
        first = self.factors[0]
        if not self.smaller:
            return (1 / block.diagonal)[first][None, None]
        second = self.factors[1]
        inverse = scipy.linalg.cho_solve((block.factor, True), np.eye(self.smaller))
        relative = block.cross.data / block.diagonal[self.cells[0]]
        through = (self._table(relative) @ inverse)[self.cells]
        own = 1 / block.diagonal + np.bincount(self.cells[0], through * relative)
        mixed = -through[self.cell]
        return np.array([[own[first], mixed], [mixed, np.diag(inverse)[second]]])
