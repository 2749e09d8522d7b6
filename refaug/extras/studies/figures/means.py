"""Means of bots with intervals by drawing participants, and the differences between bots.

A participant's ratings are not independent: they share the participant's level and taste. Whole participants are drawn
with all their ratings, the same for all bots. The t interval beside it takes single ratings for independent, as
published tables do, and is too narrow where participants rate a bot several times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Final

import numpy as np
import scipy
from numpy.typing import NDArray

from refaug.extras.studies.questions import RatingRow
from refaug.metrics.statistics.resampling import FEWEST_UNITS, Floats, check_resampling, count_blocks, holm

_SAME: Final = 1e-10  # draws this near to each other, relative to their size, are alike


@dataclass(frozen=True, kw_only=True)
class MeanFigure:
    """The mean rating of one bot, with the interval over participants (`low`, `high`) and that of Student's t.

    Too few participants give no interval, and neither do ratings or draws that are all the same.
    """

    bot: str
    n: int
    participants: int
    mean: float
    sd: float | None
    low: float | None
    high: float | None
    t_low: float | None
    t_high: float | None


@dataclass(frozen=True, kw_only=True)
class MeanDifference:
    """The mean of the first bot less that of the second; p is two-sided, over draws shifted to no difference.

    Too few participants of either bot give no interval and no p, and neither do draws that are all the same.
    """

    first: str
    second: str
    difference: float
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None


@dataclass(frozen=True, kw_only=True)
class BotMeans:
    """The means of all bots, the highest first, and the differences of every two."""

    means: tuple[MeanFigure, ...]
    differences: tuple[MeanDifference, ...]


def bot_means(
    numbers: Sequence[float],
    bots: Sequence[str],
    participants: Sequence[str],
    *,
    draws: int = 1000,
    seed: int = 1,
    level: float = 0.95,
    clustered: bool = True,
) -> BotMeans:
    """Return the means of some ratings by bot; unclustered, single ratings are drawn instead of participants.

    Whatever is drawn, a bot needs enough participants for an interval. Holm's correction is over the pairs of bots.
    """
    check_resampling(draws=draws, seed=seed, level=level)
    names, bot = np.unique(np.asarray(bots, dtype=np.str_), return_inverse=True)
    values = np.asarray(numbers, dtype=np.float64)
    person = np.unique(np.asarray(participants, dtype=np.str_), return_inverse=True)[1]
    unit = person if clustered else np.arange(len(values))
    drawn = _drawn_means(values, bot, unit, len(names), draws, seed)
    means = tuple(
        _mean_figure(str(name), values[bot == place], person[bot == place], drawn[:, place], level)
        for place, name in enumerate(names)
    )
    return BotMeans(
        means=tuple(sorted(means, key=lambda figure: (-figure.mean, figure.bot))),
        differences=_differences(means, drawn, level),
    )


def rating_means(rows: Sequence[RatingRow], *, draws: int, seed: int, level: float, clustered: bool) -> BotMeans:
    """Return the means of the rows of one question."""
    return bot_means(
        [row.number for row in rows],
        [row.bot for row in rows],
        [row.participant for row in rows],
        draws=draws,
        seed=seed,
        level=level,
        clustered=clustered,
    )


def standardised(rows: Sequence[RatingRow], least: int) -> list[tuple[RatingRow, float]]:
    """Return ratings in deviations of their participant (z), of participants with so many that are not all equal."""
    by_participant: dict[str, list[RatingRow]] = {}
    for row in rows:
        by_participant.setdefault(row.participant, []).append(row)
    scaled = list[tuple[RatingRow, float]]()
    for own in by_participant.values():
        numbers = np.array([row.number for row in own])
        if len(own) >= least and numbers.min() < numbers.max():
            z = (numbers - numbers.mean()) / numbers.std(ddof=1)
            scaled += list(zip(own, z.tolist(), strict=True))
    return scaled


def _drawn_means(
    values: Floats, bot: NDArray[np.intp], unit: NDArray[np.intp], bots: int, draws: int, seed: int
) -> Floats:
    """Return the mean of every bot in every draw (draws, bots); NaN where a draw has none of its ratings."""
    units = int(unit.max()) + 1
    if units < 2:
        return np.empty((0, bots))
    sums, counts = np.zeros((units, bots)), np.zeros((units, bots))
    centre = values.mean()  # sums of deviations keep digits
    np.add.at(sums, (unit, bot), values - centre)
    np.add.at(counts, (unit, bot), 1.0)
    blocks = [(block @ sums, block @ counts) for block in count_blocks(units, draws, seed)]
    with np.errstate(invalid="ignore"):
        means: Floats = np.concatenate([total / number for total, number in blocks]) + centre
    return means


def _mean_figure(bot: str, numbers: Floats, participants: NDArray[np.intp], drawn: Floats, level: float) -> MeanFigure:
    n, mean = len(numbers), float(numbers.mean())
    sd = float(numbers.std(ddof=1)) if n > 1 else None
    differ = bool(numbers.min() < numbers.max())
    half = float(scipy.stats.t.isf((1 - level) / 2, n - 1)) * sd / sqrt(n) if sd is not None and differ else None
    people = len(np.unique(participants))
    low, high = _interval(drawn, level) if people >= FEWEST_UNITS else (None, None)
    return MeanFigure(
        bot=bot,
        n=n,
        participants=people,
        mean=mean,
        sd=sd,
        low=low,
        high=high,
        t_low=None if half is None else mean - half,
        t_high=None if half is None else mean + half,
    )


def _interval(drawn: Floats, level: float) -> tuple[float | None, float | None]:
    defined = _differing(drawn)
    if len(defined) == 0:
        return None, None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _differing(drawn: Floats) -> Floats:
    """Return the draws that are defined; none where all are alike, which says nothing of how far others would vary."""
    defined = drawn[~np.isnan(drawn)]
    spread = float(np.ptp(defined)) if len(defined) else 0.0
    return defined if spread > _SAME * max(1.0, float(np.abs(defined).max(initial=0.0))) else defined[:0]


def _differences(means: Sequence[MeanFigure], drawn: Floats, level: float) -> tuple[MeanDifference, ...]:
    place = {figure.bot: number for number, figure in enumerate(means)}
    pairs = list(combinations(sorted(means, key=lambda figure: (-figure.mean, figure.bot)), 2))
    gaps = [drawn[:, place[first.bot]] - drawn[:, place[second.bot]] for first, second in pairs]
    differences = [first.mean - second.mean for first, second in pairs]
    shown = [min(first.participants, second.participants) >= FEWEST_UNITS for first, second in pairs]
    p_values = [
        _p_of(gap, difference) if is_shown else None
        for gap, difference, is_shown in zip(gaps, differences, shown, strict=True)
    ]
    intervals = [_interval(gap, level) if is_shown else (None, None) for gap, is_shown in zip(gaps, shown, strict=True)]
    return tuple(
        MeanDifference(
            first=first.bot,
            second=second.bot,
            difference=difference,
            low=interval[0],
            high=interval[1],
            p=p,
            p_holm=p_holm,
        )
        for (first, second), difference, interval, p, p_holm in zip(
            pairs, differences, intervals, p_values, holm(p_values), strict=True
        )
    )


def _p_of(gap: Floats, difference: float) -> float | None:
    """Return how often draws that are shifted to no difference are as far from it as the real one."""
    defined = _differing(gap)
    if len(defined) == 0:
        return None
    shifted = np.abs(defined - defined.mean())
    near = _SAME * max(1.0, abs(difference))
    return (int(np.count_nonzero(shifted >= abs(difference) - near)) + 1) / (len(defined) + 1)


def mean_rows(rows: Sequence[RatingRow]) -> Mapping[str, list[RatingRow]]:
    """Return rows by question, in the order in which questions first appear."""
    by_question: dict[str, list[RatingRow]] = {}
    for row in rows:
        by_question.setdefault(row.question, []).append(row)
    return by_question
