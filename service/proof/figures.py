"""Correlations with people for many lines of a table at once, with intervals, and differences on the same draws.

A line is a metric on some references. Where these are drawn at random it has scores for several seeds, and its
correlation is the mean over them, on all rows and in every draw of contexts; so a control is never one lucky draw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from core.errors import BadInput, Usage
from metrics.agreement import RatedSet, drawn_correlations
from metrics.base import Floats
from metrics.correlation import PARTIAL
from metrics.resampling import percentile_interval
from service.proof.sets import Mask, ProofSet

KINDS: Final = ("spearman", PARTIAL, "pearson")
MEAN: Final = "mean"  # of the sets
LEVEL: Final = 0.95


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """Scores of one metric on one kind of references: set → (seeds, rows), NaN where there is none."""

    name: str
    scores: Mapping[str, Floats]
    about: str = ""  # how it was made, for the page


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A number with its interval; None where it is not defined, and then why."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    why: str | None = None

    @classmethod
    def of(cls, value: float, drawn: Floats) -> Figure:
        """The middle 95 % of the draws."""
        defined = drawn[np.isfinite(drawn)]
        if not np.isfinite(value):
            return cls(why="not defined on these rows")
        if len(defined) < len(drawn) / 2:
            return cls(value=float(value), why="not defined in most draws")
        low, high = percentile_interval(defined, LEVEL)
        return cls(value=float(value), low=low, high=high)

    def as_json(self) -> dict[str, Any]:
        """Rounded: the digits that follow are noise."""
        numbers = {"value": self.value, "low": self.low, "high": self.high}
        known: dict[str, Any] = {key: round(one, 4) for key, one in numbers.items() if one is not None}
        return known | ({} if self.why is None else {"why": self.why})


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """The correlations of all lines, by kind and set: on all rows (lines,), and in every draw (lines, draws)."""

    names: tuple[str, ...]
    sets: tuple[str, ...]
    rows: Mapping[str, int]
    contexts: Mapping[str, int]
    left_out: Mapping[str, int]  # rows that some line has no score for
    points: Mapping[tuple[str, str], Floats]
    drawn: Mapping[tuple[str, str], Floats]

    def figure(self, line: str, kind: str, where: str = MEAN) -> Figure:
        """A line's correlation, on a set or as the mean over sets."""
        place = self._place(line)
        return Figure.of(self.points[kind, where][place], self.drawn[kind, where][place])

    def difference(self, line: str, other: str, kind: str, where: str = MEAN) -> Figure:
        """What a line has over another one, on the same draws; over itself nothing."""
        (point, drawn), (others_point, others) = (self._sums({name: 1.0}, kind, where) for name in (line, other))
        return Figure.of(point - others_point, drawn - others)

    def combined(self, shares: Mapping[str, float], kind: str, where: str = MEAN) -> Figure:
        """A sum of several lines' correlations, each times a number."""
        points, drawn = self._sums(shares, kind, where)
        return Figure.of(points, drawn)

    def ratio(self, above: Mapping[str, float], below: Mapping[str, float], kind: str, where: str = MEAN) -> Figure:
        """One such sum over another, with an interval over the draws in which the lower one is positive.

        Where it is not surely so, by the same interval as every claim, that is said beside: the interval of the share
        is then one of the lucky draws alone.
        """
        (top, tops), (bottom, bottoms) = self._sums(above, kind, where), self._sums(below, kind, where)
        if not bottom > 0:
            return Figure(why="there is no gain that this could be a share of")
        gain = Figure.of(bottom, bottoms)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = Figure.of(top / bottom, np.where(bottoms > 0, tops / bottoms, np.nan))
        if (gain.low is None or gain.low <= 0) and found.value is not None:
            return Figure(value=found.value, low=found.low, high=found.high, why="the gain itself is not sure")
        return found

    def _sums(self, shares: Mapping[str, float], kind: str, where: str) -> tuple[float, Floats]:
        places = [self._place(name) for name in shares]
        weights = np.array(list(shares.values()))
        return float(weights @ self.points[kind, where][places]), np.asarray(weights @ self.drawn[kind, where][places])

    def _place(self, line: str) -> int:
        if line not in self.names:
            raise Usage(f"no line is called {line!r}", remedy=f"one of: {', '.join(self.names)}")
        return self.names.index(line)

    def as_json(self, kinds: Sequence[str] = KINDS) -> dict[str, Any]:
        """Every line's figures, by kind and set."""
        return {
            "rows": dict(self.rows),
            "contexts": dict(self.contexts),
            "left_out": dict(self.left_out),
            "figures": {
                line: {
                    kind: {where: self.figure(line, kind, where).as_json() for where in self.wheres} for kind in kinds
                }
                for line in self.names
            },
        }

    @property
    def wheres(self) -> tuple[str, ...]:
        """The sets, and their mean where there are several."""
        return (*self.sets, MEAN) if len(self.sets) > 1 else self.sets


def measured(
    sets: Sequence[ProofSet],
    lines: Sequence[Line],
    *,
    rows: Mapping[str, Mask] | None = None,
    kinds: Sequence[str] = KINDS,
    draws: int = 2_000,
    seed: int = 1,
) -> Measured:
    """Correlate every line on the rows of each set (by default the fair ones); contexts are drawn within each set.

    The mean over sets counts each the same, whatever its size. With one set the mean is that set.
    """
    if len({line.name for line in lines}) < len(lines):
        raise Usage("two lines of one name")
    points, drawn = dict[tuple[str, str], Floats](), dict[tuple[str, str], Floats]()
    counts, contexts, left_out = dict[str, int](), dict[str, int](), dict[str, int]()
    for number, one in enumerate(sets):
        mask = (rows or {}).get(one.name, one.fair)
        scores = np.concatenate([line.scores[one.name] for line in lines])[:, mask]
        owners = np.repeat(np.arange(len(lines)), [len(line.scores[one.name]) for line in lines])
        if scores.shape[1] < 1:
            raise BadInput(f"{one.name}: no row is left to compare")
        rated = RatedSet(scores, one.ratings[mask], one.item[mask], one.lengths[mask])
        complete = np.isfinite(scores).all(axis=0)
        counts[one.name], left_out[one.name] = int(complete.sum()), int((~complete).sum())
        contexts[one.name] = len(np.unique(one.item[mask][complete]))
        for kind in kinds:
            found = drawn_correlations(rated, kind, draws=draws, seed=[seed, number])
            points[kind, one.name] = _means_of(found.points[:, None], owners, len(lines))[:, 0]
            drawn[kind, one.name] = _means_of(found.draws, owners, len(lines))
    for kind in kinds:
        points[kind, MEAN] = np.mean([points[kind, one.name] for one in sets], axis=0)
        drawn[kind, MEAN] = np.mean([drawn[kind, one.name] for one in sets], axis=0)
    return Measured(
        names=tuple(line.name for line in lines),
        sets=tuple(one.name for one in sets),
        rows=counts,
        contexts=contexts,
        left_out=left_out,
        points=points,
        drawn=drawn,
    )


def _means_of(values: Floats, owners: Any, lines: int) -> Floats:
    """The mean over the seeds of each line; NaN where one of them has none."""
    return np.stack([values[owners == line].mean(axis=0) for line in range(lines)])
