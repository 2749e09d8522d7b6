"""The columns of a table by the fields of items: those that are named, and those that common names give away."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final

from refaug.core.errors import BadInput, MissingField, Usage
from refaug.core.text.messages import suggestion
from refaug.logs.reading.shapes import Fields
from refaug.tables.table_request import MappedColumn, RowShape, TableRequest, parse_scale

# Field → names that columns of it have, the likeliest first; compared without case, blanks and signs.
KNOWN_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "id": ("item_id", "item", "example_id", "context_id", "question_id", "id"),
        "turns": ("turns", "messages", "conversation", "conversations", "dialog"),
        "utterance": ("utterance", "context", "question", "prompt", "query", "message", "input", "source", "post"),
        "reference": ("reference", "references", "gold", "gold_response", "ground_truth", "target", "ref"),
        "system": ("system", "model", "bot", "system_name", "model_name"),
        "reply": ("reply", "response", "hypothesis", "prediction", "output", "completion", "generation", "hyp"),
        "rating": ("rating", "human_rating", "human_score", "likert"),
        "ratings": ("ratings", "human_ratings", "annotations"),
        "annotator": ("annotator", "annotator_id", "worker", "worker_id", "rater_id", "user_id", "completed_by"),
        "scale": ("scale",),
        "dialogue": ("dialogue", "dialogue_id", "dialog_id", "conversation_id"),
        "time": ("time", "timestamp"),
    }
)
_LISTED: Final = 20  # columns that a message lists
_COMPARED: Final = 2_000  # columns that a wrong name is compared with
MAX_COLUMNS: Final = 10_000
_SIGNS: Final = re.compile(r"[^a-z0-9]+")
_LISTS_OF_TURNS: Final = "turns"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column that is used: what it holds, its name in the table, and how its cell is taken from a row."""

    field: str
    system: str
    name: str
    cell: Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The used columns of a table, what a row is, and the columns that are not used."""

    used: tuple[Column, ...]
    shape: RowShape
    unused: tuple[str, ...]
    scale: tuple[float, float] | None = None  # that is said for all rows

    def of(self, name: str) -> list[Column]:
        """Return the columns of a field."""
        return [column for column in self.used if column.field == name]

    @property
    def fields(self) -> frozenset[str]:
        """The fields that have a column."""
        return frozenset(column.field for column in self.used)


@dataclass
class _Header:
    """Assigns the columns of a header to fields."""

    names: Sequence[str]
    where: str
    has_keys: bool  # rows are objects, whose fields may be objects
    taken: set[int] = field(default_factory=set)
    used: list[tuple[int, Column]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.places = dict[str, int]()
        self.folded = dict[str, list[int]]()
        for place, name in enumerate(self.names):
            self.places.setdefault(name, place)
            self.folded.setdefault(folded(name), []).append(place)

    def use(self, mapped: MappedColumn, place: int, name: str) -> None:
        """Let the field have the column."""
        self.taken.add(place)
        cell = Fields(names={"cell": name}).get("cell") if self.has_keys else itemgetter(place)
        self.used.append((place, Column(field=mapped.field, system=mapped.system, name=name, cell=cell)))

    def add_mapped(self, mapped: MappedColumn) -> None:
        """Use the column that is named; MissingField where there is none of the name."""
        place = self.places.get(mapped.column)
        if place is None:
            alike = self.folded.get(folded(mapped.column), [])
            place = alike[0] if len(alike) == 1 else None
        if place is not None:
            self.use(mapped, place, self.names[place])
        elif self.has_keys and (head := mapped.column.split(".")[0]) in self.places:
            self.use(mapped, self.places[head], mapped.column)
        else:
            raise MissingField(
                f"{self.where}: no column {mapped.column[:80]!r} (for {mapped})"
                f"{suggestion(mapped.column, self.names[:_COMPARED])}",
                remedy=f"its columns are: {listed_names(self.names)}",
            )

    def add_by_own_names(self, without: frozenset[str]) -> None:
        """Use columns that are called as fields are: `reply:SYSTEM`, `ratings:SYSTEM`, `reference` and its `weight`."""
        for place, name in enumerate(self.names):
            kind, colon, system = name.partition(":")
            if place in self.taken or kind in without:
                continue
            if colon and system.strip() and kind in ("reply", "rating", "ratings"):
                if kind != "rating":
                    self._require_single(kind, system)
                self.use(MappedColumn(field=kind, system=system.strip()), place, name)
            elif name == "reference":
                self.use(MappedColumn(field=name), place, name)
            elif name == "weight":
                if place == 0 or self.names[place - 1] != "reference":
                    raise BadInput(f"{self.where}: a column weight that no column reference stands before")
                self.use(MappedColumn(field=name), place, name)

    def _require_single(self, kind: str, system: str) -> None:
        if any((column.field, column.system) == (kind, system.strip()) for _, column in self.used):
            raise BadInput(f"{self.where}: two columns {kind}:{system}")

    def add_by_common_names(self, without: frozenset[str]) -> None:
        """Use the first free column of a common name for each field that has none."""
        for name, common in KNOWN_COLUMNS.items():
            has_field = {column.field for _, column in self.used} | without
            if name in has_field or (name == "rating" and "ratings" in has_field):
                continue
            if name == "ratings" and "rating" in has_field:
                continue
            for candidate in common:
                free = [place for place in self.folded.get(folded(candidate), []) if place not in self.taken]
                if len(free) > 1 and name != "reference":
                    raise BadInput(
                        f"{self.where}: {len(free)} columns {self.names[free[0]]}",
                        remedy="give each column a name of its own",
                    )
                if free:
                    for place in free:
                        self.use(MappedColumn(field=name), place, self.names[place])
                    break


def columns_of(names: Sequence[str], request: TableRequest, where: str, *, has_keys: bool) -> Columns:
    """Assign the columns of a header; an error says which is missing, what there is, and what was probably meant."""
    if len(names) > MAX_COLUMNS:
        raise BadInput(
            f"{where}: {len(names):,} columns; at most {MAX_COLUMNS:,} are read",
            remedy="is the first line the header? One row is one item, one reply or one rating",
        )
    header = _Header(names, where, has_keys)
    scale = None
    for mapped in request.mapping:
        if mapped.field == "scale" and mapped.column not in names and (scale := parse_scale(mapped.column)):
            continue
        if mapped.column:
            header.add_mapped(mapped)
    without = frozenset(mapped.field for mapped in request.mapping if not mapped.column or not mapped.system)
    systems_by_column = any(mapped.system for mapped in request.mapping)
    header.add_by_own_names(without | ({"reply", "rating", "ratings"} if systems_by_column else frozenset()))
    if any(column.system for _, column in header.used):
        without |= {"reply", "rating", "ratings"}
    header.add_by_common_names(without | ({"scale"} if scale else frozenset()))
    order = header.used if request.mapping else sorted(header.used, key=lambda used: used[0])
    used = tuple(column for _, column in order)
    unused = tuple(name for place, name in enumerate(names) if place not in header.taken)
    shape = request.shape or _shape(used)
    columns = Columns(used=used, shape=shape, unused=unused, scale=scale)
    _require_fields(columns, names, where)
    return columns


def folded(name: str) -> str:
    """Return a name without case, blanks and signs, by which names of columns are compared."""
    return _SIGNS.sub("_", name.casefold()).strip("_") or name


def _shape(used: Sequence[Column]) -> RowShape:
    """Return what a row is, by the columns that there are."""
    has = {column.field for column in used}
    if "annotator" in has and has & {"rating", "ratings"}:
        return RowShape.RATING
    return RowShape.REPLY if "system" in has else RowShape.ITEM


def _require_fields(columns: Columns, names: Sequence[str], where: str) -> None:
    """Refuse a table without what its rows need."""
    fields, shape = columns.fields, columns.shape
    if not fields & {"reference", "reply"}:
        raise BadInput(
            f"{where}: no column is called reference or reply:SYSTEM, only {listed_names(names, 9)}",
            remedy="name them (docs/tables.md): --map reference=COLUMN, --map reply=COLUMN, --map reply:SYSTEM=COLUMN",
        )
    if shape is RowShape.ITEM:
        return
    if "reply" not in fields:
        raise MissingField(
            f"{where}: one row a {shape}, and no column holds the reply; its columns are: {listed_names(names)}",
            remedy="--map reply=COLUMN",
        )
    if shape is RowShape.RATING and not fields & {"rating", "ratings"}:
        raise MissingField(
            f"{where}: one row a rating, and no column holds it; its columns are: {listed_names(names)}",
            remedy="--map rating=COLUMN",
        )
    if not fields & {"id", "utterance", _LISTS_OF_TURNS}:
        raise Usage(
            f"{where}: no column says which rows are of one item; its columns are: {listed_names(names)}",
            remedy="--map id=COLUMN, or --map utterance=COLUMN",
        )


def listed_names(names: Sequence[str], most: int = _LISTED) -> str:
    """Return the first names of columns, and how many more there are."""
    return ", ".join(_shortened(names[:most])) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _shortened(names: Sequence[str]) -> Iterator[str]:
    yield from (name if len(name) <= 60 else f"{name[:59]}…" for name in names)
