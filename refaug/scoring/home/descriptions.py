"""What features print: facts, tables and lines, which a command or a page writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FactList:
    """Names with values, under a title."""

    title: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class TitledTable:
    """Columns and rows, under a title."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


Section = FactList | TitledTable | str  # a text is a line of its own
