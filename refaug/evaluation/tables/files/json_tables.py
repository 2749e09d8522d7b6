"""JSON lines and JSON arrays as tables: the fields of their objects are the columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import orjson

from refaug.core.errors import BadInput, DamagedSource
from refaug.core.text.content_shapes import repeated_key
from refaug.evaluation.tables.files.exports import Export, export_of
from refaug.evaluation.tables.files.open_table import NumberedRow, OpenTable
from refaug.evaluation.tables.table_notes import TableNotes
from refaug.logs.reading.containers import json_rows
from refaug.logs.reading.sources import BadRow, LineReader, Source, Stream

MAX_ARRAY_BYTES: Final = 256 << 20
_SAMPLE: Final = 50

_Rows = Callable[[], Iterator[tuple[int, dict[str, object]] | BadRow]]


def open_json_lines(path: Path, where: str, encoding: str, notes: TableNotes) -> OpenTable:
    """Return the table of a file with one object a line."""
    reader = LineReader(Source.of(path), encoding=encoding)

    def rows() -> Iterator[tuple[int, Any] | BadRow]:
        for block in reader:
            yield from json_rows(block) if block.bad is None else (block.bad,)

    return _table("JSON lines", rows, where, notes)


def open_json_array(path: Path, where: str, notes: TableNotes) -> OpenTable:
    """Return the table of a file that is one JSON array; its rows are numbered from 1, and it has a greatest size."""
    content = bytearray()
    with Stream(path) as stream:
        for piece in stream:
            content += piece
            if len(content) > MAX_ARRAY_BYTES:
                raise BadInput(
                    f"{where}: a JSON array of more than {MAX_ARRAY_BYTES >> 20} MiB",
                    remedy="write one object a line: jq -c '.[]' FILE",
                )
    try:
        array = orjson.loads(bytes(content).removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        raise DamagedSource(f"{where}, line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from error
    if (key := repeated_key(bytes(content), array)) is not None:
        raise BadInput(f"{where}: an object has the key {key!r} twice", remedy="name each key once")

    def rows() -> Iterator[tuple[int, Any] | BadRow]:
        for number, row in enumerate(array, start=1):
            message = f"a JSON object was expected, found {type(row).__name__}"
            yield (number, row) if isinstance(row, dict) else BadRow(line=number, reason="json", message=message)

    return _table("a JSON array", rows, where, notes)


def _table(kind: str, rows: _Rows, where: str, notes: TableNotes) -> OpenTable:
    sample = [row[1] for row in islice(rows(), _SAMPLE) if isinstance(row, tuple)]
    if not sample:
        bad = next((row for row in rows() if isinstance(row, BadRow)), None)
        raise BadInput(f"{where}: no row can be read" + (f": line {bad.line}: {bad.message}" if bad else ""))
    export = export_of(sample)
    if export is not None:
        return _exported(export, rows, sample, where, notes)
    columns = list(dict.fromkeys(key for row in sample for key in row))
    has_items = any(isinstance(row.get("replies"), dict) for row in sample)
    return OpenTable(kind=kind, columns=columns, rows=lambda _: rows(), has_keys=True, has_items=has_items)


def _exported(export: Export, rows: _Rows, sample: list[dict[str, object]], where: str, notes: TableNotes) -> OpenTable:
    ignored = TableNotes()  # the sample is read again, and counts then
    columns, good_rows, problem = dict[str, None](), list[dict[str, object]](), ""
    for row in sample:
        expanded = _expanded(export, row, ignored)
        if isinstance(expanded, str):
            problem = problem or expanded
        else:
            good_rows.append(row)
            columns.update(dict.fromkeys(key for answers in expanded for key in answers))
    if not good_rows:
        raise BadInput(f"{where}: no row can be read: {problem}", remedy=f"export it from {export.name} again, as JSON")

    def expanded_rows() -> Iterator[NumberedRow]:
        for row in rows():
            if isinstance(row, BadRow):
                yield row
                continue
            expanded = _expanded(export, row[1], notes)
            if isinstance(expanded, str):
                yield BadRow(line=row[0], reason="export", message=expanded)
            else:
                yield from ((row[0], answers) for answers in expanded)

    return OpenTable(
        kind=f"an export of {export.name}",
        columns=list(columns),
        rows=lambda _: expanded_rows(),
        has_keys=True,
        of_annotators=export.only_question(good_rows),
    )


def _expanded(export: Export, row: dict[str, object], notes: TableNotes) -> list[dict[str, object]] | str:
    """Return the rows that a row of an export stands for, or what is wrong with it."""
    try:
        export.questions(row)
        return list(export.expand(row, notes))
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        return f"not as {export.name} exports it: {error}"
