"""How many conversations, votes and participants a study needs, and what it will see with those it has.

Sample sizes are by the normal approximation, rounded up: n = 2·(SD·(z₁₋α/₂ + z_power) / difference)² ratings of each of
two bots; (z₁₋α/₂·½ + z_power·√(p·q))² / (p − ½)² votes without ties at a win rate p. m ratings of a bot by each person
whose ratings have a correlation of ρ count as fewer: the design effect is 1 + (m − 1)·ρ. Where each person rates both
bots, the taste of a person cancels out: the variance of a difference is (1 − ρ) of that of independent people.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
import scipy

from refaug.core.errors import Usage
from refaug.metrics.statistics.resampling import Floats, check_resampling

DEFAULT_SD = 1.3  # of a rating from 1 to 7 of a conversation
_ABOVE_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPower:
    """The share of simulated studies whose test finds the difference, with its standard error."""

    power: float
    error: float
    studies: int


def ratings_needed(
    difference: float,
    *,
    sd: float = DEFAULT_SD,
    power: float = 0.8,
    alpha: float = 0.05,
    per_participant: int = 1,
    rho: float = 0.0,
    crossed: bool = False,
) -> int:
    """Return the ratings that each of two bots needs for a difference of their means.

    `per_participant` is how many ratings of one bot a person gives; `crossed` says that each person rates both.
    """
    _require_chances(power, alpha)
    if difference == 0:
        raise Usage("a difference of 0 is seen by no study", remedy="the smallest difference that matters, such as 0.5")
    if sd <= 0:
        raise Usage(f"a standard deviation of {sd:g}", remedy="above 0; about 1.3 on a scale from 1 to 7")
    effect = sd * float(scipy.stats.norm.isf(alpha / 2) + scipy.stats.norm.ppf(power)) / difference
    return _round_up(2 * effect * effect * variance_factor(per_participant, rho, crossed=crossed))


def votes_needed(win_rate: float, *, power: float = 0.8, alpha: float = 0.05, deff: float = 1.0) -> int:
    """Return the votes without ties that a win rate needs to be told from ½."""
    _require_chances(power, alpha)
    if not 0 < win_rate < 1 or win_rate == 0.5:
        raise Usage(f"a win rate of {win_rate:g} needs no study or cannot be seen", remedy="such as 0.6")
    z_alpha, z_power = float(scipy.stats.norm.isf(alpha / 2)), float(scipy.stats.norm.ppf(power))
    root = (z_alpha / 2 + z_power * sqrt(win_rate * (1 - win_rate))) / (win_rate - 0.5)
    return _round_up(root * root * deff)


def power_of_ratings(
    n: int,
    difference: float,
    *,
    sd: float = DEFAULT_SD,
    alpha: float = 0.05,
    per_participant: int = 1,
    rho: float = 0.0,
    crossed: bool = False,
) -> float:
    """Return the chance that n ratings of each of two bots show a difference of their means."""
    error = sd * sqrt(2 * variance_factor(per_participant, rho, crossed=crossed) / n)
    return _two_sided_power(difference / error, float(scipy.stats.norm.isf(alpha / 2)))


def power_of_votes(n: int, win_rate: float, *, alpha: float = 0.05, deff: float = 1.0) -> float:
    """Return the chance that n votes without ties show a win rate."""
    spread = sqrt(win_rate * (1 - win_rate))
    votes = n / deff
    z_alpha = float(scipy.stats.norm.isf(alpha / 2)) / 2
    distance = abs(win_rate - 0.5) * sqrt(votes)
    return float(
        scipy.stats.norm.cdf((distance - z_alpha) / spread) + scipy.stats.norm.cdf((-distance - z_alpha) / spread)
    )


def design_effect(per_participant: float, rho: float) -> float:
    """Return by how much several ratings of a bot by one person enlarge the variance of its mean: 1 + (m − 1)·ρ."""
    if per_participant < 1 or not 0 <= rho <= 1:
        raise Usage(f"{per_participant:g} ratings a person with a correlation of {rho:g}", remedy="from 1; from 0 to 1")
    return 1 + (per_participant - 1) * rho


def variance_factor(per_participant: int, rho: float, *, crossed: bool) -> float:
    """Return the variance of a difference of means relative to that of independent ratings."""
    effect = design_effect(per_participant, rho)
    return effect - per_participant * rho if crossed else effect


# By simulation


def simulated_rating_power(
    n: int,
    difference: float,
    *,
    sd: float = DEFAULT_SD,
    alpha: float = 0.05,
    per_participant: int = 1,
    rho: float = 0.0,
    crossed: bool = False,
    studies: int = 2000,
    seed: int = 0,
) -> SimulatedPower:
    """Simulate studies of two bots with n ratings each and test the difference by means of participants.

    Levels differ from person to person, by ρ of the variance. The test is Student's over persons: paired where each
    rates both bots, Welch's where they rate one.
    """
    check_resampling(draws=studies, seed=seed)
    people = ceil(n / per_participant)
    random = np.random.default_rng(seed)
    first = _person_means(random, studies, people, per_participant, sd, rho)
    if crossed:
        # the level of a person is the same for both bots: only what remains differs
        noise = sd * sqrt((1 - rho) / per_participant)
        gap = difference + noise * (random.standard_normal((2, studies, people)) * [[[1]], [[-1]]]).sum(axis=0)
        p = scipy.stats.ttest_1samp(gap, 0.0, axis=1).pvalue
    else:
        second = _person_means(random, studies, people, per_participant, sd, rho)
        p = scipy.stats.ttest_ind(first + difference, second, axis=1, equal_var=False).pvalue
    return _share_of_studies(np.asarray(p), alpha)


def simulated_vote_power(
    n: int,
    win_rate: float,
    *,
    alpha: float = 0.05,
    per_participant: int = 1,
    rho: float = 0.0,
    studies: int = 2000,
    seed: int = 0,
) -> SimulatedPower:
    """Simulate studies of n votes; persons differ in their rate as a beta distribution with a correlation of ρ.

    A study is tested by the score test over votes; with several votes a person, by Student's over persons.
    """
    check_resampling(draws=studies, seed=seed)
    people = ceil(n / per_participant)
    random = np.random.default_rng(seed)
    if rho > 0:
        mass = 1 / rho - 1
        rates = random.beta(win_rate * mass, (1 - win_rate) * mass, size=(studies, people))
    else:
        rates = np.full((studies, people), win_rate)
    wins = random.binomial(per_participant, rates)
    if per_participant == 1:
        z = (wins.sum(axis=1) - people / 2) / sqrt(people / 4)
        p = 2 * scipy.stats.norm.sf(np.abs(z))
    else:
        p = scipy.stats.ttest_1samp(wins / per_participant, 0.5, axis=1).pvalue
    return _share_of_studies(np.asarray(p), alpha)


def _person_means(
    random: np.random.Generator, studies: int, people: int, per_participant: int, sd: float, rho: float
) -> Floats:
    level = sqrt(rho) * random.standard_normal((studies, people))
    noise = sqrt((1 - rho) / per_participant) * random.standard_normal((studies, people))
    return sd * (level + noise)


def _share_of_studies(p: Floats, alpha: float) -> SimulatedPower:
    share = float(np.mean(p < alpha))
    return SimulatedPower(power=share, error=sqrt(share * (1 - share) / len(p)), studies=len(p))


def _two_sided_power(distance: float, critical: float) -> float:
    return float(scipy.stats.norm.sf(critical - distance) + scipy.stats.norm.cdf(-critical - distance))


def _round_up(n: float) -> int:
    return max(2, ceil(n - _ABOVE_ROUNDING))


def _require_chances(power: float, alpha: float) -> None:
    for name, chance in (("power", power), ("alpha", alpha)):
        if not 0 < chance < 1:
            raise Usage(f"{name} cannot be {chance:g}", remedy="between 0 and 1")
