"""Means of systems under crossed random intercepts, such as of raters and of items, by restricted maximum likelihood.

    rating = mean of its system + intercept of its rater + intercept of its item + residual

The intercepts are normal with a variance each. This is `lmer(rating ~ 0 + system + (1 | rater) + (1 | item))` of R's
lme4 (Bates, Mächler, Bolker & Walker 2015), with the degrees of freedom of Satterthwaite (1946) as lmerTest has them
(Kuznetsova, Brockhoff & Christensen 2017). Restricted likelihood and its first two derivatives are exact; Newton's
method finds the variances relative to that of the residual, γ, which may be zero.

The larger factor's block is diagonal and eliminated first, so that a step costs (larger × smaller²).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, pi
from typing import Final

import numpy as np
import scipy
from numpy.typing import NDArray

from refaug.core.errors import BadInput
from refaug.metrics.statistics.resampling import Floats

Places = NDArray[np.intp]

MOST_CELLS: Final = 300_000_000  # of `fit_cost`: a fit takes about a second
_MOST_STEPS: Final = 100
_MOST_HALVINGS: Final = 30
_FLAT: Final = 1e-8  # gradient, or gain of a step, of a restricted deviance that is at its least
_LARGEST_RATIO: Final = 1e8  # of a variance to the residual's: there is no residual left
_GROWTH: Final = 100.0  # of 1 + a ratio in a step, at most
_NOISE: Final = 1e-12  # of the sum of all squares: what is left is of rounding


@dataclass(frozen=True)
class CrossedFit:
    """The fitted means, their covariance, the variances of the factors in the order given, and that of the residual."""

    means: Floats  # (systems,)
    covariance: Floats  # (systems, systems)
    variances: Floats  # (factors,)
    residual: float
    deviance: float  # restricted, −2 log likelihood: lme4's REMLcrit
    covariance_slopes: Floats  # (factors + 1, systems, systems): how the covariance changes with each variance
    variance_covariance: Floats  # (factors + 1, factors + 1), the residual last; 0 for a variance that is at 0

    def standard_error(self, contrast: Floats) -> float:
        """Return the standard error of a contrast of the means."""
        return float(np.sqrt(contrast @ self.covariance @ contrast))

    def degrees_of_freedom(self, contrast: Floats) -> float:
        """Return Satterthwaite's degrees of freedom: twice the squared variance of the contrast by its own variance."""
        slopes = np.einsum("i,kij,j->k", contrast, self.covariance_slopes, contrast)
        spread = float(slopes @ self.variance_covariance @ slopes)
        return 2 * float(contrast @ self.covariance @ contrast) ** 2 / spread


def fit_cost(factors: Sequence[int], systems: int) -> int:
    """Return what a step of the fit costs, by the numbers of levels of the factors: the cells of its products."""
    *smaller, largest = sorted(factors)
    return largest * (sum(smaller) + systems) ** 2


def is_told_apart(system: Places, factor: Places) -> bool:
    """Return whether a factor has levels that repeat, and that differ within systems: else it has no variance."""
    levels = int(factor.max()) + 1
    if not 1 < levels < len(factor):
        return False
    pairs = len(np.unique(system * levels + factor))
    return pairs > int(system.max()) + 1  # else each system has one level


def crossed_fit(
    numbers: Floats, system: Places, factors: Sequence[Places], check: Callable[[], None] = lambda: None
) -> CrossedFit:
    """Fit one or two factors; systems and levels are numbered from 0.

    BadInput where the ratings have no residual left, so that no variance can be compared with it. `check` is called
    before each product of matrices, and ends the work by raising.
    """
    try:
        return _RestrictedLikelihood(numbers, system, factors, check).fitted()
    except np.linalg.LinAlgError:
        raise _no_residual() from None


def _no_residual() -> BadInput:
    return BadInput("the ratings leave no residual", remedy="raters who differ in more than their level")


@dataclass(frozen=True)
class _Products:
    """Products with P = V⁻¹ − V⁻¹X(X'V⁻¹X)⁻¹X'V⁻¹ at variances relative to the residual's; W_kl = Z_k'PZ_l."""

    log_determinants: float  # of V and of X'V⁻¹X
    squares: float  # y'Py
    traces: Floats  # (factors,) of W_kk
    crossed: Floats  # (factors, factors): |W_kl|²
    slopes: Floats  # (factors,): |Z_k'Py|²
    curves: Floats  # (factors, factors): y'PZ_k W_kl Z_l'Py


class _RestrictedLikelihood:
    """The restricted likelihood of ratings as a function of the variances' ratios."""

    def __init__(self, numbers: Floats, system: Places, factors: Sequence[Places], check: Callable[[], None]) -> None:
        self.check = check
        self.count, self.systems = len(numbers), int(system.max()) + 1
        self.centre = float(numbers.mean())
        levels = [int(factor.max()) + 1 for factor in factors]
        self.order = sorted(range(len(factors)), key=lambda place: -levels[place])  # the larger one first
        placed = [factors[place] for place in self.order]
        y = numbers - self.centre
        self.noise = _NOISE * float(numbers @ numbers)
        first = placed[0]
        self.first_counts = np.bincount(first).astype(np.float64)
        others = [*placed[1:], system]
        self.rest = [int(other.max()) + 1 for other in others]  # widths of what is not eliminated: items, then systems
        self.inner = sum(self.rest[:-1])
        columns = np.concatenate([[0], np.cumsum(self.rest)])
        width = int(columns[-1])
        # (levels of the first factor, width + 1) and (width + 1, width + 1): products with the other factor, X and y
        self.with_first: Floats = np.zeros((len(self.first_counts), width + 1))
        self.among: Floats = np.zeros((width + 1, width + 1))
        for other, start in zip(others, columns, strict=False):
            np.add.at(self.with_first, (first, start + other), 1.0)
            self.among[start : start + int(other.max()) + 1, width] = np.bincount(other, y)
            for another, begin in zip(others, columns, strict=False):
                np.add.at(self.among, (start + other, begin + another), 1.0)
        self.with_first[:, width] = np.bincount(first, y)
        self.among[width, :] = self.among[:, width]
        self.among[width, width] = y @ y

    def fitted(self) -> CrossedFit:
        """Return the fit at the least restricted deviance."""
        if self.count <= self.systems:
            raise BadInput("the ratings leave no residual", remedy="more ratings than systems")
        ratios = self._ratios()
        if ratios.max() > _LARGEST_RATIO:
            raise _no_residual()
        return self._fit_at(ratios)

    def _ratios(self) -> Floats:
        """Return the ratios of the variances to the residual's: Newton's method, with ratios that stay at 0 held."""
        ratios = np.full(len(self.order), 1.0)
        products = self._products(ratios)
        for _ in range(_MOST_STEPS):
            gradient, hessian = self._derivatives(products)
            free = (ratios > 0) | (gradient < 0)
            if not free.any() or np.abs(gradient[free] * np.maximum(ratios[free], 1e-3)).max() < _FLAT:
                break
            step = np.zeros_like(ratios)
            step[free] = self._step(gradient[free], hessian[np.ix_(free, free)], products.crossed[np.ix_(free, free)])
            before, reached = self._deviance(products), ratios
            for halving in range(_MOST_HALVINGS):
                reached = np.clip(ratios + step / 2**halving, 0.0, _GROWTH * (1 + ratios))
                products = self._products(reached)
                if self._deviance(products) <= before + _FLAT:
                    break
            if np.abs(reached - ratios).max() <= 1e-12 * (1 + ratios.max()):
                break
            ratios = reached
            if ratios.max() > _LARGEST_RATIO:
                break
        return ratios

    @staticmethod
    def _step(gradient: Floats, hessian: Floats, expected: Floats) -> Floats:
        """Return the step to the least of the curve, with the expected curve where the real one has no least."""
        curve = hessian if np.linalg.eigvalsh(hessian).min() > 1e-6 * np.trace(expected) else expected
        return -np.asarray(np.linalg.lstsq(curve, gradient)[0], np.float64)

    def _eliminated(self, ratios: Floats) -> tuple[Floats, Floats, Floats]:
        """Return 1 + γN of the eliminated factor, and the products of the rest and y after it, scaled by √γ and not."""
        diagonal = 1 + ratios[0] * self.first_counts
        plain = self.among - (self.with_first * (ratios[0] / diagonal)[:, None]).T @ self.with_first
        scale = np.ones(len(plain))
        if len(ratios) > 1:
            scale[: self.inner] = np.sqrt(ratios[1])
        return diagonal, plain, scale

    def _products(self, ratios: Floats) -> _Products:
        self.check()
        diagonal, plain, scale = self._eliminated(ratios)
        width = len(plain) - 1
        system = plain[:-1, :-1] * np.outer(scale[:-1], scale[:-1])
        system[np.arange(self.inner), np.arange(self.inner)] += 1.0
        factor = np.asarray(np.linalg.cholesky(system), np.float64)
        solved = scipy.linalg.solve_triangular(factor, scale[:-1, None] * plain[:-1], lower=True)  # of all columns
        of_first = self.with_first / diagonal[:, None]  # Z_1'V_1⁻¹ of the rest and y
        through = scipy.linalg.solve_triangular(factor, (of_first[:, :-1] * scale[:-1]).T, lower=True)  # (width, first)
        squares = float(plain[width, width] - solved[:, width] @ solved[:, width])
        if squares <= self.noise:
            raise _no_residual()
        slope_first = of_first[:, width] - through.T @ solved[:, width]
        bare = self.first_counts / diagonal
        held = np.einsum("wf,wf->f", through, through)
        gram = through @ through.T
        traces = [bare.sum() - held.sum()]
        crossed = [[bare @ bare - 2 * bare @ held + float((gram * gram).sum())]]
        slopes = [slope_first @ slope_first]
        curves = [[bare @ slope_first**2 - float(((through @ slope_first) ** 2).sum())]]
        if len(ratios) > 1:
            inner = self.inner
            of_second = plain[:inner, :inner] - solved[:, :inner].T @ solved[:, :inner]  # W_22
            between = of_first[:, :inner] - through.T @ solved[:, :inner]  # W_12
            slope_second = plain[:inner, width] - solved[:, :inner].T @ solved[:, width]
            cross, curve = float((between * between).sum()), float(slope_first @ between @ slope_second)
            traces.append(np.trace(of_second))
            crossed = [[crossed[0][0], cross], [cross, float((of_second * of_second).sum())]]
            slopes.append(slope_second @ slope_second)
            curves = [[curves[0][0], curve], [curve, float(slope_second @ of_second @ slope_second)]]
        logs = float(np.log(diagonal).sum() + 2 * np.log(np.diag(factor)).sum())
        return _Products(
            log_determinants=logs,
            squares=squares,
            traces=np.array(traces),
            crossed=np.array(crossed),
            slopes=np.array(slopes),
            curves=np.array(curves),
        )

    def _deviance(self, products: _Products) -> float:
        freedom = self.count - self.systems
        return products.log_determinants + freedom * (1 + log(2 * pi * products.squares / freedom))

    def _derivatives(self, products: _Products) -> tuple[Floats, Floats]:
        """Return gradient and Hessian of the deviance by the ratios, the residual's variance at its best."""
        freedom, squares = self.count - self.systems, products.squares
        gradient = products.traces - freedom * products.slopes / squares
        outer = np.outer(products.slopes, products.slopes) / squares**2
        return gradient, -products.crossed + freedom * (2 * products.curves / squares - outer)

    def _fit_at(self, ratios: Floats) -> CrossedFit:
        products = self._products(ratios)
        residual = products.squares / (self.count - self.systems)
        diagonal, plain, scale = self._eliminated(ratios)
        inner = self.inner
        scaled = plain * np.outer(scale, scale)
        block = scaled[:inner, :inner] + np.eye(inner)
        by_inner = np.linalg.solve(block, scaled[:inner, inner:]) if inner else np.zeros((0, self.systems + 1))
        reduced = scaled[inner:, inner:] - scaled[:inner, inner:].T @ by_inner  # of X and y, with V⁻¹
        relative = np.asarray(np.linalg.inv(reduced[:-1, :-1]), np.float64)
        of_first = self.with_first / diagonal[:, None]
        with_first = of_first[:, inner:-1] - (of_first[:, :inner] * scale[:inner]) @ by_inner[:, :-1]
        with_factors = [with_first]  # Z_k'V⁻¹X
        if inner:
            with_factors.append(plain[:inner, inner:-1] - (plain[:inner, :inner] * scale[:inner]) @ by_inner[:, :-1])
        slopes = [relative @ (each.T @ each) @ relative for each in with_factors]
        of_residual = relative - sum(ratio * slope for ratio, slope in zip(ratios, slopes, strict=True))
        back = np.argsort(self.order)  # from the larger one first to the order given
        by_variance = self._variance_covariance(products, ratios, residual)
        places = [*back, len(back)]
        return CrossedFit(
            means=self.centre + relative @ reduced[:-1, -1],
            covariance=residual * relative,
            variances=(residual * ratios)[back],
            residual=residual,
            deviance=self._deviance(products),
            covariance_slopes=np.array([*(slopes[place] for place in back), of_residual]),
            variance_covariance=by_variance[np.ix_(places, places)],
        )

    def _variance_covariance(self, products: _Products, ratios: Floats, residual: float) -> Floats:
        """Return twice the inverse of the deviance's Hessian by the variances, those at 0 held there."""
        count = len(ratios)
        freedom, crossed, curves = self.count - self.systems, products.crossed, products.curves / residual
        slopes = products.slopes / residual
        # tr(PG_kPG_l) and y'PG_kPG_lPy with the residual, G = 1, last: PVP = P gives what has a residual in it
        traces, squares = np.zeros((count + 1, count + 1)), np.zeros((count + 1, count + 1))
        traces[:count, :count], squares[:count, :count] = crossed, curves
        traces[:count, count] = traces[count, :count] = products.traces - crossed @ ratios
        squares[:count, count] = squares[count, :count] = slopes - curves @ ratios
        left = freedom - 2 * ratios @ products.traces + ratios @ crossed @ ratios
        traces[count, count] = left
        squares[count, count] = freedom - 2 * ratios @ slopes + ratios @ curves @ ratios
        free = np.array([*(ratios > 0), True])
        covariance = np.zeros((count + 1, count + 1))
        observed, expected = ((2 * squares - traces) / residual**2)[np.ix_(free, free)], traces[np.ix_(free, free)]
        is_least = np.linalg.eigvalsh(observed * residual**2).min() > 1e-9 * np.trace(expected)
        curve = observed if is_least else expected / residual**2
        covariance[np.ix_(free, free)] = 2 * np.linalg.pinv(curve)
        return covariance
