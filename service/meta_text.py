"""How names and figures are written in tables, reports and plots.

Names of sets, systems and metrics are other people's text: what cannot be seen of them (line ends, control characters,
turned directions) is written out as an escape. Annotators are counted from 1, as in the texts of warnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from metrics.signature import Signature
from service.meta_records import AgreementRow, MeanRow, MetaResult, MetaSettings, RowKind, RowsChoice

KINDS: Final = ("spearman", "pearson")  # what has intervals and differences
ROWS_IN_WORDS: Final = {
    RowsChoice.FAIR: "fair rows: no replies that are one of their own golds, no references identical to the reply",
    RowsChoice.ALL: "all rated replies against all references",
}
INDEPENDENT: Final = "Williams: assumes independent rows"
GOLDS_IN_WORDS: Final = "these are scored against all references of their items, the gold among them"
TURNED: Final = "turned: lower scores are better, so the sign of this metric was turned"


def fixed(value: float, digits: int = 3) -> str:
    """A correlation for people; what rounds to nothing has no sign."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def minus(number: str) -> str:
    """With the sign that is as wide as a figure."""
    return number.replace("-", "−")


def annotator(place: int) -> str:
    """By place in the lists of ratings, from 0."""
    return f"annotator {place + 1}"


def per_cent(settings: MetaSettings) -> str:
    """What share of draws an interval holds: 95 %."""
    return f"{settings.confidence * 100:g} %"


def draws_in_words(settings: MetaSettings) -> str:
    """Where intervals come from."""
    return f"{settings.draws:,} draws of contexts, seed {settings.seed}"


def row_label(row: AgreementRow | MeanRow) -> str:
    """The name of a row, and what it is."""
    if row.kind is RowKind.HUMAN:
        return "human (split half, stepped up)"
    return row.name + (" (baseline)" if row.is_baseline else "") + (" (turned)" if row.turned else "")


def reasons(whys: Iterable[tuple[str, str | None]]) -> list[str]:
    """Each reason once, with all that it is the reason for."""
    found = dict[str, dict[str, None]]()
    for what, why in whys:
        if why is not None:
            found.setdefault(why, {})[what] = None
    return [f"{', '.join(whats)}: {why}" for why, whats in found.items()]


def all_signatures(result: MetaResult) -> Iterator[tuple[str, Signature]]:
    """Of every metric by name; where each set gave it one of its own, by name and set."""
    for metric in result.metrics:
        shared = result.signature(metric.name)
        if shared is not None:
            yield metric.name, shared
            continue
        for found in result.sets:
            yield f"{metric.name}, {found.name}", found.signatures[metric.name]


def slug(name: str) -> str:
    """What a name leaves in the name of a file."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "x"
