"""What to know of a table beside its items: columns that are not used, rows that are left out, warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from refaug.core.text.messages import suggestion
from refaug.tables.columns import Columns, listed_names
from refaug.tables.table_request import FIELDS

Warn = Callable[[str], None]
_ONE_BY_ONE: Final = 5  # unused columns that have a warning each
_LONGEST_NAME: Final = 60


def _hint(name: str, columns: Columns) -> str:
    """Return what an unused column may be meant for, as the end of a message."""
    if name == "score" and not columns.of("rating"):
        return "; if it holds ratings: --map rating=score"
    return suggestion(name, FIELDS)


@dataclass
class TableNotes:
    """Counts while the rows of a table are read, and passes on warnings."""

    on_warning: Warn | None = None
    kind: str = ""  # how the file holds rows, in words
    columns: Columns | None = None
    rows: int = 0
    duplicates: int = 0
    first_duplicate: tuple[int, int] = (0, 0)  # its line, and the first line of its item
    left_out: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Note a warning, and pass it on."""
        self.warnings.append(text)
        if self.on_warning is not None:
            self.on_warning(text)

    def add_duplicate(self, line: int, first: int) -> None:
        """Count a row that repeats an earlier one of its item; the first such is named at the end."""
        self.duplicates += 1
        if self.duplicates == 1:
            self.first_duplicate = (line, first)

    def leave_out(self, why: str) -> None:
        """Count something that is not used."""
        self.left_out[why] += 1

    def begin(self, kind: str, columns: Columns) -> None:
        """Note what a file is, and warn about columns that are not used: of each, or of all where they are many."""
        self.kind, self.columns = kind, columns
        self.name_unused(columns.unused, lambda name: _hint(name, columns))

    def name_unused(self, unused: Sequence[str], hint: Callable[[str], str]) -> None:
        """Warn of columns that are not used, each with a hint if they are few."""
        if len(unused) <= _ONE_BY_ONE:
            for name in unused:
                self.warn(f"column {name[:_LONGEST_NAME]!r} is not used{hint(name)}")
        else:
            self.warn(f"{len(unused):,} columns are not used: {listed_names(unused)}")

    def end(self) -> None:
        """Warn about rows that were left out."""
        if self.duplicates:
            line, first = self.first_duplicate
            rows = (
                "1 row repeats an earlier one, and counts"
                if self.duplicates == 1
                else (f"{self.duplicates:,} rows repeat earlier ones, and count")
            )
            self.warn(f"{rows} once: line {line}, of the item that begins in {first}")
        for why, count in self.left_out.items():
            self.warn(f"{count:,} left out: {why}")
