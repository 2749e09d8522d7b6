"""Agreement of ways to score with people: by groups of sets, what leads by how much, and choices out of fold.

The contexts of each set are drawn by themselves, also where sets of a group share some.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.stats import rankdata

from refaug.extras.reproduction.figures.correlations import IntervalEstimate
from refaug.extras.reproduction.recommended.rated_replies import FairRows
from refaug.metrics.base import Floats, Indexes
from refaug.metrics.statistics.resampling import percentile_interval

Groups = Mapping[str, Sequence[str]]  # group → names of its sets
Scorer = Callable[[FairRows], Floats]  # → a score for each row, by seed: (seeds, rows)
Shares = tuple[float, ...]  # of the parts of a metric
_LEVEL: Final = 0.95
_NOTHING_LEFT: Final = 1e-9  # of the largest rank: a residual below it is rounding


def spearman(scores: Floats, people: Floats) -> float:
    """Return the correlation of ranks; the mean over the seeds of the scores (seeds, rows)."""
    return _mean_correlation(rankdata(scores, axis=1), rankdata(people))


def partial_spearman(scores: Floats, people: Floats, lengths: Floats) -> float:
    """Return the same with a line in the rank of the length taken off all ranks; NaN where nothing is left."""
    line = np.stack([np.ones(len(lengths)), rankdata(lengths)], axis=1)
    ranks = np.concatenate([rankdata(scores, axis=1), rankdata(people)[None]])
    residuals = ranks - (line @ np.linalg.lstsq(line, ranks.T, rcond=None)[0]).T
    if np.abs(residuals).max(axis=1).min() < _NOTHING_LEFT * len(people):
        return float("nan")
    return _mean_correlation(residuals[:-1], residuals[-1])


def _mean_correlation(by_seed: Floats, people: Floats) -> float:
    """Return the correlation of each row with people, the mean over rows."""
    ours, theirs = by_seed - by_seed.mean(axis=1, keepdims=True), people - people.mean()
    return float(np.mean(ours @ theirs / np.sqrt((ours**2).sum(axis=1) * (theirs**2).sum())))


@dataclass(frozen=True, kw_only=True)
class GroupedAgreement:
    """The correlations of one way to score: by group, their mean, and the mean with the length held fixed."""

    mean: float
    partial: float  # NaN for the length itself
    groups: Mapping[str, float]

    def as_json(self) -> dict[str, object]:
        """Return the figures, rounded; further digits are noise."""
        groups = {group: round(value, 4) for group, value in self.groups.items()}
        partial = None if np.isnan(self.partial) else round(self.partial, 4)
        return {"mean": round(self.mean, 4), "partial": partial, "groups": groups}


@dataclass(frozen=True, kw_only=True)
class GroupedSets:
    """Sets by name, in groups that count the same, and how leads are drawn."""

    sets: Mapping[str, FairRows]
    groups: Groups
    draws: int
    seed: int

    def of(self, scorer: Scorer) -> GroupedAgreement:
        """Return the agreement of one way to score."""
        scored = {name: scorer(self.sets[name]) for names in self.groups.values() for name in names}
        plain = self._over_groups(lambda name: spearman(scored[name], self.sets[name].people))
        held = self._over_groups(
            lambda name: partial_spearman(scored[name], self.sets[name].people, self.sets[name].lengths)
        )
        return GroupedAgreement(
            mean=float(np.mean(list(plain.values()))), partial=float(np.mean(list(held.values()))), groups=plain
        )

    def lead(self, scorer: Scorer, other: Scorer) -> IntervalEstimate:
        """Return by how much one agrees better than another, with the interval of a paired bootstrap over contexts."""
        random = np.random.default_rng(self.seed)
        names = [name for names in self.groups.values() for name in names]
        ours = {name: scorer(self.sets[name]) for name in names}
        theirs = {name: other(self.sets[name]) for name in names}
        rows_of = {name: _rows_of_contexts(self.sets[name]) for name in names}

        def difference(name: str, rows: Indexes) -> float:
            people = self.sets[name].people[rows]
            return spearman(ours[name][:, rows], people) - spearman(theirs[name][:, rows], people)

        def drawn_difference(name: str) -> float:
            contexts = rows_of[name]
            drawn = random.integers(len(contexts), size=len(contexts))
            return difference(name, np.concatenate([contexts[context] for context in drawn]))

        drawn_leads = np.array([np.mean(list(self._over_groups(drawn_difference).values())) for _ in range(self.draws)])
        whole = self._over_groups(lambda name: difference(name, np.arange(len(self.sets[name].people))))
        low, high = percentile_interval(drawn_leads, _LEVEL)
        return IntervalEstimate(value=float(np.mean(list(whole.values()))), low=low, high=high)

    def best_out_of_fold(
        self, scores: Callable[[FairRows, Shares], Floats], grid: Sequence[Shares]
    ) -> tuple[Scorer, Mapping[str, Shares]]:
        """Return the scorer whose shares are, for each group, those that agree best on the others; and the shares."""
        by_shares = {
            shares: self._over_groups(
                lambda name, shares=shares: spearman(scores(self.sets[name], shares), self.sets[name].people)  # type: ignore[misc]
            )
            for shares in grid
        }
        chosen = {
            group: max(
                grid, key=lambda shares: np.mean([by_shares[shares][other] for other in self.groups if other != group])
            )
            for group in self.groups
        }
        group_of = {name: group for group, names in self.groups.items() for name in names}
        return lambda rated: scores(rated, chosen[group_of[rated.name]]), chosen

    def _over_groups(self, value_of: Callable[[str], float]) -> dict[str, float]:
        return {group: float(np.mean([value_of(name) for name in names])) for group, names in self.groups.items()}


def _rows_of_contexts(rated: FairRows) -> list[Indexes]:
    rows = defaultdict[str, list[int]](list)
    for row, context in enumerate(rated.contexts):
        rows[context].append(row)
    return [np.array(own) for own in rows.values()]
