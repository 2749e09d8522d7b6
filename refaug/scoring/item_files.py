"""Files of items with the names that messages have for them: a file of items or a table, or line-aligned texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from refaug.core.errors import BadInput, RefaugError, TooLarge, Usage
from refaug.core.records import Item
from refaug.logs.reading.sources import ReadingEnded, watched_reading
from refaug.scoring.items import BadItem, item_json, of_systems, read_aligned, read_items, system_name
from refaug.tables.table_notes import TableNotes
from refaug.tables.table_request import TableRequest

_WHOLE_FILE: Final = "write the file again, whole, in one of the formats of docs/items.md"


@dataclass(frozen=True, kw_only=True)
class InputFile:
    """A file, and the name that messages have for it."""

    path: Path
    name: str


@dataclass(frozen=True, kw_only=True)
class AlignedFiles:
    """Files with one text a line: replies by system, references, their weights, and utterances."""

    replies: Mapping[str, InputFile] = field(default_factory=dict)
    references: Sequence[InputFile] = ()
    weights: Sequence[InputFile] = ()
    utterances: InputFile | None = None

    @property
    def files(self) -> list[InputFile]:
        """All files, in the order in which they are read."""
        utterances = [self.utterances] if self.utterances is not None else []
        return [*utterances, *self.replies.values(), *self.references, *self.weights]

    def read(self) -> Iterator[Item | BadItem]:
        """Yield the items of the lines; Usage where replies or references are missing."""
        if not (self.replies and self.references):
            raise Usage(
                "line-aligned files without replies or without references",
                remedy="name a file of replies for each system, and a file of references",
            )
        return read_aligned(
            {system_name(name): file.path for name, file in self.replies.items()},
            [file.path for file in self.references],
            [file.path for file in self.weights],
            None if self.utterances is None else self.utterances.path,
            shown_names=[file.name for file in self.files],
        )


@dataclass(frozen=True, kw_only=True)
class ItemFiles:
    """Where items are read from: a file, or line-aligned files; `table` says which column of the file holds what."""

    items: InputFile | None = None
    aligned: AlignedFiles = AlignedFiles()
    table: TableRequest = field(default_factory=TableRequest)
    allow_truncated: bool = False
    systems: Sequence[str] = ()  # whose replies are read; without any, all

    @property
    def names(self) -> list[str]:
        """The names of the files, each once."""
        files = [self.items] if self.items is not None else self.aligned.files
        return list(dict.fromkeys(file.name for file in files))

    def read(
        self, on_warning: Callable[[str], None] | None = None, notes: TableNotes | None = None
    ) -> Iterator[Item | BadItem]:
        """Yield the items, and a BadItem in place of each that cannot be used; no message has a path."""
        try:
            if self.items is None:
                test_items = self.aligned.read()
            else:
                test_items = read_items(
                    self.items.path,
                    shown_name=self.items.name,
                    on_unknown_field=on_warning,
                    allow_truncated=self.allow_truncated,
                    table=self.table,
                    notes=notes or TableNotes(on_warning=on_warning),
                )
            yield from of_systems(test_items, self.systems)
        except RefaugError as error:  # of readers that know a path alone
            for file in [self.items] if self.items is not None else self.aligned.files:
                error.message = error.message.replace(str(file.path), file.name)
            error.remedy = error.remedy or _WHOLE_FILE
            raise


# ── A look at files before they are scored: the first items as they will be read, the columns, and the bad rows ───────

SHOWN_ITEMS: Final = 5
SHOWN_BAD_ROWS: Final = 100
_SHOWN_COLUMNS: Final = 200
_SHOWN_SYSTEMS: Final = 1_000
_SHOWN_WARNINGS: Final = 50
_TEXT_CHARS: Final = 2_000


@dataclass
class FilePreview:
    """The items, counts and faults of files, as far as they were read."""

    items: list[Item] = field(default_factory=list)
    item_count: int = 0
    reply_count: int = 0
    rating_count: int = 0
    bad_count: int = 0
    is_partial: bool = False
    systems: dict[str, None] = field(default_factory=dict)
    bad_rows: list[BadItem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: TableNotes = field(default_factory=TableNotes)

    def add(self, row: Item | BadItem) -> None:
        """Count a row, and keep it where it is among the first."""
        if isinstance(row, BadItem):
            self.bad_count += 1
            if len(self.bad_rows) < SHOWN_BAD_ROWS:
                self.bad_rows.append(row)
            return
        self.item_count += 1
        self.reply_count += len(row.replies)
        self.rating_count += sum(rating is not None for ratings in row.ratings.values() for rating in ratings)
        if len(self.systems) < _SHOWN_SYSTEMS:
            self.systems.update(dict.fromkeys(row.replies))
        if len(self.items) < SHOWN_ITEMS:
            self.items.append(row)

    def as_json(self) -> dict[str, object]:
        """Return the preview as the service answers it; long texts are cut."""
        return {
            "items": [_cut(item_json(test_item)) for test_item in self.items],
            "counts": {
                "items": self.item_count,
                "replies": self.reply_count,
                "ratings": self.rating_count,
                "bad": self.bad_count,
                "is_partial": self.is_partial,
            },
            "systems": list(self.systems),
            "table": _table_json(self.notes),
            "warnings": self.warnings[:_SHOWN_WARNINGS],
            "bad_rows": [bad_row_json(bad) for bad in self.bad_rows],
            "more_bad_rows": self.bad_count - len(self.bad_rows),
        }


def preview(
    files: ItemFiles, most_rows: int, *, most_bytes: int = 1 << 30, check: Callable[[], None] = lambda: None
) -> FilePreview:
    """Read files as a score would, up to a number of rows and of unpacked bytes, and return what came of them.

    `check` is called with every row and every piece of a file; what it raises ends the preview.
    """
    seen = FilePreview()
    seen.notes = TableNotes(on_warning=seen.warnings.append)
    limit = _ByteLimit(most_bytes, check)
    try:
        with watched_reading(limit.add):
            for number, row in enumerate(files.read(seen.warnings.append, seen.notes)):
                check()
                if number >= most_rows:
                    seen.is_partial = True
                    break
                seen.add(row)
    except (ReadingEnded, BadInput):
        if not limit.is_reached:
            raise
    if limit.is_reached:
        seen.is_partial = True
        seen.warnings.append(f"only the first {most_bytes >> 20} MiB were read")
        if not seen.item_count and not seen.bad_count:
            raise TooLarge(
                f"{', '.join(files.names)}: no item in the first {most_bytes >> 20} MiB, and a preview reads no more",
                remedy="write one item or row a line, or raise preview_mib; an evaluation reads whole files",
            )
    return seen


@dataclass
class _ByteLimit:
    """Counts what is read of all files, and ends the reading when it is too much."""

    most_bytes: int
    check: Callable[[], None]
    read_bytes: int = 0
    is_reached: bool = False

    def add(self, size: int) -> None:
        """Count a piece of a file; a row is nothing more to read."""
        self.check()
        if not size:
            return
        self.read_bytes += size
        if self.read_bytes > self.most_bytes:
            self.is_reached = True
            raise ReadingEnded


def bad_row_json(bad: BadItem) -> dict[str, object]:
    """Return the place of a bad row, and what is wrong with it."""
    return {"file": bad.file, "line": bad.line, "item": bad.item, "field": bad.field, "message": bad.message}


def _table_json(notes: TableNotes) -> dict[str, object] | None:
    """Return the columns and their use; None for files without columns."""
    columns = notes.columns
    if columns is None:
        return None
    names = list(dict.fromkeys([*(column.name for column in columns.used), *columns.unused]))
    return {
        "kind": notes.kind,
        "shape": columns.shape.value,
        "rows": notes.rows,
        "used": [
            {"field": column.field, "system": column.system, "column": column.name}
            for column in columns.used[:_SHOWN_COLUMNS]
        ],
        "columns": names[:_SHOWN_COLUMNS],
        "more_columns": max(0, len(names) - _SHOWN_COLUMNS),
        "unused": list(columns.unused[:_SHOWN_COLUMNS]),
        "more_unused": max(0, len(columns.unused) - _SHOWN_COLUMNS),
        "duplicates": notes.duplicates,
        "left_out": dict(notes.left_out),
    }


def _cut(content: Any) -> Any:
    """Return JSON with its long texts cut, and its long lists too."""
    if isinstance(content, str):
        return content if len(content) <= _TEXT_CHARS else f"{content[:_TEXT_CHARS]}…"
    if isinstance(content, Mapping):
        return {name: _cut(part) for name, part in list(content.items())[:_SHOWN_COLUMNS]}
    if isinstance(content, list | tuple):
        return [_cut(part) for part in content[:_SHOWN_COLUMNS]]
    return content
