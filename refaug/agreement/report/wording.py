"""Format names and figures for tables, reports and plots.

Names of sets, systems and metrics come from users: invisible characters (line ends, control characters, changes of
direction) are written as escapes. Annotators are counted from 1, as in warnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from refaug.agreement.records import AgreementRow, KappaLevel, MeanRow, MetaResult, RowKind
from refaug.metrics.signature import Signature
from refaug.scoring.settings import MetaSettings, RowsChoice

KINDS: Final = ("spearman", "pearson")  # the correlations with intervals and differences
ROWS_IN_WORDS: Final = {
    RowsChoice.FAIR: "fair rows: no replies that are one of their own golds, no references identical to the reply",
    RowsChoice.ALL: "all rated replies against all references",
}
INDEPENDENT: Final = "Williams: assumes independent rows"
P_IN_WORDS: Final = "p: two-sided, that the correlation is 0; assumes independent rows"
PAIRS: Final = "pairs of annotators"
PAIRS_IN_WORDS: Final = f"{PAIRS}: every two of them with each other"
KAPPA_IN_WORDS: Final = (
    "pairs: with a κ above the threshold; annotators: whom --min-kappa would keep; "
    "correlations: with the mean rating of these"
)
GOLDS_IN_WORDS: Final = "these are scored against all references of their items, the gold among them"
TURNED: Final = "turned: lower scores are better, so the sign of this metric was turned"


def fixed(number: float, digits: int = 3) -> str:
    """Format a correlation for people; a value that rounds to zero has no sign."""
    return f"{round(number, digits) + 0.0:.{digits}f}"


def minus(number: str) -> str:
    """Write minus signs that are as wide as a digit."""
    return number.replace("-", "−")


def annotator(place: int) -> str:
    """Name an annotator by the place in the lists of ratings, from 0."""
    return f"annotator {place + 1}"


def pair_label(kept: Sequence[int], pair: tuple[int, int]) -> str:
    """Name two annotators by their places among the kept ones."""
    return f"{annotator(kept[pair[0]])} and {kept[pair[1]] + 1}"


def kappa_title(level: KappaLevel) -> str:
    """Return a threshold of κ as the head of a column."""
    return f"{level.share.threshold:g}"


def per_cent(settings: MetaSettings) -> str:
    """Return the share of draws that an interval holds, such as 95 %."""
    return f"{settings.confidence * 100:g} %"


def draws_in_words(settings: MetaSettings) -> str:
    """Describe the draws that intervals come from."""
    return f"{settings.draws:,} draws of contexts, seed {settings.seed}"


def row_label(row: AgreementRow | MeanRow) -> str:
    """Return the name of a row, with what it is."""
    if row.kind is RowKind.HUMAN:
        return "human (split half, stepped up)"
    return row.name + (" (baseline)" if row.is_baseline else "") + (" (turned)" if row.turned else "")


def group_starts(rows: Sequence[AgreementRow | MeanRow]) -> frozenset[int]:
    """Return the places at which rows of another kind begin."""
    return frozenset(place for place in range(1, len(rows)) if rows[place].kind is not rows[place - 1].kind)


def reasons(whys: Iterable[tuple[str, str | None]]) -> list[str]:
    """Return each reason once, with everything that it applies to."""
    names_by_reason = dict[str, dict[str, None]]()
    for what, why in whys:
        if why is not None:
            names_by_reason.setdefault(why, {})[what] = None
    return [f"{', '.join(whats)}: {why}" for why, whats in names_by_reason.items()]


def all_signatures(meta_result: MetaResult) -> Iterator[tuple[str, Signature]]:
    """Yield the signature of every metric by name; where the sets have different ones, by name and set."""
    for metric in meta_result.metrics:
        shared = meta_result.signature(metric.name)
        if shared is not None:
            yield metric.name, shared
            continue
        for set_result in meta_result.sets:
            yield f"{metric.name}, {set_result.name}", set_result.signatures[metric.name]


def slug(name: str) -> str:
    """Return the part of a name that a file name can contain."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "x"
