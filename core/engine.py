"""The log engine: DuckDB under a memory limit, spilling to a folder of its own. The only importer of duckdb."""

from __future__ import annotations

import _thread
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import duckdb
import pyarrow as pa

from core.errors import Conflict, RefaugError, StorageFull
from core.files import hold, is_held, make_folder, remove_tree, unique

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
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
        """Let another thread do it, since a query leaves no gap in which this one could hear of Ctrl-C.

        The two share two lists and no lock: Ctrl-C may come at any point, and a lock that it left behind would be held
        for ever.
        """
        begun, ended = list[bool](), list[tuple[Answer | None, BaseException | None]]()

        def run() -> None:
            begun.append(True)
            try:
                ended.append((work(), None))
            except BaseException as error:  # noqa: BLE001  it is raised where the answer is awaited
                ended.append((None, error))

        with _errors(self._scratch):
            try:
                _thread.start_new_thread(run, ())
                pause = 0.0002
                while not ended:
                    time.sleep(pause)
                    pause = min(2 * pause, 0.05)
            except KeyboardInterrupt:
                for _ in range(100):
                    if not begun:
                        time.sleep(0.002)
                while begun and not ended:
                    connection.interrupt()  # again, since one that comes before the query has begun is forgotten
                    time.sleep(0.02)
                raise
            answer, error = ended[0]
            if error is not None:
                raise error
            return answer  # type: ignore[return-value]


def scratch_in(cache: Path) -> Path:
    """A folder for an engine; those of processes that are gone are removed."""
    for left in cache.glob("engine-*"):
        if (left / IN_USE).exists() and not is_held(left / IN_USE):
            remove_tree(left)
    return cache / f"engine-{unique()}"


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
