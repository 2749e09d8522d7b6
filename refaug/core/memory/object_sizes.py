"""The memory that objects take, for caches with a limit."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

_OURS: Final = "refaug"  # whose objects' attributes are counted


class MemoryCounter:
    """Counts the bytes of objects and everything they refer to, each object once.

    Containers, arrays and objects of our classes are traversed; an object of a library counts with the size it
    reports. Memory-mapped files count nothing, since the system reclaims their memory on demand. Added objects must
    stay alive as long as more are added.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._seen = set[int]()

    def add(self, *objects: object) -> None:
        """Count these objects, except those already counted."""
        pending = list(objects)
        while pending:
            counted = pending.pop()
            if id(counted) in self._seen or isinstance(counted, type):
                continue
            self._seen.add(id(counted))
            self.bytes += _own_bytes(counted)
            pending.extend(_referents(counted))


def _own_bytes(counted: object) -> int:
    """Return an object's bytes without what it refers to; the numbers of a view belong to its base."""
    if isinstance(counted, np.ndarray):
        return object.__sizeof__(counted) + (counted.nbytes if counted.base is None else 0)
    return sys.getsizeof(counted)


def _referents(counted: Any) -> Iterator[Any]:
    """Yield what an object refers to; numbers and texts refer to nothing."""
    if isinstance(counted, np.ndarray):
        if isinstance(counted.base, np.ndarray | bytes | bytearray):  # not the base of a mapped file
            yield counted.base
        if counted.dtype.hasobject:
            yield from counted.reshape(-1).tolist()
    elif isinstance(counted, Mapping):
        yield from counted.keys()
        yield from counted.values()
    elif isinstance(counted, list | tuple | set | frozenset):
        yield from counted
    if type(counted).__module__.partition(".")[0] == _OURS:
        yield from _attributes(counted)


def _attributes(counted: Any) -> Iterator[Any]:
    yield from getattr(counted, "__dict__", {}).values()
    for kind in type(counted).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(counted, name):
                yield getattr(counted, name)
