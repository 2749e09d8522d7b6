"""A table that is open: its columns, and its rows as they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refaug.logs.reading.sources import BadRow

Cells = Sequence[Any] | Mapping[str, Any]
NumberedRow = tuple[int, Cells] | BadRow


@dataclass(frozen=True, kw_only=True)
class OpenTable:
    """The columns of a file, and a function that reads its rows from the start, with those columns at least."""

    kind: str  # how the file holds rows, in words
    columns: Sequence[str]
    rows: Callable[[Sequence[str]], Iterator[NumberedRow]]
    has_keys: bool = False  # rows are objects, else lists of cells
    has_decimal_commas: bool = False
    of_annotators: str = ""  # the column of ratings, where the file is an export of annotators' work
    has_items: bool = False  # rows are items already
