"""What a request for scores is worth: units of work told from the lengths of its texts, before it is queued."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from refaug.core.errors import TooLarge
from refaug.metrics.catalogue import METRICS
from refaug.metrics.costs import LINEAR, UNITS_PER_S, Cost, Lengths
from refaug.service.server_settings import ServeSettings

# A place in the queue is one item searched and rated, which takes milliseconds.
UNITS_PER_ITEM: Final = 2_500


def counts_words(specifications: Sequence[str]) -> bool:
    """Whether a metric's cost depends on words, which take a while to count."""
    return any(_cost_of(text).counts_shifts for text in specifications)


def scoring_units(
    specifications: Sequence[str], replies: Lengths, references: Lengths, *, explains: bool
) -> Mapping[str, float]:
    """Return the units of each metric for replies beside prepared references of these lengths.

    An explanation reads and scores each reply again without each of its references.
    """
    units = dict[str, float]()
    for text in specifications:
        cost = _cost_of(text)
        rows = cost.units(replies, references)
        again = references.texts * (rows + cost.reading(references)) if explains else 0.0
        units[text] = float((rows + again).sum())
    return units


def reading_units(specifications: Sequence[str], references: Lengths) -> float:
    """Return the units of preparing references for all of the metrics."""
    return float(sum(_cost_of(text).reading(references).sum() for text in specifications))


def require_units(units: Mapping[str, float], serve: ServeSettings) -> None:
    """Raise TooLarge for more work than one request may be worth."""
    seconds = {text: units_of_metric / UNITS_PER_S for text, units_of_metric in units.items()}
    if sum(seconds.values()) <= serve.scoring_s:
        return
    costliest = max(seconds, key=seconds.__getitem__)
    raise TooLarge(
        f"by the lengths of the texts, these scores may take {sum(seconds.values()):,.0f} s of work "
        f"({seconds[costliest]:,.0f} s of it for {costliest}), and one request may take {serve.scoring_s:,.0f} s",
        remedy="send shorter texts, or the items in several requests",
    )


def _cost_of(specification: str) -> Cost:
    info = METRICS.get(specification.partition(":")[0].strip())
    return LINEAR if info is None else info.cost
