"""What an agreement costs at most, from the sizes of its test sets, before anything is scored or drawn.

Units are those of `refaug.metrics.costs`: about a microsecond each. Most sets take a third of these bounds or less.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from refaug.core.records import Item
from refaug.metrics.catalogue import cost_of, find_info
from refaug.metrics.costs import lengths_of, lengths_of_replies, with_further
from refaug.scoring.items import BadItem

FOUND_CHARACTERS: Final = 60  # of a reference that an index finds, about

# Units of each figure, measured with 300 to 30,000 rows and 3 to 200 annotators.
_DRAWN: Final = 0.04  # a row of a variable in a draw of the bootstrap, Pearson and Spearman together
_DEALT: Final = 2.0  # a row in a deal of rows into groups of all sizes
_MOST_DEALS: Final = 1_000
_CORRELATION: Final = 1_500.0, 1.5  # one of scipy's, and each row of it
_CORRELATIONS: Final = 30  # of a metric, beside one for each system and two for each annotator
_PAIR: Final = 4_000.0, 2.0  # κ and correlations of two annotators, and each row of them
_HALVES: Final = 1_200.0, 20.0  # halving the ratings of a row a thousand times, and each rating in it


@dataclass(frozen=True, kw_only=True)
class RatedSizes:
    """What the work on a test set grows with."""

    rows: int  # its replies
    annotators: int  # the longest list of ratings
    systems: int
    scoring: float  # units of scoring all replies by all metrics

    @classmethod
    def of(cls, items: Iterable[Item | BadItem], specifications: Sequence[str], *, found: int = 0) -> Self:
        """Measure the items, to each of which so many further references are found."""
        usable = [item for item in items if isinstance(item, Item)]
        replies = [reply for item in usable for reply in item.replies.values()]
        places = [place for place, item in enumerate(usable) for _ in item.replies]
        scoring = 0.0
        for text in specifications:
            cost, info = cost_of(text), find_info(text.partition(":")[0].strip())
            has_turns = info is not None and info.looks_at_utterance
            texts = [
                [*(reference.text for reference in item.references), *(item.turns if has_turns else ())]
                for item in usable
            ]
            lengths = lengths_of(texts, counts_words=cost.counts_shifts)
            lengths = with_further(lengths, found, characters=FOUND_CHARACTERS) if found else lengths
            of_replies = lengths_of_replies(replies, counts_words=cost.counts_shifts)
            scoring += float(cost.reading(lengths).sum() + cost.units(of_replies, lengths[:, places]).sum())
        return cls(
            rows=len(replies),
            annotators=max((len(ratings) for item in usable for ratings in item.ratings.values()), default=0),
            systems=len({system for item in usable for system in item.replies}),
            scoring=scoring,
        )


def agreement_units(sets: Sequence[RatedSizes], *, metrics: int, draws: int) -> float:
    """Return an upper bound of the units of all figures of test sets, the mean over several among them."""
    means = 2 if len(sets) > 1 else 1  # each set is drawn from for itself, and for the mean
    return sum(_units(sizes, metrics, draws * means) for sizes in sets)


def _units(sizes: RatedSizes, metrics: int, draws: int) -> float:
    rows, annotators = sizes.rows, sizes.annotators
    compared = metrics + 1  # the length of replies is compared as metrics are
    correlations = compared * (_CORRELATIONS + sizes.systems + 2 * annotators)
    pairs = annotators * (annotators - 1) // 2
    drawn = rows * (_DRAWN * draws * (compared + 1) + _DEALT * min(draws, _MOST_DEALS) * compared)
    of_annotators = pairs * (_PAIR[0] + _PAIR[1] * rows) + rows * (_HALVES[0] + _HALVES[1] * annotators)
    return sizes.scoring + drawn + correlations * (_CORRELATION[0] + _CORRELATION[1] * rows) + of_annotators
