"""Containers: how a file holds rows. Blocks are cut in the parent, rows are taken out of them in a worker.

A container yields blocks (cheap, in order) and turns a block into rows: mappings from a field's name to its value,
each with the line or row number it came from. What the fields mean is the business of `core.logs.shapes`.
"""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from core.errors import BadInput, DamagedSource
from core.logs.sources import BadRow, LineBlock, LineReader, Source

Row = Mapping[str, Any]
_ROWS_A_BLOCK: Final = 20_000
_BLOCK_CHARS: Final = 8 << 20
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


def _in_blocks(rows: Iterable[tuple[int, Sequence[Any] | BadRow]]) -> Iterator[RowBlock]:
    """Rows with their lines, some thousand at a time, fewer where they are long."""
    lines, held, size = list[int](), list[Sequence[Any] | BadRow](), 0
    for line, row in rows:
        lines.append(line)
        held.append(row)
        size += 0 if isinstance(row, BadRow) else sum(map(len, row))
        if len(held) == _ROWS_A_BLOCK or size >= _BLOCK_CHARS:
            yield RowBlock(lines=lines, rows=held)
            lines, held, size = [], [], 0
    if held:
        yield RowBlock(lines=lines, rows=held)


def csv_blocks(reader: LineReader, *, columns: int = 0) -> Iterator[Block]:
    """CSV with quoted fields, which may hold newlines: only a parser can find where a row ends.

    How many columns there are tells a row over several lines from a stray quote; 0: as many as the first row has.
    """
    return _in_blocks(_csv_rows(reader, columns))


def _csv_rows(reader: LineReader, columns: int) -> Iterator[tuple[int, Sequence[str] | BadRow]]:
    """Rows with their first line; a stray quote costs the line it stands on, not the rest of the file."""
    csv.field_size_limit(_CSV_FIELD_BYTES)
    lines = _Lines(reader)
    parser = csv.reader(lines)
    while True:
        start = lines.begin_row()
        fields, trouble = _next_row(parser)
        yield from ((bad.line, bad) for bad in lines.take_bad())
        if lines.unclosed:
            trouble = f"a quote is opened and not closed: no end {lines.unclosed}"
        elif fields is not None and lines.taken > 1 and len(fields) != columns > 0:
            count = f"{len(fields)} fields over {lines.taken} lines where {columns} are expected"
            trouble = f"a quote is opened and not closed: {count}"
        if trouble:
            yield start, BadRow(line=start, reason="csv", message=trouble, excerpt=excerpt(lines.first))
            lines.back_to_second_line()
            parser = csv.reader(lines)
        elif fields is None:
            return
        elif fields and not lines.holed:
            columns = columns or len(fields)
            yield start, fields


def _next_row(parser: Iterator[list[str]]) -> tuple[list[str] | None, str]:
    """The parser's next row, None at the end; or what it complains of."""
    try:
        return next(parser, None), ""
    except csv.Error as error:
        # Its own words for a carriage return are advice to programmers.
        return None, "a carriage return inside a line" if "new-line" in str(error) else f"not CSV: {error}"


class _Lines:
    """Text lines for the csv parser, which can be taken back as far as the second line of the current row."""

    def __init__(self, reader: LineReader) -> None:
        self._source = _numbered_lines(reader)
        self._again: deque[tuple[int, str]] = deque()
        self._row: list[tuple[int, str]] = []
        self._bad: list[BadRow] = []
        self.unclosed = ""  # how far a quoted field went without an end
        self.holed = False  # whether a line inside the current row could not be read

    @property
    def taken(self) -> int:
        return len(self._row)

    @property
    def first(self) -> str:
        return self._row[0][1].rstrip("\n") if self._row else ""

    def begin_row(self) -> int:
        """Forget the row before; the number of the line that comes next."""
        self._row, self.unclosed, self.holed = [], "", False
        self._look_ahead()
        return self._again[0][0] if self._again else 0

    def take_bad(self) -> list[BadRow]:
        bad, self._bad = self._bad, []
        return bad

    def back_to_second_line(self) -> None:
        self._again.extendleft(reversed(self._row[1:]))

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        if len(self._row) == _CSV_LINES_A_ROW:
            self.unclosed = f"within {_CSV_LINES_A_ROW:,} lines"
            raise StopIteration
        self._look_ahead()
        if not self._again:
            if self._row:  # the parser asks for more in the middle of a row, so it is inside quotes
                self.unclosed = "before the file's"
            raise StopIteration
        self._row.append(self._again.popleft())
        return self._row[-1][1]

    def _look_ahead(self) -> None:
        """See to it that the next readable line is at hand; unreadable ones on the way are kept as bad rows."""
        while not self._again:
            number, line = next(self._source, (0, None))
            if line is None:
                return
            if isinstance(line, str):
                self._again.append((number, line + "\n"))
            else:
                self._bad.append(line)
                self.holed = bool(self._row)


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
    return _in_blocks(_aligned_rows(utterances, responses))


def _aligned_rows(utterances: LineReader, responses: LineReader) -> Iterator[tuple[int, Sequence[str] | BadRow]]:
    for left, right in zip_longest(_numbered_lines(utterances), _numbered_lines(responses)):
        for reader, side in ((utterances, left), (responses, right)):
            if side is not None and isinstance(side[1], BadRow):
                _require_countable(reader, side[1])
        if left is None or right is None:
            raise _uneven(utterances, responses)
        number, utterance = left
        response = right[1]
        if isinstance(utterance, BadRow):
            yield number, _in_file(utterances, utterance)
        elif isinstance(response, BadRow):
            yield number, _in_file(responses, response)
        else:
            yield number, (utterance, response)


def _in_file(reader: LineReader, bad: BadRow) -> BadRow:
    """The bad row, saying in which of the two files it is."""
    return replace(bad, message=f"in {reader.source.path.name}: {bad.message}")


def parlai_blocks(reader: LineReader) -> Iterator[Block]:
    """ParlAI's text format: `text:… TAB labels:…|… TAB episode_done:True`; an episode becomes one row of turns."""
    return _in_blocks(_parlai_rows(reader))


def _parlai_rows(reader: LineReader) -> Iterator[tuple[int, Sequence[Any] | BadRow]]:
    """Rows of turns and an id, which only further labels need: several of them stand on one line.

    A line that cannot be used ends the episode, since what follows it does not answer what came before.
    """
    start, turns = 0, list[str]()
    for number, line in _numbered_lines(reader):
        if isinstance(line, str) and not line.strip():
            continue
        exchange = line if isinstance(line, BadRow) else _exchange(number, line)
        if not turns:
            start = number
        if isinstance(exchange, _Exchange):
            turns += (exchange.text, exchange.labels[0])
            for nth, label in enumerate(exchange.labels[1:], 2):
                yield number, ([exchange.text, label], f"{reader.source.fingerprint}:{number}.{nth}")
        if turns and (isinstance(exchange, BadRow) or exchange.is_last):
            yield start, (turns, "")
            turns = []
        if isinstance(exchange, BadRow):
            yield number, exchange
    if turns:
        yield start, (turns, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exchange:
    """One line of ParlAI's format: what was said, and what may be answered."""

    text: str
    labels: Sequence[str]
    is_last: bool


def _exchange(number: int, line: str) -> _Exchange | BadRow:
    fields = {name: value.replace("\\n", "\n") for name, _, value in (f.partition(":") for f in line.split("\t"))}
    labels = [label for label in (fields.get("labels") or fields.get("eval_labels") or "").split("|") if label]
    text = fields.get("text", "").rsplit("\n", 1)[-1]  # lines before the last one are persona or context
    if not text or not labels:
        return BadRow(line=number, reason="fields", message="no text: or no labels: here", excerpt=excerpt(line))
    is_last = fields.get("episode_done", "").strip().lower() == "true"
    return _Exchange(text=text, labels=labels, is_last=is_last)


def require_even(utterances: LineReader, responses: LineReader) -> None:
    """Refuse line-aligned files of different lengths before a row of them is used."""
    if count_lines(utterances) != count_lines(responses):
        raise _uneven(utterances, responses)


def count_lines(reader: LineReader) -> int:
    """Lines of a source, the last one with or without a newline."""
    lines = 0
    for block in reader:
        if block.bad is not None:
            _require_countable(reader, block.bad)
        lines += block.data.count(b"\n") + 1
    return lines


def _require_countable(reader: LineReader, bad: BadRow) -> None:
    """A line that cannot be read is still a line; a file that breaks off has an unknown number of them."""
    if bad.reason == "damaged":
        raise DamagedSource(
            f"{reader.source.path}, line {bad.line:,}: {bad.message}",
            remedy="line-aligned files cannot be used in part",
        )


def _uneven(left: LineReader, right: LineReader) -> BadInput:
    counts = f"{left.source.path} has {count_lines(left):,} lines, {right.source.path} has {count_lines(right):,}"
    return BadInput(f"line-aligned files must be of one length: {counts}")


def parquet_blocks(source: Source) -> Iterator[Block]:
    """Row groups in pieces; a group that cannot be read is a bad row that says which."""
    with open_parquet(source) as file:
        row = 0
        for group in range(file.num_row_groups):
            first, rows = row, file.metadata.row_group(group).num_rows
            fitting = _BLOCK_CHARS * rows // max(1, file.metadata.row_group(group).total_byte_size)
            size = min(_ROWS_A_BLOCK, max(1, fitting))
            try:
                for batch in file.iter_batches(batch_size=size, row_groups=[group], use_threads=False):
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
        return pq.ParquetFile(source.path, page_checksum_verification=True)
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
    return why_not_utf8(line) or f"not JSON at character {error.colno:,}: {error.msg}"


def why_not_utf8(line: bytes) -> str | None:
    """Which byte breaks the encoding, and what to try; None when the line is well encoded."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        if _UNDECODABLE.match(line, error.start):  # put there by core.logs.sources, which decodes other encodings
            byte = (line[error.start + 1] << 6 | line[error.start + 2] & 0x3F) & 0xFF
            before = len(line[: error.start].decode())
            return f"byte 0x{byte:02x} after {before} characters is not of the file's encoding, or is half a character"
        wrong = line[error.start]
        return f"not UTF-8 at byte {error.start} (0x{wrong:02x}): if the file is in Latin-1, say --encoding latin-1"
    return None


_UNDECODABLE: Final = re.compile(rb"\xed[\xb0-\xb3][\x80-\xbf]")  # U+DC00 to U+DCFF


def excerpt(line: bytes | str) -> str:
    """The beginning of a bad line, harmless to print."""
    text = line if isinstance(line, str) else line[:_EXCERPT].decode(errors="backslashreplace")
    return "".join(character if character.isprintable() else "\ufffd" for character in text[:_EXCERPT])


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
    return BadRow(line=number, reason="fields", message=message, excerpt=excerpt("\t".join(map(str, fields))))


def arrow_rows(block: ArrowBlock) -> Iterator[tuple[int, Row] | BadRow]:
    """Rows of a Parquet batch, numbered from 0 as Parquet tools do."""
    with pa.ipc.open_stream(block.data) as reader:
        table = _with_plain_times(reader.read_all())
    try:
        yield from enumerate(table.to_pylist(), block.first_row)
    except _NOT_PYTHON:
        for index in range(table.num_rows):
            yield _arrow_row(table.slice(index, 1), block.first_row + index)


# Text that is not UTF-8 is a ValueError, as is a year that Python does not have; an unknown time zone is a KeyError.
_NOT_PYTHON: Final = (ValueError, OverflowError, KeyError)


def _arrow_row(table: pa.Table, number: int) -> tuple[int, Row] | BadRow:
    try:
        return number, table.to_pylist()[0]
    except _NOT_PYTHON as error:
        return BadRow(line=number, reason="fields", message=f"a value cannot be read: {error}", place="row")


def _with_plain_times(table: pa.Table) -> pa.Table:
    """Times in microseconds of UTC: Python has no nanoseconds, and a minimal machine no time zones."""
    for index, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            plain = table.column(index).cast(pa.timestamp("us"), safe=False)
            table = table.set_column(index, column.name, plain)
    return table
