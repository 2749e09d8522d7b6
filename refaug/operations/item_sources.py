"""The files that items are read from: a file of items or a table, or line-aligned texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final, Literal

from refaug.core.errors import Usage
from refaug.core.options.declaring import Argument, Doc, FileNames, Flag, Length, Metavar, Panel
from refaug.core.options.decoding import Options
from refaug.core.processes.kept import cached_property
from refaug.logs.reading.sources import encoding_of
from refaug.operations.operation import Text
from refaug.tables.table_request import TableRequest

OF_JOB: Final = "of a job `upload:ID`, or a file in inbox/ or in a configured folder"
SystemName = Annotated[str, Length(1, 200)]


@dataclass(frozen=True, kw_only=True)
class TableOptions(Options):
    """What the columns of a table hold."""

    panel: ClassVar[Panel] = Panel("Input", rare=("shape", "encoding"))

    map: Annotated[
        tuple[Text, ...],
        Length(0, 1_000),
        Metavar("FIELD=COLUMN"),
        Doc("Which column of a table holds what, such as utterance=prompt or reply:new=answer (docs/tables.md)."),
    ] = ()
    shape: Annotated[
        Literal["item", "reply", "rating"] | None, Doc("What a row of a table is; without it, its columns tell.")
    ] = None
    encoding: Annotated[
        str | None,
        Length(1, 40),
        Doc("Encoding of a table, such as latin-1; without it, UTF-8 or what its first bytes say."),
    ] = None

    def check(self) -> None:
        """Refuse columns of no field, and an encoding that is none."""
        super().check()
        try:
            encoding_of(b"", self.encoding or "auto")
        except Usage as error:
            raise Usage(error.message, remedy=error.remedy, field="encoding") from None
        try:
            _ = self.table
        except Usage as error:
            raise Usage(error.message, remedy=error.remedy, field="map") from None

    @cached_property
    def table(self) -> TableRequest:
        """The columns and the shape that are named."""
        return TableRequest.parse(self.map, self.shape, self.encoding or "auto")

    @property
    def table_names(self) -> dict[str, object]:
        """The options that say something of a table, for score files."""
        stated = {"map": list(self.map), "shape": self.shape, "encoding": self.encoding}
        return {name: setting for name, setting in stated.items() if setting}


@dataclass(frozen=True, kw_only=True)
class AlignedOptions(Options):
    """Line-aligned files instead of a test file."""

    panel: ClassVar[Panel] = Panel("Input", rare=("weights", "utterances"))

    replies: Annotated[
        dict[SystemName, Text],
        Length(0, 1_000),
        FileNames(),
        Metavar("FILE"),
        Doc("Line-aligned replies of each system: NAME=FILE, or FILE."),
    ] = field(default_factory=dict)
    references: Annotated[
        tuple[Text, ...],
        Length(0, 1_000),
        Metavar("FILE"),
        Doc("Line-aligned references, golds first; empty lines: none."),
    ] = ()
    weights: Annotated[
        tuple[Text, ...],
        Length(0, 1_000),
        Flag("--weights"),
        Metavar("FILE"),
        Doc("Their weights, a number from -1 to 1 a line: a file for each of references."),
    ] = ()
    utterances: Annotated[
        Text | None, Metavar("FILE"), Doc("Line-aligned utterances that are replied to, as an index needs them.")
    ] = None

    def check(self) -> None:
        """Refuse standard input twice."""
        super().check()
        if self.aligned_files.count("-") > 1:
            raise Usage("- twice", remedy="stdin can be one of the files only")

    @property
    def aligned_files(self) -> list[str]:
        """The files in the order in which they are read."""
        utterances = [self.utterances] if self.utterances is not None else []
        return [*utterances, *self.replies.values(), *self.references, *self.weights]

    @property
    def aligned_names(self) -> dict[str, object]:
        """The files as they were named, for score files."""
        names = {
            "replies": [f"{system}={file}" for system, file in self.replies.items()],
            "references": list(self.references),
            "weights": list(self.weights),
            "utterances": [self.utterances] if self.utterances is not None else [],
        }
        return {what: listed for what, listed in names.items() if listed}


@dataclass(frozen=True, kw_only=True)
class ItemSources(TableOptions, AlignedOptions):
    """The files that items are read from: a file of items or a table, or line-aligned texts."""

    panel: ClassVar[Panel] = Panel("Input", rare=("allow_truncated",))

    needs_items: ClassVar[bool] = True  # whether some have to be named

    items: Annotated[
        Text | None,
        Argument("[ITEMS]"),
        Doc("JSONL with one item a line, or a table of any kind, compressed or not; - for stdin.", of_job=OF_JOB),
    ] = None
    allow_truncated: Annotated[bool, Doc("Use the items before the place where a compressed file breaks off.")] = False
    systems: Annotated[
        tuple[Text, ...],
        Length(0, 1_000),
        Flag("--systems"),
        Metavar("NAME,…"),
        Doc("The systems whose replies are read, separated by commas; without it, all."),
    ] = ()

    def check(self) -> None:
        """Refuse two forms of input at once, and half of one."""
        super().check()
        names = dict.fromkeys(name.strip() for text in self.systems for name in text.split(","))
        object.__setattr__(self, "systems", tuple(names))
        if self.items is not None:
            if self.aligned_files:
                raise Usage("a file of items and line-aligned files at once", remedy="one of the two", field="items")
            return
        if (self.needs_items or self.aligned_files) and not (self.replies and self.references):
            missing = "references" if self.replies else "replies" if self.aligned_files else "items"
            remedy = "a file of items, or line-aligned files: replies of a system, and references"
            raise Usage("none were given", remedy=remedy, field=missing)
        if not self.table.is_empty or self.allow_truncated:
            idle = "allow_truncated" if self.table.is_empty else next(iter(self.table_names))
            raise Usage("it is about a file of items", remedy="leave it out for line-aligned files", field=idle)

    @property
    def files(self) -> list[str]:
        """The files in the order in which they are named."""
        return [self.items] if self.items is not None else self.aligned_files
