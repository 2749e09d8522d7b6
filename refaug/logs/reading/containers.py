"""Containers: how a file holds rows. Blocks are cut in the parent process, rows are extracted in a worker.

A container yields blocks (cheap, in order) and turns a block into rows: mappings from a field's name to its value, each
with its line or row number. `refaug.logs.reading.shapes` interprets the fields.
"""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

import orjson

from refaug.core.errors import BadInput, DamagedSource
from refaug.core.text.content_shapes import repeated_key
from refaug.logs.reading.sources import BadRow, LineBlock, LineReader, Source

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Row = Mapping[str, Any]
ROWS_A_BLOCK: Final = 20_000
_BLOCK_CHARS: Final = 8 << 20
_EXCERPT: Final = 80
_CSV_FIELD_BYTES: Final = 1 << 20
_CSV_LINES_A_ROW: Final = 1_000  # a quoted field with more lines is taken for a quote that never closes


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBlock:
    """Rows that the parent process had to split, each with the line where it starts."""

    lines: Sequence[int]
    rows: Sequence[Sequence[Any] | BadRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowBlock:
    """Rows of a Parquet or Arrow file, as the bytes of an Arrow stream."""

    first_row: int
    data: bytes
    bad: BadRow | None = None


Block = LineBlock | RowBlock | ArrowBlock


# ── Blocks, in the parent ─────────────────────────────────────────────────────────────────────────────────────────


def _blocks(rows: Iterable[tuple[int, Sequence[Any] | BadRow]]) -> Iterator[RowBlock]:
    """Yield rows with their lines in blocks of some thousand, fewer if they are long."""
    lines, block_rows, size = list[int](), list[Sequence[Any] | BadRow](), 0
    for line, row in rows:
        lines.append(line)
        block_rows.append(row)
        size += 0 if isinstance(row, BadRow) else sum(map(len, row))
        if len(block_rows) == ROWS_A_BLOCK or size >= _BLOCK_CHARS:
            yield RowBlock(lines=lines, rows=block_rows)
            lines, block_rows, size = [], [], 0
    if block_rows:
        yield RowBlock(lines=lines, rows=block_rows)


def csv_blocks(reader: LineReader, *, columns: int = 0, delimiter: str = ",") -> Iterator[RowBlock]:
    """Yield CSV with quoted fields, which may hold newlines: only a parser can find where a row ends.

    The number of columns distinguishes a row over several lines from a stray quote; 0: as many as the first row
    has.
    """
    return _blocks(_csv_rows(reader, columns, delimiter))


def _csv_rows(reader: LineReader, columns: int, delimiter: str) -> Iterator[tuple[int, Sequence[str] | BadRow]]:
    """Yield rows with their first line; a stray quote costs its line, not the rest of the file."""
    csv.field_size_limit(_CSV_FIELD_BYTES)
    lines = _RowLines(reader)
    parser = csv.reader(lines, delimiter=delimiter)
    while True:
        start = lines.begin_row()
        fields, problem = _next_row(parser)
        yield from ((bad.line, bad) for bad in lines.take_bad())
        if lines.unclosed:
            problem = f"a quote is opened and not closed: no end {lines.unclosed}"
        elif fields is not None and lines.line_count > 1 and len(fields) != columns > 0:
            count = f"{len(fields)} fields over {lines.line_count} lines where {columns} are expected"
            problem = f"a quote is opened and not closed: {count}"
        if problem:
            yield start, BadRow(line=start, reason="csv", message=problem, excerpt=excerpt(lines.first))
            lines.back_to_second_line()
            parser = csv.reader(lines, delimiter=delimiter)
        elif fields is None:
            return
        elif fields and not lines.has_bad_line:
            columns = columns or len(fields)
            yield start, fields


def _next_row(parser: Iterator[list[str]]) -> tuple[list[str] | None, str]:
    """Return the parser's next row, None at the end; or the parser's complaint."""
    try:
        return next(parser, None), ""
    except csv.Error as error:
        # Python's message for a carriage return is advice to programmers.
        return None, "a carriage return inside a line" if "new-line" in str(error) else f"not CSV: {error}"


class _RowLines:
    """Text lines for the csv parser, which can be rewound to the second line of the current row."""

    def __init__(self, reader: LineReader) -> None:
        self._source = numbered_lines(reader)
        self._again: deque[tuple[int, str]] = deque()
        self._row: list[tuple[int, str]] = []
        self._bad: list[BadRow] = []
        self.unclosed = ""  # how far a quoted field went without an end
        self.has_bad_line = False  # whether a line inside the current row could not be read

    @property
    def line_count(self) -> int:
        return len(self._row)

    @property
    def first(self) -> str:
        return self._row[0][1].rstrip("\n") if self._row else ""

    def begin_row(self) -> int:
        """Forget the row before; return the number of the next line."""
        self._row, self.unclosed, self.has_bad_line = [], "", False
        self._look_ahead()
        return self._again[0][0] if self._again else 0

    def take_bad(self) -> list[BadRow]:
        bad, self._bad = self._bad, []
        return bad

    def back_to_second_line(self) -> None:
        self._again.extendleft(reversed(self._row[1:]))

    def __iter__(self) -> _RowLines:
        return self

    def __next__(self) -> str:
        if len(self._row) == _CSV_LINES_A_ROW:
            self.unclosed = f"within {_CSV_LINES_A_ROW:,} lines"
            raise StopIteration
        self._look_ahead()
        if not self._again:
            if self._row:  # the parser needs more in the middle of a row, so it is inside quotes
                self.unclosed = "before the file's"
            raise StopIteration
        self._row.append(self._again.popleft())
        return self._row[-1][1]

    def _look_ahead(self) -> None:
        """Fetch the next readable line; unreadable ones on the way become bad rows."""
        while not self._again:
            number, line = next(self._source, (0, None))
            if line is None:
                return
            if isinstance(line, str):
                self._again.append((number, line + "\n"))
            else:
                self._bad.append(line)
                self.has_bad_line = bool(self._row)


def numbered_lines(reader: LineReader) -> Iterator[tuple[int, str | BadRow]]:
    """Yield decoded lines with their numbers; a line that is not UTF-8 is a bad row."""
    for block in reader:
        if block.bad is not None:
            yield block.bad.line, block.bad
            continue
        for number, line in enumerate(block.data.split(b"\n"), block.first_line):
            yield number, _decode(number, line.removesuffix(b"\r"))


def _decode(number: int, line: bytes) -> str | BadRow:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return BadRow(line=number, reason="encoding", message=why_not_utf8(line) or "", excerpt=excerpt(line))


def aligned_blocks(utterances: LineReader, responses: LineReader) -> Iterator[Block]:
    """Yield pairs of lines with the same number; an error in counting ends the reading."""
    return _blocks(_aligned_rows(utterances, responses))


def _aligned_rows(utterances: LineReader, responses: LineReader) -> Iterator[tuple[int, Sequence[str] | BadRow]]:
    for utterance_line, response_line in zip_longest(numbered_lines(utterances), numbered_lines(responses)):
        for reader, side in ((utterances, utterance_line), (responses, response_line)):
            if side is not None and isinstance(side[1], BadRow):
                _require_countable(reader, side[1])
        if utterance_line is None or response_line is None:
            raise _uneven_error(utterances, responses)
        number, utterance = utterance_line
        response = response_line[1]
        if isinstance(utterance, BadRow):
            yield number, _name_file(utterances, utterance)
        elif isinstance(response, BadRow):
            yield number, _name_file(responses, response)
        else:
            yield number, (utterance, response)


def _name_file(reader: LineReader, bad: BadRow) -> BadRow:
    """Return the bad row with the name of its file."""
    return replace(bad, message=f"in {reader.source.path.name}: {bad.message}")


def parlai_blocks(reader: LineReader) -> Iterator[Block]:
    """Yield ParlAI's text format, `text:… TAB labels:…|… TAB episode_done:True`; an episode is one row of turns."""
    return _blocks(_parlai_rows(reader))


def _parlai_rows(reader: LineReader) -> Iterator[tuple[int, Sequence[Any] | BadRow]]:
    """Yield rows of turns and an id, which only further labels need: several of them stand on one line.

    A line that cannot be used ends the episode, since what follows does not answer what came before.
    """
    start, turns = 0, list[str]()
    for number, line in numbered_lines(reader):
        if isinstance(line, str) and not line.strip():
            continue
        exchange = line if isinstance(line, BadRow) else _parse_parlai_line(number, line)
        if not turns:
            start = number
        if isinstance(exchange, _ParlaiExchange):
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
class _ParlaiExchange:
    """One line of ParlAI's format: an utterance and its possible responses."""

    text: str
    labels: Sequence[str]
    is_last: bool


def _parse_parlai_line(number: int, line: str) -> _ParlaiExchange | BadRow:
    fields = {name: value.replace("\\n", "\n") for name, _, value in (f.partition(":") for f in line.split("\t"))}
    labels = [label for label in (fields.get("labels") or fields.get("eval_labels") or "").split("|") if label]
    text = fields.get("text", "").rsplit("\n", 1)[-1]  # lines before the last one are persona or context
    if not text or not labels:
        return BadRow(line=number, reason="fields", message="no text: or no labels: here", excerpt=excerpt(line))
    is_last = fields.get("episode_done", "").strip().lower() == "true"
    return _ParlaiExchange(text=text, labels=labels, is_last=is_last)


def require_even(utterances: LineReader, responses: LineReader) -> None:
    """Refuse line-aligned files of different lengths before a row of them is used."""
    if count_lines(utterances) != count_lines(responses):
        raise _uneven_error(utterances, responses)


def count_lines(reader: LineReader) -> int:
    """Count the lines of a source, the last one with or without a newline."""
    lines = 0
    for block in reader:
        if block.bad is not None:
            _require_countable(reader, block.bad)
        lines += block.data.count(b"\n") + 1
    return lines


def _require_countable(reader: LineReader, bad: BadRow) -> None:
    """Refuse a damaged file, whose number of lines is unknown; an unreadable line still counts."""
    if bad.reason == "damaged":
        raise DamagedSource(
            f"{reader.source.path}, line {bad.line:,}: {bad.message}",
            remedy="line-aligned files cannot be used in part",
        )


def _uneven_error(utterances: LineReader, responses: LineReader) -> BadInput:
    counts = (f"{reader.source.path} has {count_lines(reader):,}" for reader in (utterances, responses))
    return BadInput(f"line-aligned files must be of one length: {' lines, '.join(counts)}")


def parquet_blocks(source: Source) -> Iterator[Block]:
    """Yield row groups in pieces; an unreadable group becomes a bad row that names it."""
    import pyarrow as pa  # noqa: PLC0415  most sources are no tables of Arrow

    with open_parquet(source) as file:
        row = 0
        for group in range(file.num_row_groups):
            first, rows = row, file.metadata.row_group(group).num_rows
            fitting = _BLOCK_CHARS * rows // max(1, file.metadata.row_group(group).total_byte_size)
            size = min(ROWS_A_BLOCK, max(1, fitting))
            try:
                for batch in file.iter_batches(batch_size=size, row_groups=[group], use_threads=False):
                    yield ArrowBlock(first_row=row, data=as_stream(batch))
                    row += batch.num_rows
            except (OSError, pa.ArrowException) as error:
                message = f"row group {group} (rows {first:,} to {first + rows - 1:,}) cannot be read: {error}"
                bad = BadRow(line=row, reason="damaged", message=message, place="row")
                yield ArrowBlock(first_row=row, data=b"", bad=bad)
            row = first + rows


def open_parquet(source: Source) -> pq.ParquetFile:
    """Open a Parquet file; raise DamagedSource for a truncated one, which has lost its footer."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        return pq.ParquetFile(source.path, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise DamagedSource(f"{source.path} is not a whole Parquet file: {error}") from error


def as_stream(batch: pa.RecordBatch) -> bytes:
    """Return a batch as the bytes of an Arrow stream."""
    import pyarrow as pa  # noqa: PLC0415

    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


# ── Rows, in a worker ─────────────────────────────────────────────────────────────────────────────────────────────


def json_rows(block: LineBlock) -> Iterator[tuple[int, Row] | BadRow]:
    """Yield one JSON object a line, without empty lines."""
    for number, line in enumerate(block.data.split(b"\n"), block.first_line):
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            if line and not line.isspace():
                yield BadRow(line=number, reason="json", message=_why_not_json(line, error), excerpt=excerpt(line))
            continue
        if type(row) is not dict:
            message = f"a JSON object was expected, found {type(row).__name__}"
        elif (key := repeated_key(line, row)) is not None:
            message = f"the key {key!r} is there twice in one object: name each once"
        else:
            yield number, row
            continue
        yield BadRow(line=number, reason="json", message=message, excerpt=excerpt(line))


def _why_not_json(line: bytes, error: orjson.JSONDecodeError) -> str:
    if b"\0" in line:
        return f"{line.count(0):,} NUL bytes: the file was cut off by a crash, or is not UTF-8"
    if line.strip() in (b"{", b"["):
        return "not JSON: it goes on in the next line, and one object a line is expected (jq -c . FILE writes them so)"
    return why_not_utf8(line) or f"not JSON at character {error.colno:,}: {error.msg}"


def why_not_utf8(line: bytes) -> str | None:
    """Return which byte breaks the encoding, and what to try; None if the line is well encoded."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        if _UNDECODABLE.match(
            line, error.start
        ):  # written by refaug.logs.reading.sources, which decodes other encodings
            byte = (line[error.start + 1] << 6 | line[error.start + 2] & 0x3F) & 0xFF
            before = len(line[: error.start].decode())
            return f"byte 0x{byte:02x} after {before} characters is not of the file's encoding, or is half a character"
        wrong = line[error.start]
        return f"not UTF-8 at byte {error.start} (0x{wrong:02x}): if the file is in Latin-1, say --encoding latin-1"
    return None


_UNDECODABLE: Final = re.compile(rb"\xed[\xb0-\xb3][\x80-\xbf]")  # U+DC00 to U+DCFF


def excerpt(line: bytes | str) -> str:
    """Return the beginning of a bad line, harmless to print."""
    text = line if isinstance(line, str) else line[:_EXCERPT].decode(errors="backslashreplace")
    return "".join(character if character.isprintable() else "\ufffd" for character in text[:_EXCERPT])


def tab_rows(block: LineBlock, columns: Sequence[str]) -> Iterator[tuple[int, Row] | BadRow]:
    """Yield tab-separated fields, in which quotes have no meaning."""
    for number, line in enumerate(block.data.split(b"\n"), block.first_line):
        if not line.strip():
            continue
        text = _decode(number, line.removesuffix(b"\r"))
        yield text if isinstance(text, BadRow) else _row(number, text.split("\t"), columns)


def listed_rows(block: RowBlock, columns: Sequence[str]) -> Iterator[tuple[int, Row] | BadRow]:
    """Yield rows that the parent process has split."""
    for number, fields in zip(block.lines, block.rows, strict=True):
        yield fields if isinstance(fields, BadRow) else _row(number, fields, columns)


def _row(number: int, fields: Sequence[Any], columns: Sequence[str]) -> tuple[int, Row] | BadRow:
    if len(fields) == len(columns):
        return number, dict(zip(columns, fields, strict=True))
    message = f"{len(fields)} fields where {len(columns)} are expected ({', '.join(columns)})"
    return BadRow(line=number, reason="fields", message=message, excerpt=excerpt("\t".join(map(str, fields))))


def arrow_rows(block: ArrowBlock) -> Iterator[tuple[int, Row] | BadRow]:
    """Yield the rows of a Parquet batch, numbered from 0 as Parquet tools do."""
    import pyarrow as pa  # noqa: PLC0415

    with pa.ipc.open_stream(block.data) as reader:
        yield from table_rows(reader.read_all(), block.first_row)


def table_rows(table: pa.Table, first_row: int) -> Iterator[tuple[int, Row] | BadRow]:
    """Yield the rows of an Arrow table with their numbers."""
    table = _with_plain_times(table)
    try:
        yield from enumerate(table.to_pylist(), first_row)
    except _NOT_PYTHON:
        for index in range(table.num_rows):
            yield _arrow_row(table.slice(index, 1), first_row + index)


# Text that is not UTF-8 and years that Python does not support are a ValueError; an unknown time zone is a KeyError.
_NOT_PYTHON: Final = (ValueError, OverflowError, KeyError)


def _arrow_row(table: pa.Table, number: int) -> tuple[int, Row] | BadRow:
    try:
        return number, table.to_pylist()[0]
    except _NOT_PYTHON as error:
        return BadRow(line=number, reason="fields", message=f"a value cannot be read: {error}", place="row")


def _with_plain_times(table: pa.Table) -> pa.Table:
    """Convert times to microseconds of UTC: Python has no nanoseconds, and a minimal machine no time zones."""
    import pyarrow as pa  # noqa: PLC0415

    for index, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            plain = table.column(index).cast(pa.timestamp("us"), safe=False)
            table = table.set_column(index, column.name, plain)
    return table
