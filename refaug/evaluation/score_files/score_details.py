"""The details of a score file, which are there when they are asked for: the items that were scored, and the sums.

`refaug compare` shows the texts, computes which references credit a reply, and tests corpus scores on the sums; a file
without details has neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self

import numpy as np

from refaug.core.errors import BadInput
from refaug.core.memory.bounded_cache import BoundedCache
from refaug.core.records import Item
from refaug.evaluation.score_files.stored_lists import StoredList, StoredRows
from refaug.evaluation.scoring.held.item_collection import ItemCollection
from refaug.evaluation.scoring.held.passing_list import PassingList
from refaug.evaluation.scoring.items import BadItem, item_json, parse_item
from refaug.evaluation.scoring.scores import Evaluation
from refaug.metrics.base import Floats

FIELD: Final = "details"
_REMEDY: Final = "give the output of refaug score --json --details as it was written"
_ROWS_AT_ONCE: Final = 10_000  # that are numbers of Python at the same time
_HELD_ITEMS: Final = 10_000  # parsed
_LARGEST: Final = 1e15  # sums of n-grams and scores stay far below


def details_of(evaluation: Evaluation, items: Iterable[Item | BadItem]) -> dict[str, object]:
    """Return the details of scores as JSON: the scored items, and the sums of each metric, system by system."""
    return {
        "items": [item_json(test_item) for test_item in items if isinstance(test_item, Item)],
        "sums": [
            {
                "columns": list(scores.metric.columns),
                "systems": {name: list(system.rows()) for name, system in scores.systems.items()},
            }
            for scores in evaluation.scores
        ],
    }


def passing_details(evaluation: Evaluation, items: Iterable[Item | BadItem]) -> dict[str, object]:
    """Return the details of scores as `details_of` does, with passing lists, to be written in pieces."""
    usable = ItemCollection.of(items).items
    return {
        "items": PassingList(len(usable), lambda: map(item_json, usable)),
        "sums": [
            {
                "columns": list(scores.metric.columns),
                "systems": {name: PassingList(len(system.ids), system.rows) for name, system in scores.systems.items()},
            }
            for scores in evaluation.scores
        ],
    }


@dataclass(frozen=True, kw_only=True)
class ScoreDetails:
    """The details of a score file, read back."""

    document: Mapping[str, Any]
    shown_name: str

    @classmethod
    def of(cls, document: Mapping[str, Any], shown_name: str) -> Self | None:
        """Return the details of a score file, or None where it has none; BadInput where they are damaged."""
        details = document.get(FIELD)
        if details is None:
            return None
        where = f"{shown_name}: {FIELD}"
        if not isinstance(details, dict):
            raise BadInput(f"{where}: an object was expected", remedy=_REMEDY)
        for name in ("items", "sums"):
            listed = details.get(name)
            if isinstance(listed, StoredList):  # of a document that this refaug wrote and checked
                continue
            if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
                raise BadInput(f"{where}.{name}: a list of objects was expected", remedy=_REMEDY)
        return cls(document=details, shown_name=shown_name)

    @cached_property
    def _places(self) -> Mapping[str, int]:
        """The place of each item by its id."""
        listed = self.document["items"]
        if isinstance(listed, StoredRows):
            return listed.ids.places
        return {str(row.get("id")): place for place, row in enumerate(listed)}

    @cached_property
    def _parsed_items(self) -> BoundedCache[str, Item]:
        return BoundedCache[str, Item](_HELD_ITEMS)

    def row(self, name: str) -> Mapping[str, Any]:
        """Return the item of this id as it is written; nothing where there is none."""
        place = self._places.get(name)
        return {} if place is None else self.document["items"][place]

    def item(self, name: str) -> Item | None:
        """Return the item of this id, or None; BadInput where it cannot be used."""
        if name not in self._places:
            return None
        held = self._parsed_items.get(name)
        if held is None:
            place = self._places[name]
            where = f"{self.shown_name}: {FIELD}.items[{place}]"
            parsed = parse_item(self.document["items"][place], where=where, line=place + 1, fallback_id=name)
            if isinstance(parsed, BadItem):
                raise BadInput(f"{where}.{parsed.field}: {parsed.message}", remedy=_REMEDY)
            held = parsed
            self._parsed_items.put(name, held)
        return held

    def items(self) -> Iterable[Item]:
        """Yield all items in order."""
        for name in self._places:
            if (test_item := self.item(name)) is not None:
                yield test_item

    def sums(self, metric_place: int, system: str, count: int) -> tuple[tuple[str, ...], Floats]:
        """Return the columns and the sums (replies, columns) of a system; NaN where a reply has no score."""
        where = f"{self.shown_name}: {FIELD}.sums[{metric_place}]"
        if metric_place >= len(self.document["sums"]):
            raise BadInput(f"{where}: it is missing", remedy=_REMEDY)
        sheet = self.document["sums"][metric_place]
        columns, systems = sheet.get("columns"), sheet.get("systems")
        rows = systems.get(system) if isinstance(systems, dict) else None
        if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
            raise BadInput(f"{where}.columns: a list of names was expected", remedy=_REMEDY)
        if not isinstance(rows, list | StoredList) or len(rows) != count:
            raise BadInput(
                f"{where}.systems.{system}: a row for each of {count:,} replies was expected", remedy=_REMEDY
            )
        empty = [None] * len(columns)
        try:
            pieces = [
                np.array([empty if row is None else row for row in rows[begin : begin + _ROWS_AT_ONCE]], np.float64)
                for begin in range(0, count, _ROWS_AT_ONCE)
            ]
            sums = np.concatenate(pieces) if pieces else np.empty(0)
        except (TypeError, ValueError) as error:
            raise BadInput(f"{where}.systems.{system}: a row is not {len(columns)} numbers", remedy=_REMEDY) from error
        sums = sums.reshape(count, -1) if sums.size else np.empty((count, len(columns)))
        if sums.shape != (count, len(columns)) or (np.abs(sums) > _LARGEST).any():
            raise BadInput(f"{where}.systems.{system}: a row is not {len(columns)} numbers", remedy=_REMEDY)
        return tuple(columns), sums
