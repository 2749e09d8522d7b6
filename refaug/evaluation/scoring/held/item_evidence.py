"""The references that weighted scores rest on, item by item; of items in a file, computed when they are read."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from refaug.core.records import Item
from refaug.evaluation.scoring.cases import evidence_of


def evidence_by_id(items: Sequence[Item], ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    """Return the evidence of every item, by its id."""
    if isinstance(items, list):
        return {test_item.id: evidence_of(test_item) for test_item in items}
    return EvidenceOfItems(items, ids)


class EvidenceOfItems(Mapping[str, Mapping[str, Any]]):
    """The evidence of items that are not in memory; a pass over it reads their file."""

    def __init__(self, items: Sequence[Item], ids: Sequence[str]) -> None:
        self._items, self._ids = items, ids

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {name: place for place, name in enumerate(self._ids)}

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        return evidence_of(self._items[self._places[name]])

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def items(self) -> ItemsView[str, Mapping[str, Any]]:
        """Return ids and evidence in the order of the file, which is read once."""
        return _InOrder(self, self._items)


class _InOrder(ItemsView[str, Mapping[str, Any]]):
    def __init__(self, mapping: EvidenceOfItems, items: Sequence[Item]) -> None:
        super().__init__(mapping)
        self._items = items

    def __iter__(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for test_item in self._items:
            yield test_item.id, evidence_of(test_item)
