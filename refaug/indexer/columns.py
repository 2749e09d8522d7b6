"""Columns on disk, written in pieces and read through memory maps: numbers as .npy files, texts as Arrow files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import DTypeLike, NDArray

from refaug.core.errors import Corrupt
from refaug.core.files import storage_errors, sync_file

ROWS_A_BATCH: Final = 65_536  # in every record batch of a text file but the last: a row's number gives its position
_REMEDY: Final = "build it again, or fetch it again from where it came"
# The header that numpy writes for an array of numbers in C order; any other file is refused.
_HEADER: Final = re.compile(
    rb"\x93NUMPY\x01\x00(?P<length>..)"
    rb"\{'descr': '(?P<dtype>[^']+)', 'fortran_order': False, 'shape': \((?P<shape>\d+,|\d+, \d+)\), \} *\n",
    re.DOTALL,
)


class _Writer:
    """Base of the two writers; as a context manager it finishes the file only when the block ends without error."""

    rows = 0

    def close(self) -> int:
        """Finish the file, sync it to disk and return the number of rows."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Close a half-written file and leave it: its folder never becomes an artefact."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


class NpyWriter(_Writer):
    """Writes an array piece by piece; a row is one number, or as many as `width` or the first piece says."""

    def __init__(self, path: Path, dtype: DTypeLike, *, width: int | None = None) -> None:
        self.path, self.dtype = path, np.dtype(dtype)
        self._row: tuple[int, ...] | None = None if width is None else (width,)  # None: not yet known
        with storage_errors(path):
            self._file = path.open("wb")
            self._write_header()

    def append(self, values: NDArray[Any]) -> None:
        """Append rows of exactly the declared type."""
        if self._row is None:
            self._row = values.shape[1:]
        assert values.dtype == self.dtype, (self.path, values.dtype)
        assert values.shape[1:] == self._row, (self.path, values.shape)
        with storage_errors(self.path):
            self._file.write(np.ascontiguousarray(values).data)
        self.rows += len(values)

    def close(self) -> int:
        """Write the number of rows into the header and finish."""
        if not self._file.closed:
            try:
                with storage_errors(self.path):
                    self._file.seek(0)
                    self._write_header()
                    self._file.close()
                    sync_file(self.path)
            except BaseException:
                self.abandon()
                raise
        return self.rows

    def abandon(self) -> None:
        """Leave a header that says no rows."""
        with suppress(OSError):  # on a full disk, the buffer cannot be written
            self._file.close()

    def _write_header(self) -> None:
        """Write a header whose length is the same for any number of rows: numpy reserves room for growth."""
        shape = (self.rows, *(self._row or ()))
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)


def map_array(path: Path, dtype: DTypeLike) -> NDArray[Any]:
    """Return a .npy file as a read-only array that is read on access."""
    expected = np.dtype(dtype)
    try:
        with path.open("rb") as file:
            match = _HEADER.match(file.read(256))
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise Corrupt(f"{path} is missing", remedy=_REMEDY) from error
    if match is None or match.end() != 10 + int.from_bytes(match["length"], "little"):
        raise Corrupt(f"{path}: a .npy file of {expected} was expected, its header is another", remedy=_REMEDY)
    if match["dtype"].decode("latin-1") != expected.str:
        actual = match["dtype"].decode("latin-1")
        raise Corrupt(f"{path}: numbers of type {expected.str} were expected, {actual} were found", remedy=_REMEDY)
    shape = tuple(int(length) for length in match["shape"].split(b",") if length)
    whole = match.end() + expected.itemsize * int(np.prod(shape, dtype=object))
    if size != whole:
        raise Corrupt(f"{path}: {whole:,} bytes were expected for shape {shape}, {size:,} were found", remedy=_REMEDY)
    if 0 in shape:
        return np.empty(shape, expected)  # an empty file cannot be mapped
    return np.asarray(np.memmap(path, expected, "r", match.end(), shape))


class TextWriter(_Writer):
    """Writes columns of texts in record batches of ROWS_A_BATCH rows, whatever pieces the texts come in."""

    def __init__(self, path: Path, columns: Sequence[str] = ("text",)) -> None:
        self.path = path
        self.text_bytes = 0
        self._schema = pa.schema([(column, pa.string()) for column in columns])
        self._pending: list[pa.RecordBatch] = []  # less than a batch
        with storage_errors(path):
            self._file = pa.OSFile(str(path), "wb")
            self._writer = pa.ipc.new_file(self._file, self._schema)

    def append(self, *columns: pa.StringArray) -> None:
        """Append rows, one array a column."""
        rows = pa.RecordBatch.from_arrays(list(columns), schema=self._schema)
        self.rows += rows.num_rows
        self.text_bytes += sum(int(pa.compute.sum(pa.compute.binary_length(column)).as_py() or 0) for column in columns)
        self._pending.append(rows)
        pending_rows = sum(batch.num_rows for batch in self._pending)
        if pending_rows >= ROWS_A_BATCH:
            self._write(pending_rows - pending_rows % ROWS_A_BATCH)

    def close(self) -> int:
        """Write the last batch, however small, and finish."""
        if not self._file.closed:
            self._write(sum(batch.num_rows for batch in self._pending))
            with storage_errors(self.path):
                self._writer.close()
                self._file.close()
                sync_file(self.path)
        return self.rows

    def abandon(self) -> None:
        """Leave a file without the footer that readers need."""
        self._file.close()

    def _write(self, count: int) -> None:
        table = pa.Table.from_batches(self._pending, self._schema)
        self._pending = table.slice(count).to_batches()
        with storage_errors(self.path):
            for start in range(0, count, ROWS_A_BATCH):
                rows = table.slice(start, min(ROWS_A_BATCH, count - start))
                columns = [_copy(column) for column in rows.columns]
                self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))


def _copy(column: pa.ChunkedArray) -> pa.StringArray:
    """Return one contiguous array: for a view, Arrow would write padding that depends on how the rows arrived."""
    return pa.concat_arrays([*column.chunks, pa.array([], pa.string())])


def text_batches(path: Path, column: str = "text") -> Iterator[pa.StringArray]:
    """Yield the texts of one column in order, ROWS_A_BATCH at a time, read on access."""
    yield from _mapped_texts(path, column)


def _mapped_texts(path: Path, column: str) -> list[pa.StringArray]:
    try:
        with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
            column_type = reader.schema.field(column).type
            batches = [reader.get_batch(number).column(column) for number in range(reader.num_record_batches)]
        for batch in batches:
            batch.validate()
    except FileNotFoundError as error:
        raise Corrupt(f"{path} is missing", remedy=_REMEDY) from error
    except KeyError as error:
        raise Corrupt(f"{path}: a column {column!r} was expected; there is none", remedy=_REMEDY) from error
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(f"{path}: an Arrow file was expected; {error}", remedy=_REMEDY) from error
    if column_type != pa.string():
        raise Corrupt(f"{path}: column {column!r} was expected to hold strings, it holds {column_type}", remedy=_REMEDY)
    sizes = [len(batch) for batch in batches]
    if sizes and (set(sizes[:-1]) - {ROWS_A_BATCH} or not 0 < sizes[-1] <= ROWS_A_BATCH):
        raise Corrupt(f"{path}: batches of {ROWS_A_BATCH:,} rows were expected, {sizes} were found", remedy=_REMEDY)
    return batches


_FEW: Final = 64  # rows that are quicker to read one by one


def _raw(batch: pa.StringArray) -> tuple[memoryview, memoryview] | None:
    """Return the ends and the bytes of a batch's texts as they lie in the file; None if some texts are null."""
    if batch.null_count:
        return None
    _, ends, content = batch.buffers()
    first = batch.offset
    return memoryview(ends).cast("i")[first : first + len(batch) + 1], memoryview(content or b"")


class TextColumn:
    """The texts of one column by row number; several threads may read at once."""

    def __init__(self, path: Path, batches: Sequence[pa.StringArray], column: str = "text") -> None:
        self.path, self.column = path, column
        self._batches = batches
        self._rows = sum(map(len, batches))
        self._raw = [_raw(batch) for batch in batches]

    @classmethod
    def open(cls, path: Path, column: str = "text") -> Self:
        """Map a file that a TextWriter wrote."""
        return cls(path, _mapped_texts(path, column), column)

    def __len__(self) -> int:
        return self._rows

    def problem(self) -> str | None:
        """Read all texts, and return what is wrong with them: places outside the file, or bytes that are no UTF-8."""
        try:
            for batch in self._batches:
                batch.validate(full=True)
        except pa.ArrowException as error:
            return f"the texts of {self.column!r} are damaged: {error}"
        return None

    def take(self, rows: NDArray[np.int64]) -> list[str | None]:
        """Return the texts of these rows, in this order; a row may occur several times."""
        if not len(rows):
            return []
        if len(rows) <= _FEW:
            self._require(int(rows.min()))
            self._require(int(rows.max()))
            return [self._text(row) for row in rows.tolist()]
        order = np.argsort(rows, kind="stable")
        texts = self.take_ascending(rows[order]).to_numpy(zero_copy_only=False)  # of Python's strings
        in_order = np.empty_like(texts)
        in_order[order] = texts
        answer: list[str | None] = in_order.tolist()
        return answer

    def take_ascending(self, rows: NDArray[np.int64]) -> pa.StringArray:
        """Return the texts of rows in ascending order as one array."""
        if not len(rows):
            return pa.array([], pa.string())
        self._require(int(rows[0]))
        self._require(int(rows[-1]))
        numbers, places = np.divmod(rows, ROWS_A_BATCH)
        firsts = np.flatnonzero(np.diff(numbers, prepend=-1))  # where the rows of a further batch begin
        return pa.concat_arrays(
            self._batches[numbers[first]].take(pa.array(places[first:last]))
            for first, last in zip(firsts, [*firsts[1:], len(rows)], strict=True)
        )

    def _text(self, row: int) -> str | None:
        batch, at = row // ROWS_A_BATCH, row % ROWS_A_BATCH
        if (raw := self._raw[batch]) is None:
            text: str | None = self._batches[batch][at].as_py()
            return text
        ends, content = raw
        return str(content[ends[at] : ends[at + 1]], "utf-8")

    def _require(self, row: int) -> None:
        if not 0 <= row < self._rows:
            raise IndexError(f"{self.path} has {self._rows:,} rows; row {row:,} is not there")
