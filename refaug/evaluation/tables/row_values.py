"""One row of a table as the fields of an item, with the replies and ratings of its systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from refaug.evaluation.tables import cells
from refaug.evaluation.tables.columns import Column, Columns
from refaug.evaluation.tables.python_lists import BadCell
from refaug.evaluation.tables.table_request import parse_scale
from refaug.logs.reading.sources import BadRow

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
                ("scale", _scale),
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
                    values.replies[system] = cell
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


def _scale(cell: object) -> tuple[float, float]:
    content = cells.listed(cell)
    bounds = parse_scale(str(cell)) if content is None else content
    if bounds is None or len(bounds) != 2 or not all(isinstance(bound, int | float) for bound in bounds):
        raise BadCell(f"{cells.shown(cell)} is no scale such as 1-5")
    low, high = bounds
    return float(low), float(high)


def _references_with_weights(columns: Sequence[Column]) -> Iterator[tuple[Column, Column | None]]:
    """Yield each column of references with the column of weights that follows it, if any."""
    for place, column in enumerate(columns):
        if column.field != "reference":
            continue
        after = columns[place + 1] if place + 1 < len(columns) else None
        yield column, after if after is not None and after.field == "weight" else None
