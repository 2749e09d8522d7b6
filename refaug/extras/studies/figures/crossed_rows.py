"""The ratings of one question as mixed models read them: bots, with participants and items crossed; and their figures.

Items are those that several ratings are about; of chats that begin with fixed texts, these texts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from refaug.extras.studies.questions import RatingRow
from refaug.extras.studies.records import StudyTask, TurnRole
from refaug.metrics.statistics.crossed_model import Places, is_told_apart
from refaug.metrics.statistics.resampling import FEWEST_UNITS, Floats, holm


@dataclass(frozen=True, kw_only=True)
class CrossedRows:
    """Ratings with their bots and factors; `why` says why no factor can be told apart."""

    numbers: Floats
    bots: Sequence[str]
    bot: Places
    judges: Places  # (bots,) participants of each
    factors: Mapping[str, Places]  # participants, items or openings
    why: str | None

    @property
    def sizes(self) -> list[int]:
        """Return the numbers of levels of the factors."""
        return [int(factor.max()) + 1 for factor in self.factors.values()]

    def has_enough(self, *bots: int) -> bool:
        """Return whether enough participants rated each of the bots for an interval."""
        return all(self.judges[place] >= FEWEST_UNITS for place in bots)


@dataclass(frozen=True, kw_only=True)
class WaldTest:
    """An estimate with its interval and its test against 0 by t; too few participants give neither."""

    estimate: float
    se: float
    df: float
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None


@dataclass(frozen=True, kw_only=True)
class VarianceShare:
    """How far the levels of a factor differ, or the rest; the share is the intraclass correlation."""

    of: str  # participants, items, openings, residual
    levels: int
    variance: float
    share: float


def crossed_rows(rows: Sequence[RatingRow], openings: Collection[str]) -> CrossedRows:
    """Return the rows of one question by bot, with the factors that can be told apart."""
    bots, bot = _numbered(row.bot for row in rows)
    person = _numbered(row.participant for row in rows)[1]
    items_are, items = _items(rows, openings)
    factors = {"participants": person} if is_told_apart(bot, person) else {}
    if items is not None and is_told_apart(bot, items) and not _same_groups(person, items):
        factors[items_are] = items
    return CrossedRows(
        numbers=np.array([row.number for row in rows], np.float64),
        bots=bots,
        bot=bot,
        judges=np.array([len(np.unique(person[bot == place])) for place in range(len(bots))]),
        factors=factors,
        why=None if factors else _why_untold(person),
    )


def model_sizes(tasks: Sequence[StudyTask], openings: Collection[str]) -> tuple[list[int], int]:
    """Return how many participants and items a question of the tasks has at most, and how many bots."""
    people, items = len({task.participant for task in tasks}), len({_item_of(task, openings) for task in tasks})
    return [people, items], len({bot.bot for task in tasks for bot in task.bots})


def wald_tests(estimates: Iterable[tuple[float, float, float, bool]], level: float) -> list[WaldTest]:
    """Return the tests of estimates, given their standard errors, degrees of freedom, and whether people are enough."""
    tested = list(estimates)
    p_values = [
        2 * float(scipy.stats.t.sf(abs(estimate) / se, df)) if shown else None for estimate, se, df, shown in tested
    ]
    return [
        WaldTest(
            estimate=estimate,
            se=se,
            df=df,
            low=estimate - half if is_shown else None,
            high=estimate + half if is_shown else None,
            p=p,
            p_holm=p_holm,
        )
        for (estimate, se, df, is_shown), p, p_holm in zip(tested, p_values, holm(p_values), strict=True)
        for half in [float(scipy.stats.t.isf((1 - level) / 2, df)) * se]
    ]


def variance_shares(variances: Floats, residual: float, crossed: CrossedRows) -> tuple[VarianceShare, ...]:
    """Return the shares of the factors and of the rest."""
    whole = float(variances.sum()) + residual
    named = [*zip(crossed.factors, crossed.sizes, strict=True), ("residual", len(crossed.numbers))]
    return tuple(
        VarianceShare(of=name, levels=count, variance=variance, share=variance / whole)
        for (name, count), variance in zip(named, [*variances.tolist(), residual], strict=True)
    )


def _why_untold(person: Places) -> str:
    """Return why ratings do not tell the levels of their participants, by the participant of each rating."""
    if not person.any():
        return "there is one participant: nothing tells levels of participants apart"
    if int(person.max()) + 1 == len(person):
        return "no participant has two ratings: nothing tells levels from the rest"
    return "each bot has one participant: nothing tells levels of participants from bots"


def _numbered(names: Iterable[str]) -> tuple[list[str], Places]:
    distinct, places = np.unique(np.array(list(names), dtype=np.str_), return_inverse=True)
    return distinct.tolist(), places


def _items(rows: Sequence[RatingRow], openings: Collection[str]) -> tuple[str, Places | None]:
    """Return what the items are called, and the item of each row; None where some row has none."""
    items = [_item_of(row.task, openings) for row in rows]
    named_items = [item for item in items if item is not None]
    if len(named_items) < len(items):
        return "items", None
    return "openings" if openings else "items", _numbered(named_items)[1]


def _item_of(task: StudyTask, openings: Collection[str]) -> str | None:
    shown: dict[str, Any] = dict(task.item or {})
    if (name := shown.get("id", shown.get("unit"))) is not None:
        return str(name)
    turns = task.sides[0].turns if task.sides else []
    is_fixed = bool(turns) and turns[0].role is TurnRole.BOT and turns[0].text in openings
    return turns[0].text if is_fixed else None


def _same_groups(first: Places, second: Places) -> bool:
    """Return whether two factors part the rows alike: their variances cannot be told apart."""
    pairs = len(np.unique(first * (second.max() + 1) + second))
    return pairs == int(first.max()) + 1 == int(second.max()) + 1
