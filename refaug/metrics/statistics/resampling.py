"""Intervals and tests by resampling sums of statistics: replies are drawn again, n-grams are not counted again.

A metric gives a row of statistics for each reply and a function from their sums to a score. Drawing replies with
replacement is then one matrix product, (how often each draw has each reply) × (statistics), and all scores of all draws
come from one call of that function.

A row with NaN is a reply without a score: it adds nothing to its system, and paired tests leave it out of both. A
figure that is not defined is None, and `why` tells the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput, Usage
from refaug.core.kernels.kernel import PLAIN_BUDGET, compiled

Floats = NDArray[np.float64]
Labels = NDArray[Any]
ValueOfSums = Callable[[Floats], Floats]

FEWEST_UNITS: Final = 6  # people that are drawn: of five, all on one side are no rare chance (p = .06)
_BLOCK_BYTES = 32 * 1024 * 1024
_DRAWN_BYTES = 1024 * 1024
_COUNTED_A_STEP = 1_000  # rows that numpy counts in the time of a step of a loop in Python
_NO_DRAWS = np.empty(0)
_SAME = 1e-10  # differences this near to the real one, relative to the scores, count as equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure on all rows with its resampling; `undefined` counts the draws in which it has no value."""

    value: float | None = None
    mean: float | None = None  # over the draws
    low: float | None = None
    high: float | None = None
    p: float | None = None  # only where there is a test
    undefined: int = 0
    why: str | None = None


_NO_REPLIES = Estimate(why="no reply has a score")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampled:
    """One system's score with its interval; `left_out` counts its replies without a score."""

    score: Estimate
    replies: int
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """One system against the baseline on the replies that both have a score for; the others are `left_out`."""

    value: float | None
    baseline: float | None
    difference: Estimate  # system minus baseline
    replies: int
    left_out: int


# Shared by intervals and tests


def check_resampling(*, draws: int, seed: int, level: float = 0.95) -> None:
    """Refuse settings with which no resampling is possible."""
    if draws < 1:
        raise Usage(f"{draws} draws are none", remedy="ask for at least 1, usually 1000 or more")
    if seed < 0:
        raise Usage(f"the seed cannot be {seed}", remedy="a whole number from 0")
    check_level(level)


def check_level(level: float) -> None:
    """Refuse a level that no interval can have."""
    if not 0 < level < 1:
        raise Usage(f"the level of an interval cannot be {level}", remedy="between 0 and 1, such as 0.95")


def count_blocks(n: int, draws: int, seed: int | list[int]) -> Iterator[Floats]:
    """Yield how often each of n rows is in each draw of n with replacement (draws, n), as float64 for products.

    Blocks have bounded memory; draws do not depend on their size.
    """
    if n < 1:
        raise Usage(f"{n} rows cannot be resampled", remedy="hand in at least one row")
    random = np.random.Generator(np.random.PCG64(seed))
    for size in _block_sizes(n, draws):
        yield _counted(random, n, size)


def percentile_interval(draws: Floats, level: float) -> tuple[float, float]:
    """Return the bounds of the middle `level` of the draws."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _counted(random: np.random.Generator, n: int, draws: int) -> Floats:
    """Return how often each of n rows is in each of the next draws; few draws are there as numbers of rows at once."""
    counts = np.zeros((draws, n))
    few = max(1, _DRAWN_BYTES // (8 * n))
    for first in range(0, draws, few):
        part = counts[first : first + few]
        drawn = random.integers(0, n, size=part.shape)
        if PLAIN_BUDGET.spend(lambda: n * few // _COUNTED_A_STEP):
            drawn += np.arange(0, part.size, n)[:, np.newaxis]
            part[:] = np.bincount(drawn.reshape(-1), minlength=part.size).reshape(part.shape)
        else:
            _count_drawn(drawn, part)
    return counts


@compiled
def _count_drawn(drawn: NDArray[np.int64], counts: Floats) -> None:
    for draw in range(drawn.shape[0]):
        for row in drawn[draw]:
            counts[draw, row] += 1.0


def _block_sizes(n: int, draws: int) -> list[int]:
    block = max(1, _BLOCK_BYTES // (8 * n))
    return [min(block, draws - start) for start in range(0, draws, block)]


# Intervals


def bootstrap(
    statistics: Mapping[str, Floats],
    value_of: ValueOfSums,
    *,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    clusters: Labels | None = None,
) -> dict[str, Resampled]:
    """Return percentile intervals of every system's score, from the same resampled replies for all of them.

    `statistics` has (replies, columns) for each system, the replies in the same order; `value_of` maps sums (…,
    columns) to scores (…). With `clusters`, a label for each reply, whole clusters are drawn: the replies to one item
    are not independent.
    """
    check_resampling(draws=draws, seed=seed, level=level)
    tables = _check_tables(statistics, clusters)
    scored = {name: ~_without_score(table) for name, table in tables.items()}
    value_of = _nan_without_replies(value_of)
    rows, columns = next(iter(tables.values())).shape
    together = np.empty((rows, len(tables), columns + 1))
    for s, (name, table) in enumerate(tables.items()):
        together[:, s, :-1] = table
        together[~scored[name], s, :-1] = 0.0
        together[:, s, -1] = scored[name]
    units = _sum_by_cluster(together, clusters)  # (units, systems, columns and how many have a score)
    values = _scores(units.sum(axis=0), value_of)
    drawn = _values_of_draws(units, value_of, draws, seed)
    return {
        name: Resampled(
            score=_estimate(values[s], drawn[:, s] if _has_several(scored[name], clusters) else _NO_DRAWS, level),
            replies=int(scored[name].sum()),
            left_out=int((~scored[name]).sum()),
        )
        if scored[name].any()
        else Resampled(score=_NO_REPLIES, replies=0, left_out=len(scored[name]))
        for s, name in enumerate(tables)
    }


def _nan_without_replies(value_of: ValueOfSums) -> ValueOfSums:
    """Return the function for sums whose last column counts replies with a score; without any, the score is NaN."""

    def value_of_counted(sums: Floats) -> Floats:
        return np.where(sums[..., -1] > 0, value_of(sums[..., :-1]), np.nan)

    return value_of_counted


def _has_several(scored: NDArray[np.bool_], clusters: Labels | None) -> bool:
    """Whether there are several units to draw; draws of a single unit are all the same."""
    return int(scored.sum() if clusters is None else len(np.unique(clusters[scored]))) > 1


def _values_of_draws(units: Floats, value_of: ValueOfSums, draws: int, seed: int) -> Floats:
    """Return the score of every system in every draw (draws, systems); NaN where it has none."""
    if len(units) < 2:
        return np.empty((0, units.shape[1]))
    flat = units.reshape(len(units), -1)
    drawn, blocks = list[Floats](), count_blocks(len(units), draws, seed)
    while (counts := next(blocks, None)) is not None:
        sums = counts @ flat
        del counts  # before the next block is there
        drawn.append(_scores(sums.reshape(len(sums), *units.shape[1:]), value_of))
    return np.concatenate(drawn)


def _estimate(score: float, drawn: Floats, level: float) -> Estimate:
    """Return a score with the interval of its draws, or the reason why there is none."""
    defined = drawn[~np.isnan(drawn)]
    undefined = len(drawn) - len(defined)
    if not isfinite(score):
        return Estimate(undefined=undefined, why="the score is not defined on these replies")
    if len(defined) == 0:
        why = "it is undefined in every draw" if len(drawn) else "fewer than 2 independent replies"
        return Estimate(value=float(score), undefined=undefined, why=why)
    low, high = percentile_interval(defined, level)
    return Estimate(value=float(score), mean=float(defined.mean()), low=low, high=high, undefined=undefined)


def _scores(sums: Floats, value_of: ValueOfSums) -> Floats:
    """Return the scores of sums (…, columns) → (…), NaN where there is none, as for the sum of no replies."""
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.asarray(value_of(sums), dtype=np.float64)
    return np.where(np.isfinite(values), values, np.nan)


# Paired tests


def paired_bootstrap(
    statistics: Mapping[str, Floats],
    value_of: ValueOfSums,
    baseline: str,
    *,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    clusters: Labels | None = None,
) -> dict[str, Paired]:
    """Compare every system with the baseline on the same resampled replies (Koehn 2004).

    With Δ the difference on all replies and Δ* that of a draw, the draws are shifted to the null hypothesis, as
    sacrebleu does: p = (#{|Δ* − mean Δ*| ≥ |Δ|} + 1) / (draws + 1), two-sided. sacrebleu counts > instead of ≥, which
    would call a system different from itself. The interval is that of the unshifted Δ*.
    """
    check_resampling(draws=draws, seed=seed, level=level)
    results: dict[str, Paired] = {}
    for group in _paired_groups(statistics, baseline, clusters):
        values = group.values(value_of)
        drawn = _values_of_draws(group.units, value_of, draws, seed)
        for s, name in enumerate(group.names, start=1):
            deltas = drawn[:, s] - drawn[:, 0]
            estimate = _estimate(values[s] - values[0], deltas, level)
            shifted = deltas - (estimate.mean or 0.0)
            results[name] = group.paired(values, s, _with_p(estimate, shifted, _scale(values, s)))
    return {name: results[name] for name in statistics if name != baseline}


def approximate_randomisation(
    statistics: Mapping[str, Floats],
    value_of: ValueOfSums,
    baseline: str,
    *,
    trials: int = 10_000,
    seed: int = 0,
    clusters: Labels | None = None,
) -> dict[str, Paired]:
    """Compare every system with the baseline by swapping replies at random (Riezler & Maxwell 2005).

    In a trial the statistics of each reply (with `clusters`, of each cluster) are swapped between the two with
    probability ½; p = (#{|Δ*| ≥ |Δ|} + 1) / (trials + 1), two-sided.
    """
    check_resampling(draws=trials, seed=seed)
    results: dict[str, Paired] = {}
    for group in _paired_groups(statistics, baseline, clusters):
        values = group.values(value_of)
        deltas = _deltas_of_trials(group.units, value_of, trials, seed)
        for s, name in enumerate(group.names, start=1):
            estimate = _estimate(values[s] - values[0], deltas[:, s - 1], level=0.95)
            estimate = replace(estimate, mean=None, low=None, high=None)  # swapping gives no interval of Δ
            results[name] = group.paired(values, s, _with_p(estimate, deltas[:, s - 1], _scale(values, s)))
    return {name: results[name] for name in statistics if name != baseline}


def swap_blocks(n: int, trials: int, seed: int) -> Iterator[Floats]:
    """Yield which of n rows are swapped in each trial (1, else 0), in blocks (trials, n) of bounded memory."""
    random = np.random.Generator(np.random.PCG64(seed))
    words = -(-n // 64)
    for size in _block_sizes(n, trials):
        drawn = random.integers(0, 2**64 - 1, size=(size, words), dtype=np.uint64, endpoint=True)
        yield np.unpackbits(drawn.view(np.uint8), axis=1)[:, :n].astype(np.float64)


def _deltas_of_trials(units: Floats, value_of: ValueOfSums, trials: int, seed: int) -> Floats:
    """Return the difference of every system to the baseline in every trial (trials, systems); NaN where it has none."""
    if len(units) < 2:
        return np.empty((0, units.shape[1] - 1))
    return np.concatenate([swapped_deltas(units, b, value_of) for b in swap_blocks(len(units), trials, seed)])


def swapped_deltas(units: Floats, swaps: Floats, value_of: ValueOfSums) -> Floats:
    """Return the differences of all systems to the first (trials, systems) when rows with a 1 in `swaps` are swapped.

    Unswapped and swapped rows are summed separately: a difference of large sums would leave noise where a sum is 0.
    """
    flat = units.reshape(len(units), -1)
    shape = (len(swaps), *units.shape[1:])
    swapped, unswapped = (swaps @ flat).reshape(shape), ((1 - swaps) @ flat).reshape(shape)
    return _scores(unswapped[:, 1:] + swapped[:, :1], value_of) - _scores(unswapped[:, :1] + swapped[:, 1:], value_of)


@dataclass(frozen=True)
class _PairedSystems:
    """The systems that share the same replies with the baseline, which comes first in `units`."""

    names: list[str]
    units: Floats  # (replies or clusters, 1 + systems, columns)
    replies: int
    left_out: int

    def values(self, value_of: ValueOfSums) -> Floats:
        """Return the scores of the baseline and the systems on these replies; NaN where there is none."""
        undefined = np.full(1 + len(self.names), np.nan)
        return _scores(self.units.sum(axis=0), value_of) if self.replies else undefined

    def paired(self, values: Floats, system: int, difference: Estimate) -> Paired:
        """Return the record of one system."""
        return Paired(
            value=_finite_or_none(values[system]),
            baseline=_finite_or_none(values[0]),
            difference=difference if self.replies else _NO_REPLIES,
            replies=self.replies,
            left_out=self.left_out,
        )


def _finite_or_none(score: float) -> float | None:
    return float(score) if isfinite(score) else None


def _paired_groups(statistics: Mapping[str, Floats], baseline: str, clusters: Labels | None) -> list[_PairedSystems]:
    """Group the systems by the rows that they share with the baseline; mostly they all share all rows."""
    if baseline not in statistics:
        raise Usage(f"the baseline {baseline!r} is not among the systems", remedy=f"one of: {', '.join(statistics)}")
    tables = _check_tables(statistics, clusters)
    missing = {name: _without_score(table) for name, table in tables.items()}
    groups: dict[bytes, list[str]] = {}
    for name in tables:
        if name != baseline:
            groups.setdefault((missing[name] | missing[baseline]).tobytes(), []).append(name)
    shared = [~(missing[names[0]] | missing[baseline]) for names in groups.values()]
    return [
        _pair_with_baseline(tables, baseline, *pair, clusters) for pair in zip(groups.values(), shared, strict=True)
    ]


def _pair_with_baseline(
    tables: Mapping[str, Floats], baseline: str, names: list[str], shared: NDArray[np.bool_], clusters: Labels | None
) -> _PairedSystems:
    together = np.stack([tables[name][shared] for name in (baseline, *names)], axis=1)
    units = _sum_by_cluster(together, None if clusters is None else clusters[shared])
    return _PairedSystems(names, units, replies=int(shared.sum()), left_out=int((~shared).sum()))


def _with_p(estimate: Estimate, under_null: Floats, scale: float) -> Estimate:
    """Add the two-sided p: how often the null hypothesis gives a difference as large as the real one."""
    defined = under_null[~np.isnan(under_null)]
    if estimate.value is None or len(defined) == 0:
        return estimate
    as_large = int(np.count_nonzero(np.abs(defined) >= abs(estimate.value) - _SAME * scale))
    return replace(estimate, p=(as_large + 1) / (len(defined) + 1))


def _scale(values: Floats, system: int) -> float:
    return float(np.max(np.abs(values[[0, system]])))


# Input


def _check_tables(statistics: Mapping[str, Floats], clusters: Labels | None) -> dict[str, Floats]:
    """Return the tables as float64, all of one shape and finite where they are not NaN."""
    tables = {name: np.asarray(table, dtype=np.float64) for name, table in statistics.items()}
    if not tables:
        raise BadInput("there are no systems to resample", remedy="hand in the statistics of at least one")
    first, shape = next((name, table.shape) for name, table in tables.items())
    for name, table in tables.items():
        if table.ndim != 2 or table.shape != shape:
            raise BadInput(
                f"the statistics of {name!r} have shape {table.shape}, those of {first!r} {shape}",
                remedy="one row for each reply and the same columns for all systems; NaN where there is no score",
            )
        if np.isinf(table).any():
            row = int(np.isinf(table).any(axis=1).argmax())
            raise BadInput(f"the statistics of {name!r} are infinite in row {row}", remedy="NaN means no score")
    if clusters is not None and len(clusters) != shape[0]:
        raise BadInput(f"there are {len(clusters)} clusters for {shape[0]} replies", remedy="one label for each reply")
    return tables


def _without_score(table: Floats) -> NDArray[np.bool_]:
    return np.asarray(np.isnan(table).any(axis=1))


def _sum_by_cluster(rows: Floats, clusters: Labels | None) -> Floats:
    """Add the rows of each cluster, so that each unit that is drawn or swapped is one row."""
    if clusters is None:
        return rows
    labels, place = np.unique(clusters, return_inverse=True)
    in_order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[in_order], np.arange(len(labels)))
    return np.asarray(np.add.reduceat(rows[in_order], starts, axis=0)) if len(rows) else rows


# ── p values of several tests of one family, adjusted for their number ────────────────────────────────────────────────


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
