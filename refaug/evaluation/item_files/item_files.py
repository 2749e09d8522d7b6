"""Files of items with the names that messages have for them: a file of items or a table, or line-aligned texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from refaug.core.errors import RefaugError, Usage
from refaug.core.records import Item
from refaug.evaluation.scoring.items import BadItem, of_systems, read_aligned, read_items, system_name
from refaug.evaluation.tables.table_notes import TableNotes
from refaug.evaluation.tables.table_request import TableRequest

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
