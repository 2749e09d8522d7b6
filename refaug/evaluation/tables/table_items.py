"""Files of any kind as the values of items: the kind is recognised by the content, the columns by their names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson

from refaug.core.errors import BadInput, DamagedSource, UnknownFormat
from refaug.core.text.content_shapes import MAX_DEPTH, is_nested_too_deep
from refaug.evaluation.tables.columns import Column, columns_of
from refaug.evaluation.tables.files import arrow_tables
from refaug.evaluation.tables.files.exports import export_of
from refaug.evaluation.tables.files.json_tables import open_json_array, open_json_lines
from refaug.evaluation.tables.files.open_table import OpenTable
from refaug.evaluation.tables.files.text_tables import has_header, open_text_table
from refaug.evaluation.tables.grouping import RowGroups
from refaug.evaluation.tables.row_values import RowReader, RowValues
from refaug.evaluation.tables.table_notes import TableNotes
from refaug.evaluation.tables.table_request import MappedColumn, RowShape, TableRequest
from refaug.logs.reading.arrow_files import is_arrow
from refaug.logs.reading.sources import BadRow, head_of, require_readable
from refaug.logs.reading.watched_reading import note_reading

_JSON_ARRAY: Final = re.compile(rb"\s*\[\s*[\[{\"\]]")
_WORKBOOKS: Final = frozenset({".xlsx", ".xlsm", ".xls", ".ods", ".numbers"})
_TABLE_SUFFIXES: Final = frozenset({".csv", ".tsv", ".tab"})
_WORKBOOK_START: Final = b"\xd0\xcf\x11\xe0"  # .xls

ItemValues = tuple[int, Mapping[str, Any]] | BadRow


def is_items_file(path: Path, request: TableRequest) -> bool:
    """Whether a file is JSON lines of items, which need no columns: nothing is said, and it begins with an object."""
    if not request.is_empty or path.is_dir():
        return False
    try:
        head = _head(path, str(path), request.encoding)
    except DamagedSource:
        return True  # the reader of lines says where it is damaged
    return not head.strip() or not (_is_binary(head) or _is_text_table(path, head) or _is_array_or_export(head))


def table_items(path: Path, where: str, request: TableRequest, notes: TableNotes) -> Iterator[ItemValues]:
    """Yield the values of items with the lines of their first rows, and bad rows, from a file or a saved dataset."""
    table = open_table(path, where, request, notes)
    if table.has_items and not (request.mapping or request.shape):
        notes.kind = table.kind
        yield from _counted_items(table, notes)
        return
    if table.of_annotators and not any(mapped.field in ("rating", "ratings") for mapped in request.mapping):
        mapped = MappedColumn(field="rating", column=table.of_annotators)
        if not any(column.system for column in request.mapping):
            request = replace(request, mapping=(*request.mapping, mapped))
    columns = columns_of(table.columns, request, where, has_keys=table.has_keys)
    notes.begin(table.kind, columns)
    reader = RowReader(columns, has_decimal_commas=table.has_decimal_commas)
    rows = _read_rows(table, columns.used, reader, notes, where)
    if columns.shape is RowShape.ITEM:
        for values in rows:
            yield values if isinstance(values, BadRow) else (values.line, values.as_values())
    else:
        yield from RowGroups(columns, where, notes).items(rows)
    if not notes.rows:
        raise BadInput(f"{where}: there are no rows below the header" if not table.has_keys else f"{where}: no rows")


def _counted_items(table: OpenTable, notes: TableNotes) -> Iterator[ItemValues]:
    """Yield the rows of a table whose rows are items."""
    for row in table.rows(table.columns):
        notes.rows += 1
        if isinstance(row, BadRow):
            yield row
        elif isinstance(row[1], Mapping):
            yield row[0], row[1]


def _read_rows(
    table: OpenTable, used: tuple[Column, ...], reader: RowReader, notes: TableNotes, where: str
) -> Iterator[RowValues | BadRow]:
    """Yield the values of rows; BadInput where two rows state different scales."""
    names = list(
        dict.fromkeys(column.name if column.name in table.columns else _head_of_path(column) for column in used)
    )
    stated: tuple[tuple[float, float], int] | None = None
    for row in table.rows(names):
        notes.rows += 1
        note_reading()
        if isinstance(row, BadRow):
            yield row
            continue
        if table.has_keys and is_nested_too_deep(row[1]):
            yield BadRow(
                line=row[0], reason="cell", message=f"lists and objects in it are nested deeper than {MAX_DEPTH}"
            )
            continue
        values = reader.read(row[0], row[1])
        if isinstance(values, RowValues) and values.scale is not None:
            stated = stated or (values.scale, values.line)
            if values.scale != stated[0]:
                raise BadInput(
                    f"{where}: mixed scales: {_scale(stated[0])} in line {stated[1]}, {_scale(values.scale)} in line "
                    f"{values.line}",
                    remedy="bring the ratings to one scale, or make a table of each",
                )
        yield values


def _scale(scale: tuple[float, float]) -> str:
    return f"{scale[0]:g} to {scale[1]:g}"


def _head_of_path(column: Column) -> str:
    return column.name.split(".")[0]


def open_table(path: Path, where: str, request: TableRequest, notes: TableNotes) -> OpenTable:
    """Recognise what holds the rows; BadInput where it is empty or nothing that is known."""
    if path.is_dir():
        return arrow_tables.open_saved_dataset(path, where)
    require_readable(path)
    head = _head(path, where, request.encoding)
    if not head.strip():
        raise BadInput(f"{where}: empty")
    if head.startswith(arrow_tables.PARQUET):
        return arrow_tables.open_parquet_table(path, where)
    if is_arrow(head):
        return arrow_tables.open_arrow_table([path], where)
    if _JSON_ARRAY.match(head):
        return open_json_array(path, where, notes)
    if head.lstrip().startswith(b"{"):
        return open_json_lines(path, where, request.encoding, notes)
    if b"\0" in head or head.startswith(_WORKBOOK_START):
        raise UnknownFormat(
            f"{where}: a binary file, it begins {head[:20]!r}",
            remedy="give CSV, TSV, JSON, Parquet or Arrow; UTF-16 without a byte-order mark needs --encoding utf-16-le",
        )
    return open_text_table(path, where, head, request.encoding)


def _head(path: Path, where: str, encoding: str) -> bytes:
    try:
        require_readable(path)
        return head_of(path, encoding)
    except UnknownFormat as error:
        if path.suffix.lower() in _WORKBOOKS:
            raise UnknownFormat(f"{where}: a workbook", remedy="save the sheet as CSV (UTF-8)") from error
        raise


def _is_binary(head: bytes) -> bool:
    return is_arrow(head) or head.startswith((arrow_tables.PARQUET, _WORKBOOK_START))


def _is_text_table(path: Path, head: bytes) -> bool:
    """Whether the name is that of a table, or the first line is a header with names of columns."""
    if {suffix.lower() for suffix in path.suffixes} & _TABLE_SUFFIXES:
        return True
    return not head.lstrip().startswith((b"{", b"[")) and has_header(head)


def _is_array_or_export(head: bytes) -> bool:
    if _JSON_ARRAY.match(head):
        return True
    try:
        first = orjson.loads(head.split(b"\n", 1)[0])
    except orjson.JSONDecodeError:
        return False
    return isinstance(first, dict) and export_of([first]) is not None
