"""Workbooks of Excel (`.xlsx`, `.xlsm`): the one sheet that has rows, read row by row."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from refaug.core.errors import BadInput, DamagedSource
from refaug.logs.reading.sources import BadRow, note_reading
from refaug.tables.files.text_tables import NumberedRow, OpenTable

_SUFFIXES: Final = frozenset({".xlsx", ".xlsm"})
_MOST_BYTES: Final = 512 << 20  # of all members, unpacked: a packed file of a few KiB may hold gigabytes


def is_workbook(path: Path) -> bool:
    """Whether a file is a workbook by its name: uploads have names of the server's, and are none."""
    return path.suffix.lower() in _SUFFIXES


def open_workbook(path: Path, where: str) -> OpenTable:
    """Return the table of the only sheet that has rows; its first row that is not empty is the header."""
    with _opened(path, where) as book:
        sheets = [sheet.title for sheet in book.worksheets if any(_filled(sheet))]
        if len(sheets) != 1:
            raise BadInput(
                f"{where}: {len(sheets)} sheets of the workbook have rows"
                + (f": {', '.join(sheets[:10])}" if sheets else ""),
                remedy="leave the sheet with the table, or save it as CSV",
            )
        header_row, cells = next(_filled(book[sheets[0]]))
        names = ["" if cell is None else str(cell).strip() for cell in cells]
        while not names[-1]:
            names.pop()

    def rows(_columns: Sequence[str]) -> Iterator[NumberedRow]:
        with _opened(path, where) as again:
            for number, cells in _filled(again[sheets[0]]):
                if number > header_row:
                    note_reading()
                    yield _row(number, names, cells)

    columns = [name for name in names if name]
    if twice := next((name for name in columns if columns.count(name) > 1), None):
        raise BadInput(f"{where}: two columns are named {twice!r}", remedy="give each a name of its own")
    return OpenTable(kind=f"the sheet {sheets[0]!r} of a workbook", columns=columns, rows=rows, has_keys=True)


def _row(number: int, names: Sequence[str], cells: Sequence[Any]) -> NumberedRow:
    if any(cell is not None for cell in cells[len(names) :]):
        return BadRow(line=number, reason="cell", message=f"it has more cells than the {len(names)} of the header")
    return number, {name: _value(cell) for name, cell in zip(names, cells, strict=False) if name}


def _value(cell: Any) -> object:
    """Return a cell as JSON has it; dates and times as texts, and a whole number as Excel shows it."""
    if isinstance(cell, float) and cell.is_integer():
        return int(cell)
    return cell if cell is None or isinstance(cell, bool | int | float | str) else str(cell)


def _filled(sheet: Any) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield the rows that are not empty, with their numbers."""
    for number, cells in enumerate(sheet.iter_rows(values_only=True), start=1):
        if any(cell is not None for cell in cells):
            yield number, cells


@contextmanager
def _opened(path: Path, where: str) -> Iterator[Any]:
    """Open a workbook for reading: values of formulas as they were last computed."""
    import openpyxl  # noqa: PLC0415  few tables are workbooks

    try:
        with zipfile.ZipFile(path) as members:
            size = sum(member.file_size for member in members.infolist())
        if size > _MOST_BYTES:
            raise BadInput(f"{where}: {size:,} bytes unpacked are more than {_MOST_BYTES:,}", remedy="save it as CSV")
        with warnings.catch_warnings(action="ignore"):  # of styles and rules that nothing here reads
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            try:
                yield book
            finally:
                book.close()
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, OSError, SyntaxError) as error:
        raise DamagedSource(f"{where}: the workbook cannot be read: {error}") from error
