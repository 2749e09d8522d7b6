"""How often intervals hold the truth, over simulated studies of participants with levels of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any, Final

import numpy as np
import scipy

from refaug.core.errors import BadInput, Usage
from refaug.extras.studies.figures.means import bot_means
from refaug.metrics.statistics.crossed_model import CrossedFit, crossed_fit
from refaug.metrics.statistics.cumulative_logit import cumulative_logit_fit
from refaug.metrics.statistics.resampling import Floats


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


@dataclass(frozen=True, kw_only=True)
class RaterDesign:
    """A study of raters and items with planted variances, whose bots differ by a step; each rater has some ratings."""

    raters: int
    ratings: int  # of each rater
    items: int  # 0: a chat is its own item
    bots: int = 3
    step: float = 0.5
    of_raters: float = 0.6  # variances
    of_items: float = 0.3
    residual: float = 1.0
    is_rounded: bool = False  # to a scale from 1 to 7
    thresholds: tuple[float, ...] = ()  # between levels, of log odds: the residual is logistic

    def drawn(self, random: np.random.Generator) -> tuple[Floats, list[np.ndarray[Any, Any]]]:
        """Return ratings, and the places of their bots, raters and items; bots and items are drawn for each."""
        count = self.raters * self.ratings
        rater = np.repeat(np.arange(self.raters), self.ratings)
        bot = np.argsort(random.random((self.raters, self.ratings)), axis=1).ravel() % self.bots
        ratings = self.step * bot + sqrt(self.of_raters) * random.standard_normal(self.raters)[rater]
        ratings += random.logistic(size=count) if self.thresholds else 4 + self._residuals(random, count)
        places = [bot, rater]
        if self.items:
            item = random.integers(0, self.items, count)
            ratings += sqrt(self.of_items) * random.standard_normal(self.items)[item]
            places.append(np.unique(item, return_inverse=True)[1])
        if self.thresholds:
            return np.searchsorted(self.thresholds, ratings).astype(np.float64), places
        return np.clip(np.round(ratings), 1, 7) if self.is_rounded else ratings, places

    def _residuals(self, random: np.random.Generator, count: int) -> Floats:
        return sqrt(self.residual) * random.standard_normal(count)


RATER_DESIGNS: Final[Mapping[str, RaterDesign]] = {
    "60 raters, 20 items": RaterDesign(raters=60, ratings=6, items=20),
    "8 raters, 30 items": RaterDesign(raters=8, ratings=15, items=30),
    "24 raters, chats": RaterDesign(raters=24, ratings=4, items=0),
    "24 raters, items alike": RaterDesign(raters=24, ratings=6, items=15, of_items=0.0),
    "24 raters, rounded to 1 to 7": RaterDesign(raters=24, ratings=6, items=15, is_rounded=True, step=0.25),
}


def model_coverage(design: RaterDesign, *, studies: int, level: float = 0.95, seed: int = 1) -> dict[str, float]:
    """Simulate studies, and say how often the mixed model's intervals hold the truth, and what variances it finds."""
    low, high = np.zeros(design.bots), np.zeros(design.bots)
    low[0], high[-1] = 1.0, 1.0
    held, variances = {"mean": 0, "difference": 0}, np.zeros(3, np.float64)
    for number in range(studies):
        ratings, (bot, *factors) = design.drawn(np.random.default_rng([seed, number]))
        fit = crossed_fit(ratings, bot, factors)
        for name, contrast, truth in (
            ("mean", low, 4.0),
            ("difference", high - low, design.step * (design.bots - 1)),
        ):
            held[name] += bool(abs(fit.means @ contrast - truth) <= _half_width(fit, contrast, level))
        variances += [fit.variances[0], fit.variances[1] if design.items else 0.0, fit.residual]
    shares = {name: round(100 * count / studies, 2) for name, count in held.items()}
    found = dict(zip(("raters", "items", "residual"), (variances / studies).round(4).tolist(), strict=True))
    return {**{f"{name}_percent": share for name, share in shares.items()}, **found}


def _half_width(fit: CrossedFit, contrast: Floats, level: float) -> float:
    t = scipy.stats.t.isf((1 - level) / 2, fit.degrees_of_freedom(contrast))
    return float(t) * fit.standard_error(contrast)


_SKEWED: Final = (-3.0, -2.0, -1.2, -0.4, 0.6, 1.8)  # seven levels, the upper ones rated most
ORDINAL_DESIGNS: Final[Mapping[str, RaterDesign]] = {
    "60 raters, 20 items": RaterDesign(raters=60, ratings=6, items=20, thresholds=_SKEWED),
    "8 raters, 30 items": RaterDesign(raters=8, ratings=15, items=30, thresholds=_SKEWED),
    "24 raters, chats": RaterDesign(raters=24, ratings=4, items=0, thresholds=_SKEWED),
    "24 raters, three levels": RaterDesign(raters=24, ratings=6, items=15, of_items=0.0, thresholds=(-0.5, 1.5)),
}


def ordinal_coverage(design: RaterDesign, *, studies: int, level: float = 0.95, seed: int = 1) -> dict[str, float]:
    """Simulate studies, and say how often the ordinal model's intervals hold the log odds, and what variances it finds.

    Studies without a fit are counted apart.
    """
    contrast, first = np.zeros(design.bots), np.ones(design.bots) / -design.bots
    contrast[0], contrast[-1], first[0] = -1.0, 1.0, 1.0 - 1 / design.bots
    truths = design.step * np.arange(design.bots)
    z = float(scipy.stats.norm.isf((1 - level) / 2))
    held, variances, fitted = {"first": 0, "difference": 0}, np.zeros(2, np.float64), 0
    for number in range(studies):
        ratings, (bot, *factors) = design.drawn(np.random.default_rng([seed, number]))
        try:
            fit = cumulative_logit_fit(np.unique(ratings, return_inverse=True)[1], bot, factors)
        except BadInput:
            continue
        fitted += 1
        for name, weights in (("first", first), ("difference", contrast)):
            held[name] += bool(abs((fit.effects - truths) @ weights) <= z * fit.standard_error(weights))
        variances += [fit.variances[0], fit.variances[1] if design.items else 0.0]
    shares = {f"{name}_percent": round(100 * count / fitted, 2) for name, count in held.items()}
    found = dict(zip(("raters", "items"), (variances / fitted).round(4).tolist(), strict=True))
    return {**shares, **found, "without_a_fit": studies - fitted}
