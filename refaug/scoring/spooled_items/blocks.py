"""Blocks of items or rows, of which one is in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

_Entry = TypeVar("_Entry")
BLOCK: Final = 2_000  # entries whose texts are in memory at once


def blocks_of(entries: Iterable[_Entry], size: int | None = None) -> Iterator[tuple[int, list[_Entry]]]:
    """Yield entries in blocks, each with the place of its first one."""
    entries, first, size = iter(entries), 0, size or BLOCK
    while block := list(islice(entries, size)):
        yield first, block
        first += len(block)
