"""How well annotators agree: Krippendorff's α, Cohen's κ, intraclass correlations, and annotators with annotators.

Ratings are a matrix (rows, annotators), NaN where an annotator did not rate a row. Often column j is not the same
person in every row, since only the list of a row's ratings was published. Then those figures still mean something that
take the ratings of a row in any order: Krippendorff's α, ICC(1), `split_half`, and the mean of `one_against_others`.
Figures about persons do not: κ of pairs and everything derived from it, ICC(2), ICC(3), and a single annotator in
`one_against_others`.

A figure that is not defined is None, and `why` tells the reason; with one annotator no figure is defined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from refaug.core.errors import BadInput, Usage
from refaug.core.kernels.kernel import compiled
from refaug.metrics.statistics import correlation
from refaug.metrics.statistics.correlation import FEWEST_ROWS
from refaug.metrics.statistics.resampling import Floats, check_level, check_resampling, percentile_interval

ONE_ANNOTATOR = "only one annotator"


def ratings_matrix(ratings: ArrayLike) -> Floats:
    """Return ratings as float64 (rows, annotators), finite where they are not NaN."""
    matrix = np.asarray(ratings, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise BadInput(f"ratings of shape {matrix.shape} are not a matrix", remedy="(rows, annotators)")
    if np.isinf(matrix).any():
        row = int(np.isinf(matrix).any(axis=1).argmax())
        raise BadInput(f"the ratings of row {row} are infinite", remedy="a number, or NaN where there is none")
    return matrix


# ── Krippendorff's α: the agreement of annotators, whichever of them rated which row ──────────────────────────────────

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
    import krippendorff  # noqa: PLC0415  servers score without it

    return float(krippendorff.alpha(value_counts=counts, value_domain=distinct, level_of_measurement="ordinal"))


# ── Cohen's κ of annotators with each other, and leaving out those who disagree with the others ───────────────────────

KAPPA_THRESHOLDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


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
    """The κ of all pairs of annotators, and the mean of those that are defined."""

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
class AnnotatorSelection:
    """A mask of the kept columns (annotators,), and for each the reason why it is kept or dropped."""

    mask: NDArray[np.bool_]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KappaShare:
    """How many pairs of annotators have a κ above a threshold, and which annotators `select_annotators` keeps at it."""

    threshold: float
    above: int
    pairs: int  # with a κ
    annotators: tuple[int, ...]

    @property
    def share(self) -> float | None:
        """The share of the pairs that are above; None where no pair has a κ."""
        return self.above / self.pairs if self.pairs else None


def kappa_shares(ratings: ArrayLike, thresholds: Sequence[float] = KAPPA_THRESHOLDS) -> tuple[KappaShare, ...]:
    """Count the pairs of annotators above each threshold (as Sharma et al. 2017), and list who remains at it (ours)."""
    matrix = ratings_matrix(ratings)
    values = [pair.value for pair in kappa(matrix).pairs if pair.value is not None]
    means = kappa_of_each(matrix)
    return tuple(
        KappaShare(
            threshold=threshold,
            above=sum(value > threshold for value in values),
            pairs=len(values),
            annotators=tuple(mean.annotator for mean in means if _is_kept(mean, threshold)),
        )
        for threshold in thresholds
    )


def _is_kept(mean: AnnotatorKappa, min_kappa: float) -> bool:
    return mean.value is None or mean.value >= min_kappa


def kappa(ratings: ArrayLike, check: Callable[[], None] = lambda: None) -> Kappa:
    """Return Cohen's κ with quadratic weights, of every pair of annotators and on average (Cohen 1968).

    A disagreement counts as the squared difference of the two ratings, so that a scale needs no list of its categories,
    and uneven distances count as they are. `check` is called before each pair, and ends the work by raising.
    """
    matrix, pairs = ratings_matrix(ratings), list[PairKappa]()
    for first, second in combinations(range(matrix.shape[1]), 2):
        check()
        pairs.append(_pair_kappa(matrix, first, second))
    values = [pair.value for pair in pairs if pair.value is not None]
    if not values:
        return Kappa(mean=None, pairs=tuple(pairs), why=pairs[0].why if pairs else ONE_ANNOTATOR)
    return Kappa(mean=float(np.mean(values)), pairs=tuple(pairs))


def _pair_kappa(matrix: Floats, first: int, second: int) -> PairKappa:
    """Return κ = 1 − observed / expected disagreement.

    If the two were independent, the mean of (x − y)² would be var x + var y + (mean x − mean y)².
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
    """Return each annotator's mean κ with the others; a low one points to an annotator who misread the task."""
    matrix = ratings_matrix(ratings)
    pairs = kappa(matrix).pairs
    each, pairs_of = [], [list[PairKappa]() for _ in range(matrix.shape[1])]
    for pair in pairs:
        pairs_of[pair.first].append(pair)
        pairs_of[pair.second].append(pair)
    for annotator, pairs_of_annotator in enumerate(pairs_of):
        values = [pair.value for pair in pairs_of_annotator if pair.value is not None]
        why = None if values else (pairs_of_annotator[0].why if pairs_of_annotator else ONE_ANNOTATOR)
        mean = float(np.mean(values)) if values else None
        each.append(AnnotatorKappa(annotator=annotator, value=mean, pairs=len(values), why=why))
    return tuple(each)


def select_annotators(ratings: ArrayLike, min_kappa: float) -> AnnotatorSelection:
    """Drop annotators whose mean κ with the others is below `min_kappa`, all at once.

    Annotators without a κ are kept, since nothing counts against them.
    """
    each = kappa_of_each(ratings)
    mask = np.array([_is_kept(mean, min_kappa) for mean in each], dtype=np.bool_)
    return AnnotatorSelection(mask=mask, reasons=tuple(_reason(mean, min_kappa) for mean in each))


def _reason(mean: AnnotatorKappa, min_kappa: float) -> str:
    if mean.value is None:
        return f"kept: no mean κ, {mean.why}"
    if mean.value < min_kappa:
        return f"dropped: mean κ {mean.value:.3f} is below {min_kappa:g}"
    return f"kept: mean κ {mean.value:.3f}"


# ── The agreement of annotators with annotators, which bounds the agreement that a metric can reach ───────────────────

_BLOCK_CELLS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """The correlation of half means, the mean of the draws, and its value for all annotators (`stepped_up`)."""

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
    """Return the agreement of people with people, for a row beside the metrics.

    In each draw the ratings of every row are divided at random into halves (of an odd number, one half has one more)
    and the means of the halves are correlated over the rows. The mean r of the draws is stepped up to the full number
    of annotators by Spearman & Brown's 2r / (1 + r); low and high are percentiles of r over the ways of halving.
    """
    check_resampling(draws=draws, seed=seed, level=level)
    matrix = ratings_matrix(ratings)
    rated = matrix[(~np.isnan(matrix)).sum(axis=1) >= 2]
    left_out = len(matrix) - len(rated)
    why = None
    if matrix.shape[1] < 2:
        why = ONE_ANNOTATOR
    elif len(rated) < correlation.FEWEST_ROWS:
        why = f"fewer than {correlation.FEWEST_ROWS} rows with two ratings"
    if why is not None:
        undefined = [Reliability(kind=kind, half=None, stepped_up=None, why=why) for kind in ("spearman", "pearson")]
        return SplitHalf(spearman=undefined[0], pearson=undefined[1], rows=len(rated), left_out=left_out)
    draws_by_kind: dict[str, list[Floats]] = {kind: [] for kind in correlation.BOOTSTRAPPED_KINDS}
    for first_means, second_means in _halve(rated, draws, seed):
        for kind, results in draws_by_kind.items():
            results.append(correlation.row_correlations(kind, first_means, second_means))
    spearman, pearson = (
        _reliability(kind, np.concatenate(draws_by_kind[kind]), level) for kind in ("spearman", "pearson")
    )
    return SplitHalf(spearman=spearman, pearson=pearson, rows=len(rated), left_out=left_out)


def spearman_brown(r: float | None) -> float | None:
    """Return the correlation for twice as many annotators; None below 0, where stepping up has no meaning."""
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


def _halve(rated: Floats, draws: int, seed: int) -> Iterator[tuple[Floats, Floats]]:
    """Yield the means of both halves of every row (draws, rows), in blocks of draws."""
    random = np.random.Generator(np.random.PCG64(seed))
    block = max(1, _BLOCK_CELLS // rated.size)
    for start in range(0, draws, block):
        chances = random.random((min(block, draws - start), *rated.shape))
        halves = correlation.join_near_ties(_half_means(rated, chances))
        yield halves[0], halves[1]


@compiled
def _half_means(rated: Floats, chances: Floats) -> Floats:
    """Divide each row's ratings into halves (2, draws, rows), so that all divisions are equally likely.

    With `open_places` left in the first half and `waiting` ratings left, the next rating goes there with probability
    open_places / waiting.
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


def one_against_others(ratings: ArrayLike, kind: str = "spearman") -> correlation.Spread:
    """Return the correlation of each annotator with the mean of the others, over rows that both rated."""
    matrix = ratings_matrix(ratings)
    each = {}
    for annotator in range(matrix.shape[1]):
        other_ratings = np.delete(matrix, annotator, axis=1)
        is_rated = ~np.isnan(other_ratings)
        rated = is_rated.sum(axis=1)
        mean = np.where(rated > 0, np.where(is_rated, other_ratings, 0.0).sum(axis=1) / np.maximum(rated, 1), np.nan)
        each[annotator] = correlation.correlate(kind, matrix[:, annotator], mean)
    if len(each) < 2:
        return replace(correlation.Spread.of(kind, {}), why=ONE_ANNOTATOR)
    return correlation.Spread.of(kind, each)


# ── The six intraclass correlations of Shrout & Fleiss ────────────────────────────────────────────────────────────────

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
    from scipy import stats  # noqa: PLC0415  half a second to import

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
