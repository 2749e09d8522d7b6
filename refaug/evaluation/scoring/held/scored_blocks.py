"""The rows of a table of scores from blocks of items, of which one is in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import numpy as np

from refaug.core.records import Item
from refaug.evaluation.scoring.cases import ScoredCases
from refaug.metrics.base import Metric, Problem

BLOCK: Final = 2_000  # items whose texts are in memory at once


def blocks_of(items: Iterable[Item], size: int | None = None) -> Iterator[tuple[int, list[Item]]]:
    """Yield the items in blocks, each with the place of its first item."""
    items, first, size = iter(items), 0, size or BLOCK
    while block := list(islice(items, size)):
        yield first, block
        first += len(block)


class RowsOfBlocks:
    """The rows of a table, to which the scored cases of blocks of items are added."""

    def __init__(self, metric: Metric, systems: int, items: int) -> None:
        self._metric, self._items = metric, items
        self._statistics = np.empty((systems, items, len(metric.columns)))
        self._values = np.empty((systems, items))
        self._problems = dict[int, Problem]()

    def add(self, first: int, count: int, scored: ScoredCases) -> None:
        """Add the cases of so many items, system by system; the first of the items is in this place."""
        systems, rows = len(self._values), slice(first, first + count)
        self._statistics[:, rows] = scored.statistics.reshape(systems, count, -1)
        self._values[:, rows] = scored.values(self._metric).reshape(systems, count)
        for row, problem in scored.problems.items():
            system, place = divmod(row, count)
            self._problems[system * self._items + first + place] = problem

    def columns(self) -> dict[str, Any]:
        """Return the rows as a table has them."""
        return {
            "statistics": self._statistics,
            "values": self._values,
            "problems": dict(sorted(self._problems.items())),
        }
