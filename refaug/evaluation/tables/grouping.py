"""Rows of replies or ratings become items: rows of one id, or of one utterance, are one item.

All rows are read before the first item is there, since a table need not be sorted; so there is a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import orjson

from refaug.core.errors import BadInput
from refaug.evaluation.tables.cells import shown
from refaug.evaluation.tables.columns import Columns
from refaug.evaluation.tables.row_values import NO_SYSTEM, RowValues
from refaug.evaluation.tables.table_notes import TableNotes
from refaug.evaluation.tables.table_request import RowShape
from refaug.logs.reading.sources import BadRow

MAX_ROWS: Final = 1_000_000
MAX_CHARS: Final = 512 << 20
MAX_ANNOTATORS: Final = 1_000
_COMPARED_RATINGS: Final = 3  # by one annotator, before its range says anything
_SCALES_APART: Final = 4.0  # how many times as high the ratings of one annotator are than those of another
_LIMIT_REMEDY: Final = "give one row an item, which has no limit; or write items in parts: refaug items convert"


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
        first.references = first.references or row.references
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
                group.problem = self._bad(row, group.rating_lines[place], what, of_system[name], rating)
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
