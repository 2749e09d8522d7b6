"""The log engine: DuckDB under a memory limit, spilling to a folder of its own. The only importer of duckdb."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import duckdb
import pyarrow as pa

from core.errors import Conflict, RefaugError, StorageFull
from core.files import hold, make_folder, remove_tree

# What the process holds beside DuckDB's own limit: Python, Arrow, and what the limit does not count (measured).
_BESIDE: Final = 192 << 20
_LEAST: Final = 128 << 20
IN_USE: Final = "in-use"  # locked as long as an engine works here: how others tell scratch from litter
_A_THREAD: Final = 256 << 20  # a sort of wide rows wants this much for each; with less it fails instead of spilling
_FULL_SIGNS: Final = ("No space left", "File too large", "Disk quota", "max_temp_directory_size")
_GONE_SIGNS: Final = ("No files found", "No such file")

Answer = TypeVar("Answer")


class Engine:
    """One connection with a scratch database, gone when it closes."""

    def __init__(self, scratch: Path, *, memory: int, threads: int | None = None) -> None:
        remove_tree(scratch)
        make_folder(scratch)
        self._scratch = scratch
        self._lock = hold(scratch / IN_USE)
        limit = max(_LEAST, (memory - _BESIDE) * 3 // 4)
        if threads is None:
            threads = max(1, min(len(os.sched_getaffinity(0)), limit // _A_THREAD))
        settings: dict[str, Any] = {
            "memory_limit": f"{limit >> 20}MiB",
            "threads": threads,
            "temp_directory": str(scratch / "spill"),
            "preserve_insertion_order": False,  # every query that has an order says so
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        try:
            with _errors(scratch):
                self._connection = duckdb.connect(str(scratch / "scratch.duckdb"), config=settings)
                self._connection.execute("SET GLOBAL TimeZone = 'UTC'")  # not where they are read decides over times
        except BaseException:
            self._lock.close()
            raise
        self._busy = self._connection
        self._thread = ThreadPoolExecutor(1, "log engine")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if kind is not None:
            self._stop()  # Ctrl-C may have come just before or after the wait for an answer
        self._thread.shutdown()
        self._connection.close()
        self._lock.close()
        remove_tree(self._scratch)

    def run(self, sql: str, values: Sequence[object] = ()) -> None:
        """A statement without an answer."""
        self._apart(self._connection, lambda: self._connection.execute(sql, list(values) or None))

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """A small answer."""
        return self._apart(self._connection, lambda: self._connection.execute(sql, list(values) or None).fetchall())

    def number(self, sql: str, values: Sequence[object] = ()) -> int:
        """An answer of one whole number."""
        return int(self.rows(sql, values)[0][0])

    def batches(self, sql: str, values: Sequence[object] = (), *, size: int = 20_000) -> Iterator[pa.RecordBatch]:
        """A large answer, piece by piece; on a cursor of its own, so that other queries may run in between."""
        with self._connection.cursor() as cursor:
            reader = self._apart(cursor, lambda: cursor.sql(sql, params=list(values) or None).to_arrow_reader(size))
            while (batch := self._apart(cursor, partial(next, reader, None))) is not None:
                yield batch

    def _apart(self, connection: duckdb.DuckDBPyConnection, work: Callable[[], Answer]) -> Answer:
        """Let another thread do it, since a query leaves no gap in which this one could hear of Ctrl-C."""
        self._busy = connection
        with _errors(self._scratch):
            try:
                answer = self._thread.submit(work)
                # Not one wait without end: a signal that comes just before it would be heard when it ends.
                while not wait([answer], timeout=0.2).done:
                    pass
                return answer.result()
            except KeyboardInterrupt:
                self._stop()
                raise

    def _stop(self) -> None:
        """End what the thread is at; it has when it comes to something that was given to it afterwards."""
        afterwards = self._thread.submit(lambda: None)
        while not wait([afterwards], timeout=0.05).done:
            self._busy.interrupt()  # again, since one that comes before the query has begun is forgotten


@contextmanager
def _errors(scratch: Path) -> Iterator[None]:
    """DuckDB's errors in our tree: a full disk is a full disk, too little memory says what to change."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        text, what = str(error), f"{scratch}: {_first_line(error)}"
        if any(sign in text for sign in _FULL_SIGNS):
            raise StorageFull(what, remedy="free some room and run the same command again") from error
        if isinstance(error, duckdb.OutOfMemoryException):
            raise RefaugError(
                f"the work does not fit: {_first_line(error)}", remedy="give more with --memory"
            ) from error
        if any(sign in text for sign in _GONE_SIGNS):
            raise Conflict(
                f"a file was replaced while it was read: {_first_line(error)}", remedy="run it again"
            ) from error
        raise RefaugError(f"the log engine failed: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def quoted(path: Path) -> str:
    """A path as an SQL string; paths are ours, but a home folder may hold a quote."""
    return "'" + str(path).replace("'", "''") + "'"


def parquet(paths: Sequence[Path]) -> str:
    """A table function over Parquet files, in the order given; its `file_index` and `file_row_number` count from 0."""
    # A folder named `dialogue=prod` is no column of ours: DuckDB would read it as one.
    return f"read_parquet([{', '.join(map(quoted, paths))}], hive_partitioning = false)"
