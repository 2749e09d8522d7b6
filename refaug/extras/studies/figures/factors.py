"""What a property of bots does to their ratings, tested by permuting ratings within participants.

The bot itself is the first factor; a protocol may name others, such as the data that bots were trained on:
{"analysis": {"factors": {"c-bm25": {"data": "movies"}, "vhred": {"data": "forum"}}}}. The level of a participant
cannot make a difference, since a participant's ratings are exchanged among themselves alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput
from refaug.extras.studies.questions import RatingRow
from refaug.metrics.statistics.resampling import Floats

BOT: Final = "bot"
_SAME: Final = 1e-10


@dataclass(frozen=True, kw_only=True)
class FactorTest:
    """The means of the levels of a factor, less those of their participants, and the p that they are alike.

    p is None where no participant rated two levels, so that nothing can be exchanged.
    """

    factor: str
    levels: Mapping[str, float]
    n: int
    participants: int  # who rated two levels at least
    p: float | None


def factor_tests(
    rows: Sequence[RatingRow], factors: Mapping[str, Mapping[str, str]], *, draws: int, seed: int
) -> list[FactorTest]:
    """Test the bots of one question's rows, and every factor that is given by bot."""
    named = {BOT: {row.bot: row.bot for row in rows}, **_by_factor(factors)}
    return [
        test
        for number, (factor, level_of) in enumerate(named.items())
        if (test := _factor_test(rows, factor, level_of, draws, seed + number)) is not None
    ]


def protocol_factors(protocol: Mapping[str, Any] | None) -> dict[str, dict[str, str]]:
    """Return the factors that a protocol gives for each bot."""
    analysis = (protocol or {}).get("analysis") or {}
    factors = analysis.get("factors", {})
    if not isinstance(factors, Mapping) or not all(isinstance(levels, Mapping) for levels in factors.values()):
        raise BadInput(
            "protocol: analysis.factors: an object of bots was expected", remedy='{"c-bm25": {"data": "movies"}}'
        )
    return {str(bot): {str(name): str(level) for name, level in levels.items()} for bot, levels in factors.items()}


def _by_factor(factors: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    names = sorted({name for levels in factors.values() for name in levels})
    return {name: {bot: levels[name] for bot, levels in factors.items() if name in levels} for name in names}


def _factor_test(
    rows: Sequence[RatingRow], factor: str, level_of: Mapping[str, str], draws: int, seed: int
) -> FactorTest | None:
    used = sorted(
        (row for row in rows if row.bot in level_of), key=lambda row: (row.participant, row.task.task, row.side)
    )
    names, level = np.unique([level_of[row.bot] for row in used], return_inverse=True)
    if len(names) < 2:
        return None
    person = np.unique([row.participant for row in used], return_inverse=True)[1]
    numbers = np.array([row.number for row in used])
    centred = numbers - (np.bincount(person, numbers) / np.bincount(person))[person]
    crossed = {int(each) for each in np.unique(person) if len(np.unique(level[person == each])) > 1}
    p = _permuted_p(centred, level, person, len(names), draws, seed) if crossed else None
    means = np.bincount(level, centred) / np.bincount(level)
    return FactorTest(
        factor=factor,
        levels={str(name): float(mean) for name, mean in zip(names, means, strict=True)},
        n=len(used),
        participants=len(crossed),
        p=p,
    )


def _permuted_p(
    centred: Floats, level: NDArray[np.intp], person: NDArray[np.intp], levels: int, draws: int, seed: int
) -> float:
    """Return how often the levels' means differ as much when each participant's ratings change places."""
    random = np.random.default_rng(seed)
    sizes = np.bincount(level, minlength=levels)

    def spread(numbers: Floats) -> float:
        sums = np.bincount(level, numbers, minlength=levels)
        return float((sums * sums / sizes).sum())

    observed = spread(centred)
    as_large = 0
    for _ in range(draws):
        order = np.lexsort((random.random(len(person)), person))  # people in order, their ratings shuffled
        as_large += spread(centred[order]) >= observed * (1 - _SAME)
    return (as_large + 1) / (draws + 1)
