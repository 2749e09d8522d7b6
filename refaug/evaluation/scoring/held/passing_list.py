"""A long list of JSON that is never in memory as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any


class PassingList:
    """A list whose entries are made anew at every pass."""

    def __init__(self, count: int, entries: Callable[[], Iterable[Any]]) -> None:
        self._count, self._entries = count, entries

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entries())


def plain_json(part: object) -> list[Any] | dict[Any, Any]:
    """Return a passing list or a mapping as JSON has it, for `default` of orjson; TypeError for anything else."""
    if isinstance(part, PassingList):
        return list(part)
    if isinstance(part, Mapping):
        return dict(part.items())
    raise TypeError(f"{type(part).__name__} is no JSON")
