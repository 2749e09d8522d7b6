"""What features print: facts, tables and lines, which a command or a page writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from refaug.tables.reports.table import Table


@dataclass(frozen=True)
class FactList:
    """Names with values, under a title."""

    title: str
    facts: Mapping[str, Any]


Description = FactList | Table | str  # a text is a line of its own
