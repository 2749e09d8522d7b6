"""Memory: caches of bounded size, the size of objects, texts without an object each, and the collector of garbage."""

from __future__ import annotations

import atexit
import gc
import sys
import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Generic, TypeGuard, TypeVar, overload

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


def _is_array(counted: object) -> TypeGuard[NDArray[Any]]:
    """Return whether it is an array, of which there is none where nothing has imported numpy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(counted, numpy.ndarray)


def _own_bytes(counted: object) -> int:
    """Return an object's bytes without what it refers to; the numbers of a view belong to its base."""
    if _is_array(counted):
        return object.__sizeof__(counted) + (counted.nbytes if counted.base is None else 0)
    return sys.getsizeof(counted)


def _referents(counted: Any) -> Iterator[Any]:
    """Yield what an object refers to; numbers and texts refer to nothing."""
    if _is_array(counted):
        if _is_array(counted.base) or isinstance(counted.base, bytes | bytearray):  # not the base of a mapped file
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


class CompactTexts(Sequence[str]):
    """Texts that are added one after the other and take their bytes and eight more each."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._content, self._ends = bytearray(), array("q", [0])
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add the next text."""
        self._content += text.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._content))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self._text(each) for each in range(*place.indices(len(self)))]
        number = place + len(self) if place < 0 else place
        if not 0 <= number < len(self):
            raise IndexError(place)
        return self._text(number)

    def _text(self, number: int) -> str:
        return self._content[self._ends[number] : self._ends[number + 1]].decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        for number in range(len(self)):
            yield self._text(number)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, CompactTexts):
            return self._ends == other._ends and self._content == other._content
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @property
    def bytes(self) -> int:
        """The memory of the texts."""
        return len(self._content) + len(self._ends) * self._ends.itemsize


# ── The line in which a text was seen first, for files of so many ids that they would fill the memory as objects ──────

_LEAST_SLOTS: Final = 1 << 10
_NO_LINE: Final = 0


class SeenLines:
    """The line in which each text was first seen, by a hash of the text: an entry takes from 36 to 72 bytes.

    The hash has 128 bits, so two different texts have one hash in no file that a disk holds.
    """

    def __init__(self) -> None:
        self._count = 0
        self._resize(_LEAST_SLOTS)

    def __len__(self) -> int:
        return self._count

    def first(self, text: str, line: int) -> int | None:
        """Return the line in which the text was seen before; where it is new, remember its line and return None."""
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        high, low = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")
        slot = self._slot(high, low)
        if self._lines[slot] != _NO_LINE:
            return self._lines[slot] - 1
        self._put(slot, high, low, line + 1)
        self._count += 1
        if 3 * self._count > 2 * len(self._lines):
            self._grow()
        return None

    def _slot(self, high: int, low: int) -> int:
        """Return the slot of a hash, or the empty one where it belongs."""
        highs, lows, lines, last = self._highs, self._lows, self._lines, len(self._lines) - 1
        slot = low & last
        while lines[slot] != _NO_LINE and not (lows[slot] == low and highs[slot] == high):
            slot = (slot + 1) & last
        return slot

    def _put(self, slot: int, high: int, low: int, line: int) -> None:
        self._highs[slot], self._lows[slot], self._lines[slot] = high, low, line

    def _resize(self, slots: int) -> None:
        self._highs, self._lows, self._lines = (array(kind, bytes(8 * slots)) for kind in "QQQ")

    def _grow(self) -> None:
        highs, lows, lines = self._highs, self._lows, self._lines
        self._resize(2 * len(lines))
        for high, low, line in zip(highs, lows, lines, strict=True):
            if line != _NO_LINE:
                self._put(self._slot(high, low), high, low, line)


# New objects, collections of the youngest, and of the middle generation, before a collection of the next. A request
# makes one or two thousand objects, which are all freed with it; a job that scores makes some million, which it keeps.
_THRESHOLDS: Final = (50_000, 20, 20)

# Libraries in C++ look at exit for objects that Python has not freed, and report frozen ones on stderr as leaks.
atexit.register(gc.unfreeze)


def collect_rarely() -> None:
    """Let collections be rare; first of all in a process, since what it imports is looked through again and again."""
    gc.set_threshold(*_THRESHOLDS)


def freeze_living() -> None:
    """Collect, keep what is alive out of later collections, and let these be rare.

    Imported modules and opened models stay for good, and looking through them stops all threads for half a second.
    Objects without cycles are freed at once whatever the thresholds are; a cycle among those that are alive now, such
    as that of an error, lives as long as the process, so call this between two pieces of work.
    """
    gc.collect()
    gc.freeze()
    collect_rarely()
