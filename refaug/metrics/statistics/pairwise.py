"""Two bots side by side: wins, losses and ties, with Wilson intervals and sign tests, and how far people agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from refaug.core.errors import BadInput, Usage
from refaug.metrics.statistics.resampling import check_level


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareEstimate:
    """A share with its Wilson interval; None where there is nothing to have a share of."""

    value: float | None
    low: float | None
    high: float | None
    n: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOutcome:
    """The votes between two bots, seen from the first one.

    `decided` is the share of wins among votes without ties, `halved` that with half of each tie; `p_dropped` and
    `p_halved` are two-sided exact sign tests. They take votes for independent, which several votes of a participant
    are not.
    """

    wins: int
    losses: int
    ties: int
    decided: ShareEstimate
    halved: ShareEstimate
    p_dropped: float | None
    p_halved: float | None


def wilson(successes: float, n: float, level: float = 0.95) -> ShareEstimate:
    """Return a share with the interval of Wilson (1927); halves of successes may be counted."""
    check_level(level)
    if not 0 <= successes <= n:
        raise Usage(f"{successes:g} successes of {n:g}", remedy="from 0 to as many as there were trials")
    if n == 0:
        return ShareEstimate(value=None, low=None, high=None, n=0)
    z = float(stats.norm.isf((1 - level) / 2))
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return ShareEstimate(value=share, low=max(0.0, centre - half), high=min(1.0, centre + half), n=n)


def sign_test(wins: int, losses: int, ties: int = 0, *, halve: bool = False) -> float | None:
    """Return the exact two-sided p that wins and losses are as likely; None where no vote is left.

    Ties are dropped, or halved: each side gets as many, and one is dropped where their number is odd.
    """
    if min(wins, losses, ties) < 0:
        raise Usage(f"{wins}, {losses} and {ties} votes", remedy="no number below 0")
    half = ties // 2 if halve else 0
    n = wins + losses + 2 * half
    return float(stats.binomtest(wins + half, n).pvalue) if n else None


def pair_outcome(wins: int, losses: int, ties: int, level: float = 0.95) -> PairOutcome:
    """Return the shares and tests of one pair."""
    return PairOutcome(
        wins=wins,
        losses=losses,
        ties=ties,
        decided=wilson(wins, wins + losses, level),
        halved=wilson(wins + ties / 2, wins + losses + ties, level),
        p_dropped=sign_test(wins, losses, ties),
        p_halved=sign_test(wins, losses, ties, halve=True),
    )


def nominal_kappa(first: ArrayLike, second: ArrayLike) -> float | None:
    """Return Cohen's κ of two annotators (1960): agreement beyond chance, where every disagreement counts the same."""
    x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if x.shape != y.shape:
        raise BadInput(f"choices of {len(x)} and {len(y)} rows", remedy="a choice, or NaN, of both for every row")
    both = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[both], y[both]
    if len(x) < 2:
        return None
    observed = float(np.mean(x == y))
    expected = sum(float(np.mean(x == choice) * np.mean(y == choice)) for choice in np.union1d(x, y))
    return None if expected > 1 - 1e-12 else (observed - expected) / (1 - expected)


def ambiguous_share(choices: Sequence[Sequence[int]]) -> float | None:
    """Return the share of rows on which as many chose the first as the second (1 and −1; ties, 0, do not count)."""
    rows = [row for row in choices if row]
    return sum(sum(row) == 0 for row in rows) / len(rows) if rows else None
