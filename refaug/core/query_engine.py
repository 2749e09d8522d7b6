"""The log engine: DuckDB with a memory limit, spilling to a scratch folder; the only importer of duckdb."""

from __future__ import annotations

import _thread
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import duckdb
import pyarrow as pa

from refaug.core.backoff import Backoff
from refaug.core.errors import Conflict, Corrupt, RefaugError, StorageFull
from refaug.core.files import make_folder, remove_tree, unique_suffix
from refaug.core.processes.live_file import IN_USE, LiveFile

# Memory of the process besides DuckDB's limit: Python, Arrow, and what the limit does not count (measured).
_BESIDE: Final = 192 << 20
_LEAST: Final = 128 << 20
_A_THREAD: Final = 256 << 20  # a sort of wide rows needs this much for each; with less it fails instead of spilling
_FULL_SIGNS: Final = ("No space left", "File too large", "Disk quota", "max_temp_directory_size")
_GONE_SIGNS: Final = ("No files found", "No such file")
_COLUMN_SIGN: Final = "not found in FROM clause"  # a file lacks a column that every part of a log has
_OWN_MISTAKES: Final = (
    duckdb.ParserException,
    duckdb.SyntaxException,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.InternalException,
    duckdb.InterruptException,
)

Answer = TypeVar("Answer")


class QueryEngine:
    """One connection with a scratch database, which is deleted on closing."""

    def __init__(self, scratch: Path, *, memory: int, threads: int | None = None) -> None:
        remove_tree(scratch)
        self._scratch = scratch
        self._in_use = occupy_scratch(scratch)
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
            with _translate_errors(scratch):
                self._connection = duckdb.connect(str(scratch / "scratch.duckdb"), config=settings)
                self._connection.execute("SET GLOBAL TimeZone = 'UTC'")  # times must not depend on the reader
        except BaseException:
            self._remove_scratch()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._connection.close()
        self._remove_scratch()

    def _remove_scratch(self) -> None:
        try:
            remove_tree(self._scratch)
        finally:
            self._in_use.close()

    def run(self, sql: str, values: Sequence[object] = ()) -> None:
        """Run a statement without an answer."""
        self._run_in_thread(self._connection, lambda: self._connection.execute(sql, list(values) or None))

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return a small answer."""
        return self._run_in_thread(
            self._connection, lambda: self._connection.execute(sql, list(values) or None).fetchall()
        )

    def number(self, sql: str, values: Sequence[object] = ()) -> int:
        """Return an answer of one whole number."""
        return int(self.rows(sql, values)[0][0])

    def batches(self, sql: str, values: Sequence[object] = (), *, size: int = 20_000) -> Iterator[pa.RecordBatch]:
        """Yield a large answer in pieces; it has a separate cursor, so that other queries may run in between."""
        with self._connection.cursor() as cursor:
            reader = self._run_in_thread(
                cursor, lambda: cursor.sql(sql, params=list(values) or None).to_arrow_reader(size)
            )
            while (batch := self._run_in_thread(cursor, partial(next, reader, None))) is not None:
                yield batch

    def _run_in_thread(self, connection: duckdb.DuckDBPyConnection, work: Callable[[], Answer]) -> Answer:
        """Run a query in another thread, since Ctrl-C cannot interrupt this thread during a query.

        The threads share two lists and no lock: Ctrl-C may come at any point, and a lock left behind would
        never be released.
        """
        begun, ended = list[bool](), list[tuple[Answer | None, BaseException | None]]()

        def run() -> None:
            begun.append(True)
            try:
                ended.append((work(), None))
            except BaseException as error:  # noqa: BLE001  raised where the answer is awaited
                ended.append((None, error))

        with _translate_errors(self._scratch):
            try:
                _thread.start_new_thread(run, ())
                pauses = Backoff(0.0002, 0.05)
                while not ended:
                    time.sleep(pauses.next_s())
            except KeyboardInterrupt:
                for _ in range(100):
                    if not begun:
                        time.sleep(0.002)
                while begun and not ended:
                    connection.interrupt()  # repeated, since an interrupt before the query has begun is lost
                    time.sleep(0.02)
                raise
            answer, error = ended[0]
            if error is not None:
                raise error
            return answer  # type: ignore[return-value]


def scratch_in(cache: Path) -> Path:
    """Return a folder for an engine, and remove those of processes that have ended."""
    for folder in cache.glob("engine-*"):
        mark = folder / IN_USE
        if mark.exists():
            if not LiveFile.is_live(mark):
                remove_tree(folder)
        else:  # killed before it was marked, or about to be marked: `occupy_scratch` then makes it again
            with suppress(FileNotFoundError):
                LiveFile.remove_unfinished(mark)
            with suppress(OSError):  # not empty
                folder.rmdir()
    return cache / f"engine-{unique_suffix()}"


def occupy_scratch(scratch: Path) -> LiveFile:
    """Make a scratch folder and mark it as in use, once more where another process took it for a leftover."""
    while True:
        make_folder(scratch)
        with suppress(FileNotFoundError):
            return LiveFile(scratch / IN_USE)


@contextmanager
def _translate_errors(scratch: Path) -> Iterator[None]:
    """Turn DuckDB's errors into ours: a full disk is StorageFull, too little memory says what to change."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        text, message = str(error), f"{scratch}: {_first_line(error)}"
        if any(sign in text for sign in _FULL_SIGNS):
            raise StorageFull(message, remedy="free some room and run the same command again") from error
        if isinstance(error, duckdb.OutOfMemoryException):
            raise RefaugError(
                f"the work does not fit: {_first_line(error)}", remedy="give more with --memory"
            ) from error
        if any(sign in text for sign in _GONE_SIGNS):
            raise Conflict(
                f"a file was replaced while it was read: {_first_line(error)}", remedy="run it again"
            ) from error
        if isinstance(error, duckdb.Error) and str(scratch) not in text and _is_of_file(error):
            raise Corrupt(
                f"the log engine cannot read a file: {_first_line(error)}",
                remedy="refaug log verify names the file; restore it from a backup, or ingest again",
            ) from error
        raise RefaugError(f"the log engine failed: {_first_line(error)}") from error


def _is_of_file(error: duckdb.Error) -> bool:
    """Return whether a file is damaged: the queries are ours, and are right for a file that is whole."""
    return not isinstance(error, _OWN_MISTAKES) or _COLUMN_SIGN in str(error)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def quote_path(path: Path) -> str:
    """Return a path as an SQL string; a home folder's name may contain a quote."""
    return "'" + str(path).replace("'", "''") + "'"


def parquet(paths: Sequence[Path]) -> str:
    """Return a table function over Parquet files in order; its `file_index` and `file_row_number` count from 0."""
    # DuckDB would read a folder named `dialogue=prod` as a column.
    return f"read_parquet([{', '.join(map(quote_path, paths))}], hive_partitioning = false)"
