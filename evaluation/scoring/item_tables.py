"""Test files as tables: tab-separated columns with a header become the same values as JSON items.

    id  utterance        reference        reference  weight  reply:new   ratings:new  reply:old
    d1  When is supper?  At eight.        Never.     -0.5    At eight.   4,5          Who knows.

`reference` may occur several times, golds first; a `weight` belongs to the reference before it. A cell is the literal
text, without quotes or escapes, since a text with a tab cannot be in such a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from refaug.core.errors import BadInput
from refaug.logs.reading.containers import why_not_utf8
from refaug.logs.reading.sources import BadRow, LineReader

TABLE_SUFFIX: Final = ".tsv"
_PLAIN: Final = ("id", "utterance", "dialogue", "time")
_BY_SYSTEM: Final = ("reply", "ratings")


@dataclass(frozen=True, slots=True)
class _Column:
    """The content of a column: its kind, and the system if the kind has one."""

    kind: str
    system: str = ""


def table_rows(reader: LineReader) -> Iterator[tuple[int, Mapping[str, Any]] | BadRow]:
    """Yield every line below the header as the values of an item, or what is wrong with it."""
    columns: list[_Column] | None = None
    for row in _lines(reader):
        if isinstance(row, BadRow):
            yield row
            continue
        number, line = row
        cells = line.split("\t")
        if columns is None:
            columns = _header(cells, reader.source.name, number)
        elif len(cells) != len(columns):
            message = f"{len(cells)} cells where the header names {len(columns)} columns"
            yield BadRow(line=number, reason="cells", message=message)
        else:
            yield number, _values(columns, cells)


def _lines(reader: LineReader) -> Iterator[tuple[int, str] | BadRow]:
    """Yield decoded lines with their numbers, without empty ones."""
    for block in reader:
        if block.bad is not None:
            yield block.bad
            continue
        for number, raw in enumerate(block.data.split(b"\n"), block.first_line):
            line = raw.removesuffix(b"\r")
            try:
                text = line.decode()
            except UnicodeDecodeError:
                yield BadRow(line=number, reason="encoding", message=why_not_utf8(line) or "not UTF-8")
                continue
            if text.strip():
                yield number, text


def _header(cells: Sequence[str], file: str, line: int) -> list[_Column]:
    """Return the columns by name; raise BadInput for a table without a reply or a reference."""
    columns = [_column(cell.strip()) for cell in cells]
    kinds = [column.kind for column in columns]
    for place, kind in enumerate(kinds):
        if kind == "weight" and (place == 0 or kinds[place - 1] != "reference"):
            raise BadInput(f"{file}, line {line}: a column weight that no column reference stands before")
    named = [(column.kind, column.system) for column in columns if column.kind not in ("reference", "weight")]
    if twice := next((column for column in named if named.count(column) > 1), None):
        raise BadInput(f"{file}, line {line}: two columns {':'.join(filter(None, twice))}")
    if "reference" not in kinds and "reply" not in kinds:
        raise BadInput(
            f"{file}, line {line}: no column is called reference or reply:SYSTEM, only {', '.join(cells[:9])}",
            remedy="the first line names the columns, with tabs between them (docs/items.md)",
        )
    return columns


def _column(name: str) -> _Column:
    kind, colon, system = name.partition(":")
    if kind in _BY_SYSTEM:
        return _Column(kind, system if colon else "reply")
    return _Column(name)


def _values(columns: Sequence[_Column], cells: Sequence[str]) -> dict[str, Any]:
    """Return the cells as the values of a JSON item; empty cells are left out, except replies."""
    values: dict[str, Any] = {"references": [], "replies": {}, "ratings": {}}
    for place, (column, cell) in enumerate(zip(columns, cells, strict=True)):
        if column.kind == "reply":
            values["replies"][column.system] = cell
        elif column.kind == "reference":
            weighed = place + 1 < len(columns) and columns[place + 1].kind == "weight"
            values["references"] += _reference(cell, cells[place + 1] if weighed else "")
        elif column.kind == "ratings" and cell.strip():
            values["ratings"][column.system] = [_number(part) for part in cell.split(",")]
        elif column.kind != "weight" and cell.strip():
            values[column.kind] = cell
    return values


def _reference(text: str, weight: str) -> list[object]:
    if not text.strip():
        return []
    return [{"text": text, "weight": _number(weight)}] if weight.strip() else [text]


def _number(text: str) -> float | str | None:
    """Return the number, None for an empty cell; other text stays, and is refused later."""
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        return text
