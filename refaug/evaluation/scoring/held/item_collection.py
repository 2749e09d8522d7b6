"""The items of a test file, to be gone through any number of times: in memory where they are few, else in a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, Self

from refaug.core.records import Item
from refaug.evaluation.scoring.cases import split
from refaug.evaluation.scoring.held.item_facts import ItemFacts
from refaug.evaluation.scoring.held.item_spool import SpooledItems
from refaug.evaluation.scoring.items import BadItem

MOST_IN_MEMORY: Final = 5_000  # items; more of them go into a file


class ItemCollection:
    """Items that can be scored, those that cannot, and what a pass over the first tells of them."""

    def __init__(
        self, items: Sequence[Item], bad: Mapping[int, Sequence[BadItem]], facts: ItemFacts | None = None
    ) -> None:
        self.items, self._bad, self._facts = items, bad, facts  # bad ones by the place of the item that they precede

    @classmethod
    def of(cls, items: Iterable[Item | BadItem]) -> ItemCollection:
        """Return items that are in memory, or come one by one, as a collection in memory."""
        if isinstance(items, ItemCollection):
            return items
        usable, bad = list[Item](), dict[int, list[BadItem]]()
        for test_item in items:
            if isinstance(test_item, BadItem):
                bad.setdefault(len(usable), []).append(test_item)
            else:
                usable.append(test_item)
        return cls(usable, bad)

    @classmethod
    def read(cls, items: Iterable[Item | BadItem], folder: Path, *, most_in_memory: int = MOST_IN_MEMORY) -> Self:
        """Read items that come one by one; more than so many go into a file without a name in this folder."""
        usable: list[Item] = []
        spooled: SpooledItems | None = None
        bad, facts = dict[int, list[BadItem]](), ItemFacts()
        for test_item in items:
            if isinstance(test_item, BadItem):
                bad.setdefault(len(facts.ids), []).append(test_item)
                continue
            facts.add(test_item)
            if spooled is None and len(usable) < most_in_memory:
                usable.append(test_item)
                continue
            if spooled is None:
                spooled = SpooledItems(folder)
                for waiting in usable:
                    spooled.append(waiting)
                usable = []
            spooled.append(test_item)
        if spooled is not None:
            spooled.finish()
        return cls(usable if spooled is None else spooled, bad, facts)

    @property
    def facts(self) -> ItemFacts:
        """What a pass over the items tells of them."""
        if self._facts is None:
            self._facts = ItemFacts.of(self.items)
        return self._facts

    @property
    def bad(self) -> tuple[BadItem, ...]:
        """The items that cannot be scored, in order."""
        return tuple(chain.from_iterable(self._bad.values()))

    @property
    def count(self) -> int:
        """The number of items, bad ones among them."""
        return len(self.items) + len(self.bad)

    def require_usable(self) -> None:
        """Raise BadInput where no item can be used."""
        if not self.items:
            split(self.bad)

    def __iter__(self) -> Iterator[Item | BadItem]:
        """Yield all items in the order in which they were read."""
        for place, test_item in enumerate(self.items):
            yield from self._bad.get(place, ())
            yield test_item
        yield from self._bad.get(len(self.items), ())
