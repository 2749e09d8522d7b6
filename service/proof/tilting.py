"""Rows drawn anew so that the length of a reply and its rating correlate otherwise than they do.

Within each context rows are drawn with replacement, as many as it has, with probabilities ∝ exp(λ · z(length) ·
z(rating)), where z is the standard score of the mean rank over the whole set: no single long reply decides, and more
different rows are left than with the values themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy import stats

from metrics.base import Floats, Indexes
from service.proof.sets import ProofSet

_STRONGEST: Final = 8.0  # λ: beyond, each context is a row or two, drawn again and again
_LEAST_EFFECTIVE: Final = 0.25  # of the rows
_STEPS: Final = 60  # of the bisection: λ is exact long before


@dataclass(frozen=True, kw_only=True, eq=False)
class Tilt:
    """How rows are drawn so that length and rating correlate as wanted: `shares` add up to 1 in every context."""

    strength: float  # λ
    expected: float  # the correlation
    shares: Floats
    effective: float  # rows, as many as would tell as much if all counted the same


def tilt(lengths: Floats, ratings: Floats, contexts: Indexes, target: float) -> Tilt | str:
    """The weakest tilt that reaches a Spearman of lengths and ratings, or why there is none."""
    if len(set(lengths.tolist())) < 2 or len(set(ratings.tolist())) < 2:
        return "all replies are as long, or rated alike"
    product = _standard(lengths) * _standard(ratings)
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
    found = tilted(high)
    if found.effective < _LEAST_EFFECTIVE * len(lengths):
        return f"{target:g} would rest on {found.effective:.0f} of {len(lengths):,} rows"
    return found


def _standard(values: Floats) -> Floats:
    """Standard scores of the mean ranks."""
    ranks = stats.rankdata(values)
    return np.asarray((ranks - ranks.mean()) / ranks.std())


def _weighted_spearman(left: Floats, right: Floats, weights: Floats) -> float:
    """Spearman's ρ of rows of which each is there so many times, with mean ranks."""
    shares = weights / weights.sum()
    ranks = []
    for values in (left, right):
        place = np.unique(values, return_inverse=True)[1]
        there = np.bincount(place, shares)
        ranks.append((np.cumsum(there) - there / 2)[place] - 0.5)
    return float(shares @ (ranks[0] * ranks[1]) / np.sqrt((shares @ ranks[0] ** 2) * (shares @ ranks[1] ** 2)))


def draw_rows(shares: Floats, contexts: Indexes, random: np.random.Generator) -> Indexes:
    """Places of rows: as many of each context as it has, each as likely as its share."""
    drawn = list[Indexes]()
    for context in np.unique(contexts):
        here = np.flatnonzero(contexts == context)
        drawn.append(random.choice(here, size=len(here), p=shares[here]))
    return np.concatenate(drawn)


def of_rows(one: ProofSet, rows: Indexes) -> ProofSet:
    """A set of these rows, in their order; a row may come more than once."""
    return replace(
        one,
        item=one.item[rows],
        systems=tuple(one.systems[row] for row in rows.tolist()),
        replies=tuple(one.replies[row] for row in rows.tolist()),
        ratings=one.ratings[rows],
        by_annotator=one.by_annotator[rows],
        lengths=one.lengths[rows],
        is_gold=one.is_gold[rows],
    )
