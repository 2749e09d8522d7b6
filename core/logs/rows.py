"""Containers: how a file holds rows. Blocks are cut in the parent, rows are taken out of them in a worker.

A container yields blocks (cheap, in order) and turns a block into rows: mappings from a field's name to its value,
each with the line or row number it came from. What the fields mean is the business of `core.logs.shapes`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from core.errors import BadInput, DamagedSource
from core.logs.sources import BadRow, LineBlock, LineReader, Source

Row = Mapping[str, Any]
_ROWS_A_BLOCK: Final = 20_000
_EXCERPT: Final = 80
_CSV_FIELD_BYTES: Final = 1 << 20
_CSV_LINES_A_ROW: Final = 1_000  # more lines inside one quoted field are taken for a quote that never closes


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBlock:
    """Rows that had to be split in the parent already, each with the line where it starts."""

    lines: Sequence[int]
    rows: Sequence[Sequence[Any] | BadRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowBlock:
    """Rows of a Parquet file, as the bytes of an Arrow stream."""

    first_row: int
    data: bytes
    bad: BadRow | None = None


Block = LineBlock | RowBlock | ArrowBlock


# ── blocks, in the parent ─────────────────────────────────────────────────────────────────────────────────────────


def csv_blocks(reader: LineReader) -> Iterator[Block]:
    """CSV with quoted fields, which may hold newlines: only a parser can find where a row ends."""
    lines, rows = list[int](), list[Sequence[str] | BadRow]()
    for line, row in _csv_rows(reader):
        lines.append(line)
        rows.append(row)
        if len(rows) == _ROWS_A_BLOCK:
            yield RowBlock(lines=lines, rows=rows)
            lines, rows = [], []
    if rows:
        yield RowBlock(lines=lines, rows=rows)


def _csv_rows(reader: LineReader) -> Iterator[tuple[int, Sequence[str] | BadRow]]:
    """Rows with their first line; a stray quote costs the line it stands on, not the rest of the file."""
    csv.field_size_limit(_CSV_FIELD_BYTES)
    lines = _Lines(reader)
    parser = csv.reader(lines)
    columns = 0
    while True:
        start = lines.begin_row()
        try:
            fields: Sequence[str] | None = next(parser, None)
        except csv.Error as error:
            fields = None
            lines.trouble = lines.trouble or str(error)
        yield from ((bad.line, bad) for bad in lines.take_bad())
        columns = columns or len(fields or ())
        if lines.trouble or (fields is not None and len(fields) != columns and lines.taken > 1):
            why = lines.trouble or f"{len(fields or ())} fields over {lines.taken} lines where {columns} are expected"
            yield start, BadRow(line=start, reason="csv", message=f"a quote is opened and not closed: {why}")
            lines.back_to_second_line()
            parser = csv.reader(lines)
        elif fields is None:
            return
        elif fields:
            yield start, fields


class _Lines:
    """Text lines for the csv parser, which can be taken back as far as the second line of the current row."""

    def __init__(self, reader: LineReader) -> None:
        self._source = _numbered_lines(reader)
        self._again: list[tuple[int, str]] = []
        self._row: list[tuple[int, str]] = []
        self._bad: list[BadRow] = []
        self.trouble = ""

    @property
    def taken(self) -> int:
        return len(self._row)

    def begin_row(self) -> int:
        """Forget the row before; the number of the line that comes next."""
        self._row, self.trouble = [], ""
        if not self._again:
            self._again.extend(self._take())
        return self._again[0][0] if self._again else 0

    def take_bad(self) -> list[BadRow]:
        bad, self._bad = self._bad, []
        return bad

    def back_to_second_line(self) -> None:
        self._again = self._row[1:] + self._again

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        if len(self._row) == _CSV_LINES_A_ROW:
            self.trouble = f"no end within {_CSV_LINES_A_ROW} lines"
            raise StopIteration
        if not self._again:
            self._again.extend(self._take())
        if not self._again:
            if sum(line.count('"') for _, line in self._row) % 2:
                self.trouble = "no end before the file's"
            raise StopIteration
        self._row.append(self._again.pop(0))
        return self._row[-1][1]

    def _take(self) -> Iterator[tuple[int, str]]:
        """The next readable line, if there is one; unreadable ones on the way are kept as bad rows."""
        for number, line in self._source:
            if isinstance(line, str):
                yield number, line + "\n"
                return
            self._bad.append(line)


def _numbered_lines(reader: LineReader) -> Iterator[tuple[int, str | BadRow]]:
    """Decoded lines with their numbers; one that is not UTF-8 is a bad row."""
    for block in reader:
        if block.bad is not None:
            yield block.bad.line, block.bad
            continue
        for number, line in enumerate(block.data.split(b"\n"), block.first_line):
            yield number, _decoded(number, line.removesuffix(b"\r"))


def _decoded(number: int, line: bytes) -> str | BadRow:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return BadRow(line=number, reason="encoding", message=why_not_utf8(line) or "", excerpt=excerpt(line))


def aligned_blocks(utterances: LineReader, responses: LineReader) -> Iterator[Block]:
    """Line i of one file answers line i of the other; what breaks the counting ends the reading."""
    lines, rows = list[int](), list[Sequence[str] | BadRow]()
    pairs = zip_longest(_numbered_lines(utterances), _numbered_lines(responses))
    for left, right in pairs:
        if left is None or right is None:
            raise _uneven(utterances, responses)
        bad = next((side for side in (left[1], right[1]) if isinstance(side, BadRow)), None)
        if bad is not None and bad.reason == "damaged":
            raise DamagedSource(
                f"{(utterances if bad is left[1] else responses).source.path}, line {bad.line}: {bad.message}",
                remedy="line-aligned files cannot be used in part",
            )
        lines.append(left[0])
        rows.append(bad if bad is not None else (str(left[1]), str(right[1])))
        if len(rows) == _ROWS_A_BLOCK:
            yield RowBlock(lines=lines, rows=rows)
            lines, rows = [], []
    if rows:
        yield RowBlock(lines=lines, rows=rows)


def parlai_blocks(reader: LineReader) -> Iterator[Block]:
    """ParlAI's text format: `text:… TAB labels:…|… TAB episode_done:True`; an episode becomes one row of turns."""
    lines, rows = list[int](), list[Sequence[Any] | BadRow]()
    start, turns = 0, list[str]()
    for number, line in _numbered_lines(reader):
        if isinstance(line, BadRow):
            lines.append(number)
            rows.append(line)
            continue
        if not line.strip():
            continue
        fields = {name: value.replace("\\n", "\n") for name, _, value in (f.partition(":") for f in line.split("\t"))}
        labels = (fields.get("labels") or fields.get("eval_labels") or "").split("|")
        text = fields.get("text", "").rsplit("\n", 1)[-1]  # lines before the last one are persona or context
        if not text or not labels[0]:
            lines.append(number)
            rows.append(BadRow(line=number, reason="fields", message="no text: or no labels: here", excerpt=line[:80]))
            continue
        start = start or number
        turns += (text, labels[0])
        for other in labels[1:]:
            lines.append(number)
            rows.append(([text, other],))
        if fields.get("episode_done", "").strip().lower() == "true":
            lines.append(start)
            rows.append((turns,))
            start, turns = 0, []
        if len(rows) >= _ROWS_A_BLOCK:
            yield RowBlock(lines=lines, rows=rows)
            lines, rows = [], []
    if turns:
        lines.append(start)
        rows.append((turns,))
    if rows:
        yield RowBlock(lines=lines, rows=rows)


def require_even(utterances: LineReader, responses: LineReader) -> None:
    """Refuse line-aligned files of different lengths before a row of them is used."""
    if count_lines(utterances) != count_lines(responses):
        raise _uneven(utterances, responses)


def count_lines(reader: LineReader) -> int:
    """Lines of a source, the last one with or without a newline."""
    return sum(block.data.count(b"\n") + 1 for block in reader)


def _uneven(left: LineReader, right: LineReader) -> BadInput:
    counts = f"{left.source.path} has {count_lines(left):,} lines, {right.source.path} has {count_lines(right):,}"
    return BadInput(f"line-aligned files must be of one length: {counts}")


def parquet_blocks(source: Source) -> Iterator[Block]:
    """Row groups in pieces; a group that cannot be read is a bad row that says which."""
    with open_parquet(source) as file:
        row = 0
        for group in range(file.num_row_groups):
            first, rows = row, file.metadata.row_group(group).num_rows
            try:
                for batch in file.iter_batches(batch_size=_ROWS_A_BLOCK, row_groups=[group], use_threads=False):
                    yield ArrowBlock(first_row=row, data=_ipc(batch))
                    row += batch.num_rows
            except (OSError, pa.ArrowException) as error:
                message = f"row group {group} (rows {first:,} to {first + rows - 1:,}) cannot be read: {error}"
                bad = BadRow(line=row, reason="damaged", message=message, place="row")
                yield ArrowBlock(first_row=row, data=b"", bad=bad)
            row = first + rows


def open_parquet(source: Source) -> pq.ParquetFile:
    """The file, or DamagedSource: a Parquet file that was cut has lost its table of contents."""
    try:
        return pq.ParquetFile(source.path)
    except (OSError, pa.ArrowException) as error:
        raise DamagedSource(f"{source.path} is not a whole Parquet file: {error}") from error


def _ipc(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


# ── rows, in a worker ─────────────────────────────────────────────────────────────────────────────────────────────


def json_rows(block: LineBlock) -> Iterator[tuple[int, Row] | BadRow]:
    """One JSON object a line; empty lines are passed over."""
    for number, line in enumerate(block.data.split(b"\n"), block.first_line):
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            if line and not line.isspace():
                yield BadRow(line=number, reason="json", message=_why_not_json(line, error), excerpt=excerpt(line))
            continue
        if type(row) is dict:
            yield number, row
        else:
            message = f"a JSON object was expected, found {type(row).__name__}"
            yield BadRow(line=number, reason="json", message=message, excerpt=excerpt(line))


def _why_not_json(line: bytes, error: orjson.JSONDecodeError) -> str:
    if b"\0" in line:
        return f"{line.count(0):,} NUL bytes: the file was cut off by a crash, or is not UTF-8"
    return why_not_utf8(line) or f"not JSON: {error}"


def why_not_utf8(line: bytes) -> str | None:
    """Which byte breaks the encoding, and what to try; None when the line is well encoded."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        wrong = line[error.start]
        return f"not UTF-8 at byte {error.start} (0x{wrong:02x}): if the file is in Latin-1, say --encoding latin-1"
    return None


def excerpt(line: bytes) -> str:
    """The beginning of a bad line, harmless to print."""
    text = line[:_EXCERPT].decode(errors="backslashreplace")
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def tab_rows(block: LineBlock, columns: Sequence[str]) -> Iterator[tuple[int, Row] | BadRow]:
    """Tab-separated fields, in which quotes mean nothing."""
    for number, line in enumerate(block.data.split(b"\n"), block.first_line):
        if not line.strip():
            continue
        text = _decoded(number, line.removesuffix(b"\r"))
        yield text if isinstance(text, BadRow) else _row(number, text.split("\t"), columns)


def listed_rows(block: RowBlock, columns: Sequence[str]) -> Iterator[tuple[int, Row] | BadRow]:
    """Rows that the parent has split."""
    for number, fields in zip(block.lines, block.rows, strict=True):
        yield fields if isinstance(fields, BadRow) else _row(number, fields, columns)


def _row(number: int, fields: Sequence[Any], columns: Sequence[str]) -> tuple[int, Row] | BadRow:
    if len(fields) == len(columns):
        return number, dict(zip(columns, fields, strict=True))
    message = f"{len(fields)} fields where {len(columns)} are expected ({', '.join(columns)})"
    return BadRow(line=number, reason="fields", message=message, excerpt=excerpt("\t".join(map(str, fields)).encode()))


def arrow_rows(block: ArrowBlock) -> Iterator[tuple[int, Row] | BadRow]:
    """Rows of a Parquet batch, numbered from 0 as Parquet tools do."""
    with pa.ipc.open_stream(block.data) as reader:
        yield from enumerate(reader.read_all().to_pylist(), block.first_row)
