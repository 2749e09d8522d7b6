"""How well scores agree with people's ratings, and whether one metric agrees better than another.

Arrays in, records out; items and metrics are unknown here. A row is one rated reply, and a NaN a score or rating that
is missing. Replies to one context are not independent, so intervals and comparisons draw whole contexts. Where a figure
is not defined it is None, and `why` says why.

Values nearer to each other than a 10⁻¹² of the largest count as equal everywhere: means taken in another order must
neither break a tie nor give a constant metric a correlation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from core.errors import BadInput, Usage
from core.kernels import compiled
from metrics.resampling import Estimate, Floats, Labels, check_resampling, count_blocks, percentile_interval

KINDS = ("pearson", "spearman", "kendall")
BOOTSTRAPPED_KINDS = ("pearson", "spearman")
FEWEST_ROWS = 3
FEWEST_SYSTEMS_FOR_P = 8

_NEAR = 1e-12
_BLOCK_CELLS = 2_000_000


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
    """Pearson's r, over the rows that have both."""
    return correlate("pearson", metric, rating)


def spearman(metric: ArrayLike, rating: ArrayLike) -> Correlation:
    """Spearman's ρ with average ranks for ties, over the rows that have both."""
    return correlate("spearman", metric, rating)


def kendall(metric: ArrayLike, rating: ArrayLike) -> Correlation:
    """Kendall's τ-b, over the rows that have both."""
    return correlate("kendall", metric, rating)


def correlate(kind: str, metric: ArrayLike, rating: ArrayLike) -> Correlation:
    """The correlation of that kind, over the rows that have both."""
    check_kinds([kind], KINDS)
    scores, ratings = (join_near_ties(values) for values in _complete(metric=metric, rating=rating))
    why = why_undefined(scores, ratings)
    if why is not None:
        return Correlation(kind, None, None, len(ratings), why)
    result = _SCIPY[kind](scores, ratings)
    return Correlation(kind, _bounded(result.statistic), float(result.pvalue), len(ratings))


_SCIPY: Mapping[str, Callable[..., Any]] = {
    "pearson": stats.pearsonr,
    "spearman": stats.spearmanr,
    "kendall": stats.kendalltau,  # its default is τ-b
}


def partial_spearman(metric: ArrayLike, rating: ArrayLike, length: ArrayLike) -> Correlation:
    """Spearman's ρ with reply length held fixed: much of what n-gram scores measure is length.

    The ranks of score and rating are freed of what a parabola in the rank of the length explains (least squares), and
    the rests are correlated. Raters may like neither short nor long replies: a straight line would leave that in.
    """
    rows = np.stack([join_near_ties(values) for values in _complete(metric=metric, rating=rating, length=length)])
    n = rows.shape[1]
    why = why_undefined(rows[0], rows[1])
    if why is not None:
        return Correlation("partial-spearman", None, None, n, why)
    ranks = stats.rankdata(rows, axis=1)
    rests, terms = _without_parabola(ranks[:2], ranks[2])
    freedom = n - 1 - terms
    whole = np.linalg.norm(ranks[:2] - ranks[:2].mean(axis=1, keepdims=True), axis=1)
    left = np.linalg.norm(rests, axis=1)
    if freedom < 1:
        why = f"{n} rows are too few to hold length fixed"
    elif (left <= 1e-9 * whole).any():
        why = f"length alone explains the {'scores' if left[0] <= 1e-9 * whole[0] else 'ratings'}"
    if why is not None:
        return Correlation("partial-spearman", None, None, n, why)
    value = _bounded(rests[0] @ rests[1] / (left[0] * left[1]))
    return Correlation("partial-spearman", value, _p_of_correlation(value, freedom), n)


def _without_parabola(ranks: Floats, length_rank: Floats) -> tuple[Floats, int]:
    """What a parabola in the length leaves of each row of ranks, and how many terms it really has.

    With one or two different lengths some terms say the same, and the solution of least norm leaves them out.
    """
    centred = length_rank / len(length_rank) - 0.5  # of size 1, so that no term drowns another
    design = np.stack([np.ones_like(centred), centred, centred**2], axis=1)
    solution, _, terms, _ = np.linalg.lstsq(design, ranks.T, rcond=1e-10)
    return ranks - (design @ solution).T, int(terms)


def _p_of_correlation(value: float, freedom: int) -> float:
    """Two-sided, from Student's t."""
    with np.errstate(divide="ignore"):
        t = abs(value) * np.sqrt(freedom / np.float64(1 - value**2))
    return float(2 * stats.t.sf(t, freedom))


def why_undefined(metric: Floats, rating: Floats) -> str | None:
    """Why no correlation of these two is defined, or None where one is."""
    if len(rating) < FEWEST_ROWS:
        return f"fewer than {FEWEST_ROWS} rows"
    if rating.min() == rating.max():
        return "all ratings are equal"
    if metric.min() == metric.max():
        return "all scores are equal"
    return None


def join_near_ties(values: Floats) -> Floats:
    """The values in units of the largest, with those equal that only rounding keeps apart."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0:
        return values
    scaled = (values / largest).ravel()
    order = np.argsort(scaled, kind="stable")
    in_order = scaled[order]
    starts = np.diff(in_order, prepend=-np.inf) > _NEAR
    joined = np.empty_like(scaled)
    joined[order] = in_order[starts][np.cumsum(starts) - 1]
    return joined.reshape(values.shape)


# Tests


@dataclass(frozen=True, slots=True, kw_only=True)
class WilliamsTest:
    """Williams' t with n − 3 degrees of freedom, two-sided; a positive t says that the first metric agrees better."""

    t: float | None
    p: float | None
    n: int
    why: str | None = None
    note: str = "assumes independent rows"


def williams(r12: float, r13: float, r23: float, n: int) -> WilliamsTest:
    """Whether two metrics agree differently with the same ratings (Williams 1959; as in Graham & Baldwin 2014).

    `r12` and `r13` are the correlations of the ratings with the two metrics, `r23` is that of the metrics. Several
    replies to one context are not independent rows: `cluster_bootstrap` is the test that allows for it.
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
    if square <= _NEAR:
        return WilliamsTest(t=None, p=None, n=n, why="one of the three follows from the others")
    t = (r12 - r13) * np.sqrt((n - 1) * (1 + r23) / square)
    return WilliamsTest(t=float(t), p=float(2 * stats.t.sf(abs(t), n - 3)), n=n)


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Holm's step-down adjusted p values, in the order given; a test without a p is not one of the family."""
    given = [i for i, p in enumerate(p_values) if p is not None]
    for p in p_values:
        if p is not None and not 0 <= p <= 1:
            raise BadInput(f"{p} is not a p value", remedy="between 0 and 1, or None where there is no test")
    raw = np.array([p_values[i] for i in given], dtype=np.float64)
    order = np.argsort(raw, kind="stable")
    stepped = np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1))
    adjusted: list[float | None] = [None] * len(p_values)
    for place, p in zip(order, np.minimum(stepped, 1.0), strict=True):
        adjusted[given[place]] = float(p)
    return tuple(adjusted)


# Metrics against each other: the paired bootstrap over contexts


@dataclass(frozen=True)
class RatedSet:
    """The rated replies of one set: scores of M metrics (M, rows), their ratings and their contexts (rows,)."""

    scores: Floats
    ratings: Floats
    clusters: Labels


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCount:
    """The rows of a set that were compared, and those left out since a metric or the ratings have no value there."""

    rows: int
    contexts: int
    left_out: int
    unrated: int
    unscored: tuple[int, ...]  # by each metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """One metric's correlation with the ratings, and what it has over the baseline (None for that one itself)."""

    correlation: Estimate
    difference: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All metrics on the same rows and the same draws: by kind of correlation, in the order of the metrics."""

    by_kind: Mapping[str, tuple[Agreement, ...]]
    sets: tuple[RowCount, ...]
    draws: int
    level: float
    baseline: int | None


def cluster_bootstrap(
    scores: Floats,
    ratings: Floats,
    clusters: Labels,
    *,
    kinds: Sequence[str] = BOOTSTRAPPED_KINDS,
    draws: int = 10_000,
    seed: int = 0,
    baseline: int | None = None,
    level: float = 0.95,
) -> Comparison:
    """Percentile intervals of the correlations, and of their differences from that of a baseline metric.

    Whole contexts are drawn with replacement, the same for all metrics, and every correlation is computed anew in
    each draw (Spearman's with the ranks that the rows have in the draw). A row that one of the metrics has no score
    for is left out for all. With d the differences of the B draws in which both are defined, the two-sided
    p = min(1, 2 · (min(#{d ≤ 0}, #{d ≥ 0}) + 1) / (B + 1)).
    """
    only = RatedSet(scores, ratings, clusters)
    return mean_over_sets([only], kinds=kinds, draws=draws, seed=seed, baseline=baseline, level=level)


def mean_over_sets(
    sets: Sequence[RatedSet],
    *,
    kinds: Sequence[str] = BOOTSTRAPPED_KINDS,
    draws: int = 10_000,
    seed: int = 0,
    baseline: int | None = None,
    level: float = 0.95,
) -> Comparison:
    """The same for the mean of the correlations on several sets: contexts are drawn within each set.

    Every set counts the same, whatever its size. A draw in which one of the sets has no correlation has no mean.
    """
    check_resampling(draws=draws, seed=seed, level=level)
    check_kinds(kinds, BOOTSTRAPPED_KINDS)
    compared = [_ComparedSet.of(a_set) for a_set in sets]
    metrics = {len(a_set.counted.unscored) for a_set in compared}
    if len(metrics) != 1:
        raise BadInput(f"{len(sets)} sets have {sorted(metrics)} metrics", remedy="at least one set, all of the same")
    if baseline is not None and not 0 <= baseline < min(metrics):
        raise Usage(f"there is no metric {baseline} to be the baseline", remedy=f"from 0 to {min(metrics) - 1}")
    by_kind: dict[str, tuple[Agreement, ...]] = {}
    for kind in kinds:
        points = np.mean([a_set.points(kind) for a_set in compared], axis=0)
        drawn = np.mean([a_set.drawn(kind, draws, [seed, s]) for s, a_set in enumerate(compared)], axis=0)
        reasons = [_reason(compared, metric) for metric in range(min(metrics))]
        by_kind[kind] = _agreements(points, drawn, reasons, baseline, level)
    return Comparison(
        by_kind=by_kind,
        sets=tuple(a_set.counted for a_set in compared),
        draws=draws,
        level=level,
        baseline=baseline,
    )


@dataclass(frozen=True)
class _ComparedSet:
    """A set without the rows that cannot be compared, made ready to be drawn from."""

    variables: Floats  # (metrics + 1, rows), the ratings last
    codes: NDArray[np.int64]  # of the same shape: the place of each value among the distinct ones
    clusters: NDArray[np.int64]  # (rows,), from 0
    counted: RowCount

    @classmethod
    def of(cls, rated: RatedSet) -> _ComparedSet:
        """Leave out and count the rows in which any variable is missing."""
        scores = np.atleast_2d(_finite_or_missing("scores", rated.scores))
        ratings = _finite_or_missing("ratings", rated.ratings)
        labels = np.asarray(rated.clusters)
        if scores.ndim != 2 or ratings.ndim != 1 or not scores.shape[1] == len(ratings) == len(labels):
            raise BadInput(
                f"scores of shape {scores.shape}, {ratings.shape} ratings and {labels.shape} contexts do not match",
                remedy="scores are (metrics, rows), and each row has one rating and one context",
            )
        together = np.concatenate([scores, ratings[None]])
        complete = ~np.isnan(together).any(axis=0)
        variables = np.stack([join_near_ties(variable) for variable in together[:, complete]])
        codes = np.stack([np.unique(variable, return_inverse=True)[1] for variable in variables])
        contexts, clusters = np.unique(labels[complete], return_inverse=True)
        counted = RowCount(
            rows=int(complete.sum()),
            contexts=len(contexts),
            left_out=int((~complete).sum()),
            unrated=int(np.isnan(ratings).sum()),
            unscored=tuple(np.isnan(scores).sum(axis=1).tolist()),
        )
        return cls(variables, codes.astype(np.int64), clusters.astype(np.int64), counted)

    def why_undefined(self, metric: int) -> str | None:
        """Why the metric has no correlation on all rows."""
        return why_undefined(self.variables[metric], self.variables[-1])

    def points(self, kind: str) -> Floats:
        """The correlations (metrics,) on all rows; NaN where undefined."""
        return self._correlations(kind, iter([np.ones((1, self.counted.contexts))]))[:, 0]

    def drawn(self, kind: str, draws: int, seed: list[int]) -> Floats:
        """The correlations in every draw (metrics, draws); NaN where undefined. Without two contexts, no draws."""
        if self.counted.contexts < 2:
            return np.full((len(self.variables) - 1, draws), np.nan)
        return self._correlations(kind, count_blocks(self.counted.contexts, draws, seed))

    def _correlations(self, kind: str, blocks: Iterator[Floats]) -> Floats:
        if self.counted.rows < FEWEST_ROWS:
            return np.concatenate(
                [np.full((len(self.variables) - 1, len(counts)), np.nan) for counts in blocks], axis=1
            )
        ranked = kind == "spearman"
        results = [_of_draws(counts, self.clusters, self.variables, self.codes, ranked) for counts in blocks]
        return np.concatenate(results, axis=1)


def _reason(compared: Sequence[_ComparedSet], metric: int) -> tuple[str | None, str | None]:
    """Why a metric has no value, and why it has no interval; with several sets, in which."""
    whose = [f"in set {s + 1} of {len(compared)}: " if len(compared) > 1 else "" for s in range(len(compared))]
    no_value = [f"{of}{why}" for of, c in zip(whose, compared, strict=True) if (why := c.why_undefined(metric))]
    no_draws = [f"{of}fewer than 2 contexts" for of, c in zip(whose, compared, strict=True) if c.counted.contexts < 2]
    return next(iter(no_value), None), next(iter(no_draws), None)


def _agreements(
    points: Floats,
    drawn: Floats,
    reasons: Sequence[tuple[str | None, str | None]],
    baseline: int | None,
    level: float,
) -> tuple[Agreement, ...]:
    agreements = []
    for metric, (no_value, no_draws) in enumerate(reasons):
        difference = None
        if baseline is not None and metric != baseline:
            of_baseline = reasons[baseline][0]
            missing = no_value or (of_baseline and f"the baseline: {of_baseline}")
            # Two metrics that are the same but for scale differ by rounding alone, and rounding may have a preference.
            deltas = _rounding_off(drawn[metric] - drawn[baseline])
            apart = float(_rounding_off(points[metric] - points[baseline]))
            difference = _interval(apart, deltas, level, missing, no_draws)
            difference = replace(difference, p=_two_sided(deltas) if difference.low is not None else None)
        correlation = _interval(float(points[metric]), drawn[metric], level, no_value, no_draws)
        agreements.append(Agreement(correlation=correlation, difference=difference))
    return tuple(agreements)


def _interval(value: float, drawn: Floats, level: float, no_value: str | None, no_draws: str | None) -> Estimate:
    """A figure and the interval of its draws, or why it has none."""
    defined = drawn[~np.isnan(drawn)]
    if no_value is not None:
        return Estimate(why=no_value)
    if no_draws is not None:
        return Estimate(value=value, why=no_draws)
    if len(defined) == 0:
        return Estimate(value=value, undefined=len(drawn), why="it is undefined in every draw")
    low, high = percentile_interval(defined, level)
    return Estimate(value=value, mean=float(defined.mean()), low=low, high=high, undefined=len(drawn) - len(defined))


def _two_sided(deltas: Floats) -> float:
    """Twice the smaller tail, with the real difference counted among the draws so that p is never 0."""
    defined = deltas[~np.isnan(deltas)]
    tail = int(min(np.count_nonzero(defined <= 0), np.count_nonzero(defined >= 0)))
    return min(1.0, 2 * (tail + 1) / (len(defined) + 1))


def _rounding_off(deltas: Any) -> Any:
    return np.where(np.abs(deltas) < _NEAR, 0.0, deltas)


@compiled
def _of_draws(
    counts: Floats,  # (draws, contexts): how often each context is in each draw
    clusters: NDArray[np.int64],
    variables: Floats,
    codes: NDArray[np.int64],
    ranked: bool,
) -> Floats:
    """The correlation of every variable with the last one in every draw (variables - 1, draws), NaN where undefined."""
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
    """Write what each drawn row deviates from the draw's mean, and give the weighted sum of squares: 0 if all equal.

    The rank of a row in the draw is that of the middle of its ties: the rows below it, and half of those with its
    value. The values were sorted once, so a draw only counts how many rows have each.
    """
    lowest, highest = codes[drawn[0]], codes[drawn[0]]
    total, mean = 0.0, 0.0
    for i in range(len(drawn)):
        lowest, highest = min(lowest, codes[drawn[i]]), max(highest, codes[drawn[i]])
        total += weights[i]
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


# One metric, looked at in parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The same correlation for each annotator or system, and where those that are defined lie."""

    kind: str
    each: Mapping[Any, Correlation]
    mean: float | None
    lowest: float | None
    highest: float | None
    why: str | None = None

    @classmethod
    def of(cls, kind: str, each: Mapping[Any, Correlation]) -> Spread:
        """Sum up what is defined; if nothing is, say the first reason."""
        values = [correlation.value for correlation in each.values() if correlation.value is not None]
        if not values:
            why = next((c.why for c in each.values()), "there is nothing to correlate")
            return cls(kind=kind, each=each, mean=None, lowest=None, highest=None, why=why)
        mean = float(np.mean(values))
        return cls(kind=kind, each=each, mean=mean, lowest=min(values), highest=max(values))


def by_annotator(scores: Floats, ratings: Floats, kind: str = "spearman") -> Spread:
    """The metric against each annotator, a column of `ratings` (rows, annotators), on the rows that this one rated."""
    columns = np.asarray(ratings, dtype=np.float64)
    if columns.ndim != 2:
        raise BadInput(f"ratings of shape {columns.shape} name no annotators", remedy="(rows, annotators)")
    return Spread.of(kind, {column: correlate(kind, scores, rated) for column, rated in enumerate(columns.T)})


def leave_one_system_out(scores: Floats, ratings: Floats, systems: Labels, kind: str = "spearman") -> Spread:
    """The correlation over rows without each system in turn: one very bad system can make any metric look good."""
    values, rated = _vectors(scores=scores, ratings=ratings)
    labels = _labels("systems", systems, len(rated))
    names = np.unique(labels).tolist()
    return Spread.of(kind, {name: correlate(kind, values[labels != name], rated[labels != name]) for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemLevel:
    """Correlations over systems, of mean scores and mean ratings that contexts are taken out of.

    `left_out` counts rows without score or rating, `alone` those in contexts to which only one system replied.
    """

    systems: tuple[Any, ...]
    scores: tuple[float, ...]
    ratings: tuple[float, ...]
    by_kind: Mapping[str, Correlation]
    rows: int
    left_out: int
    alone: int


def system_level(scores: Floats, ratings: Floats, systems: Labels, contexts: Labels) -> SystemLevel:
    """Whether the metric ranks systems as people do.

    Scores and ratings are taken relative to the mean of their context, so that no system gains from having replied to
    easier ones; a context with replies of one system only compares nothing and is left out. With fewer than eight
    systems no p is given: at that size almost any would be an accident.
    """
    values, rated = _vectors(scores=scores, ratings=ratings)
    of_system, of_context = _labels("systems", systems, len(rated)), _labels("contexts", contexts, len(rated))
    known = ~(np.isnan(values) | np.isnan(rated))
    shared = _shared_contexts(of_system, of_context, known)
    names, place = np.unique(of_system[shared], return_inverse=True)
    means = [_centred_means(variable[shared], of_context[shared], place) for variable in (values, rated)]
    return SystemLevel(
        systems=tuple(names.tolist()),
        scores=tuple(means[0].tolist()),
        ratings=tuple(means[1].tolist()),
        by_kind={kind: _over_systems(kind, *means) for kind in KINDS},
        rows=int(shared.sum()),
        left_out=int((~known).sum()),
        alone=int((known & ~shared).sum()),
    )


def _over_systems(kind: str, scores: Floats, ratings: Floats) -> Correlation:
    result = correlate(kind, scores, ratings)
    if len(scores) < FEWEST_ROWS:
        return replace(result, why=f"fewer than {FEWEST_ROWS} systems")
    if result.value is None or len(scores) >= FEWEST_SYSTEMS_FOR_P:
        return result
    return replace(result, p=None, why=f"fewer than {FEWEST_SYSTEMS_FOR_P} systems")


def _shared_contexts(systems: Labels, contexts: Labels, known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The known rows in whose context at least two systems have one."""
    _, system = np.unique(systems, return_inverse=True)
    names, context = np.unique(contexts, return_inverse=True)
    lowest, highest = np.full(len(names), np.iinfo(np.int64).max), np.full(len(names), -1)
    np.minimum.at(lowest, context[known], system[known])
    np.maximum.at(highest, context[known], system[known])
    return np.asarray(known & (lowest < highest)[context])


def _centred_means(values: Floats, contexts: Labels, system: NDArray[np.int64]) -> Floats:
    """The mean of each system relative to its contexts; what rounding leaves of nothing becomes nothing."""
    context = np.unique(contexts, return_inverse=True)[1]
    means = _means(values - _means(values, context)[context], system)
    return np.where(np.abs(means) <= _NEAR * np.abs(values).max(initial=0.0), 0.0, means)


def _means(values: Floats, place: NDArray[np.int64]) -> Floats:
    return np.asarray(np.bincount(place, values) / np.bincount(place))


# One metric, on the mean of several replies


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAgreement:
    """Correlation of mean score and mean rating over groups of `size` replies; each value is the mean of its draws."""

    size: int
    groups: int
    rows: int
    by_kind: Mapping[str, Estimate]


def group_agreement(
    scores: Floats,
    ratings: Floats,
    *,
    sizes: Sequence[int] = (1, 5, 20, 100),
    kinds: Sequence[str] = BOOTSTRAPPED_KINDS,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[GroupAgreement, ...]:
    """How well the metric agrees once k replies are averaged: what it is worth for a test set instead of a reply.

    Each draw deals the rows into groups of k at random, without replacement; rows that do not fill a group are left
    out of that draw. Groups of one are the same in all draws.
    """
    check_resampling(draws=draws, seed=seed, level=level)
    check_kinds(kinds, BOOTSTRAPPED_KINDS)
    if any(size < 1 for size in sizes):
        raise Usage(f"groups of {min(sizes)} replies have no mean", remedy="sizes of at least 1")
    pair = np.stack([join_near_ties(values) for values in _complete(scores=scores, ratings=ratings)])
    return tuple(_groups_of(size, pair, kinds, draws if size > 1 else 1, seed, level) for size in sizes)


def _groups_of(size: int, pair: Floats, kinds: Sequence[str], draws: int, seed: int, level: float) -> GroupAgreement:
    rows = pair.shape[1]
    groups = rows // size
    why = f"fewer than {FEWEST_ROWS} groups of {size}" if groups < FEWEST_ROWS else why_undefined(pair[0], pair[1])
    if why is not None:
        return GroupAgreement(size=size, groups=groups, rows=rows, by_kind={kind: Estimate(why=why) for kind in kinds})
    means = np.concatenate(list(_dealt(pair, size, groups, draws, seed)), axis=1)  # (2, draws, groups)
    tied = np.stack([join_near_ties(variable) for variable in means])
    estimates = {kind: _mean_of_draws(row_correlations(kind, *tied), level) for kind in kinds}
    return GroupAgreement(size=size, groups=groups, rows=rows, by_kind=estimates)


def _dealt(pair: Floats, size: int, groups: int, draws: int, seed: int) -> Iterator[Floats]:
    """The means of both variables in every group (2, draws, groups), in blocks of draws."""
    random = np.random.Generator(np.random.PCG64([seed, size]))
    block = max(1, _BLOCK_CELLS // pair.shape[1])
    for start in range(0, draws, block):
        rows = np.tile(np.arange(pair.shape[1]), (min(block, draws - start), 1))
        dealt = random.permuted(rows, axis=1)[:, : groups * size]
        yield pair[:, dealt].reshape(2, len(rows), groups, size).mean(axis=3)


def _mean_of_draws(drawn: Floats, level: float) -> Estimate:
    defined = drawn[~np.isnan(drawn)]
    if len(defined) == 0:
        return Estimate(undefined=len(drawn), why="all groups are equal in every draw")
    mean = float(defined.mean())
    low, high = percentile_interval(defined, level)
    return Estimate(value=mean, mean=mean, low=low, high=high, undefined=len(drawn) - len(defined))


def row_correlations(kind: str, left: Floats, right: Floats) -> Floats:
    """Pearson's or Spearman's correlation of each row of two tables (rows,); NaN where either row is constant."""
    constant = (np.ptp(left, axis=1) == 0) | (np.ptp(right, axis=1) == 0)
    x, y = (_deviations_of_rows(kind, table) for table in (left, right))
    square = np.where(constant, np.nan, (x * x).sum(axis=1) * (y * y).sum(axis=1))
    return np.asarray(np.clip((x * y).sum(axis=1) / np.sqrt(square), -1.0, 1.0))


def _deviations_of_rows(kind: str, table: Floats) -> Floats:
    values = stats.rankdata(table, axis=1) if kind == "spearman" else table
    return np.asarray(values - values.mean(axis=1, keepdims=True))


# Input


def check_kinds(kinds: Sequence[str], known: Sequence[str]) -> None:
    """Refuse a kind of correlation that there is not."""
    for kind in kinds:
        if kind not in known:
            raise Usage(f"there is no correlation {kind!r} here", remedy=f"one of: {', '.join(known)}")


def _complete(**variables: ArrayLike) -> list[Floats]:
    """The rows in which no variable is missing."""
    vectors = _vectors(**variables)
    complete = ~np.isnan(np.stack(vectors)).any(axis=0)
    return [vector[complete] for vector in vectors]


def _vectors(**variables: ArrayLike) -> list[Floats]:
    """Float64 vectors of one length, finite where they are not NaN."""
    vectors = [_finite_or_missing(name, values) for name, values in variables.items()]
    if len({vector.shape for vector in vectors}) != 1 or vectors[0].ndim != 1:
        shapes = ", ".join(f"{name} {vector.shape}" for name, vector in zip(variables, vectors, strict=True))
        raise BadInput(f"these do not belong together: {shapes}", remedy="one value of each for every row")
    return vectors


def _finite_or_missing(name: str, values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if np.isinf(array).any():
        place = np.argwhere(np.isinf(array))[0].tolist()
        raise BadInput(f"{name} are infinite at {place}", remedy="a number, or NaN where there is none")
    return array


def _labels(name: str, labels: Labels, rows: int) -> Labels:
    array = np.asarray(labels)
    if array.shape != (rows,):
        raise BadInput(f"{name} of shape {array.shape} for {rows} rows", remedy="one label for every row")
    return array


def _bounded(value: float) -> float:
    """A correlation, without the last bit by which rounding may exceed 1."""
    return float(min(1.0, max(-1.0, value)))
