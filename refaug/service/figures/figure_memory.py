"""The memory in which all web processes of a server count: an anonymous file, so that no disk can be too full for it.

The parent makes it, with all its room allocated, and its children open it under a path of /proc. It has a table for
each of them. A process claims a table by a lock that ends with the process, and goes on with the numbers of a dead one.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from refaug.service.figures.figure_table import FigureTable, Series

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
