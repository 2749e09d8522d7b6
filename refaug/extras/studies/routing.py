"""Which pair of bots tells most about their order, when the order is decided, and what its strengths are worth then.

A pair is worth the chance that it stands in the wrong order, times the expected gain of information, under a normal
approximation of the Bradley–Terry posterior. A share of the votes explores: it goes to the pair with the fewest. The
order is decided once every two neighbours are further apart than 1.96 standard errors. A tie is half a win of each.
bench/vote_routing.py simulates whole studies with these functions, many in step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from refaug.metrics.statistics.resampling import FEWEST_UNITS, Floats

if TYPE_CHECKING:  # it imports scipy, without which servers start
    from refaug.metrics.statistics.pairwise import PairVote

Ints = NDArray[np.intp]

EXPLORED: Final = 0.2  # of the votes go to the pair with the fewest
FEWEST_VOTES: Final = 60  # before it may stop
PRIOR: Final = 0.1  # precision of the strengths
Z: Final = 1.96  # standard errors between neighbours of a decided order
_RIDGE: Final = 0.01  # of the strengths that are reported
_STEPS: Final = 60  # of Newton's method, each of at most 1
_CONVERGED: Final = 1e-8


@dataclass(kw_only=True)
class RoutedStudies:
    """Studies that are routed: their votes so far, and the strengths fitted to them."""

    bots: int
    studies: int
    votes: Floats = field(init=False)  # (studies, bots, bots): wins of the first
    strengths: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.votes = np.zeros((self.studies, self.bots, self.bots))
        self.strengths = np.zeros((self.studies, self.bots))

    @classmethod
    def counted(cls, wins: Floats) -> RoutedStudies:
        """Return one study with its votes: (bots, bots), wins of the first."""
        study = cls(bots=len(wins), studies=1)
        study.votes[0] = wins
        return study

    def add(self, first: Ints, second: Ints, wins: NDArray[np.bool_], among: NDArray[np.bool_]) -> None:
        """Count a vote of each study that goes on."""
        rows = np.arange(self.studies)
        np.add.at(self.votes, (rows, first, second), wins * among)
        np.add.at(self.votes, (rows, second, first), ~wins * among)

    def fit(self, steps: int = _STEPS) -> Floats:
        """Improve the strengths by steps of Newton's method, and return their covariance (studies, bots, bots)."""
        covariance = self.covariance()
        for _ in range(steps):
            chance = 1 / (1 + np.exp(self.strengths[:, None, :] - self.strengths[:, :, None]))
            slope = (self.votes - self._totals * chance).sum(axis=2) - PRIOR * self.strengths
            step = np.einsum("sij,sj->si", covariance, slope)
            longest = np.abs(step).max(axis=1, keepdims=True)
            self.strengths += step / np.maximum(1.0, longest)  # or it would overshoot
            covariance = self.covariance()
            if longest.max(initial=0.0) < _CONVERGED:
                break
        return covariance

    def covariance(self, coming: Floats | None = None) -> Floats:
        """Return the covariance of the strengths; `coming` has votes on pairs that are given out already."""
        chance = 1 / (1 + np.exp(self.strengths[:, None, :] - self.strengths[:, :, None]))
        curve = -(self._totals if coming is None else self._totals + coming) * chance * (1 - chance)
        places = np.arange(self.bots)
        curve[:, places, places] = -curve.sum(axis=2) + PRIOR
        return np.asarray(np.linalg.inv(curve), dtype=np.float64)

    @property
    def _totals(self) -> Floats:
        return self.votes + self.votes.transpose(0, 2, 1)


def next_pairs(
    studies: RoutedStudies,
    covariance: Floats,
    given: Floats,
    allowed: NDArray[np.bool_],
    explores: NDArray[np.bool_],
    ties: Floats,
) -> Ints:
    """Return a pair for each study: the most telling one, or the one given least where it explores.

    Pairs are numbered as the combinations of bots are; `given` has how often each two bots were given, both ways.
    """
    from scipy.special import ndtr  # noqa: PLC0415  servers start without it

    first, second = np.triu_indices(studies.bots, 1)
    gap = studies.strengths[:, first] - studies.strengths[:, second]
    variance = covariance[:, first, first] + covariance[:, second, second] - 2 * covariance[:, first, second]
    chance = 1 / (1 + np.exp(-gap))
    telling = ndtr(-np.abs(gap) / np.sqrt(variance)) * np.log1p(chance * (1 - chance) * variance)
    merit = np.where(explores[:, None], -given[:, first, second], telling) + 1e-9 * ties
    return np.asarray(np.where(allowed, merit, -np.inf).argmax(axis=1), dtype=np.intp)


def is_decided(studies: RoutedStudies, covariance: Floats) -> NDArray[np.bool_]:
    """Return whether every two neighbours of the order are far enough apart, after enough votes."""
    order = np.argsort(-studies.strengths, axis=1)
    rows = np.arange(studies.studies)[:, None]
    above, below = order[:, :-1], order[:, 1:]
    gap = studies.strengths[rows, above] - studies.strengths[rows, below]
    variance = covariance[rows, above, above] + covariance[rows, below, below] - 2 * covariance[rows, above, below]
    is_apart = (gap > Z * np.sqrt(variance)).all(axis=1)
    return np.asarray(is_apart & (studies.votes.sum(axis=(1, 2)) >= FEWEST_VOTES), dtype=np.bool_)


def decides(wins: Floats) -> bool:
    """Return whether the votes of one study decide the order: (bots, bots), wins of the first."""
    if wins.sum() < FEWEST_VOTES:
        return False
    study = RoutedStudies.counted(wins)
    return bool(is_decided(study, study.fit())[0])


def routed_target(targets: Sequence[int]) -> int:
    """Return how many tasks a study takes at most: as many as one that gives each pair its target."""
    return sum(min(pair) for pair in combinations(targets, 2))


def tasks_of_bots(targets: Mapping[int, int]) -> dict[int, int]:
    """Return how many tasks each bot has a part in once each pair of them has its target."""
    return {
        slot: sum(min(target, other) for another, other in targets.items() if another != slot)
        for slot, target in targets.items()
    }


def pair_table(numbers: Sequence[float], bots: int) -> Floats:
    """Return a number of each pair as a table of bots, both ways."""
    table = np.zeros((bots, bots))
    table[np.triu_indices(bots, 1)] = numbers
    return table + table.T


def routed_pair(wins: Floats, coming: Floats, allowed: Sequence[bool], seed: int) -> int | None:
    """Return the next pair of one study; None where none is allowed.

    `coming` has the pairs that others hold, both ways. What is drawn follows from the seed of the study and the number
    of its votes, given and coming.
    """
    if not any(allowed):
        return None
    study = RoutedStudies.counted(wins)
    study.fit()
    given = wins + wins.T + coming
    drawn = np.random.default_rng([seed, round(given.sum() / 2)])
    explores, ties = drawn.random(1) < EXPLORED, drawn.random((1, len(allowed)))
    covariance = study.covariance(coming[None])
    return int(next_pairs(study, covariance, given[None], np.array([allowed]), explores, ties)[0])


# ── Strengths with intervals over participants: what a report prints after routing that has stopped ───────────────────


@dataclass(frozen=True, kw_only=True)
class RoutedStrengths:
    """Strengths about their mean, in the order of the bots' names, and their covariance over participants."""

    bots: tuple[str, ...]
    strengths: Floats
    covariance: Floats
    participants: int

    def interval(self, contrast: Floats, level: float) -> tuple[float, float] | None:
        """Return the interval of a contrast of strengths; None of too few participants."""
        if self.participants < FEWEST_UNITS:
            return None
        from scipy import stats  # noqa: PLC0415

        t = float(stats.t.isf((1 - level) / 2, self.participants - 1))
        half = t * float(np.sqrt(contrast @ self.covariance @ contrast))
        middle = float(contrast @ self.strengths)
        return middle - half, middle + half


def wins_of(votes: Sequence[PairVote]) -> Floats:
    """Return the wins of each bot over each other one, in the order of names, a tie being half a win of each."""
    place = {bot: at for at, bot in enumerate(sorted({bot for vote in votes for bot in (vote.first, vote.second)}))}
    wins = np.zeros((len(place), len(place)))
    for vote in votes:
        wins[place[vote.first], place[vote.second]] += (1 + vote.outcome) / 2
        wins[place[vote.second], place[vote.first]] += (1 - vote.outcome) / 2
    return wins


def routed_strengths(votes: Sequence[PairVote]) -> RoutedStrengths:
    """Fit strengths by a slight ridge, with a covariance over participants (the sandwich)."""
    bots = tuple(sorted({bot for vote in votes for bot in (vote.first, vote.second)}))
    place = {bot: at for at, bot in enumerate(bots)}
    codes = sorted({vote.participant for vote in votes})
    person = {code: at for at, code in enumerate(codes)}
    first = np.array([place[vote.first] for vote in votes])
    second = np.array([place[vote.second] for vote in votes])
    outcomes = np.array([(1 + vote.outcome) / 2 for vote in votes])
    strengths, covariance = clustered_fit(
        len(bots), first, second, outcomes, np.array([person[vote.participant] for vote in votes])
    )
    return RoutedStrengths(bots=bots, strengths=strengths, covariance=covariance, participants=len(codes))


def clustered_fit(bots: int, first: Ints, second: Ints, wins: Floats, person: Ints) -> tuple[Floats, Floats]:
    """Return strengths and their covariance, of votes by the places of their bots and of their participant."""
    design = np.zeros((len(first), bots))
    design[np.arange(len(first)), first], design[np.arange(len(first)), second] = 1.0, -1.0
    strengths, ridge = np.zeros(bots), _RIDGE * np.eye(bots)
    for _ in range(_STEPS):
        off, bread = _slope(design, wins, strengths, ridge)
        step = bread @ (design.T @ off - _RIDGE * strengths)
        longest = float(np.abs(step).max())
        strengths = strengths + step / max(1.0, longest)
        if longest < _CONVERGED:
            break
    off, bread = _slope(design, wins, strengths, ridge)
    scores = np.zeros((int(person.max()) + 1, bots))
    np.add.at(scores, person, design * off[:, None])
    people = len(scores)
    return strengths, bread @ (scores.T @ scores) @ bread * people / max(1, people - 1)


def _slope(design: Floats, wins: Floats, strengths: Floats, ridge: Floats) -> tuple[Floats, Floats]:
    """Return by how much each outcome is off its chance, and the inverse of the information."""
    chance = 1 / (1 + np.exp(-design @ strengths))
    information = (design.T * (chance * (1 - chance))) @ design + ridge
    return wins - chance, np.asarray(np.linalg.inv(information), dtype=np.float64)
