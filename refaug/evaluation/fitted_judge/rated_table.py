"""Rated rows as a table: the values of some metrics, ratings, lengths, and which set, group and context a row is of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, rankdata

from refaug.core.errors import BadInput
from refaug.metrics.base import Floats, Indexes

FEWEST_ROWS = 50


@dataclass(frozen=True, kw_only=True, eq=False)
class RatedTable:
    """Rows of one or several rated sets; rows of one context are never parted."""

    features: tuple[str, ...]
    values: Floats  # (rows, features)
    ratings: Floats
    lengths: Floats  # tokens of the replies
    sets: Indexes  # the set of each row: scales are compared within a set alone
    groups: Indexes  # of sets that share a source
    contexts: Indexes

    def __len__(self) -> int:
        return len(self.ratings)

    def select(self, rows: Indexes) -> RatedTable:
        """Return these rows, in this order."""
        return RatedTable(
            features=self.features,
            values=self.values[rows],
            ratings=self.ratings[rows],
            lengths=self.lengths[rows],
            sets=self.sets[rows],
            groups=self.groups[rows],
            contexts=self.contexts[rows],
        )

    def complete(self) -> RatedTable:
        """Return the rows that have every value and a rating."""
        return self.select(np.flatnonzero(np.isfinite(self.values).all(axis=1) & np.isfinite(self.ratings)))

    def require_contexts(self) -> None:
        """Raise BadInput for rows of one context: how much weights shrink is chosen on other contexts."""
        if len(np.unique(self.contexts)) < 2:
            raise BadInput(
                f"all {len(self):,} rated replies stand in one context: folds over contexts choose the penalty",
                remedy="rated replies to more contexts, or --method equal",
            )

    def require_enough(self, fewest: int = FEWEST_ROWS) -> None:
        """Raise BadInput for tables that nothing can be fitted to."""
        if len(self) < fewest:
            raise BadInput(
                f"{len(self):,} rated replies have a score by every metric; at least {fewest} are needed",
                remedy="give more rated items, or metrics that suit them",
            )
        for number in np.unique(self.sets).tolist():
            ratings = self.ratings[self.sets == number]
            if np.ptp(ratings) == 0:
                raise BadInput(
                    f"all {len(ratings):,} ratings of a set are {ratings[0]:g}: there is nothing to fit",
                    remedy="ratings that differ",
                )

    @property
    def targets(self) -> Floats:
        """The normal scores of ratings within their set, since scales and tastes of sets differ."""
        targets = np.empty(len(self))
        for number in np.unique(self.sets).tolist():
            rows = self.sets == number
            targets[rows] = norm.ppf((rankdata(self.ratings[rows]) - 0.5) / rows.sum())
        return targets

    @property
    def weights(self) -> Floats:
        """Weights of the rows, of mean 1: each group counts the same, and each set of a group."""
        weights = np.empty(len(self))
        for group in np.unique(self.groups).tolist():
            of_group = self.groups == group
            sets = np.unique(self.sets[of_group]).tolist()
            for number in sets:
                rows = self.sets == number
                weights[rows] = 1 / (len(sets) * rows.sum())
        return np.asarray(weights * len(self) / weights.sum())
