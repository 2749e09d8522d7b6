"""Measure how well metrics agree with people where rows are not independent, and compare metrics.

Replies to one context are not independent, so intervals and comparisons draw whole contexts. Two further analyses ask
more of a metric than single replies: whole systems, and means of several replies. As in
`refaug.metrics.statistics.correlation`, arrays
go in and records come out; a figure that is not defined is None, and `why` tells the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput, Usage
from refaug.metrics.statistics.correlation import (
    BOOTSTRAPPED_KINDS,
    DRAWN_KINDS,
    FEWEST_ROWS,
    KINDS,
    NEAR,
    PARTIAL,
    Correlation,
    Spread,
    check_kinds,
    complete_rows,
    correlate,
    correlations_of_draws,
    finite_or_missing,
    join_near_ties,
    partials_of_draws,
    row_correlations,
    row_labels,
    row_vectors,
    why_undefined,
)
from refaug.metrics.statistics.resampling import (
    Estimate,
    Floats,
    Labels,
    check_resampling,
    count_blocks,
    percentile_interval,
)

FEWEST_SYSTEMS_FOR_P = 8
_BLOCK_CELLS = 2_000_000
_PIECE_CELLS = 4_000_000  # rows of variables in draws between two looks at who waits: some 50 ms


# The paired bootstrap over contexts


@dataclass(frozen=True)
class RatedSet:
    """The rated replies of one set: scores of M metrics (M, rows), their ratings and their contexts (rows,).

    With the lengths of the replies (rows,) there is also the partial Spearman that holds length fixed.
    """

    scores: Floats
    ratings: Floats
    clusters: Labels
    lengths: Floats | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCount:
    """The numbers of rows of a set that were compared and left out because a score or rating is missing."""

    rows: int
    contexts: int
    left_out: int
    unrated: int
    unscored: tuple[int, ...]  # by each metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """One metric's correlation with the ratings, and its difference to the baseline, which itself has none."""

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


def mean_over_sets(
    sets: Sequence[RatedSet],
    *,
    kinds: Sequence[str] = BOOTSTRAPPED_KINDS,
    draws: int = 10_000,
    seed: int = 0,
    baseline: int | None = None,
    level: float = 0.95,
    weights: Sequence[float] | None = None,
    check: Callable[[], None] = lambda: None,
) -> Comparison:
    """Return intervals of correlations, the mean over the sets, and of their differences to a baseline metric.

    Whole contexts are drawn with replacement within each set, the same for all metrics, and every correlation is
    computed again in each draw (Spearman's with the ranks that the rows have in the draw); intervals are percentiles.
    A row for which one of the metrics has no score is left out for all. With d the differences of the B draws in which
    both are defined, the two-sided p = min(1, 2 · (min(#{d ≤ 0}, #{d ≥ 0}) + 1) / (B + 1)). Every set counts the same,
    whatever its size, or by its weight. A draw in which one of the sets has no correlation has no mean. `check` is
    called between pieces of the draws, and ends the work by raising.
    """
    check_resampling(draws=draws, seed=seed, level=level)
    check_kinds(kinds, DRAWN_KINDS)
    compared = [_ComparedSet.of(rated) for rated in sets]
    metrics = {len(one_set.counts.unscored) for one_set in compared}
    if len(metrics) != 1:
        raise BadInput(f"{len(sets)} sets have {sorted(metrics)} metrics", remedy="at least one set, all of the same")
    if baseline is not None and not 0 <= baseline < min(metrics):
        raise Usage(f"there is no metric {baseline} to be the baseline", remedy=f"from 0 to {min(metrics) - 1}")
    by_kind: dict[str, tuple[Agreement, ...]] = {}
    for kind in kinds:
        points = np.average([one_set.points(kind) for one_set in compared], axis=0, weights=weights)
        of_sets = [one_set.drawn(kind, draws, [seed, number], check=check) for number, one_set in enumerate(compared)]
        drawn = np.average(of_sets, axis=0, weights=weights)
        reasons = [_reason(compared, metric) for metric in range(min(metrics))]
        by_kind[kind] = _agreements(points, drawn, reasons, baseline, level)
    return Comparison(
        by_kind=by_kind,
        sets=tuple(one_set.counts for one_set in compared),
        draws=draws,
        level=level,
        baseline=baseline,
    )


@dataclass(frozen=True, kw_only=True)
class DrawnCorrelations:
    """The correlations of M metrics on all rows (M,), and in every draw (M, draws); NaN where undefined."""

    points: Floats
    draws: Floats


def drawn_correlations(rated: RatedSet, kind: str, *, draws: int, seed: Sequence[int]) -> DrawnCorrelations:
    """Return the correlations that the comparisons above are computed from; equal seeds draw equal contexts.

    A row for which one of the metrics has no score is left out for all.
    """
    check_kinds([kind], DRAWN_KINDS)
    [correlations] = drawn_together([rated], kind, draws=draws, seed=seed)
    return correlations


def drawn_together(
    sets: Sequence[RatedSet], kind: str, *, draws: int, seed: Sequence[int]
) -> tuple[DrawnCorrelations, ...]:
    """Return the correlations of several sets on the same draws of contexts.

    A label stands for one context in all sets. Every draw takes as many contexts as all sets together have, with
    replacement, and each set counts those of them that it has: what two sets share, is drawn for both or for neither.
    """
    check_kinds([kind], DRAWN_KINDS)
    compared = [_ComparedSet.of(rated) for rated in sets]
    contexts = np.unique(np.concatenate([one_set.contexts for one_set in compared]))
    return tuple(
        DrawnCorrelations(
            points=one_set.points(kind),
            draws=one_set.drawn(kind, draws, list(seed), np.searchsorted(contexts, one_set.contexts), len(contexts)),
        )
        for one_set in compared
    )


@dataclass(frozen=True)
class _ComparedSet:
    """A set without the rows that cannot be compared, ready to be drawn from."""

    variables: Floats  # (metrics + 1, rows), the ratings last
    codes: NDArray[np.int64]  # of the same shape: the place of each value among the distinct values
    clusters: NDArray[np.int64]  # (rows,), from 0
    contexts: Labels  # the label of each cluster, in order
    lengths: NDArray[np.int64] | None  # the place of each among the distinct lengths
    counts: RowCount

    @classmethod
    def of(cls, rated: RatedSet) -> _ComparedSet:
        """Leave out and count the rows in which any variable is missing."""
        scores = np.atleast_2d(finite_or_missing("scores", rated.scores))
        ratings = finite_or_missing("ratings", rated.ratings)
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
        lengths = None
        if rated.lengths is not None:
            if len(rated.lengths) != len(ratings):
                raise BadInput(f"{len(rated.lengths)} lengths and {len(ratings)} ratings do not match")
            lengths = np.unique(np.asarray(rated.lengths)[complete], return_inverse=True)[1].astype(np.int64)
        contexts, clusters = np.unique(labels[complete], return_inverse=True)
        row_counts = RowCount(
            rows=int(complete.sum()),
            contexts=len(contexts),
            left_out=int((~complete).sum()),
            unrated=int(np.isnan(ratings).sum()),
            unscored=tuple(np.isnan(scores).sum(axis=1).tolist()),
        )
        return cls(variables, codes.astype(np.int64), clusters.astype(np.int64), contexts, lengths, row_counts)

    def why_undefined(self, metric: int) -> str | None:
        """Return why the metric has no correlation on all rows."""
        return why_undefined(self.variables[metric], self.variables[-1])

    def points(self, kind: str) -> Floats:
        """Return the correlations (metrics,) on all rows; NaN where undefined."""
        return self._correlations(kind, iter([np.ones((1, self.counts.contexts))]))[:, 0]

    def drawn(
        self,
        kind: str,
        draws: int,
        seed: list[int],
        places: Labels | None = None,
        among: int | None = None,
        *,
        check: Callable[[], None] = lambda: None,
    ) -> Floats:
        """Return the correlations in every draw (metrics, draws), NaN where undefined; one context gives no draws.

        Contexts are drawn among those of the set, or `among` so many of which the set has those at `places`.
        """
        if self.counts.contexts < 2:
            return np.full((len(self.variables) - 1, draws), np.nan)
        if places is None or among is None:
            return self._correlations(kind, self._pieces(count_blocks(self.counts.contexts, draws, seed), check))
        blocks = (np.ascontiguousarray(counts[:, places]) for counts in count_blocks(among, draws, seed))
        return self._correlations(kind, self._pieces(blocks, check))

    def _pieces(self, blocks: Iterator[Floats], check: Callable[[], None]) -> Iterator[Floats]:
        """Yield the draws of blocks in pieces of about equal work, whatever the number of contexts."""
        size = max(1, _PIECE_CELLS // self.variables.size)
        for counts in blocks:
            for first in range(0, len(counts), size):
                check()
                yield counts[first : first + size]

    def _correlations(self, kind: str, blocks: Iterator[Floats]) -> Floats:
        if self.counts.rows < FEWEST_ROWS:
            return np.concatenate(
                [np.full((len(self.variables) - 1, len(counts)), np.nan) for counts in blocks], axis=1
            )
        if kind == PARTIAL:
            if self.lengths is None:
                raise Usage(f"{PARTIAL} without the lengths of the replies", remedy="give lengths with the set")
            lengths = self.lengths
            results = [partials_of_draws(counts, self.clusters, self.codes, lengths) for counts in blocks]
        else:
            ranked = kind == "spearman"
            results = [
                correlations_of_draws(counts, self.clusters, self.variables, self.codes, ranked) for counts in blocks
            ]
        return np.concatenate(results, axis=1)


def _reason(compared: Sequence[_ComparedSet], metric: int) -> tuple[str | None, str | None]:
    """Return why a metric has no value, and why it has no interval; with several sets, in which set."""
    whose = [f"in set {s + 1} of {len(compared)}: " if len(compared) > 1 else "" for s in range(len(compared))]
    named = list(zip(whose, compared, strict=True))
    no_value = [f"{of}{why}" for of, one_set in named if (why := one_set.why_undefined(metric))]
    no_draws = [f"{of}fewer than 2 contexts" for of, one_set in named if one_set.counts.contexts < 2]
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
            # Two metrics that only differ in scale differ by rounding, and rounding may be biased.
            deltas = _without_rounding(drawn[metric] - drawn[baseline])
            point_difference = float(_without_rounding(points[metric] - points[baseline]))
            difference = _interval(point_difference, deltas, level, missing, no_draws)
            difference = replace(difference, p=_two_sided(deltas) if difference.low is not None else None)
        correlation = _interval(float(points[metric]), drawn[metric], level, no_value, no_draws)
        agreements.append(Agreement(correlation=correlation, difference=difference))
    return tuple(agreements)


def _interval(point: float, drawn: Floats, level: float, no_value: str | None, no_draws: str | None) -> Estimate:
    """Return a figure with the interval of its draws, or why it has none."""
    defined = drawn[~np.isnan(drawn)]
    if no_value is not None:
        return Estimate(why=no_value)
    if no_draws is not None:
        return Estimate(value=point, why=no_draws)
    if len(defined) == 0:
        return Estimate(value=point, undefined=len(drawn), why="it is undefined in every draw")
    low, high = percentile_interval(defined, level)
    return Estimate(value=point, mean=float(defined.mean()), low=low, high=high, undefined=len(drawn) - len(defined))


def _two_sided(deltas: Floats) -> float:
    """Return twice the smaller tail; the real difference counts as a draw, so that p is never 0."""
    defined = deltas[~np.isnan(deltas)]
    tail = int(min(np.count_nonzero(defined <= 0), np.count_nonzero(defined >= 0)))
    return min(1.0, 2 * (tail + 1) / (len(defined) + 1))


def _without_rounding(deltas: Any) -> Any:
    return np.where(np.abs(deltas) < NEAR, 0.0, deltas)


# Whole systems


def leave_one_system_out(scores: Floats, ratings: Floats, systems: Labels, kind: str = "spearman") -> Spread:
    """Return the correlation over rows without each system in turn: one bad system can make any metric look good."""
    values, rated = row_vectors(scores=scores, ratings=ratings)
    labels = row_labels("systems", systems, len(rated))
    names = np.unique(labels).tolist()
    return Spread.of(kind, {name: correlate(kind, values[labels != name], rated[labels != name]) for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemLevel:
    """Correlations over systems, of mean scores and mean ratings relative to their contexts.

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
    """Measure whether the metric ranks systems as people do.

    Scores and ratings are taken relative to the mean of their context, so that no system gains from easier contexts; a
    context with replies of only one system compares nothing and is left out. With fewer than eight systems there is no
    p: at that size almost any p would be an accident.
    """
    values, rated = row_vectors(scores=scores, ratings=ratings)
    of_system, of_context = row_labels("systems", systems, len(rated)), row_labels("contexts", contexts, len(rated))
    is_complete = ~(np.isnan(values) | np.isnan(rated))
    shared = _shared_contexts(of_system, of_context, is_complete)
    names, place = np.unique(of_system[shared], return_inverse=True)
    means = [_centred_means(variable[shared], of_context[shared], place) for variable in (values, rated)]
    return SystemLevel(
        systems=tuple(names.tolist()),
        scores=tuple(means[0].tolist()),
        ratings=tuple(means[1].tolist()),
        by_kind={kind: _over_systems(kind, *means) for kind in KINDS},
        rows=int(shared.sum()),
        left_out=int((~is_complete).sum()),
        alone=int((is_complete & ~shared).sum()),
    )


def _over_systems(kind: str, scores: Floats, ratings: Floats) -> Correlation:
    correlation = correlate(kind, scores, ratings)
    if len(scores) < FEWEST_ROWS:
        return replace(correlation, why=f"fewer than {FEWEST_ROWS} systems")
    if correlation.value is None or len(scores) >= FEWEST_SYSTEMS_FOR_P:
        return correlation
    return replace(correlation, p=None, why=f"fewer than {FEWEST_SYSTEMS_FOR_P} systems")


def _shared_contexts(systems: Labels, contexts: Labels, is_complete: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the complete rows in whose context at least two systems have one."""
    _, system = np.unique(systems, return_inverse=True)
    names, context = np.unique(contexts, return_inverse=True)
    lowest, highest = np.full(len(names), np.iinfo(np.int64).max), np.full(len(names), -1)
    np.minimum.at(lowest, context[is_complete], system[is_complete])
    np.maximum.at(highest, context[is_complete], system[is_complete])
    return np.asarray(is_complete & (lowest < highest)[context])


def _centred_means(values: Floats, contexts: Labels, system: NDArray[np.int64]) -> Floats:
    """Return the mean of each system relative to its contexts; a rest of rounding becomes 0."""
    context = np.unique(contexts, return_inverse=True)[1]
    means = _means(values - _means(values, context)[context], system)
    return np.where(np.abs(means) <= NEAR * np.abs(values).max(initial=0.0), 0.0, means)


def _means(values: Floats, place: NDArray[np.int64]) -> Floats:
    return np.asarray(np.bincount(place, values) / np.bincount(place))


# Means of several replies


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
    """Measure how well the metric agrees once k replies are averaged, as in a test set.

    Each draw deals the rows into groups of k at random, without replacement; rows that do not fill a group are left out
    of that draw. Groups of one are the same in all draws.
    """
    check_resampling(draws=draws, seed=seed, level=level)
    check_kinds(kinds, BOOTSTRAPPED_KINDS)
    if any(size < 1 for size in sizes):
        raise Usage(f"groups of {min(sizes)} replies have no mean", remedy="sizes of at least 1")
    pair = np.stack([join_near_ties(values) for values in complete_rows(scores=scores, ratings=ratings)])
    return tuple(_groups_of(size, pair, kinds, draws if size > 1 else 1, seed, level) for size in sizes)


def _groups_of(size: int, pair: Floats, kinds: Sequence[str], draws: int, seed: int, level: float) -> GroupAgreement:
    rows = pair.shape[1]
    groups = rows // size
    why = f"fewer than {FEWEST_ROWS} groups of {size}" if groups < FEWEST_ROWS else why_undefined(pair[0], pair[1])
    if why is not None:
        return GroupAgreement(size=size, groups=groups, rows=rows, by_kind={kind: Estimate(why=why) for kind in kinds})
    means = np.concatenate(list(_deal_groups(pair, size, groups, draws, seed)), axis=1)  # (2, draws, groups)
    tied = np.stack([join_near_ties(variable) for variable in means])
    estimates = {kind: _mean_of_draws(row_correlations(kind, *tied), level) for kind in kinds}
    return GroupAgreement(size=size, groups=groups, rows=rows, by_kind=estimates)


def _deal_groups(pair: Floats, size: int, groups: int, draws: int, seed: int) -> Iterator[Floats]:
    """Yield the means of both variables in every group (2, draws, groups), in blocks of draws."""
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
