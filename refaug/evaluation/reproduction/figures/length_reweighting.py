"""Resampling of rows so that the length of a reply and its rating correlate differently.

Within each context, rows are drawn with replacement, as many as it has, with probabilities ∝ exp(λ · z(length) ·
z(rating)), where z is the standard score of the mean rank over the whole set. With ranks no single long reply decides,
and more different rows remain than with the values themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy import stats

from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.metrics.base import Floats, Indexes

_STRONGEST: Final = 8.0  # λ: beyond, a context is a row or two, drawn again and again
_LEAST_EFFECTIVE: Final = 0.25  # of the rows
_STEPS: Final = 60  # of the bisection: λ is exact long before


@dataclass(frozen=True, kw_only=True, eq=False)
class Tilt:
    """Probabilities of rows at which length and rating correlate at the target: `shares` sum to 1 in every context."""

    strength: float  # λ
    expected: float  # the correlation
    shares: Floats
    effective: float  # rows, as many as would tell as much if all counted the same


def tilt(lengths: Floats, ratings: Floats, contexts: Indexes, target: float) -> Tilt | str:
    """Return the weakest tilt that reaches a Spearman of lengths and ratings, or why there is none."""
    if len(set(lengths.tolist())) < 2 or len(set(ratings.tolist())) < 2:
        return "all replies are as long, or rated alike"
    product = _standard_scores(lengths) * _standard_scores(ratings)
    places, counts = np.unique(contexts, return_inverse=True, return_counts=True)[1:]

    def tilted(strength: float) -> Tilt:
        most = np.full(len(counts), -np.inf)
        np.maximum.at(most, places, strength * product)
        raised = np.exp(strength * product - most[places])
        shares = raised / np.bincount(places, raised)[places]
        weights = shares * counts[places]
        return Tilt(
            strength=strength,
            expected=_weighted_spearman(lengths, ratings, weights),
            shares=shares,
            effective=float(weights.sum() ** 2 / (weights**2).sum()),
        )

    low, high = -_STRONGEST, _STRONGEST
    reached = tilted(low).expected, tilted(high).expected
    if not reached[0] <= target <= reached[1]:
        return f"rows of the same contexts reach from {reached[0]:.2f} to {reached[1]:.2f}, and not {target:g}"
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if tilted(middle).expected < target else (low, middle)
    weakest = tilted(high)
    if weakest.effective < _LEAST_EFFECTIVE * len(lengths):
        return f"{target:g} would rest on {weakest.effective:.0f} of {len(lengths):,} rows"
    return weakest


def _standard_scores(values: Floats) -> Floats:
    """Return the standard scores of the mean ranks."""
    ranks = stats.rankdata(values)
    return np.asarray((ranks - ranks.mean()) / ranks.std())


def _weighted_spearman(first: Floats, second: Floats, weights: Floats) -> float:
    """Return Spearman's ρ of rows that count with weights, with mean ranks."""
    shares = weights / weights.sum()
    ranks = []
    for values in (first, second):
        place = np.unique(values, return_inverse=True)[1]
        mass = np.bincount(place, shares)
        ranks.append((np.cumsum(mass) - mass / 2)[place] - 0.5)
    return float(shares @ (ranks[0] * ranks[1]) / np.sqrt((shares @ ranks[0] ** 2) * (shares @ ranks[1] ** 2)))


def draw_rows(shares: Floats, contexts: Indexes, random: np.random.Generator) -> Indexes:
    """Draw places of rows: as many of each context as it has, each with its share as probability."""
    drawn = list[Indexes]()
    for context in np.unique(contexts):
        here = np.flatnonzero(contexts == context)
        drawn.append(random.choice(here, size=len(here), p=shares[here]))
    return np.concatenate(drawn)


def take_rows(rated_set: ProofSet, rows: Indexes) -> ProofSet:
    """Return a set of these rows, in their order; a row may occur more than once."""
    return replace(
        rated_set,
        item=rated_set.item[rows],
        systems=tuple(rated_set.systems[row] for row in rows.tolist()),
        replies=tuple(rated_set.replies[row] for row in rows.tolist()),
        ratings=rated_set.ratings[rows],
        by_annotator=rated_set.by_annotator[rows],
        lengths=rated_set.lengths[rows],
        is_gold=rated_set.is_gold[rows],
    )
