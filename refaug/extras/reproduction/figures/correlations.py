"""Correlations with people for the lines of a table, with intervals, and differences on the same draws.

A line is a metric on some references. Where the references are drawn at random, the line has scores for several seeds;
its correlation is the mean over the seeds, on all rows and in every draw of contexts. So a control never is one lucky
draw.

Sets that share a source or contexts are one group. The contexts of a group are drawn together; a group counts as the
mean of its sets, and the mean counts every group the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from refaug.core.errors import BadInput, Usage
from refaug.extras.reproduction.material.rated_sets import Mask, ProofSet, SetGroup, context_numbers, groups_of
from refaug.metrics.base import Floats, Indexes
from refaug.metrics.statistics.agreement import RatedSet, drawn_together
from refaug.metrics.statistics.correlation import PARTIAL
from refaug.metrics.statistics.resampling import percentile_interval

KINDS: Final = ("spearman", PARTIAL, "pearson")
MEAN: Final = "mean"  # of the groups of sets
LEVEL: Final = 0.95
_MOST_SET_COLUMNS: Final = 3  # a table with more of them is too wide to read


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """Scores of one metric on one kind of references: set → (seeds, rows), NaN where there is none."""

    name: str
    scores: Mapping[str, Floats]
    about: str = ""  # how it is computed, for the page


@dataclass(frozen=True, kw_only=True)
class IntervalEstimate:
    """A number with its interval; None where it is not defined, with the reason in `why`."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    why: str | None = None

    @classmethod
    def of(cls, point: float, drawn: Floats) -> IntervalEstimate:
        """Return the estimate with the middle 95 % of the draws as its interval."""
        defined = drawn[np.isfinite(drawn)]
        if not np.isfinite(point):
            return cls(why="not defined on these rows")
        if len(defined) < len(drawn) / 2:
            return cls(value=float(point), why="not defined in most draws")
        low, high = percentile_interval(defined, LEVEL)
        return cls(value=float(point), low=low, high=high)

    @property
    def is_sure(self) -> bool:
        """Say whether the interval excludes 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def as_json(self) -> dict[str, object]:
        """Return the numbers rounded to four digits; further digits are noise."""
        numbers = {"value": self.value, "low": self.low, "high": self.high}
        rounded: dict[str, object] = {key: round(number, 4) for key, number in numbers.items() if number is not None}
        return rounded | ({} if self.why is None else {"why": self.why})


@dataclass(frozen=True, kw_only=True, eq=False)
class Correlations:
    """The correlations of all lines, by kind and set: on all rows (lines,), and in every draw (lines, draws)."""

    names: tuple[str, ...]
    sets: tuple[str, ...]
    rows: Mapping[str, int]
    contexts: Mapping[str, int]
    left_out: Mapping[str, int]  # rows that some line has no score for
    points: Mapping[tuple[str, str], Floats]
    drawn: Mapping[tuple[str, str], Floats]
    groups: tuple[SetGroup, ...] = ()

    def estimate(self, line: str, kind: str, scope: str = MEAN) -> IntervalEstimate:
        """Return the correlation of a line: on a set, or as the mean of a group or of all groups."""
        place = self._place(line)
        return IntervalEstimate.of(self.points[kind, scope][place], self.drawn[kind, scope][place])

    def difference(self, line: str, other: str, kind: str, scope: str = MEAN) -> IntervalEstimate:
        """Return the difference of two lines on the same draws; it is 0 where both are the same line."""
        (point, drawn), (other_point, other_drawn) = (self._sums({name: 1.0}, kind, scope) for name in (line, other))
        return IntervalEstimate.of(point - other_point, drawn - other_drawn)

    def weighted_sum(self, shares: Mapping[str, float], kind: str, scope: str = MEAN) -> IntervalEstimate:
        """Return the sum of the correlations of several lines, each times its factor."""
        points, drawn = self._sums(shares, kind, scope)
        return IntervalEstimate.of(points, drawn)

    def ratio(
        self, above: Mapping[str, float], below: Mapping[str, float], kind: str, scope: str = MEAN
    ) -> IntervalEstimate:
        """Return the ratio of two such sums, with an interval over the draws in which the denominator is positive.

        Where the denominator is not surely positive, by the same interval as every claim, `why` says so: the interval
        of the ratio then covers the lucky draws alone.
        """
        (top, tops), (bottom, bottoms) = self._sums(above, kind, scope), self._sums(below, kind, scope)
        if not bottom > 0:
            return IntervalEstimate(why="there is no gain that this could be a share of")
        gain = IntervalEstimate.of(bottom, bottoms)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = IntervalEstimate.of(top / bottom, np.where(bottoms > 0, tops / bottoms, np.nan))
        if (gain.low is None or gain.low <= 0) and share.value is not None:
            return IntervalEstimate(
                value=share.value, low=share.low, high=share.high, why="the gain itself is not sure"
            )
        return share

    def _sums(self, shares: Mapping[str, float], kind: str, scope: str) -> tuple[float, Floats]:
        places = [self._place(name) for name in shares]
        weights = np.array(list(shares.values()))
        return float(weights @ self.points[kind, scope][places]), np.asarray(weights @ self.drawn[kind, scope][places])

    def _place(self, line: str) -> int:
        if line not in self.names:
            raise Usage(f"no line is called {line!r}", remedy=f"one of: {', '.join(self.names)}")
        return self.names.index(line)

    def as_json(self, kinds: Sequence[str] = KINDS) -> dict[str, object]:
        """Return the figures of every line, by kind and scope."""
        return {
            "rows": dict(self.rows),
            "contexts": dict(self.contexts),
            "left_out": dict(self.left_out),
            "groups": {group.name: list(group.sets) for group in self.groups},
            "figures": {
                line: {
                    kind: {scope: self.estimate(line, kind, scope).as_json() for scope in self.scopes} for kind in kinds
                }
                for line in self.names
            },
        }

    @property
    def scopes(self) -> tuple[str, ...]:
        """Return the names of the sets, of the groups of several sets, and of the mean; each where it says more."""
        several = [group.name for group in self.groups if len(group.sets) > 1] if len(self.groups) > 1 else []
        return (*self.sets, *several, MEAN) if len(self.sets) > 1 else self.sets

    @property
    def table_scopes(self) -> tuple[str, ...]:
        """Return the scopes that tables have columns for: groups instead of sets, where there are many sets."""
        if len(self.sets) <= _MOST_SET_COLUMNS:
            return self.scopes
        return (*(group.name for group in self.groups), MEAN) if len(self.groups) > 1 else (MEAN,)


def correlate(
    sets: Sequence[ProofSet],
    lines: Sequence[Line],
    *,
    rows: Mapping[str, Mask] | None = None,
    kinds: Sequence[str] = KINDS,
    draws: int = 2_000,
    seed: int = 1,
) -> Correlations:
    """Correlate every line on the rows of each set (by default the fair ones); contexts are drawn within each group.

    In the mean of a group each set counts the same, and in the mean each group, whatever their sizes. With one set the
    mean is that set.
    """
    if len({line.name for line in lines}) < len(lines):
        raise Usage("two lines of one name")
    points, drawn = dict[tuple[str, str], Floats](), dict[tuple[str, str], Floats]()
    contexts = context_numbers(sets)
    tables = {
        rated_set.name: _table_of(rated_set, lines, (rows or {}).get(rated_set.name, rated_set.fair), contexts)
        for rated_set in sets
    }
    complete = {name: np.isfinite(table.scores).all(axis=0) for name, table in tables.items()}
    groups = groups_of(sets)
    for number, group in enumerate(groups):
        for kind in kinds:
            bootstraps = drawn_together([tables[name] for name in group.sets], kind, draws=draws, seed=[seed, number])
            for name, bootstrap in zip(group.sets, bootstraps, strict=True):
                owners = np.repeat(np.arange(len(lines)), [len(line.scores[name]) for line in lines])
                points[kind, name] = _means_over_seeds(bootstrap.points[:, None], owners, len(lines))[:, 0]
                drawn[kind, name] = _means_over_seeds(bootstrap.draws, owners, len(lines))
    for kind in kinds:
        for figures in (points, drawn):
            figures.update({(kind, name): mean for name, mean in _means_over_sets(figures, kind, groups).items()})
    return Correlations(
        names=tuple(line.name for line in lines),
        sets=tuple(rated_set.name for rated_set in sets),
        rows={name: int(is_complete.sum()) for name, is_complete in complete.items()},
        contexts={name: len(np.unique(tables[name].clusters[is_complete])) for name, is_complete in complete.items()},
        left_out={name: int((~is_complete).sum()) for name, is_complete in complete.items()},
        points=points,
        drawn=drawn,
        groups=groups,
    )


def _table_of(rated_set: ProofSet, lines: Sequence[Line], mask: Mask, contexts: Mapping[str, Indexes]) -> RatedSet:
    """Return the scores of all lines and seeds on some rows of a set, with ratings, contexts and lengths."""
    if not mask.any():
        raise BadInput(f"{rated_set.name}: no row is left to compare")
    scores = np.concatenate([line.scores[rated_set.name] for line in lines])[:, mask]
    clusters = contexts[rated_set.name][rated_set.item[mask]]
    return RatedSet(scores, rated_set.ratings[mask], clusters, rated_set.lengths[mask])


def _means_over_sets(
    figures: Mapping[tuple[str, str], Floats], kind: str, groups: Sequence[SetGroup]
) -> dict[str, Floats]:
    """Return the mean over the sets of each group of several, and the mean over groups."""
    by_group = {group.name: np.mean([figures[kind, name] for name in group.sets], axis=0) for group in groups}
    return {**by_group, MEAN: np.mean(list(by_group.values()), axis=0)}


def _means_over_seeds(values: Floats, owners: Any, lines: int) -> Floats:
    """Return the mean over the seeds of each line; NaN where one of the seeds has none."""
    return np.stack([values[owners == line].mean(axis=0) for line in range(lines)])
