"""What a user says about a table: which column holds what, and what a row is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from refaug.core.errors import Usage
from refaug.core.text.messages import suggestion

_BY_SYSTEM: Final = ("reply", "rating", "ratings")
FIELDS: Final = (
    *("id", "utterance", "turns", "reference", "weight", "system", "reply", "rating", "ratings", "annotator"),
    *("scale", "dialogue", "time"),
)
_REPEATED: Final = ("reference", "weight", "rating")
_SCALE: Final = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*(?:-|–|\.\.|:| to )\s*(-?\d+(?:\.\d+)?)\s*")


class RowShape(StrEnum):
    """What one row of a table stands for."""

    ITEM = "item"
    REPLY = "reply"
    RATING = "rating"


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedColumn:
    """A field of items, the system if it has one, and the column that holds it; no column: the field has none."""

    field: str
    system: str = ""
    column: str = ""

    def __str__(self) -> str:
        return f"{self.field}{f':{self.system}' if self.system else ''}"


@dataclass(frozen=True, kw_only=True)
class TableRequest:
    """The columns and the shape that a user names; the others are recognised."""

    mapping: tuple[MappedColumn, ...] = ()
    shape: RowShape | None = None
    encoding: str = "auto"

    @classmethod
    def parse(cls, mapping: Iterable[str], shape: str | None = None, encoding: str = "auto") -> Self:
        """Read `FIELD=COLUMN` and `FIELD:SYSTEM=COLUMN`; Usage for anything else, and for a field twice."""
        mapped = tuple(_mapped_column(text) for text in mapping)
        single = [column for column in mapped if column.field not in _REPEATED]
        for column in single:
            if [str(other) for other in single].count(str(column)) > 1:
                raise Usage(f"--map {column} twice", remedy=f"one column; {', '.join(_REPEATED)} may have several")
        return cls(mapping=mapped, shape=None if shape is None else RowShape(shape), encoding=encoding)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said."""
        return self == TableRequest()


def _mapped_column(text: str) -> MappedColumn:
    name, equals, column = text.partition("=")
    field, colon, system = name.partition(":")
    if not equals or field not in FIELDS:
        raise Usage(
            f"--map {text[:80]!r} is not FIELD=COLUMN{suggestion(field, FIELDS)}",
            remedy=f"fields are: {', '.join(FIELDS)}; reply:SYSTEM, rating:SYSTEM and ratings:SYSTEM too",
        )
    if colon and (field not in _BY_SYSTEM or not system.strip()):
        raise Usage(
            f"--map {text[:80]!r}: {name!r} is not a field", remedy="reply:SYSTEM, rating:SYSTEM, ratings:SYSTEM"
        )
    return MappedColumn(field=field, system=system.strip(), column=column)


def parse_scale(text: str) -> tuple[float, float] | None:
    """Read `1-5`, `1 to 5` or `0..100` as the lowest and the highest rating; None for other text."""
    match = _SCALE.fullmatch(text)
    return None if match is None else (float(match[1]), float(match[2]))


def systems_of(columns: Sequence[MappedColumn]) -> list[str]:
    """Return the systems that columns name, in order."""
    return list(dict.fromkeys(column.system for column in columns if column.system))
