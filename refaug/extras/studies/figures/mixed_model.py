"""A mixed model of the ratings of one question: bots, with random intercepts of participants and of items crossed.

The plain means of bots differ also because their raters or items do, where participants judged different things. The
model takes these apart, and says which share of the ratings' variance lies between participants, between items, and
neither. It takes the numbers of a scale for equally spaced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
import scipy

from refaug.core.errors import BadInput
from refaug.extras.studies.figures.disagreements import go_on
from refaug.extras.studies.questions import RatingRow
from refaug.extras.studies.records import StudyTask, TurnRole
from refaug.metrics.statistics.crossed_model import (
    MOST_CELLS,
    CrossedFit,
    Places,
    crossed_fit,
    fit_cost,
    is_told_apart,
)
from refaug.metrics.statistics.resampling import FEWEST_UNITS, Floats, holm

_A_CELL: Final = 0.003  # units (refaug.metrics.costs) of a fit for each cell of its largest product
_A_FIT: Final = 10_000.0


@dataclass(frozen=True, kw_only=True)
class ModelMean:
    """A bot's mean for the usual participant and item; too few participants of the bot give no interval."""

    bot: str
    mean: float
    se: float
    df: float  # Satterthwaite's
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class ModelDifference:
    """The first bot's mean less the second's, with Wald's interval and test by t of Satterthwaite's degrees."""

    first: str
    second: str
    difference: float
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


@dataclass(frozen=True, kw_only=True)
class MixedModel:
    """The fitted model, the highest mean first; `why` says why there is none."""

    ratings: int
    means: tuple[ModelMean, ...] = ()
    differences: tuple[ModelDifference, ...] = ()
    variances: tuple[VarianceShare, ...] = ()
    deviance: float | None = None  # −2 log restricted likelihood
    why: str | None = None


def mixed_model(
    rows: Sequence[RatingRow], *, level: float, openings: Collection[str] = (), check: Callable[[], None] = go_on
) -> MixedModel:
    """Fit the ratings of one question by restricted maximum likelihood.

    Items are those that several ratings are about; of chats that begin with fixed texts, these texts. `check` is
    called before each product of matrices, and ends the work by raising.
    """
    names, bot = _numbered(row.bot for row in rows)
    person = _numbered(row.participant for row in rows)[1]
    items_are, items = _items(rows, openings)
    factors = {"participants": person} if is_told_apart(bot, person) else {}
    if items is not None and is_told_apart(bot, items) and not _same_groups(person, items):
        factors[items_are] = items
    if not factors:
        return MixedModel(ratings=len(rows), why=_why_untold(person))
    cells = fit_cost([int(factor.max()) + 1 for factor in factors.values()], len(names))
    if cells > MOST_CELLS:
        return MixedModel(ratings=len(rows), why=f"too many participants and items, {cells:,} of {MOST_CELLS:,} cells")
    try:
        fit = crossed_fit(np.array([row.number for row in rows], np.float64), bot, list(factors.values()), check)
    except BadInput as refusal:
        return MixedModel(ratings=len(rows), why=refusal.message)
    judges = np.array([len(np.unique(person[bot == place])) for place in range(len(names))])
    order = sorted(range(len(names)), key=lambda place: (-fit.means[place], names[place]))
    return MixedModel(
        ratings=len(rows),
        means=tuple(_mean(fit, place, names[place], int(judges[place]), level) for place in order),
        differences=_differences(fit, order, names, judges, level),
        variances=_shares(fit, factors, len(rows)),
        deviance=fit.deviance,
    )


def model_cost(tasks: Sequence[StudyTask], openings: Collection[str] = ()) -> float:
    """Return an upper bound of the units of the model of one question."""
    people, items = len({task.participant for task in tasks}), len({_item_of(task, openings) for task in tasks})
    bots = len({bot.bot for task in tasks for bot in task.bots})
    return _A_FIT + _A_CELL * min(MOST_CELLS, fit_cost([people, items], bots))


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


def _mean(fit: CrossedFit, place: int, bot: str, judges: int, level: float) -> ModelMean:
    contrast = np.zeros(len(fit.means))
    contrast[place] = 1.0
    mean, se, df = float(fit.means[place]), fit.standard_error(contrast), fit.degrees_of_freedom(contrast)
    low, high = _interval(mean, se, df, level) if judges >= FEWEST_UNITS else (None, None)
    return ModelMean(bot=bot, mean=mean, se=se, df=df, low=low, high=high)


def _interval(estimate: float, se: float, df: float, level: float) -> tuple[float, float]:
    half = float(scipy.stats.t.isf((1 - level) / 2, df)) * se
    return estimate - half, estimate + half


def _differences(
    fit: CrossedFit, order: Sequence[int], names: Sequence[str], judges: Places, level: float
) -> tuple[ModelDifference, ...]:
    listed = list[tuple[int, int, float, float, float]]()
    for first, second in combinations(order, 2):
        contrast: Floats = np.zeros(len(names))
        contrast[first], contrast[second] = 1.0, -1.0
        difference = float(fit.means[first] - fit.means[second])
        listed.append((first, second, difference, fit.standard_error(contrast), fit.degrees_of_freedom(contrast)))
    shown = [min(judges[first], judges[second]) >= FEWEST_UNITS for first, second, *_ in listed]
    p_values = [
        2 * float(scipy.stats.t.sf(abs(difference) / se, df)) if is_shown else None
        for (_, _, difference, se, df), is_shown in zip(listed, shown, strict=True)
    ]
    intervals = [
        _interval(difference, se, df, level) if is_shown else (None, None)
        for (_, _, difference, se, df), is_shown in zip(listed, shown, strict=True)
    ]
    return tuple(
        ModelDifference(
            first=names[first],
            second=names[second],
            difference=difference,
            se=se,
            df=df,
            low=low,
            high=high,
            p=p,
            p_holm=p_holm,
        )
        for (first, second, difference, se, df), (low, high), p, p_holm in zip(
            listed, intervals, p_values, holm(p_values), strict=True
        )
    )


def _shares(fit: CrossedFit, factors: dict[str, Places], rows: int) -> tuple[VarianceShare, ...]:
    whole = float(fit.variances.sum()) + fit.residual
    levels = [*((name, int(factor.max()) + 1) for name, factor in factors.items()), ("residual", rows)]
    variances = [*fit.variances.tolist(), fit.residual]
    return tuple(
        VarianceShare(of=name, levels=count, variance=variance, share=variance / whole)
        for (name, count), variance in zip(levels, variances, strict=True)
    )
