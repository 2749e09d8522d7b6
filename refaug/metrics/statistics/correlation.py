"""Measure how well scores agree with people's ratings: coefficients, their tests, and a metric against each annotator.

Arrays go in and records come out; this module does not know items and metrics. A row is one rated reply, and a NaN a
missing score or rating. A figure that is not defined is None, and `why` tells the reason.

Values that differ by less than 10⁻¹² of the largest count as equal everywhere: means taken in another order must
neither break a tie nor give a constant metric a correlation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from refaug.core.errors import BadInput, Usage
from refaug.core.kernels.kernel import compiled
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
    from scipy import stats  # noqa: PLC0415  half a second to import, which a server avoids

    check_kinds([kind], KINDS)
    scores, ratings = (join_near_ties(values) for values in complete_rows(metric=metric, rating=rating))
    why = why_undefined(scores, ratings)
    if why is not None:
        return Correlation(kind, None, None, len(ratings), why)
    scipy_result = getattr(stats, _SCIPY[kind])(scores, ratings)
    return Correlation(kind, _clip(scipy_result.statistic), float(scipy_result.pvalue), len(ratings))


def spearman_alone(metric: ArrayLike, rating: ArrayLike) -> Correlation:
    """Return Spearman's ρ without its p: a nightly job needs no more, and does without SciPy."""
    scores, ratings = (join_near_ties(values) for values in complete_rows(metric=metric, rating=rating))
    why = why_undefined(scores, ratings)
    if why is not None:
        return Correlation("spearman", None, None, len(ratings), why)
    rho = np.corrcoef(_average_ranks(scores), _average_ranks(ratings))[0, 1]
    return Correlation("spearman", _clip(rho), None, len(ratings))


def _average_ranks(values: Floats) -> Floats:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[places])


_SCIPY: Mapping[str, str] = {
    "pearson": "pearsonr",
    "spearman": "spearmanr",
    "kendall": "kendalltau",  # its default is τ-b
}


def partial_spearman(metric: ArrayLike, rating: ArrayLike, length: ArrayLike) -> Correlation:
    """Return Spearman's ρ with reply length held fixed, since n-gram scores largely measure length.

    A parabola in the rank of the length is fitted to the ranks of score and rating by least squares, and the residuals
    are correlated. Raters may like neither short nor long replies, which a straight line would not remove.
    """
    from scipy import stats  # noqa: PLC0415

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
    from scipy import stats  # noqa: PLC0415

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
    from scipy import stats  # noqa: PLC0415

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
    from scipy import stats  # noqa: PLC0415

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


# ── Compiled loops of `agreement.py`: the correlations of every metric with the ratings in every draw ─────────────────


@compiled
def correlations_of_draws(
    counts: Floats,  # (draws, contexts): how often each context is in each draw
    clusters: NDArray[np.int64],
    variables: Floats,
    codes: NDArray[np.int64],
    ranked: bool,
) -> Floats:
    """Return the correlation of every variable with the last one in every draw (variables - 1, draws), or NaN."""
    metrics, rows = variables.shape[0] - 1, variables.shape[1]
    results = np.full((metrics, counts.shape[0]), np.nan)
    drawn, weights = np.empty(rows, np.int64), np.empty(rows)
    of_ratings, of_scores, by_code = np.empty(rows), np.empty(rows), np.empty(rows)
    for draw in range(counts.shape[0]):
        size = 0
        for row in range(rows):
            if counts[draw, clusters[row]] > 0:
                drawn[size] = row
                weights[size] = counts[draw, clusters[row]]
                size += 1
        ratings_square = _deviations(
            drawn[:size], weights, variables[metrics], codes[metrics], ranked, by_code, of_ratings
        )
        if ratings_square == 0:
            continue
        for metric in range(metrics):
            square = _deviations(drawn[:size], weights, variables[metric], codes[metric], ranked, by_code, of_scores)
            if square > 0:
                product = 0.0
                for i in range(size):
                    product += weights[i] * of_scores[i] * of_ratings[i]
                results[metric, draw] = min(1.0, max(-1.0, product / np.sqrt(square * ratings_square)))
    return results


@compiled
def _deviations(
    drawn: NDArray[np.int64],
    weights: Floats,
    values: Floats,
    codes: NDArray[np.int64],
    ranked: bool,
    by_code: Floats,
    deviations: Floats,
) -> float:
    """Write each drawn row's deviation from the draw's mean, and return the weighted sum of squares, or 0.

    The rank of a row in the draw is that of the middle of its ties: the rows below it, and half of those with its
    value. The values were sorted once, so a draw only counts how many rows have each. The sum is 0 if all values are
    equal.
    """
    lowest, highest = codes[drawn[0]], codes[drawn[0]]
    total, mean = 0.0, 0.0
    for i in range(len(drawn)):
        lowest, highest = min(lowest, codes[drawn[i]]), max(highest, codes[drawn[i]])
        total += weights[i]
        if not ranked:
            mean += weights[i] * values[drawn[i]]
    if lowest == highest:
        return 0.0
    if ranked:
        for code in range(lowest, highest + 1):
            by_code[code] = 0.0
        for i in range(len(drawn)):
            by_code[codes[drawn[i]]] += weights[i]
        below = 0.0
        for code in range(lowest, highest + 1):
            ties = by_code[code]
            by_code[code] = below + (ties - total) / 2  # the middle rank less the mean rank, (total + 1) / 2
            below += ties
    mean /= total
    square = 0.0
    for i in range(len(drawn)):
        deviation = by_code[codes[drawn[i]]] if ranked else values[drawn[i]] - mean
        deviations[i] = deviation
        square += weights[i] * deviation * deviation
    return square


@compiled
def partials_of_draws(
    counts: Floats,  # (draws, contexts): how often each context is in each draw
    clusters: NDArray[np.int64],
    codes: NDArray[np.int64],  # of the variables, the ratings last
    lengths: NDArray[np.int64],  # codes of the variable that is held fixed
) -> Floats:
    """Return Spearman's ρ of every variable with the last one, with the length held fixed by a parabola, in every draw.

    The shape is (variables - 1, draws), with NaN where undefined. The terms of the parabola are made orthogonal in each
    draw.
    """
    metrics, rows = codes.shape[0] - 1, codes.shape[1]
    results = np.full((metrics, counts.shape[0]), np.nan)
    drawn, weights, by_code = np.empty(rows, np.int64), np.empty(rows), np.empty(rows)
    line, square, of_ratings, of_scores = np.empty(rows), np.empty(rows), np.empty(rows), np.empty(rows)
    no_values = np.empty(0)
    for draw in range(counts.shape[0]):
        size, total = 0, 0.0
        for row in range(rows):
            if counts[draw, clusters[row]] > 0:
                drawn[size] = row
                weights[size] = counts[draw, clusters[row]]
                total += weights[size]
                size += 1
        drawn_rows = drawn[:size]
        linear = _deviations(drawn_rows, weights, no_values, lengths, True, by_code, line)
        curved = 0.0
        if linear > 0:
            for i in range(size):
                square[i] = line[i] * line[i] - linear / total
            curved = _remove_term(weights, line, linear, square, size, linear * linear / total)
        ratings = _residuals(drawn_rows, weights, codes[metrics], by_code, line, linear, square, curved, of_ratings)
        if ratings <= 0:
            continue
        for metric in range(metrics):
            rest = _residuals(drawn_rows, weights, codes[metric], by_code, line, linear, square, curved, of_scores)
            if rest > 0:
                product = 0.0
                for i in range(size):
                    product += weights[i] * of_scores[i] * of_ratings[i]
                results[metric, draw] = min(1.0, max(-1.0, product / np.sqrt(rest * ratings)))
    return results


@compiled
def _residuals(
    drawn: NDArray[np.int64],
    weights: Floats,
    codes: NDArray[np.int64],
    by_code: Floats,
    line: Floats,
    linear: float,
    square: Floats,
    curved: float,
    deviations: Floats,
) -> float:
    """Write the deviations of ranks without the two terms, and return their sum of squares: 0 if nothing remains."""
    size = len(drawn)
    whole = _deviations(drawn, weights, np.empty(0), codes, True, by_code, deviations)
    if whole == 0:
        return 0.0
    rest = whole
    if linear > 0:
        rest = _remove_term(weights, line, linear, deviations, size, whole)
    if curved > 0 and rest > 0:
        rest = _remove_term(weights, square, curved, deviations, size, whole)
    return rest


@compiled
def _remove_term(weights: Floats, term: Floats, of_term: float, values: Floats, size: int, whole: float) -> float:
    """Subtract from values what a term explains, and return the sum of their squares, where rounding counts as 0."""
    product = 0.0
    for i in range(size):
        product += weights[i] * term[i] * values[i]
    rest = 0.0
    for i in range(size):
        values[i] -= product / of_term * term[i]
        rest += weights[i] * values[i] * values[i]
    return rest if rest > 1e-18 * whole else 0.0
