"""Select the rated replies of a test set that count, with the references that each is scored against.

A row is one rated reply, its context is its item, and its rating is the mean of its annotators' ratings. Rows that rate
the gold itself are kept apart: every metric that has the gold gives them its best score, and people like them.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import orjson
from numpy.typing import NDArray

from refaug.core.errors import BadInput
from refaug.core.records import Item, Origin, Reference
from refaug.core.text.normalisation import normalise
from refaug.evaluation.agreement.annotator_records import DroppedAnnotator
from refaug.evaluation.agreement.records import MetaSettings, RatedItems, RowsChoice
from refaug.evaluation.scoring.cases import split, systems_of
from refaug.evaluation.scoring.items import BadItem
from refaug.metrics.base import Floats
from refaug.metrics.statistics.kappa import kappa_of_each, select_annotators

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Row:
    """A reply and the references that it is scored against."""

    item: int  # its context: the number of its item among the usable items
    system: str
    reply: str
    ratings: tuple[float | None, ...]
    references: tuple[Reference, ...]  # the item's object where none was removed, so that they are prepared once
    is_gold: bool  # whether the reply is one of the golds of its item
    removed: int  # the number of references removed as identical to the reply


@dataclass(frozen=True)
class RatedRows:
    """The replies that a kept annotator has rated, and which of them are compared."""

    name: str
    items: list[Item]
    bad_items: list[BadItem]
    rows: list[Row]
    ratings: Floats  # (rows, kept annotators), NaN where one did not rate the row
    is_candidate: Mask  # (rows,): whether the row is compared: if it is fair, or if all rows count
    kept: tuple[int, ...]
    dropped: tuple[DroppedAnnotator, ...]
    unrated: Mapping[str, int]  # replies without a rating, by system
    lengths: tuple[int, int]  # the shortest and the longest list of ratings

    @classmethod
    def of(cls, rated_items: RatedItems, settings: MetaSettings) -> RatedRows:
        """Collect the rated replies of a set; BadInput where there are no replies or no ratings."""
        items, bad = split(rated_items.items)
        systems_of(items)  # refuses a set without replies
        _require_one_scale(items)
        rows = [row for number, item in enumerate(items) for row in _rows_of(number, item, settings)]
        matrix = _matrix(rows)
        annotators, dropped = _select_annotators(matrix, settings)
        matrix = matrix[:, annotators]
        is_rated = np.asarray(~np.isnan(matrix).all(axis=1))
        rated = [row for row, has_rating in zip(rows, is_rated, strict=True) if has_rating]
        lengths = [len(row.ratings) for row in rows if any(rating is not None for rating in row.ratings)]
        return cls(
            name=rated_items.name,
            items=items,
            bad_items=bad,
            rows=rated,
            ratings=matrix[is_rated],
            is_candidate=np.array(
                [settings.rows is RowsChoice.ALL or not row.is_gold for row in rated], dtype=np.bool_
            ),
            kept=annotators,
            dropped=dropped,
            unrated=Counter(row.system for row, has_rating in zip(rows, is_rated, strict=True) if not has_rating),
            lengths=(min(lengths), max(lengths)),
        )

    @property
    def is_gold(self) -> Mask:
        """Whether each row rates the gold itself."""
        return np.array([row.is_gold for row in self.rows], dtype=np.bool_)


def _require_one_scale(items: Sequence[Item]) -> None:
    """Refuse ratings of two scales: correlations and agreement would compare their numbers."""
    first: Item | None = None
    for rated in items:
        if not rated.ratings or rated.scale is None:
            continue
        first = first or rated
        if rated.scale != first.scale:
            raise BadInput(
                f"mixed scales: {_described(first)}, {_described(rated)}",
                remedy="bring the ratings to one scale, or make a file of each",
            )


def _described(rated: Item) -> str:
    lowest, highest = rated.scale or (0, 0)
    return f"{lowest:g} to {highest:g} in item {rated.pair.id}"


def _rows_of(number: int, test_item: Item, settings: MetaSettings) -> Iterator[Row]:
    """Yield the replies to one item; a reply equals a reference where both normalise to the same text.

    A reply that is a gold keeps all references: where only fair rows are compared, it is not one of them.
    """
    references = test_item.pair.references
    texts = [normalise(reference.text) for reference in references]
    for system, reply in test_item.replies.items():
        text = normalise(reply)
        same = [bool(text) and other == text for other in texts]
        is_gold = any(
            is_same and reference.source is Origin.GOLD for reference, is_same in zip(references, same, strict=True)
        )
        different = references
        if any(same) and not is_gold and settings.rows is RowsChoice.FAIR:
            different = tuple(reference for reference, is_same in zip(references, same, strict=True) if not is_same)
        yield Row(
            item=number,
            system=system,
            reply=reply,
            ratings=test_item.ratings.get(system, ()),
            references=different,
            is_gold=is_gold,
            removed=len(references) - len(different),
        )


def _matrix(rows: Sequence[Row]) -> Floats:
    """Return the ratings (rows, annotators), NaN where there is none; shorter lists end with NaN."""
    matrix = np.full((len(rows), max(len(row.ratings) for row in rows)), np.nan)
    for place, row in enumerate(rows):
        matrix[place, : len(row.ratings)] = [math.nan if rating is None else rating for rating in row.ratings]
    if np.isnan(matrix).all():
        raise BadInput(
            "no reply has a rating in the field ratings",
            remedy='give items "ratings": {"system": [4, 5, 3]}, one number an annotator; '
            "of a table name the columns: --map rating=COLUMN, once for each annotator",
        )
    return matrix


def _select_annotators(matrix: Floats, settings: MetaSettings) -> tuple[tuple[int, ...], tuple[DroppedAnnotator, ...]]:
    """Return the annotators that are kept and those that are dropped, judged by all their ratings.

    Ratings of replies that are references count, too.
    """
    least = settings.min_kappa
    if least is None:
        return tuple(range(matrix.shape[1])), ()
    selection = select_annotators(matrix, least)
    annotators = tuple(np.flatnonzero(selection.mask).tolist())
    if not annotators:
        highest = max(kappa.value for kappa in kappa_of_each(matrix) if kappa.value is not None)
        raise BadInput(
            f"no annotator is left, the mean κ of each is below {least:g}",
            remedy=f"the highest is {highest:.3f}: give a lower --min-kappa",
        )
    dropped = tuple(
        DroppedAnnotator(annotator=place, why=why)
        for place, why in enumerate(selection.reasons)
        if place not in annotators
    )
    return annotators, dropped


def data_hash(items: Sequence[Item], rows: Sequence[Row], ratings: Floats) -> str:
    """Return a hash of the used rows in order: it names the data of a result, as signatures name the metrics.

    The hash covers the item and system of each row, the ratings of the kept annotators, the references that it was
    scored against with their weights, and the reply.
    """
    digest = hashlib.sha256()
    for row, row_ratings in zip(rows, ratings.tolist(), strict=True):
        references = [[reference.text, reference.weight] for reference in row.references]
        shown_ratings = [_or_none(rating) for rating in row_ratings]
        content = [items[row.item].id, row.system, shown_ratings, references, row.reply]
        digest.update(orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()[:12]


def _or_none(rating: float) -> float | None:
    return None if math.isnan(rating) else rating
