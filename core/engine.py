"""The log engine: DuckDB under a memory limit, spilling to a folder of its own. The only importer of duckdb."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import duckdb
import pyarrow as pa

from core.errors import RefaugError, StorageFull
from core.files import remove_tree

# What the process holds beside DuckDB's own limit: Python, Arrow, and what the limit does not count (measured).
_BESIDE: Final = 192 << 20
_LEAST: Final = 128 << 20
_FULL_SIGNS: Final = ("No space left", "File too large", "Disk quota", "max_temp_directory_size")


class Engine:
    """One connection with a scratch database, gone when it closes."""

    def __init__(self, scratch: Path, *, memory: int, threads: int = 2) -> None:
        remove_tree(scratch)
        scratch.mkdir(parents=True)
        self._scratch = scratch
        limit = max(_LEAST, (memory - _BESIDE) * 3 // 4)
        settings: dict[str, Any] = {
            "memory_limit": f"{limit >> 20}MiB",
            "threads": threads,
            "temp_directory": str(scratch / "spill"),
            "preserve_insertion_order": False,  # every query that has an order says so
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with _errors(scratch):
            self._connection = duckdb.connect(str(scratch / "scratch.duckdb"), config=settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._connection.close()
        remove_tree(self._scratch)

    def run(self, sql: str, values: Sequence[object] = ()) -> None:
        """A statement without an answer."""
        with _errors(self._scratch):
            self._connection.execute(sql, list(values) or None)

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """A small answer."""
        with _errors(self._scratch):
            return self._connection.execute(sql, list(values) or None).fetchall()

    def number(self, sql: str, values: Sequence[object] = ()) -> int:
        """An answer of one whole number."""
        return int(self.rows(sql, values)[0][0])

    def batches(self, sql: str, values: Sequence[object] = (), *, size: int = 20_000) -> Iterator[pa.RecordBatch]:
        """A large answer, piece by piece; on a cursor of its own, so that other queries may run in between."""
        with _errors(self._scratch), self._connection.cursor() as cursor:
            yield from cursor.sql(sql, params=list(values) or None).to_arrow_reader(size)


@contextmanager
def _errors(scratch: Path) -> Iterator[None]:
    """DuckDB's errors in our tree: a full disk is a full disk, too little memory says what to change."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        if any(sign in str(error) for sign in _FULL_SIGNS):
            raise StorageFull(f"{scratch}: {_first_line(error)}") from error
        raise RefaugError(f"the work does not fit: {_first_line(error)}", remedy="give more with --memory") from error
    except (duckdb.Error, pa.ArrowException) as error:
        if any(sign in str(error) for sign in _FULL_SIGNS):
            raise StorageFull(f"{scratch}: {_first_line(error)}", remedy="free some room and run it again") from error
        raise RefaugError(f"the log engine failed: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def quoted(path: Path) -> str:
    """A path as an SQL string; paths are ours, but a home folder may hold a quote."""
    return "'" + str(path).replace("'", "''") + "'"


def parquet(paths: Sequence[Path], *, options: str = "") -> str:
    """A table function over Parquet files, in the order given."""
    return f"read_parquet([{', '.join(map(quoted, paths))}]{options})"
