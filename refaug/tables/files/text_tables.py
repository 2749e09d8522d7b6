"""CSV and tab-separated text: which sign sets cells apart, the header, and rows of cells."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from refaug.core.errors import BadInput
from refaug.logs.reading.containers import csv_blocks, numbered_lines
from refaug.logs.reading.sources import BadRow, LineReader, Source
from refaug.tables.columns import KNOWN_COLUMNS, folded
from refaug.tables.table_request import FIELDS

# ── A table that is open: its columns, and its rows as they are read ──────────────────────────────────────────────────

Cells = Sequence[Any] | Mapping[str, Any]
NumberedRow = tuple[int, Cells] | BadRow


@dataclass(frozen=True, kw_only=True)
class OpenTable:
    """The columns of a file, and a function that reads its rows from the start, with those columns at least."""

    kind: str  # how the file holds rows, in words
    columns: Sequence[str]
    rows: Callable[[Sequence[str]], Iterator[NumberedRow]]
    has_keys: bool = False  # rows are objects, else lists of cells
    has_decimal_commas: bool = False
    of_annotators: str = ""  # the column of ratings, where the file is an export of annotators' work
    has_items: bool = False  # rows are items already


# ── CSV and tab-separated text: which sign sets cells apart, the header, and rows of cells ────────────────────────────

TAB_SUFFIX: Final = ".tsv"
_DELIMITERS: Final[dict[str, str]] = {"\t": "tabs", ";": "semicolons", ",": "commas", "|": "bars"}
_SNIFFED_LINES: Final = 50
_STATED: Final = re.compile(r"sep=(.)\s*", re.IGNORECASE)  # Excel's first line
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_HEADER_NAMES: Final = frozenset({*FIELDS, *(name for names in KNOWN_COLUMNS.values() for name in names)})


def open_text_table(path: Path, where: str, head: bytes, encoding: str) -> OpenTable:
    """Return the table of a text file; BadInput for a header that cannot be read."""
    lines = head.decode("utf-8", "replace").splitlines()[:_SNIFFED_LINES]
    stated = _STATED.fullmatch(lines[0]) if lines else None
    lines = lines[1:] if stated else lines
    delimiter = stated[1] if stated else "\t" if TAB_SUFFIX in path.suffixes else _delimiter(lines)
    is_quoted = delimiter != "\t" or not _is_plain(path, lines)
    reader = LineReader(Source.of(path), encoding=encoding)
    first_row = 2 if stated else 1

    def numbered() -> Iterator[NumberedRow]:
        rows = _quoted_rows(reader, delimiter) if is_quoted else _plain_rows(reader)
        return (row for row in rows if isinstance(row, BadRow) or row[0] >= first_row)

    header = next(numbered(), None)
    if header is None:
        raise BadInput(f"{where}: empty")
    if isinstance(header, BadRow):
        raise BadInput(f"{where}, line {header.line}: {header.message}")
    header_line, names = header[0], [str(name).strip() for name in header[1]]
    while names and not names[-1]:
        names.pop()
    return OpenTable(
        kind=f"text with {_DELIMITERS.get(delimiter, repr(delimiter))} between the cells",
        columns=names,
        rows=lambda _: _below(numbered(), header_line, len(names)),
        has_decimal_commas=delimiter == ";",
    )


def has_header(head: bytes) -> bool:
    """Whether the first line names a column as fields of items are called, beside another column."""
    first = next(iter(head.decode("utf-8", "replace").splitlines()), "")
    return bool(_STATED.fullmatch(first)) or any(
        len(cells) > 1 and any(folded(cell.partition(":")[0]) in _HEADER_NAMES for cell in cells)
        for cells in (first.split(delimiter) for delimiter in _DELIMITERS)
    )


def _below(rows: Iterator[NumberedRow], header_line: int, width: int) -> Iterator[NumberedRow]:
    """Yield the rows below the header that have as many cells as it; empty ones are left out."""
    for row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        line, cells = row
        if line <= header_line or not any(str(cell).strip() for cell in cells):
            continue
        if len(cells) > width and not any(str(cell).strip() for cell in list(cells)[width:]):
            cells = list(cells)[:width]
        if len(cells) != width:
            message = f"{len(cells)} cells where the header names {width} columns"
            yield BadRow(line=line, reason="cells", message=message)
        else:
            yield line, cells


def _delimiter(lines: Sequence[str]) -> str:
    """Return the sign that gives the header the most known names, or else the most cells that rows have too."""

    def fitness(delimiter: str) -> tuple[int, bool, int]:
        rows = _sampled(lines, delimiter)
        header = [cell.strip() for cell in (rows[0] if rows else [])]
        known_names = sum(folded(cell.partition(":")[0]) in _HEADER_NAMES for cell in header) if len(header) > 1 else 0
        is_even = len(header) > 1 and all(len(row) == len(header) for row in rows[1:-1] if row)
        return known_names, is_even, len(header)

    return max(_DELIMITERS, key=fitness) if any(map(str.strip, lines)) else ","


def _sampled(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    rows = list[list[str]]()
    with suppress(csv.Error):
        rows.extend(csv.reader((f"{line}\n" for line in lines), delimiter=delimiter))
    return [row for row in rows if row]


def _is_plain(path: Path, lines: Sequence[str]) -> bool:
    """Whether quotes mean nothing: in .tsv files; Excel's Unicode text has quotes, and no such name."""
    with path.open("rb") as file:
        is_excel = file.read(2) in _UTF16
    return not is_excel and (TAB_SUFFIX in path.suffixes or not any('"' in line for line in lines))


def _quoted_rows(reader: LineReader, delimiter: str) -> Iterator[NumberedRow]:
    for block in csv_blocks(reader, delimiter=delimiter):
        for line, row in zip(block.lines, block.rows, strict=True):
            yield row if isinstance(row, BadRow) else (line, row)


def _plain_rows(reader: LineReader) -> Iterator[NumberedRow]:
    for line, text in numbered_lines(reader):
        if isinstance(text, BadRow):
            yield text
        elif text.strip():
            yield line, text.split("\t")
