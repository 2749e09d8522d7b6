"""Which rated rows are of one context: those with the same turns, or with the same last turn before the same gold."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from refaug.core.text.normalisation import normalise
from refaug.metrics.base import Indexes


def context_keys(turns: Sequence[str], gold: str) -> list[tuple[str, ...]]:
    """Return what tells a context: all its turns, and its last turn with the gold; nothing of texts that are empty."""
    said, gold = tuple(map(normalise, turns)), normalise(gold)
    keys = [("turns", *said)] if any(said) else []
    return [*keys, ("gold", said[-1] if said else "", gold)] if gold else keys


def joined_numbers(keys: Iterable[Iterable[Hashable]]) -> Indexes:
    """Return a number for each row, in order; rows that share a key, directly or through others, have the same one."""
    numbers = dict[Hashable, int]()
    places = [[numbers.setdefault(key, len(numbers)) for key in of_row] for of_row in keys]
    rows = np.repeat(np.arange(len(places)), [len(of_row) for of_row in places])
    columns = len(places) + np.array([place for of_row in places for place in of_row], np.int64)
    size = len(places) + len(numbers)
    graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(size, size))
    return np.asarray(connected_components(graph, directed=False)[1][: len(places)], np.int64)
