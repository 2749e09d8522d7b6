"""Measure how well scores agree with people's ratings: coefficients, their tests, and a metric against each annotator.

Arrays go in and records come out; this module does not know items and metrics. A row is one rated reply, and a NaN a
missing score or rating. A figure that is not defined is None, and `why` tells the reason.

Values that differ by less than 10⁻¹² of the largest count as equal everywhere: means taken in another order must
neither break a tie nor give a constant metric a correlation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from refaug.core.errors import BadInput, Usage
from refaug.metrics.statistics.resampling import Floats, Labels

KINDS = ("pearson", "spearman", "kendall")
BOOTSTRAPPED_KINDS = ("pearson", "spearman")
PARTIAL = "partial-spearman"
DRAWN_KINDS = (*BOOTSTRAPPED_KINDS, PARTIAL)  # the last one needs lengths
FEWEST_ROWS = 3
NEAR = 1e-12
_EQUAL_RATINGS = "all ratings are equal"
_EQUAL_SCORES = "all scores are equal"


@dataclass(frozen=True, slots=True)
class Correlation:
    """One correlation over n rows; `why` is set where the value, or only its p, is missing."""

    kind: str
    value: float | None
    p: float | None
    n: int
    why: str | None = None


# One metric


def pearson(metric: ArrayLike, rating: ArrayLike) -> Correlation:
    """Return Pearson's r, over the rows that have both."""
    return correlate("pearson", metric, rating)


def spearman(metric: ArrayLike, rating: ArrayLike) -> Correlation:
    """Return Spearman's ρ with average ranks for ties, over the rows that have both."""
    return correlate("spearman", metric, rating)


def kendall(metric: ArrayLike, rating: ArrayLike) -> Correlation:
    """Return Kendall's τ-b, over the rows that have both."""
    return correlate("kendall", metric, rating)


def correlate(kind: str, metric: ArrayLike, rating: ArrayLike) -> Correlation:
    """Return the correlation of that kind, over the rows that have both."""
    check_kinds([kind], KINDS)
    scores, ratings = (join_near_ties(values) for values in complete_rows(metric=metric, rating=rating))
    why = why_undefined(scores, ratings)
    if why is not None:
        return Correlation(kind, None, None, len(ratings), why)
    scipy_result = _SCIPY[kind](scores, ratings)
    return Correlation(kind, _clip(scipy_result.statistic), float(scipy_result.pvalue), len(ratings))


_SCIPY: Mapping[str, Callable[..., Any]] = {
    "pearson": stats.pearsonr,
    "spearman": stats.spearmanr,
    "kendall": stats.kendalltau,  # its default is τ-b
}


def partial_spearman(metric: ArrayLike, rating: ArrayLike, length: ArrayLike) -> Correlation:
    """Return Spearman's ρ with reply length held fixed, since n-gram scores largely measure length.

    A parabola in the rank of the length is fitted to the ranks of score and rating by least squares, and the residuals
    are correlated. Raters may like neither short nor long replies, which a straight line would not remove.
    """
    rows = np.stack([join_near_ties(values) for values in complete_rows(metric=metric, rating=rating, length=length)])
    n = rows.shape[1]
    why = why_undefined(rows[0], rows[1])
    if why is not None:
        return Correlation(PARTIAL, None, None, n, why)
    ranks = stats.rankdata(rows, axis=1)
    residuals, terms = _without_parabola(ranks[:2], ranks[2])
    freedom = n - 1 - terms
    norms = np.linalg.norm(ranks[:2] - ranks[:2].mean(axis=1, keepdims=True), axis=1)
    residual_norms = np.linalg.norm(residuals, axis=1)
    if freedom < 1:
        why = f"{n} rows are too few to hold length fixed"
    elif (residual_norms <= 1e-9 * norms).any():
        why = f"length alone explains the {'scores' if residual_norms[0] <= 1e-9 * norms[0] else 'ratings'}"
    if why is not None:
        return Correlation(PARTIAL, None, None, n, why)
    rho = _clip(residuals[0] @ residuals[1] / (residual_norms[0] * residual_norms[1]))
    return Correlation(PARTIAL, rho, _p_of_correlation(rho, freedom), n)


def _without_parabola(ranks: Floats, length_rank: Floats) -> tuple[Floats, int]:
    """Return the residuals of each row of ranks after a parabola in the length, and the number of its real terms.

    With one or two distinct lengths some terms are redundant, and the solution of least norm leaves them out.
    """
    centred = length_rank / len(length_rank) - 0.5  # of size 1, so that no term dominates another
    design = np.stack([np.ones_like(centred), centred, centred**2], axis=1)
    solution, _, terms, _ = np.linalg.lstsq(design, ranks.T, rcond=1e-10)
    return ranks - (design @ solution).T, int(terms)


def _p_of_correlation(rho: float, freedom: int) -> float:
    """Return the two-sided p from Student's t."""
    with np.errstate(divide="ignore"):
        t = abs(rho) * np.sqrt(freedom / np.float64(1 - rho**2))
    return float(2 * stats.t.sf(t, freedom))


def why_undefined(metric: Floats, rating: Floats) -> str | None:
    """Return why no correlation of these two is defined, or None where one is."""
    if len(rating) < FEWEST_ROWS:
        return f"fewer than {FEWEST_ROWS} rows"
    if rating.min() == rating.max():
        return _EQUAL_RATINGS
    if metric.min() == metric.max():
        return _EQUAL_SCORES
    return None


def join_near_ties(values: Floats) -> Floats:
    """Return the values in units of the largest, with values equal that differ only by rounding."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0:
        return values
    scaled = (values / largest).ravel()
    order = np.argsort(scaled, kind="stable")
    in_order = scaled[order]
    starts = np.diff(in_order, prepend=-np.inf) > NEAR
    joined = np.empty_like(scaled)
    joined[order] = in_order[starts][np.cumsum(starts) - 1]
    return joined.reshape(values.shape)


# Tests


@dataclass(frozen=True, slots=True, kw_only=True)
class WilliamsTest:
    """Williams' t with n − 3 degrees of freedom, two-sided; a positive t means that the first metric agrees better."""

    t: float | None
    p: float | None
    n: int
    why: str | None = None
    note: str = "assumes independent rows"


def williams(r12: float, r13: float, r23: float, n: int) -> WilliamsTest:
    """Test whether two metrics agree differently with the same ratings (Williams 1959; as in Graham & Baldwin 2014).

    `r12` and `r13` are the correlations of the ratings with the two metrics, `r23` is that of the metrics. Several
    replies to one context are not independent rows: `refaug.metrics.statistics.agreement.mean_over_sets` accounts
    for that.
    """
    for r in (r12, r13, r23):
        if not -1 <= r <= 1:
            raise Usage(f"{r} is not a correlation", remedy="between -1 and 1")
    determinant = 1 - r12**2 - r13**2 - r23**2 + 2 * r12 * r13 * r23
    if n <= FEWEST_ROWS:
        return WilliamsTest(t=None, p=None, n=n, why=f"fewer than {FEWEST_ROWS + 1} rows")
    if determinant < -1e-9:
        return WilliamsTest(t=None, p=None, n=n, why="no three variables correlate like that: were the rows the same?")
    square = 2 * max(determinant, 0) * (n - 1) / (n - 3) + (r12 + r13) ** 2 / 4 * (1 - r23) ** 3
    if square <= NEAR:
        return WilliamsTest(t=None, p=None, n=n, why="one of the three follows from the others")
    t = (r12 - r13) * np.sqrt((n - 1) * (1 + r23) / square)
    return WilliamsTest(t=float(t), p=float(2 * stats.t.sf(abs(t), n - 3)), n=n)


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return Holm's step-down adjusted p values, in the same order; a test without a p is not in the family."""
    tested = [i for i, p in enumerate(p_values) if p is not None]
    for p in p_values:
        if p is not None and not 0 <= p <= 1:
            raise BadInput(f"{p} is not a p value", remedy="between 0 and 1, or None where there is no test")
    raw = np.array([p_values[i] for i in tested], dtype=np.float64)
    order = np.argsort(raw, kind="stable")
    stepped = np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1))
    adjusted: list[float | None] = [None] * len(p_values)
    for place, p in zip(order, np.minimum(stepped, 1.0), strict=True):
        adjusted[tested[place]] = float(p)
    return tuple(adjusted)


# Many correlations at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The same correlation for each annotator or system, with the mean and range of those that are defined."""

    kind: str
    each: Mapping[Any, Correlation]
    mean: float | None
    lowest: float | None
    highest: float | None
    why: str | None = None

    @classmethod
    def of(cls, kind: str, each: Mapping[Any, Correlation]) -> Spread:
        """Summarise the defined correlations; if none is defined, tell the first reason."""
        values = [correlation.value for correlation in each.values() if correlation.value is not None]
        if not values:
            why = next((correlation.why for correlation in each.values()), "there is nothing to correlate")
            return cls(kind=kind, each=each, mean=None, lowest=None, highest=None, why=why)
        mean = float(np.mean(values))
        return cls(kind=kind, each=each, mean=mean, lowest=min(values), highest=max(values))


def by_annotator(scores: Floats, ratings: Floats, kind: str = "spearman") -> Spread:
    """Return the metric against each annotator, a column of `ratings` (rows, annotators), on the rows with both."""
    columns = _annotator_columns(ratings)
    return Spread.of(kind, {column: correlate(kind, scores, rated) for column, rated in enumerate(columns)})


def between_annotators(ratings: Floats, kind: str = "spearman") -> Spread:
    """Return each pair of annotators, columns of `ratings` (rows, annotators), against each other, by both columns."""
    columns = _annotator_columns(ratings)
    return Spread.of(
        kind,
        {
            (first, second): _of_ratings(correlate(kind, columns[first], columns[second]))
            for first, second in combinations(range(len(columns)), 2)
        },
    )


def _of_ratings(correlation: Correlation) -> Correlation:
    """Return the correlation with a reason that says ratings, where both variables are ratings."""
    return correlation if correlation.why != _EQUAL_SCORES else replace(correlation, why=_EQUAL_RATINGS)


def _annotator_columns(ratings: Floats) -> Floats:
    """Return the ratings of each annotator (annotators, rows)."""
    columns = np.asarray(ratings, dtype=np.float64)
    if columns.ndim != 2:
        raise BadInput(f"ratings of shape {columns.shape} name no annotators", remedy="(rows, annotators)")
    return columns.T


def row_correlations(kind: str, first: Floats, second: Floats) -> Floats:
    """Return Pearson's or Spearman's correlation of each row of two tables (rows,); NaN where a row is constant."""
    constant = (np.ptp(first, axis=1) == 0) | (np.ptp(second, axis=1) == 0)
    x, y = (_deviations_of_rows(kind, table) for table in (first, second))
    square = np.where(constant, np.nan, (x * x).sum(axis=1) * (y * y).sum(axis=1))
    return np.asarray(np.clip((x * y).sum(axis=1) / np.sqrt(square), -1.0, 1.0))


def _deviations_of_rows(kind: str, table: Floats) -> Floats:
    values = stats.rankdata(table, axis=1) if kind == "spearman" else table
    return np.asarray(values - values.mean(axis=1, keepdims=True))


# Input


def check_kinds(kinds: Sequence[str], allowed: Sequence[str]) -> None:
    """Refuse an unknown kind of correlation."""
    for kind in kinds:
        if kind not in allowed:
            raise Usage(f"there is no correlation {kind!r} here", remedy=f"one of: {', '.join(allowed)}")


def complete_rows(**variables: ArrayLike) -> list[Floats]:
    """Return the rows in which no variable is missing."""
    vectors = row_vectors(**variables)
    complete = ~np.isnan(np.stack(vectors)).any(axis=0)
    return [vector[complete] for vector in vectors]


def row_vectors(**variables: ArrayLike) -> list[Floats]:
    """Return float64 vectors of one length, finite where they are not NaN."""
    vectors = [finite_or_missing(name, values) for name, values in variables.items()]
    if len({vector.shape for vector in vectors}) != 1 or vectors[0].ndim != 1:
        shapes = ", ".join(f"{name} {vector.shape}" for name, vector in zip(variables, vectors, strict=True))
        raise BadInput(f"these do not belong together: {shapes}", remedy="one value of each for every row")
    return vectors


def finite_or_missing(name: str, values: ArrayLike) -> Floats:
    """Return float64 values without infinite ones; a NaN is a missing value."""
    array = np.asarray(values, dtype=np.float64)
    if np.isinf(array).any():
        place = np.argwhere(np.isinf(array))[0].tolist()
        raise BadInput(f"{name} are infinite at {place}", remedy="a number, or NaN where there is none")
    return array


def row_labels(name: str, labels: Labels, rows: int) -> Labels:
    """Return the labels as an array, one for each row."""
    array = np.asarray(labels)
    if array.shape != (rows,):
        raise BadInput(f"{name} of shape {array.shape} for {rows} rows", remedy="one label for every row")
    return array


def _clip(correlation: float) -> float:
    """Clip a correlation, which rounding may carry beyond 1."""
    return float(min(1.0, max(-1.0, correlation)))
