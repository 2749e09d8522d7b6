"""Select the rated replies of a test set that count, with the references that each is scored against.

A row is one rated reply, its context is its item, and its rating is the mean of its annotators' ratings. Rows that rate
the gold itself are kept apart: every metric that has the gold gives them its best score, and people like them.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, overload

import numpy as np
import orjson
from numpy.typing import NDArray

from refaug.agreement.records import DroppedAnnotator, RatedItems
from refaug.core.errors import BadInput
from refaug.core.records import Item, Origin, Reference
from refaug.core.text.normalisation import normalise
from refaug.metrics.base import Floats
from refaug.metrics.statistics.annotator_agreement import kappa_of_each, select_annotators
from refaug.scoring.cases import require_systems
from refaug.scoring.items import BadItem
from refaug.scoring.provenance import Provenance
from refaug.scoring.settings import MetaSettings, RowsChoice
from refaug.scoring.spooled_items.item_collection import ItemCollection

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
    items: Sequence[Item]
    bad_items: Sequence[BadItem]
    rows: Sequence[Row]
    ratings: Floats  # (rows, kept annotators), NaN where one did not rate the row
    is_candidate: Mask  # (rows,): whether the row is compared: if it is fair, or if all rows count
    kept: tuple[int, ...]
    dropped: tuple[DroppedAnnotator, ...]
    unrated: Mapping[str, int]  # replies without a rating, by system
    lengths: tuple[int, int]  # the shortest and the longest list of ratings
    in_file: ItemCollection | None = None  # the items, where they lie in a file

    @classmethod
    def of(cls, rated_items: RatedItems, settings: MetaSettings) -> RatedRows:
        """Collect the rated replies of a set; BadInput where there are no replies or no ratings."""
        collection = ItemCollection.of(rated_items.items)
        collection.require_usable()
        require_systems(collection.replies)
        items, is_in_file = collection.items, not isinstance(collection.items, list)
        require_one_scale(items)
        rows = RowsOfItems.of(items, settings) if is_in_file else _all_rows(items, settings)
        lists = RatingLists.of(rows)
        matrix = lists.matrix()
        lengths = lists.lengths[~np.isnan(matrix).all(axis=1)]
        annotators, dropped = _select_annotators(matrix, settings)
        matrix = matrix[:, annotators]
        is_rated = np.asarray(~np.isnan(matrix).all(axis=1))
        unrated = Counter(lists.systems[place] for place in np.flatnonzero(~is_rated).tolist())
        rated = (
            rows.chosen(is_rated)
            if isinstance(rows, RowsOfItems)
            else [row for row, has_rating in zip(rows, is_rated.tolist(), strict=True) if has_rating]
        )
        is_gold = _is_gold(rated)
        return cls(
            name=rated_items.name,
            items=items,
            bad_items=collection.bad,
            rows=rated,
            ratings=matrix[is_rated],
            is_candidate=np.full(len(rated), fill_value=True) if settings.rows is RowsChoice.ALL else ~is_gold,
            kept=annotators,
            dropped=dropped,
            unrated=unrated,
            lengths=(int(lengths.min()), int(lengths.max())),
            in_file=collection if is_in_file else None,
        )

    @property
    def is_gold(self) -> Mask:
        """Whether each row rates the gold itself."""
        return _is_gold(self.rows)

    @property
    def contexts(self) -> NDArray[np.int64]:
        """The item of each row."""
        if isinstance(self.rows, RowsOfItems):
            return self.rows.contexts
        return np.array([row.item for row in self.rows], dtype=np.int64)

    @property
    def removed(self) -> NDArray[np.int64]:
        """How many references of each row were removed."""
        if isinstance(self.rows, RowsOfItems):
            return self.rows.removed
        return np.array([row.removed for row in self.rows], dtype=np.int64)

    @property
    def provenance(self) -> Provenance:
        """The provenance of the references."""
        return Provenance.of_items(self.items) if self.in_file is None else self.in_file.provenance

    def with_items(self) -> Iterator[tuple[Row, Item]]:
        """Yield every row with its item; items in a file are read once, in order."""
        if isinstance(self.rows, RowsOfItems):
            yield from self.rows.with_items()
        else:
            for row in self.rows:
                yield row, self.items[row.item]


def _is_gold(rows: Sequence[Row]) -> Mask:
    if isinstance(rows, RowsOfItems):
        return rows.is_gold
    return np.array([row.is_gold for row in rows], dtype=np.bool_)


class RowsOfItems(Sequence[Row]):
    """The rows of items that lie in a file, made again from their items at every pass; the numbers are held."""

    def __init__(
        self,
        items: Sequence[Item],
        settings: MetaSettings,
        *,
        is_used: Mask,
        contexts: NDArray[np.int64],
        is_gold: Mask,
        removed: NDArray[np.int64],
        within: NDArray[np.int64],
    ) -> None:
        self._items, self._settings = items, settings
        self._within = within  # the place of each row among those of its item
        self._is_used = is_used  # (all replies,); the other columns have a row for each that is used
        self.contexts, self.is_gold, self.removed = contexts, is_gold, removed

    @classmethod
    def of(cls, items: Sequence[Item], settings: MetaSettings) -> Self:
        """Read the items once, and use all rows."""
        contexts, is_gold, removed, within = array("q"), array("b"), array("q"), array("q")
        for number, test_item in enumerate(items):
            for place, row in enumerate(_rows_of(number, test_item, settings)):
                within.append(place)
                contexts.append(row.item)
                is_gold.append(row.is_gold)
                removed.append(row.removed)
        return cls(
            items,
            settings,
            is_used=np.full(len(contexts), fill_value=True),
            contexts=np.array(contexts, dtype=np.int64),
            is_gold=np.array(is_gold, dtype=np.bool_),
            removed=np.array(removed, dtype=np.int64),
            within=np.array(within, dtype=np.int64),
        )

    def chosen(self, mask: Mask) -> RowsOfItems:
        """Return those of the rows that a mask has, of rows that are all used."""
        return RowsOfItems(
            self._items,
            self._settings,
            is_used=mask,
            contexts=self.contexts[mask],
            is_gold=self.is_gold[mask],
            removed=self.removed[mask],
            within=self._within[mask],
        )

    def __len__(self) -> int:
        return len(self.contexts)

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> list[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | list[Row]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        context = int(self.contexts[place])
        of_item = list(_rows_of(context, self._items[context], self._settings))
        return of_item[int(self._within[place])]

    def __iter__(self) -> Iterator[Row]:
        for row, _ in self.with_items():
            yield row

    def with_items(self) -> Iterator[tuple[Row, Item]]:
        """Yield every row with its item."""
        place = 0
        for number, test_item in enumerate(self._items):
            for row in _rows_of(number, test_item, self._settings):
                if self._is_used[place]:
                    yield row, test_item
                place += 1


def require_one_scale(items: Sequence[Item]) -> None:
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
    return f"{lowest:g} to {highest:g} in item {rated.id}"


def _rows_of(number: int, test_item: Item, settings: MetaSettings) -> Iterator[Row]:
    """Yield the replies to one item; a reply equals a reference where both normalise to the same text.

    A reply that is a gold keeps all references: where only fair rows are compared, it is not one of them.
    """
    references = test_item.references
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


def _all_rows(items: Sequence[Item], settings: MetaSettings) -> list[Row]:
    return [row for number, test_item in enumerate(items) for row in _rows_of(number, test_item, settings)]


@dataclass(frozen=True, kw_only=True, eq=False)
class RatingLists:
    """The lists of ratings of all rows, and their systems, in columns."""

    systems: Sequence[str]
    lengths: NDArray[np.int64]
    ratings: Floats  # of all rows, one list behind the other; NaN where there is none

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Self:
        """Read the lists of rows."""
        systems, lengths, ratings = list[str](), array("q"), array("d")
        for row in rows:
            systems.append(row.system)
            lengths.append(len(row.ratings))
            ratings.extend([math.nan if rating is None else rating for rating in row.ratings])
        return cls(
            systems=systems, lengths=np.array(lengths, dtype=np.int64), ratings=np.array(ratings, dtype=np.float64)
        )

    def matrix(self) -> Floats:
        """Return the ratings (rows, annotators), NaN where there is none; shorter lists end with NaN."""
        matrix = np.full((len(self.lengths), int(self.lengths.max())), np.nan)
        matrix[np.arange(matrix.shape[1]) < self.lengths[:, None]] = self.ratings
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
    digest = RowsDigest()
    for row, row_ratings in zip(rows, ratings, strict=True):
        digest.add(items[row.item].id, row, row_ratings)
    return digest.name


class RowsDigest:
    """`data_hash` for rows that are added one after the other."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    @property
    def name(self) -> str:
        """The first digits of the hash of all rows so far."""
        return self._sha256.hexdigest()[:12]

    def add(self, item_id: str, row: Row, ratings: Floats) -> None:
        """Add the next row, with the id of its item and the ratings of the kept annotators."""
        references = [[reference.text, reference.weight] for reference in row.references]
        shown_ratings = [None if math.isnan(rating) else rating for rating in ratings.tolist()]
        content = [item_id, row.system, shown_ratings, references, row.reply]
        self._sha256.update(orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE))
