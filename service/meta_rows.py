"""Which rated replies count: the rows of a test set, with the references that each is scored against.

A row is one rated reply, its context is its item, and its rating the mean of its annotators'. Rows that rate the gold
itself are kept apart: every metric that has the gold gives them its best score, and people like them.
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

from core.errors import BadInput
from core.items import BadItem
from core.records import Item, Origin, Reference
from core.text import normalise
from metrics.annotators import kappa_of_each, keep_annotators
from metrics.base import Floats
from service.cases import split, systems_of
from service.meta_records import DroppedAnnotator, MetaSettings, RatedItems, RowsChoice

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Row:
    """A reply and the references that it is scored against."""

    item: int  # number of its item among the good ones: its context
    system: str
    reply: str
    ratings: tuple[float | None, ...]
    references: tuple[Reference, ...]  # the item's own object where none was removed: references are prepared once
    is_gold: bool  # it is one of its own golds
    removed: int  # of the references, those identical to the reply


@dataclass(frozen=True)
class TakenSet:
    """What a kept annotator has rated, and which of that is compared."""

    name: str
    items: list[Item]
    bad_items: list[BadItem]
    rows: list[Row]
    ratings: Floats  # (rows, kept annotators), NaN where one did not rate the row
    is_candidate: Mask  # (rows,): fair, if that was asked for
    kept: tuple[int, ...]
    dropped: tuple[DroppedAnnotator, ...]
    unrated: Mapping[str, int]  # replies without a rating, by system
    lengths: tuple[int, int]  # the shortest and the longest list of ratings

    @classmethod
    def of(cls, given: RatedItems, settings: MetaSettings) -> TakenSet:
        """Take the rated replies of a set; without replies or ratings there is nothing to do."""
        items, bad = split(given.items)
        systems_of(items)  # refuses a set without replies
        rows = [row for number, item in enumerate(items) for row in _rows_of(number, item, settings)]
        matrix = _matrix(rows)
        kept, dropped = _annotators(matrix, settings)
        matrix = matrix[:, kept]
        is_rated = np.asarray(~np.isnan(matrix).all(axis=1))
        taken = [row for row, known in zip(rows, is_rated, strict=True) if known]
        lengths = [len(row.ratings) for row in rows if any(one is not None for one in row.ratings)]
        return cls(
            name=given.name,
            items=items,
            bad_items=bad,
            rows=taken,
            ratings=matrix[is_rated],
            is_candidate=np.array(
                [settings.rows is RowsChoice.ALL or not row.is_gold for row in taken], dtype=np.bool_
            ),
            kept=kept,
            dropped=dropped,
            unrated=Counter(row.system for row, known in zip(rows, is_rated, strict=True) if not known),
            lengths=(min(lengths), max(lengths)),
        )

    @property
    def is_gold(self) -> Mask:
        """The rows that rate the gold itself."""
        return np.array([row.is_gold for row in self.rows], dtype=np.bool_)


def _rows_of(number: int, item: Item, settings: MetaSettings) -> Iterator[Row]:
    """The replies to one item, each looked for among the references: texts that normalise alike are the same.

    A reply that is a gold keeps all references: where only fair rows are compared, it is not one of them.
    """
    everything = item.pair.references
    texts = [normalise(one.text) for one in everything]
    for system, reply in item.replies.items():
        text = normalise(reply)
        same = [bool(text) and one == text for one in texts]
        is_gold = any(is_same and one.source is Origin.GOLD for one, is_same in zip(everything, same, strict=True))
        kept = everything
        if any(same) and not is_gold and settings.rows is RowsChoice.FAIR:
            kept = tuple(one for one, is_same in zip(everything, same, strict=True) if not is_same)
        yield Row(
            item=number,
            system=system,
            reply=reply,
            ratings=item.ratings.get(system, ()),
            references=kept,
            is_gold=is_gold,
            removed=len(everything) - len(kept),
        )


def _matrix(rows: Sequence[Row]) -> Floats:
    """The ratings (rows, annotators), NaN where there is none; lists shorter than the longest end early."""
    matrix = np.full((len(rows), max(len(row.ratings) for row in rows)), np.nan)
    for place, row in enumerate(rows):
        matrix[place, : len(row.ratings)] = [math.nan if one is None else one for one in row.ratings]
    if np.isnan(matrix).all():
        raise BadInput(
            "no reply has a rating in the field ratings",
            remedy='give items "ratings": {"system": [4, 5, 3]}, one number an annotator',
        )
    return matrix


def _annotators(matrix: Floats, settings: MetaSettings) -> tuple[tuple[int, ...], tuple[DroppedAnnotator, ...]]:
    """Who is kept and who is not, judged by all that they rated: replies that are references tell of them as well."""
    least = settings.min_kappa
    if least is None:
        return tuple(range(matrix.shape[1])), ()
    judged = keep_annotators(matrix, least)
    kept = tuple(np.flatnonzero(judged.mask).tolist())
    if not kept:
        highest = max(one.value for one in kappa_of_each(matrix) if one.value is not None)
        raise BadInput(
            f"no annotator is left, the mean κ of each is below {least:g}",
            remedy=f"the highest is {highest:.3f}: give a lower --min-kappa",
        )
    dropped = tuple(
        DroppedAnnotator(annotator=place, why=why) for place, why in enumerate(judged.reasons) if place not in kept
    )
    return kept, dropped


def data_hash(items: Sequence[Item], rows: Sequence[Row], ratings: Floats) -> str:
    """Names the data of a result, beside the signatures that name the metrics: a hash of the rows used, in order.

    Of each its item and system, the ratings of the kept annotators, the references it was scored against with their
    weights, and the reply itself.
    """
    digest = hashlib.sha256()
    for row, given in zip(rows, ratings.tolist(), strict=True):
        references = [[one.text, one.weight] for one in row.references]
        content = [items[row.item].id, row.system, [_or_none(one) for one in given], references, row.reply]
        digest.update(orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()[:12]


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
