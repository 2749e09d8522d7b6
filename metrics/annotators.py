"""How well people agree with each other: what ratings are worth, and as much as a metric can hope for.

Ratings are a matrix (rows, annotators), NaN where an annotator did not rate a row. Often column j is not the same
person in every row, since only the list of a row's ratings was published. Then these figures still mean something, as
they take the ratings of a row in any order: Krippendorff's α, ICC(1), `split_half`, and the mean of
`one_against_others`. Those about persons do not: κ of pairs and all that follows from it, ICC(2), ICC(3), and a single
annotator in `one_against_others`.

Where a figure is not defined it is None, and `why` says why; with one annotator nothing is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import krippendorff
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from core.errors import BadInput, Usage
from core.kernels import compiled
from metrics.correlation import BOOTSTRAPPED_KINDS, FEWEST_ROWS, Spread, correlate, join_near_ties, row_correlations
from metrics.resampling import Floats, check_level, check_resampling, percentile_interval

LEVELS = ("interval", "ordinal")
ONE_ANNOTATOR = "only one annotator"

_MOST_VALUES = 2_000  # the ordinal α takes memory for every pair of different ratings
_ROUNDING = 1e-24  # a mean square as small as this, of ratings up to 1, is none
_BLOCK_CELLS = 2_000_000


# κ


@dataclass(frozen=True, slots=True, kw_only=True)
class PairKappa:
    """Cohen's κ of two annotators (columns), over the n rows that both rated."""

    first: int
    second: int
    value: float | None
    n: int
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kappa:
    """All pairs of annotators, and the mean of those that have a κ."""

    mean: float | None
    pairs: tuple[PairKappa, ...]
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatorKappa:
    """One annotator's mean κ with the others, over `pairs` of them."""

    annotator: int
    value: float | None
    pairs: int
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnnotators:
    """Which columns are kept (annotators,), and for each what speaks for or against it."""

    mask: NDArray[np.bool_]
    reasons: tuple[str, ...]


def kappa(ratings: ArrayLike) -> Kappa:
    """Cohen's κ with quadratic weights, of every pair of annotators and on average (Cohen 1968).

    A disagreement counts as the square of the difference of the two ratings themselves, so that a scale needs no list
    of its categories and unevenly spaced ones are taken at their word.
    """
    matrix = _matrix(ratings)
    pairs = tuple(_pair_kappa(matrix, *pair) for pair in combinations(range(matrix.shape[1]), 2))
    known = [pair.value for pair in pairs if pair.value is not None]
    if not known:
        return Kappa(mean=None, pairs=pairs, why=pairs[0].why if pairs else ONE_ANNOTATOR)
    return Kappa(mean=float(np.mean(known)), pairs=pairs)


def _pair_kappa(matrix: Floats, first: int, second: int) -> PairKappa:
    """κ = 1 − observed / expected disagreement.

    Were the two independent, the mean of (x − y)² would be var x + var y + (mean x − mean y)².
    """
    both = matrix[~np.isnan(matrix[:, [first, second]]).any(axis=1)]
    x, y = both[:, first], both[:, second]
    n = len(both)
    if n < 2:
        return PairKappa(first=first, second=second, value=None, n=n, why="fewer than 2 rows in common")
    if x.min() == x.max() == y.min() == y.max():
        return PairKappa(first=first, second=second, value=None, n=n, why="all ratings are equal")
    expected = x.var() + y.var() + (x.mean() - y.mean()) ** 2
    return PairKappa(first=first, second=second, value=float(1 - np.mean((x - y) ** 2) / expected), n=n)


def kappa_of_each(ratings: ArrayLike) -> tuple[AnnotatorKappa, ...]:
    """Each annotator's mean κ with the others: a low one is someone who clicked through, or read the task otherwise."""
    matrix = _matrix(ratings)
    pairs = kappa(matrix).pairs
    each = []
    for annotator in range(matrix.shape[1]):
        own = [pair for pair in pairs if annotator in {pair.first, pair.second}]
        values = [pair.value for pair in own if pair.value is not None]
        why = None if values else (own[0].why if own else ONE_ANNOTATOR)
        mean = float(np.mean(values)) if values else None
        each.append(AnnotatorKappa(annotator=annotator, value=mean, pairs=len(values), why=why))
    return tuple(each)


def keep_annotators(ratings: ArrayLike, min_kappa: float) -> KeptAnnotators:
    """Drop annotators whose mean κ with the others is below `min_kappa`; all at once, not one after the other.

    Who has no κ is kept: nothing is known against them.
    """
    each = kappa_of_each(ratings)
    mask = np.array([one.value is None or one.value >= min_kappa for one in each], dtype=np.bool_)
    return KeptAnnotators(mask=mask, reasons=tuple(_reason(one, min_kappa) for one in each))


def _reason(one: AnnotatorKappa, min_kappa: float) -> str:
    if one.value is None:
        return f"kept: no mean κ, {one.why}"
    if one.value < min_kappa:
        return f"dropped: mean κ {one.value:.3f} is below {min_kappa:g}"
    return f"kept: mean κ {one.value:.3f}"


# α


@dataclass(frozen=True, slots=True, kw_only=True)
class Alpha:
    """Krippendorff's α over the rows with at least two ratings."""

    level: str
    value: float | None
    rows: int
    why: str | None = None


def krippendorff_alpha(ratings: ArrayLike, level: str = "interval") -> Alpha:
    """Krippendorff's α at the level interval or ordinal: agreement beyond chance, whoever rated which row."""
    if level not in LEVELS:
        raise Usage(f"there is no α at the level {level!r} here", remedy=f"one of: {', '.join(LEVELS)}")
    matrix = _matrix(ratings)
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
    value = _interval_alpha(rated) if level == "interval" else _ordinal_alpha(rated, distinct)
    return Alpha(level=level, value=value, rows=len(rated))


def _interval_alpha(rated: Floats) -> float:
    """1 − observed / expected mean square of differences, both written as sums of squares about a mean.

    Over all ordered pairs of m values, Σ (x − y)² is 2m times their sum of squares; within a row a pair counts
    1 / (m − 1). So neither pairs nor different values are listed, which standardised ratings have very many of.
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


# ICC


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

    ICC(1): every row has annotators of its own. ICC(2): the same annotators, a sample of many. ICC(3): the same, and
    these only, so that one being stricter does not count. With 1 it is about a single rating, with k about the mean.
    """

    forms: tuple[IntraclassCorrelation, ...]
    rows: int
    annotators: int

    def of(self, form: str) -> IntraclassCorrelation:
        """One form by its name, such as `ICC(2,k)`."""
        return next(one for one in self.forms if one.form == form)


FORMS = ("ICC(1,1)", "ICC(1,k)", "ICC(2,1)", "ICC(2,k)", "ICC(3,1)", "ICC(3,k)")


def intraclass_correlations(ratings: ArrayLike, level: float = 0.95) -> IntraclassCorrelations:
    """The six ICCs of Shrout & Fleiss (1979) from the mean squares, over rows that every annotator rated.

    The intervals are theirs, from F; those of ICC(2,k) are those of ICC(2,1) stepped up.
    """
    check_level(level)
    matrix = _matrix(ratings)
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
    error: float  # EMS: what is left

    @classmethod
    def of(cls, table: Floats) -> _MeanSquares:
        n, k = table.shape
        table = table / np.abs(table).max()  # a correlation has no unit, and rounding has a size then
        mean, of_rows, of_annotators = table.mean(), table.mean(axis=1), table.mean(axis=0)
        rests = table - of_rows[:, None] - of_annotators[None] + mean
        return cls(
            n=n,
            k=k,
            rows=_above_rounding(k * ((of_rows - mean) ** 2).sum() / (n - 1)),
            within=_above_rounding(((table - of_rows[:, None]) ** 2).sum() / (n * (k - 1))),
            annotators=_above_rounding(n * ((of_annotators - mean) ** 2).sum() / (k - 1)),
            error=_above_rounding((rests**2).sum() / ((n - 1) * (k - 1))),
        )

    def one_way(self, level: float) -> tuple[IntraclassCorrelation, IntraclassCorrelation]:
        return self._against("ICC(1,1)", "ICC(1,k)", self.within, self.n * (self.k - 1), level)

    def two_way_fixed(self, level: float) -> tuple[IntraclassCorrelation, IntraclassCorrelation]:
        return self._against("ICC(3,1)", "ICC(3,k)", self.error, (self.n - 1) * (self.k - 1), level)

    def _against(
        self, single: str, mean: str, noise: float, freedom: int, level: float
    ) -> tuple[IntraclassCorrelation, IntraclassCorrelation]:
        """Both forms that compare the rows with one kind of noise.

        The bounds put F/F_q for F = rows/noise; written without the division, they hold for noise 0 too.
        """
        k, rows = self.k, self.rows
        below = _quantile(level, self.n - 1, freedom)
        above = _quantile(level, freedom, self.n - 1)
        one = [
            _ratio(rows - noise, rows + (k - 1) * noise),
            _ratio(rows - below * noise, rows + (k - 1) * below * noise),
            _ratio(above * rows - noise, above * rows + (k - 1) * noise),
        ]
        many = [
            _ratio(rows - noise, rows),
            _ratio(rows - below * noise, rows),
            _ratio(above * rows - noise, above * rows),
        ]
        return _form(single, one), _form(mean, many)

    def two_way_random(self, level: float) -> tuple[IntraclassCorrelation, IntraclassCorrelation]:
        n, k, rows, error, annotators = self.n, self.k, self.rows, self.error, self.annotators
        value = _ratio(rows - error, rows + (k - 1) * error + k * (annotators - error) / n)
        freedom = self._freedom(value or 0.0)
        below = _quantile(level, n - 1, freedom)
        above = _quantile(level, freedom, n - 1)
        noise = k * annotators + (k * n - k - n) * error
        bounds = [
            _ratio(n * (rows - below * error), below * noise + n * rows),
            _ratio(n * (above * rows - error), noise + n * above * rows),
        ]
        stepped = [None if bound is None else _ratio(k * bound, 1 + (k - 1) * bound) for bound in bounds]
        many = _ratio(rows - error, rows + (annotators - error) / n)
        return _form("ICC(2,1)", [value, *bounds]), _form("ICC(2,k)", [many, *stepped])

    def _freedom(self, value: float) -> float:
        """Satterthwaite's degrees of freedom of the noise in ICC(2), with F_J = annotators/error multiplied out."""
        n, k = self.n, self.k
        judges = k * value * self.annotators
        error = (n * (1 + (k - 1) * value) - k * value) * self.error
        spread = (n - 1) * judges**2 + error**2
        return (k - 1) * (n - 1) * (judges + error) ** 2 / spread if spread > 0 else 1.0


def _above_rounding(square: float) -> float:
    return float(square) if square > _ROUNDING else 0.0


def _quantile(level: float, numerator: float, denominator: float) -> float:
    return float(stats.f.ppf((1 + level) / 2, numerator, denominator))


def _ratio(part: float, whole: float) -> float | None:
    """None where noise leaves nothing to compare with: a variance that is 0 (but for rounding) or estimated below 0."""
    return part / whole if whole > 1e-12 * abs(part) else None


def _form(form: str, figures: list[float | None]) -> IntraclassCorrelation:
    value, low, high = figures
    if value is None:
        return IntraclassCorrelation(
            form=form, value=None, why="the mean ratings of the rows do not differ beyond noise"
        )
    if low is None or high is None:
        return IntraclassCorrelation(form=form, value=value, why="its interval has no bounds")
    return IntraclassCorrelation(form=form, value=value, low=low, high=high)


# The human row: annotators against annotators


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """The correlation of half means, the mean of the draws, and what it is for all annotators (`stepped_up`)."""

    kind: str
    half: float | None
    stepped_up: float | None
    low: float | None = None
    high: float | None = None
    undefined: int = 0
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitHalf:
    """The agreement of half of the annotators with the other half, over rows with at least two ratings."""

    spearman: Reliability
    pearson: Reliability
    rows: int
    left_out: int


def split_half(ratings: ArrayLike, *, draws: int = 1000, seed: int = 0, level: float = 0.95) -> SplitHalf:
    """How well people agree with people, to stand as a row beside the metrics.

    In each draw the ratings of every row are divided at random into halves (of an odd number, one half has one more)
    and the means of the halves are correlated over the rows. The mean r of the draws is stepped up to the full number
    of annotators by Spearman & Brown's 2r / (1 + r); low and high are percentiles of r over the ways of halving.
    """
    check_resampling(draws=draws, seed=seed, level=level)
    matrix = _matrix(ratings)
    rated = matrix[(~np.isnan(matrix)).sum(axis=1) >= 2]
    left_out = len(matrix) - len(rated)
    why = None
    if matrix.shape[1] < 2:
        why = ONE_ANNOTATOR
    elif len(rated) < FEWEST_ROWS:
        why = f"fewer than {FEWEST_ROWS} rows with two ratings"
    if why is not None:
        nothing = [Reliability(kind=kind, half=None, stepped_up=None, why=why) for kind in ("spearman", "pearson")]
        return SplitHalf(spearman=nothing[0], pearson=nothing[1], rows=len(rated), left_out=left_out)
    drawn: dict[str, list[Floats]] = {kind: [] for kind in BOOTSTRAPPED_KINDS}
    for left, right in _halved(rated, draws, seed):
        for kind, results in drawn.items():
            results.append(row_correlations(kind, left, right))
    found = {kind: _reliability(kind, np.concatenate(results), level) for kind, results in drawn.items()}
    return SplitHalf(spearman=found["spearman"], pearson=found["pearson"], rows=len(rated), left_out=left_out)


def spearman_brown(r: float | None) -> float | None:
    """The correlation that twice as many annotators would have; none below 0, where there is nothing to step up."""
    return None if r is None or r < 0 else 2 * r / (1 + r)


def _reliability(kind: str, drawn: Floats, level: float) -> Reliability:
    defined = drawn[~np.isnan(drawn)]
    undefined = len(drawn) - len(defined)
    if len(defined) == 0:
        return Reliability(kind=kind, half=None, stepped_up=None, undefined=undefined, why="all ratings are equal")
    half = float(defined.mean())
    low, high = percentile_interval(defined, level)
    why = "the halves do not agree, so there is nothing to step up" if half < 0 else None
    return Reliability(
        kind=kind, half=half, stepped_up=spearman_brown(half), low=low, high=high, undefined=undefined, why=why
    )


def _halved(rated: Floats, draws: int, seed: int) -> Iterator[tuple[Floats, Floats]]:
    """The means of both halves of every row (draws, rows), in blocks of draws."""
    random = np.random.Generator(np.random.PCG64(seed))
    block = max(1, _BLOCK_CELLS // rated.size)
    for start in range(0, draws, block):
        chances = random.random((min(block, draws - start), *rated.shape))
        halves = join_near_ties(_half_means(rated, chances))
        yield halves[0], halves[1]


@compiled
def _half_means(rated: Floats, chances: Floats) -> Floats:
    """Deal out each row's ratings (2, draws, rows): one is taken with the chance that makes all halves alike likely.

    Of `open_places` in the first half and `waiting` ratings, the next is taken with chance open_places / waiting.
    """
    draws, rows, annotators = chances.shape
    means = np.empty((2, draws, rows))
    for draw in range(draws):
        for row in range(rows):
            waiting = 0
            for annotator in range(annotators):
                if not np.isnan(rated[row, annotator]):
                    waiting += 1
            first = waiting // 2
            second = waiting - first
            open_places = first
            sums = [0.0, 0.0]
            for annotator in range(annotators):
                if not np.isnan(rated[row, annotator]):
                    if chances[draw, row, annotator] * waiting < open_places:
                        sums[0] += rated[row, annotator]
                        open_places -= 1
                    else:
                        sums[1] += rated[row, annotator]
                    waiting -= 1
            means[0, draw, row] = sums[0] / first
            means[1, draw, row] = sums[1] / second
    return means


def one_against_others(ratings: ArrayLike, kind: str = "spearman") -> Spread:
    """Each annotator against the mean of the others, over the rows that this one and another rated."""
    matrix = _matrix(ratings)
    each = {}
    for annotator in range(matrix.shape[1]):
        others = np.delete(matrix, annotator, axis=1)
        known = ~np.isnan(others)
        rated = known.sum(axis=1)
        mean = np.where(rated > 0, np.where(known, others, 0.0).sum(axis=1) / np.maximum(rated, 1), np.nan)
        each[annotator] = correlate(kind, matrix[:, annotator], mean)
    if len(each) < 2:
        return replace(Spread.of(kind, {}), why=ONE_ANNOTATOR)
    return Spread.of(kind, each)


# Input


def _matrix(ratings: ArrayLike) -> Floats:
    """Ratings as float64 (rows, annotators), finite where they are not NaN."""
    matrix = np.asarray(ratings, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise BadInput(f"ratings of shape {matrix.shape} are not a matrix", remedy="(rows, annotators)")
    if np.isinf(matrix).any():
        row = int(np.isinf(matrix).any(axis=1).argmax())
        raise BadInput(f"the ratings of row {row} are infinite", remedy="a number, or NaN where there is none")
    return matrix
