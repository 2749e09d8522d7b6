"""The memory in which all web processes of a server count: an anonymous file, so that no disk can be too full for it.

The parent makes it, with all its room allocated, and its children open it under a path of /proc. It has a table for
each of them. A process claims a table by a lock that ends with the process, and goes on with the numbers of a dead one.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import mmap
import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

import orjson

# ── A table of numbers in a piece of memory: one process writes it, and others may read it at the same time ───────────
#
#     bytes 0–7      how many bytes are in use
#     bytes 8–15     the id of the process that writes, 0 for none
#     then series    length of the key, count of numbers, the key (JSON, padded to 8 bytes), the numbers (float64)
#
# A series is written before the count that makes it visible, and a number is one aligned store: a reader sees whole
# numbers, and a process that is killed leaves a readable table, which the next one goes on with.

Series = tuple[str, ...]  # the name of a figure and the values of its labels

_WORD: Final = 8
_USED, _PROCESS, _FIRST = 0, 1, 2  # places in the memory, in words

log = logging.getLogger(__name__)


class FigureTable:
    """Series of numbers in memory of a fixed size; a series that has no room is not counted."""

    def __init__(self, memory: memoryview) -> None:
        self._memory, self._integers, self._numbers = memory, memory.cast("q"), memory.cast("d")
        self._lock = threading.Lock()
        self._is_full = False
        self._places = {series: place for series, place, _ in self._series()}

    @classmethod
    def empty(cls, memory: memoryview) -> Self:
        """Make a table in memory that holds zeros."""
        memory.cast("q")[_USED] = _FIRST * _WORD
        return cls(memory)

    @property
    def process(self) -> int:
        """The id of the process that writes this table, 0 for none."""
        return self._integers[_PROCESS]

    @process.setter
    def process(self, process: int) -> None:
        self._integers[_PROCESS] = process

    def add(self, series: Series, length: int, amounts: Iterable[tuple[int, float]]) -> None:
        """Add amounts to some numbers of a series, which has `length` of them."""
        with self._lock:
            place = self._place_of(series, length)
            if place is None:
                return
            for number, amount in amounts:
                self._numbers[place + number] += amount

    def set(self, series: Series, amount: float) -> None:
        """Set the only number of a series."""
        with self._lock:
            place = self._place_of(series, 1)
            if place is not None:
                self._numbers[place] = amount

    def clear(self, names: Sequence[str]) -> None:
        """Set all numbers of some figures to 0."""
        for (name, *_), place, length in self._series():
            if name in names:
                for number in range(place, place + length):
                    self._numbers[number] = 0.0

    def read(self) -> Iterator[tuple[Series, list[float]]]:
        """Yield every series with its numbers at this moment."""
        for series, place, length in self._series():
            yield series, list(self._numbers[place : place + length])

    def _place_of(self, series: Series, length: int) -> int | None:
        place = self._places.get(series)
        if place is None and not self._is_full:
            place = self._append(series, length)
        return place

    def _append(self, series: Series, length: int) -> int | None:
        """Make room for a series and return the place of its first number; None where the memory is full."""
        key = orjson.dumps(series)
        begin = self._integers[_USED]
        numbers_at = begin + 2 * _WORD + len(key) + -len(key) % _WORD
        end = numbers_at + length * _WORD
        if end > len(self._memory):
            self._is_full = True
            log.warning("no room for more figures", extra={"figure": series[0]})
            return None
        self._integers[begin // _WORD], self._integers[begin // _WORD + 1] = len(key), length
        self._memory[begin + 2 * _WORD : begin + 2 * _WORD + len(key)] = key
        self._memory[numbers_at:end] = bytes(length * _WORD)
        self._integers[_USED] = end
        self._places[series] = numbers_at // _WORD
        return numbers_at // _WORD

    def _series(self) -> Iterator[tuple[Series, int, int]]:
        """Yield each series, the place of its first number in words, and how many it has."""
        at, end = _FIRST * _WORD, self._integers[_USED]
        while at < end:
            size, length = self._integers[at // _WORD], self._integers[at // _WORD + 1]
            key = bytes(self._memory[at + 2 * _WORD : at + 2 * _WORD + size])
            numbers_at = at + 2 * _WORD + size + -size % _WORD
            yield tuple(orjson.loads(key)), numbers_at // _WORD, length
            at = numbers_at + length * _WORD


# ── The memory ────────────────────────────────────────────────────────────────────────────────────────────────────────

TABLE_BYTES: Final = 1 << 20


class FigureMemory:
    """Memory with a table of figures for each process of a server."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._tables = os.fstat(handle).st_size // TABLE_BYTES
        self._memory = memoryview(mmap.mmap(handle, self._tables * TABLE_BYTES))

    @classmethod
    def create(cls, tables: int) -> Self:
        """Allocate memory for this many tables; OSError where the system has none."""
        handle = os.memfd_create("refaug-figures")
        try:
            os.posix_fallocate(handle, 0, tables * TABLE_BYTES)
            memory = cls(handle)
        except BaseException:
            os.close(handle)
            raise
        for number in range(tables):
            FigureTable.empty(memory._piece(number))
        return memory

    @classmethod
    def open(cls, path: str) -> Self:
        """Open the memory that another process made, by the path that `path` gave there."""
        return cls(os.open(path, os.O_RDWR | os.O_CLOEXEC))

    @property
    def path(self) -> str:
        """A path under which processes of the same user open it, as long as this one keeps it open."""
        return f"/proc/{os.getpid()}/fd/{self._handle}"

    def claim(self, gauges: Sequence[str]) -> FigureTable:
        """Return a table that no living process writes, with these figures set to 0; OSError where none is free.

        Of the locks that this process holds on the memory, closing any other opening of it would end all.
        """
        for number in range(self._tables):
            try:
                fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
            except (BlockingIOError, PermissionError):  # the standard allows either for a lock of another process
                continue
            table = self._table(number)
            table.clear(gauges)
            table.process = os.getpid()
            return table
        raise OSError(errno.EAGAIN, "every table of figures is in use")

    def forget(self, process: int, gauges: Sequence[str]) -> None:
        """Set these figures of a dead process to 0."""
        for number in range(self._tables):
            table = self._table(number)
            if table.process == process:
                table.clear(gauges)
                table.process = 0

    def totals(self) -> Mapping[Series, list[float]]:
        """Return every series with its numbers, added up over all tables."""
        return sum_up([self._table(number) for number in range(self._tables)])

    def close(self) -> None:
        """Give the memory back when no other process has it open."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _table(self, number: int) -> FigureTable:
        return FigureTable(self._piece(number))

    def _piece(self, number: int) -> memoryview:
        return self._memory[number * TABLE_BYTES : (number + 1) * TABLE_BYTES]


def sum_up(tables: Sequence[FigureTable]) -> Mapping[Series, list[float]]:
    """Return every series of some tables with its numbers added up."""
    totals = defaultdict[Series, list[float]](list)
    for table in tables:
        for series, numbers in table.read():
            before = totals[series] or [0.0] * len(numbers)
            totals[series] = [one + other for one, other in zip(before, numbers, strict=True)]
    return totals
