"""How far predictions of bots agree with people's means of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.extras.conversations.hybrid_metric.fit import Labels
from refaug.metrics.statistics.correlation import correlate

Floats = NDArray[np.float64]

LEAST_BOTS: Final = 5  # a correlation over fewer bots is whatever it likes
KINDS: Final = ("pearson", "spearman", "kendall")


@dataclass(frozen=True, kw_only=True)
class BotAgreement:
    """The correlations over bots; None with a reason where they are refused or undefined."""

    bots: int
    pearson: float | None
    spearman: float | None
    kendall: float | None
    reason: str = ""


def agreement_of_bots(predictions: Floats, means: Floats) -> BotAgreement:
    """Correlate the predictions of bots with their mean ratings; below five bots there is no figure."""
    if len(means) < LEAST_BOTS:
        reason = (
            f"a correlation over {len(means)} bot{'' if len(means) == 1 else 's'} says nothing: with two it is always "
            f"1 or -1, and below {LEAST_BOTS} no value could be told from chance"
        )
        return BotAgreement(bots=len(means), pearson=None, spearman=None, kendall=None, reason=reason)
    figures = {kind: correlate(kind, predictions, means) for kind in KINDS}
    values = {kind: figure.value for kind, figure in figures.items()}
    reason = "" if values["pearson"] is not None else "the predictions or the ratings are the same for all bots"
    return BotAgreement(bots=len(means), reason=reason, **values)


def within_bots(predictions: Floats, ratings: Floats, bots: Labels) -> float | None:
    """Return the mean Pearson correlation over conversations with one bot, weighted by their number.

    None where it is defined for no bot. It is high where the predictions separate good conversations from bad ones with
    the same bot.
    """
    total, weight = 0.0, 0
    for number in np.unique(bots):
        is_bot = bots == number
        count = int(is_bot.sum())
        value = correlate("pearson", predictions[is_bot], ratings[is_bot]).value if count > 2 else None
        if value is not None:
            total, weight = total + count * value, weight + count
    return total / weight if weight else None
