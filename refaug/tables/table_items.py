"""Files of any kind as the values of items: the kind is recognised by the content, the columns by their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from refaug.core.errors import BadInput, DamagedSource, UnknownFormat
from refaug.core.text.content_shapes import MAX_DEPTH, is_nested_too_deep
from refaug.logs.reading.arrow_files import is_arrow
from refaug.logs.reading.sources import BadRow, head_of, note_reading, require_readable
from refaug.tables import cells
from refaug.tables.cells import BadCell, shown
from refaug.tables.columns import KNOWN_COLUMNS, Column, Columns, columns_of, folded
from refaug.tables.files import (
    PARQUET,
    OpenTable,
    export_of,
    has_header,
    is_workbook,
    open_arrow_table,
    open_json_array,
    open_json_lines,
    open_parquet_table,
    open_saved_dataset,
    open_text_table,
    open_workbook,
)
from refaug.tables.table_notes import TableNotes
from refaug.tables.table_request import MappedColumn, RowShape, TableRequest, parse_scale

# ── One row of a table as the fields of an item, with the replies and ratings of its systems ──────────────────────────

_Content = TypeVar("_Content")
NO_SYSTEM: Final = "reply"  # the system of replies that no column names one for
_PLAIN: Final = ("id", "utterance", "dialogue")


@dataclass(slots=True)
class RowValues:
    """What a row says of an item, and of the replies of systems."""

    line: int
    item: dict[str, object] = field(default_factory=dict)
    references: list[Any] = field(default_factory=list)
    replies: dict[str, object] = field(default_factory=dict)
    ratings: dict[str, list[float | None]] = field(default_factory=dict)
    annotator: str | None = None
    scale: tuple[float, float] | None = None

    def as_values(self) -> dict[str, object]:
        """Return the values of an item, as JSON has them."""
        scale = {} if self.scale is None else {"scale": list(self.scale)}
        return {
            **self.item,
            "references": self.references,
            "replies": self.replies,
            "ratings": self.ratings,
            **scale,
        }


class RowReader:
    """Takes the values of the used columns out of rows."""

    def __init__(self, columns: Columns, *, has_decimal_commas: bool) -> None:
        self._columns = columns
        self._has_decimal_commas = has_decimal_commas
        self._plain = [(column, column.field) for column in columns.used if column.field in _PLAIN]
        self._references = list(_references_with_weights(columns.used))
        self._by_system = [column for column in columns.used if column.field in ("reply", "rating", "ratings")]
        single = {
            name: next(iter(columns.of(name)), None) for name in ("turns", "system", "annotator", "scale", "time")
        }
        self._single = {name: column for name, column in single.items() if column is not None}

    def read(self, line: int, row: Any) -> RowValues | BadRow:
        """Return the values of a row, or which cell cannot be one."""
        try:
            return self._values(line, row)
        except _BadColumn as bad:
            return BadRow(line=line, reason="cell", message=f"column {bad.column!r}: {bad.message}")

    def _values(self, line: int, row: Any) -> RowValues:
        values = RowValues(line=line, scale=self._columns.scale)
        for column, name in self._plain:
            if not cells.is_empty(cell := column.cell(row)):
                values.item[name] = cells.plain_text(cell)
        turns, time, scale, annotator = (
            self._cell(name, row, read)
            for name, read in (
                ("turns", cells.turn_texts),
                ("time", cells.moment),
                ("scale", _scale_of),
                ("annotator", cells.plain_text),
            )
        )
        values.item |= {name: content for name, content in (("turns", turns), ("time", time)) if content is not None}
        values.scale = scale or values.scale
        values.annotator = None if annotator is None else str(annotator)
        for reference, weight in self._references:
            values.references += self._weighted(reference, weight, row)
        self._add_systems(values, row)
        return values

    def _cell(self, name: str, row: Any, read: Callable[[Any], Any]) -> Any:
        """Return what the only column of a field holds; None where there is none, or an empty cell."""
        column = self._single.get(name)
        cell = None if column is None else column.cell(row)
        return None if column is None or cells.is_empty(cell) else _checked(column, lambda: read(cell))

    def _weighted(self, reference: Column, weight: Column | None, row: Any) -> list[Any]:
        texts = _checked(reference, lambda: cells.reference_texts(reference.cell(row)))
        if weight is None or not texts:
            return texts
        weighted = self._number(weight, row)
        if weighted is None:
            return texts
        if len(texts) > 1:
            raise _BadColumn(weight.name, f"one weight for {len(texts)} references")
        return [{"text": texts[0], "weight": weighted}]

    def _add_systems(self, values: RowValues, row: Any) -> None:
        """Add replies and ratings; a column that names no system is of the system of the row."""
        own = NO_SYSTEM
        if column := self._single.get("system"):
            cell = column.cell(row)
            if cells.is_empty(cell):
                raise _BadColumn(column.name, "it is empty: every row has the name of a system")
            own = str(cells.plain_text(cell))
        for column in self._by_system:
            system, cell = column.system or own, column.cell(row)
            if column.field == "reply":
                if cell is not None and not (isinstance(cell, float) and cells.is_empty(cell)):
                    values.replies[system] = cells.plain_text(cell)
            elif column.field == "rating":
                values.ratings.setdefault(system, []).append(self._number(column, row))
            elif not cells.is_empty(cell):
                values.ratings[system] = _checked(column, lambda: self._numbers(cell))  # noqa: B023  called at once
        for system in [name for name, ratings in values.ratings.items() if all(rating is None for rating in ratings)]:
            del values.ratings[system]

    def _numbers(self, cell: object) -> list[float | None]:
        return cells.numbers(cell, has_decimal_commas=self._has_decimal_commas)

    def _number(self, column: Column, row: Any) -> float | None:
        cell = column.cell(row)
        return _checked(column, lambda: cells.number(cell, has_decimal_commas=self._has_decimal_commas))


class _BadColumn(Exception):
    """A bad cell with the name of its column."""

    def __init__(self, column: str, message: str) -> None:
        super().__init__(message)
        self.column, self.message = column, message


def _checked(column: Column, read: Callable[[], _Content]) -> _Content:
    try:
        return read()
    except BadCell as bad:
        raise _BadColumn(column.name, str(bad)) from None


def _scale_of(cell: object) -> tuple[float, float]:
    content = cells.listed(cell)
    bounds = parse_scale(str(cell)) if content is None else content
    if bounds is None or len(bounds) != 2 or not all(isinstance(bound, int | float) for bound in bounds):
        raise BadCell(f"{cells.shown(cell)} is not a scale such as 1-5")
    low, high = bounds
    return float(low), float(high)


def _references_with_weights(columns: Sequence[Column]) -> Iterator[tuple[Column, Column | None]]:
    """Yield each column of references with the column of weights that follows it, if any."""
    for place, column in enumerate(columns):
        if column.field != "reference":
            continue
        after = columns[place + 1] if place + 1 < len(columns) else None
        yield column, after if after is not None and after.field == "weight" else None


# ── Files of any kind as the values of items: the kind is recognised by the content, the columns by their names ───────

MAX_ROWS: Final = 1_000_000
MAX_CHARS: Final = 512 << 20
MAX_ANNOTATORS: Final = 1_000
_COMPARED_RATINGS: Final = 3  # by one annotator, before its range says anything
_SCALES_APART: Final = 4.0  # how many times as high the ratings of one annotator are than those of another
_LIMIT_REMEDY: Final = "give one row an item, which has no limit; or write items in parts: refaug sets convert"


@dataclass(slots=True)
class _Group:
    """An item while its rows come in."""

    first: RowValues
    lines: dict[str, int] = field(default_factory=dict)  # system → the line of its reply
    ratings: dict[str, dict[str, float | None]] = field(default_factory=dict)  # system → annotator → rating
    rating_lines: dict[tuple[str, str], int] = field(default_factory=dict)
    problem: BadRow | None = None


class RowGroups:
    """Collects rows into items, in the order of the items' first rows."""

    def __init__(self, columns: Columns, where: str, notes: TableNotes) -> None:
        self._columns, self._where, self._notes = columns, where, notes
        self._groups = dict[bytes, _Group]()
        self._annotators = dict[str, int]()
        self._ranges = dict[str, list[float]]()  # annotator → how many ratings, the lowest, the highest
        self._rows, self._chars = 0, 0
        self._has_annotators = "annotator" in columns.fields
        self._has_ids = "id" in columns.fields

    def items(self, rows: Iterable[RowValues | BadRow]) -> Iterator[tuple[int, dict[str, object]] | BadRow]:
        """Yield bad rows, then the items in the order of their first rows."""
        for row in rows:
            if isinstance(row, BadRow):
                yield row
            elif (bad := self._add(row)) is not None:
                yield bad
        self._require_items()
        self._warn_of_scales()
        for group in self._groups.values():
            yield group.problem if group.problem is not None else (group.first.line, self._values(group))

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _add(self, row: RowValues) -> BadRow | None:
        """Add a row to its item; a row that names none is returned as a bad one."""
        self._rows += 1
        if self._rows > MAX_ROWS:
            raise BadInput(f"{self._where}: more than {MAX_ROWS:,} rows of replies or ratings", remedy=_LIMIT_REMEDY)
        key = self._key(row)
        if key is None:
            needed = "id" if self._has_ids else "utterance"
            return BadRow(line=row.line, reason="key", message=f"no {needed}: it says which item the row is of")
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(first=row)
            self._count_chars(row)
        elif group.problem is None:
            group.problem = self._contradiction(group, row)
        if group.problem is None:
            self._add_systems(group, row)
        return None

    def _key(self, row: RowValues) -> bytes | None:
        if self._has_ids:
            return str(row.item["id"]).encode("utf-8", "surrogatepass") if "id" in row.item else None
        context = [row.item.get("turns"), row.item.get("utterance")]
        return None if context == [None, None] else orjson.dumps([context, row.references], default=str)

    def _count_chars(self, row: RowValues) -> None:
        self._chars += sum(len(str(content)) for content in (*row.item.values(), *row.references))
        if self._chars > MAX_CHARS:
            raise BadInput(f"{self._where}: more than {MAX_CHARS >> 20} MiB of text in items", remedy=_LIMIT_REMEDY)

    def _contradiction(self, group: _Group, row: RowValues) -> BadRow | None:
        """Return what a row says otherwise than the first row of its item."""
        first = group.first
        for name in ("utterance", "turns", "dialogue", "time"):
            before, now = first.item.get(name), row.item.get(name)
            if before is None and now is not None:
                first.item[name] = now
            elif now is not None and now != before:
                return self._bad(row, first.line, name, before, now)
        if row.references and first.references and row.references != first.references:
            return self._bad(row, first.line, "reference", first.references, row.references)
        first.references, first.scale = first.references or row.references, first.scale or row.scale
        return None

    def _bad(self, row: RowValues, line: int, what: str, before: object, now: object) -> BadRow:
        name = row.item.get("id")
        of_item = f"item {name}: " if name is not None else ""
        message = f"{of_item}another {what} than in line {line}: {shown(now)}, there {shown(before)}"
        return BadRow(line=row.line, reason="contradiction", message=message)

    # ── systems ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _add_systems(self, group: _Group, row: RowValues) -> None:
        is_new = row is group.first
        if is_new:
            group.lines = dict.fromkeys(row.replies, row.line)
        is_repeated = not is_new
        for system, reply in row.replies.items():
            before = group.first.replies.setdefault(system, reply)
            is_repeated &= system in group.lines
            line = group.lines.setdefault(system, row.line)
            if before != reply:
                what = "reply" if system != NO_SYSTEM or "system" in self._columns.fields else "reply of one system"
                group.problem = self._bad(row, line, f"{what} of {system}", before, reply)
                return
        for system, ratings in row.ratings.items():
            is_repeated &= self._add_ratings(group, row, system, ratings)
            if group.problem is not None:
                return
        is_told_apart = self._has_annotators or self._columns.shape is RowShape.REPLY
        if is_repeated and is_told_apart:
            self._notes.add_duplicate(row.line, group.first.line)

    def _add_ratings(self, group: _Group, row: RowValues, system: str, ratings: list[float | None]) -> bool:
        """Add the ratings of a row to those of a system; return whether they were there."""
        of_system = group.ratings.setdefault(system, {})
        names = self._annotator_names(row, of_system, len(ratings))
        was_there = bool(names)
        for name, rating in zip(names, ratings, strict=True):
            place = (system, name)
            if name not in of_system:
                of_system[name] = rating
                group.rating_lines[place] = row.line
                if self._has_annotators:
                    self._note_range(name, rating)
                was_there = False
            elif of_system[name] != rating:
                by = f" by {name}" if self._has_annotators else ""
                what = f"rating of {system}{by}"
                bad = self._bad(row, group.rating_lines[place], what, of_system[name], rating)
                if self._columns.shape is RowShape.REPLY:
                    bad = replace(bad, message=f"{bad.message}; --shape rating takes each row as one more rating")
                group.problem = bad
                return False
        return was_there

    def _annotator_names(self, row: RowValues, of_system: Mapping[str, float | None], count: int) -> list[str]:
        """Return who gave the ratings of a row; without a column of annotators, their places count."""
        if self._columns.shape is RowShape.REPLY:
            return [str(place) for place in range(count)]
        if not self._has_annotators:
            return [str(len(of_system) + place) for place in range(count)]
        name = row.annotator if row.annotator is not None else ""
        return [name] if count == 1 else [f"{name}/{place}" for place in range(count)]

    def _note_range(self, name: str, rating: float | None) -> None:
        if name not in self._annotators:
            self._annotators[name] = len(self._annotators)
            if len(self._annotators) > MAX_ANNOTATORS:
                raise BadInput(
                    f"{self._where}: more than {MAX_ANNOTATORS:,} annotators",
                    remedy="--map annotator= : ratings of a reply then count by their order, not by annotator",
                )
        if rating is not None:
            count, low, high = self._ranges.get(name, [0, rating, rating])
            self._ranges[name] = [count + 1, min(low, rating), max(high, rating)]

    # ── at the end ───────────────────────────────────────────────────────────────────────────────────────────────

    def _require_items(self) -> None:
        """Refuse a column of ids that numbers the rows, though rows repeat a reply."""
        if not self._has_ids or self._rows < 2 or len(self._groups) < self._rows:
            return
        groups = [group.first for group in self._groups.values()]
        contexts = {
            orjson.dumps([row.item.get("turns"), row.item.get("utterance"), row.references], default=str)
            for row in groups
        }
        if len(contexts) == len(groups) or not any("utterance" in row.item or "turns" in row.item for row in groups):
            return
        column = self._columns.of("id")[0].name
        raise BadInput(
            f"{self._where}: column {column!r} differs in every row, though rows have the same utterance and "
            "references: it numbers the rows, not the items",
            remedy="--map id=COLUMN names the items; --map id= takes rows of one utterance for one item",
        )

    def _warn_of_scales(self) -> None:
        """Warn where annotators seem to use different scales."""
        ranges = {name: span for name, span in self._ranges.items() if span[0] >= _COMPARED_RATINGS}
        if len(ranges) < 2 or self._columns.scale is not None or "scale" in self._columns.fields:
            return
        low, high = min(ranges, key=lambda name: ranges[name][2]), max(ranges, key=lambda name: ranges[name][2])
        if ranges[low][2] > 0 and ranges[high][2] >= _SCALES_APART * ranges[low][2]:
            spans = [f"{name or '(none)'} from {ranges[name][1]:g} to {ranges[name][2]:g}" for name in (low, high)]
            self._notes.warn(f"annotators seem to use different scales: {spans[0]}, {spans[1]}")

    def _values(self, group: _Group) -> dict[str, object]:
        values = group.first.as_values()
        values["ratings"] = {
            system: self._in_order(ratings)
            for system, ratings in group.ratings.items()
            if any(rating is not None for rating in ratings.values())
        }
        return values

    def _in_order(self, ratings: dict[str, float | None]) -> list[float | None]:
        """Return the ratings of a reply, each at the place of its annotator in the whole table."""
        if not self._has_annotators:
            return list(ratings.values())
        by_place = {self._annotators[name]: rating for name, rating in ratings.items()}
        return [by_place.get(place) for place in range(max(by_place) + 1)]


_JSON_ARRAY: Final = re.compile(rb"\s*\[\s*[\[{\"\]]")
_WORKBOOKS: Final = frozenset({".xls", ".ods", ".numbers"})
_TABLE_SUFFIXES: Final = frozenset({".csv", ".tsv", ".tab"})
_WORKBOOK_START: Final = b"\xd0\xcf\x11\xe0"  # .xls

ItemValues = tuple[int, Mapping[str, Any]] | BadRow


def is_items_file(path: Path, request: TableRequest) -> bool:
    """Whether a file is JSON lines of items, which need no columns: nothing is said, and it begins with an object.

    An object with a reply in place of `replies` is a row of a table.
    """
    if not request.is_empty or path.is_dir():
        return False
    require_readable(path)
    if is_workbook(path):
        return False
    try:
        head = _head(path, str(path), request.encoding)
    except DamagedSource:
        return True  # the reader of lines says where it is damaged
    return not head.strip() or not (_is_binary(head) or _is_text_table(path, head) or _is_json_table(head))


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
        dict.fromkeys(column.name if column.name in table.columns else column.name.split(".")[0] for column in used)
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


def open_table(path: Path, where: str, request: TableRequest, notes: TableNotes) -> OpenTable:
    """Recognise what holds the rows; BadInput where it is empty or nothing that is known."""
    if path.is_dir():
        return open_saved_dataset(path, where)
    require_readable(path)
    if is_workbook(path):
        return open_workbook(path, where)
    head = _head(path, where, request.encoding)
    if not head.strip():
        raise BadInput(f"{where}: empty")
    if head.startswith(PARQUET):
        return open_parquet_table(path, where)
    if is_arrow(head):
        return open_arrow_table([path], where)
    if _JSON_ARRAY.match(head):
        return open_json_array(path, where, notes)
    if head.lstrip().startswith(b"{"):
        return open_json_lines(path, where, request.encoding, notes)
    if b"\0" in head or head.startswith(_WORKBOOK_START):
        raise UnknownFormat(
            f"{where}: a binary file, it begins {head[:20]!r}",
            remedy="give CSV, TSV, JSON, Parquet or Arrow; UTF-16 without a byte-order mark needs --encoding utf-16-le",
        )
    return open_text_table(path, where, head, request.encoding, notes)


def _head(path: Path, where: str, encoding: str) -> bytes:
    try:
        require_readable(path)
        return head_of(path, encoding)
    except UnknownFormat as error:
        if path.suffix.lower() in _WORKBOOKS:
            raise UnknownFormat(f"{where}: a workbook", remedy="save the sheet as CSV (UTF-8)") from error
        raise


def _is_binary(head: bytes) -> bool:
    return is_arrow(head) or head.startswith((PARQUET, _WORKBOOK_START))


def _is_text_table(path: Path, head: bytes) -> bool:
    """Whether the name is that of a table, or the first line is a header with names of columns."""
    if {suffix.lower() for suffix in path.suffixes} & _TABLE_SUFFIXES:
        return True
    return not head.lstrip().startswith((b"{", b"[")) and has_header(head)


def _is_json_table(head: bytes) -> bool:
    if _JSON_ARRAY.match(head):
        return True
    try:
        first = orjson.loads(head.split(b"\n", 1)[0])
    except orjson.JSONDecodeError:
        return False
    if not isinstance(first, dict):
        return False
    has_reply = "replies" not in first and any(folded(name) in KNOWN_COLUMNS["reply"] for name in first)
    return has_reply or export_of([first]) is not None
