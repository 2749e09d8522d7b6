"""The cache of every room: the most recently used values, bounded by their number or by their bytes.

`functools.lru_cache` serves functions that compute a value from their arguments. Ratings of many cached
texts were measured with cachetools and a lock, too: 5 % slower with the default network, 14 % with a small one.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """The most recently used values by key, up to a total size; thread-safe.

    `size_of` returns the size of a key with its value, such as their bytes, and always the same for the same entry.
    Without it each value counts as 1, so that `most` is a number of values. A limit of 0 switches the cache off.

    Keys are str, bytes, or tuples of such: types that hash in C, so that no thread sees a half-done step on the table.
    """

    def __init__(self, most: int, size_of: Callable[[K, V], int] | None = None) -> None:
        self.most = most
        self.size = 0
        self._size_of = size_of
        self._entries = OrderedDict[K, V]()  # the most recently used last
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        """Return whether a value is stored under a key, which does not count as a use."""
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        """Iterate over the present keys, the least recently used first."""
        return iter([key for key, _ in self.items()])

    def items(self) -> list[tuple[K, V]]:
        """Return the present entries, the least recently used first; this does not count as a use."""
        with self._lock:
            return list(self._entries.items())

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None; it becomes the most recently used."""
        stored = self._entries.get(key)  # without the lock, which takes longer than all the rest
        if stored is not None:
            try:  # noqa: SIM105  suppress() takes longer than the rest
                self._entries.move_to_end(key)
            except KeyError:  # another thread has just dropped it
                pass
        return stored

    def put(self, key: K, stored: V) -> Sequence[tuple[K, V]]:
        """Store a value as the most recently used, and return the entries that it leaves no room for.

        A value that is larger than the whole cache is not stored, and drops nothing.
        """
        size = 1 if self._size_of is None else self._size_of(key, stored)
        if size > self.most:
            return ()
        with self._lock:
            self._remove(key)
            self._entries[key] = stored
            self.size += size
            if self.size <= self.most:
                return ()
            dropped = list[tuple[K, V]]()
            while self.size > self.most:
                dropped.append(self._drop_oldest())
            return dropped

    def pop(self, key: K) -> V | None:
        """Remove a key, and return its value or None."""
        with self._lock:
            return self._remove(key)

    def clear(self) -> None:
        """Remove everything."""
        with self._lock:
            self._entries.clear()
            self.size = 0

    def _remove(self, key: K) -> V | None:
        removed = self._entries.pop(key, None)
        if removed is not None:
            self.size -= 1 if self._size_of is None else self._size_of(key, removed)
        return removed

    def _drop_oldest(self) -> tuple[K, V]:
        key, dropped = self._entries.popitem(last=False)
        self.size -= 1 if self._size_of is None else self._size_of(key, dropped)
        return key, dropped


# ── The memory that objects take, for caches with a limit ─────────────────────────────────────────────────────────────

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
