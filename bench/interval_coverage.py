"""How often intervals hold the true mean, over simulated studies whose participants rate each bot several times."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from refaug.core.errors import Usage
from refaug.extras.studies.figures.means import bot_means


@dataclass(frozen=True, kw_only=True)
class IntervalCoverage:
    """The share of intervals that hold the truth: over draws of participants, of single ratings, and Student's."""

    studies: int
    clustered: float
    unclustered: float
    student: float
    difference: float  # of two bots, over draws of participants


def interval_coverage(
    *,
    studies: int,
    participants: int = 60,
    per_participant: int = 4,
    rho: float = 0.3,
    sd: float = 1.3,
    difference: float = 0.5,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 1,
) -> IntervalCoverage:
    """Simulate studies of two bots that every participant rates several times, and count intervals with the truth."""
    if studies < 1 or participants < 2:
        raise Usage(f"{studies} studies of {participants} participants", remedy="1 study of 2 participants, or more")
    truth = {"first": difference, "second": 0.0}
    bots = np.repeat(list(truth), per_participant).tolist() * participants
    people = np.repeat([f"P-{place:05}" for place in range(participants)], 2 * per_participant).tolist()
    means = np.tile(np.repeat(list(truth.values()), per_participant), participants)
    holds = {"clustered": 0, "unclustered": 0, "student": 0, "difference": 0}
    for number in range(studies):
        random = np.random.default_rng([seed, number])
        levels = np.repeat(random.standard_normal(participants), 2 * per_participant)
        noise = random.standard_normal(len(means))
        ratings = (means + sd * (sqrt(rho) * levels + sqrt(1 - rho) * noise)).tolist()
        over_people = bot_means(ratings, bots, people, draws=draws, seed=seed + number, level=level)
        over_ratings = bot_means(ratings, bots, people, draws=draws, seed=seed + number, level=level, clustered=False)
        first, single = (
            next(figure for figure in each.means if figure.bot == "first") for each in (over_people, over_ratings)
        )
        (gap,) = over_people.differences
        sign = 1 if gap.first == "first" else -1
        holds["clustered"] += _holds(first.low, first.high, difference)
        holds["unclustered"] += _holds(single.low, single.high, difference)
        holds["student"] += _holds(first.t_low, first.t_high, difference)
        holds["difference"] += _holds(gap.low, gap.high, sign * difference)
    return IntervalCoverage(studies=studies, **{name: count / studies for name, count in holds.items()})


def _holds(low: float | None, high: float | None, truth: float) -> bool:
    return low is not None and high is not None and low <= truth <= high
