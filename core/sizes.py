"""How much memory objects take: for what is kept only as long as there is room."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

_OURS: Final = frozenset({"core", "indexer", "metrics", "rater", "service"})  # whose attributes are looked into


class Weighed:
    """Bytes of objects and all that hangs from them, each counted once, whatever else refers to it.

    Looked into are containers, arrays and objects of our own classes; one of a library counts as what it says it is.
    Files that are mapped into memory count nothing: they are given back whenever others need the room. What was added
    has to stay alive for as long as more is.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._seen = set[int]()

    def add(self, *things: object) -> None:
        """Count these, as far as they are new."""
        waiting = list(things)
        while waiting:
            one = waiting.pop()
            if id(one) in self._seen or isinstance(one, type):
                continue
            self._seen.add(id(one))
            self.bytes += _own_bytes(one)
            waiting.extend(_parts(one))


def _own_bytes(one: object) -> int:
    """Without what it refers to: of an array that looks into another one, the numbers are that one's."""
    if isinstance(one, np.ndarray):
        return object.__sizeof__(one) + (one.nbytes if one.base is None else 0)
    return sys.getsizeof(one)


def _parts(one: Any) -> Iterator[Any]:
    """What it refers to; numbers and texts refer to nothing."""
    if isinstance(one, np.ndarray):
        if isinstance(one.base, np.ndarray | bytes | bytearray):  # not where a mapped file is
            yield one.base
        if one.dtype.hasobject:
            yield from one.reshape(-1).tolist()
    elif isinstance(one, Mapping):
        yield from one.keys()
        yield from one.values()
    elif isinstance(one, list | tuple | set | frozenset):
        yield from one
    if type(one).__module__.partition(".")[0] in _OURS:
        yield from _attributes(one)


def _attributes(one: Any) -> Iterator[Any]:
    yield from getattr(one, "__dict__", {}).values()
    for kind in type(one).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(one, name):
                yield getattr(one, name)
