"""The files that items are read from: a test file, or line-aligned texts; commands that score share these options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from refaug.cli.shared.output import file_or_stdin
from refaug.core.errors import Usage
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.evaluation.scoring.items import BadItem, read_aligned, read_items, system_name
from refaug.evaluation.tables.table_request import RowShape, TableRequest

_ITEMS_HELP = "JSONL with one item a line, or a table of any kind, compressed or not; - for stdin."
ItemsArgument = Annotated[Path | None, typer.Argument(help=_ITEMS_HELP, metavar="[ITEMS]")]
RequiredItemsArgument = Annotated[Path, typer.Argument(help=_ITEMS_HELP, metavar="ITEMS")]


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What the columns of a table hold; a group of options."""

    mapping: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="Which column of a table holds what, such as utterance=prompt or reply:new=answer; repeat it "
            "(docs/tables.md).",
            metavar="FIELD=COLUMN",
        ),
    ] = None
    shape: Annotated[
        RowShape | None,
        typer.Option(help="What a row of a table is; without it, its columns tell.", metavar="item|reply|rating"),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(help="Encoding of a table, such as latin-1; without it, UTF-8 or what its first bytes say."),
    ] = None

    @property
    def request(self) -> TableRequest:
        """The request that the options spell."""
        shape = None if self.shape is None else self.shape.value
        return TableRequest.parse(self.mapping or [], shape, self.encoding or "auto")

    @property
    def names(self) -> dict[str, object]:
        """The options as they were given, for score files."""
        return {
            **({"map": list(self.mapping)} if self.mapping else {}),
            **({"shape": self.shape.value} if self.shape is not None else {}),
            **({"encoding": self.encoding} if self.encoding is not None else {}),
        }


@dataclass(frozen=True, kw_only=True)
class AlignedOptions:
    """Line-aligned files instead of a test file; a group of options."""

    replies: Annotated[
        list[str] | None,
        typer.Option(
            help="Line-aligned replies of a system, NAME=FILE or FILE; repeat it; - for stdin.", metavar="FILE"
        ),
    ] = None
    references: Annotated[
        list[Path] | None,
        typer.Option(help="Line-aligned references, golds first; repeat it; empty lines: none.", metavar="FILE"),
    ] = None
    weights: Annotated[
        list[Path] | None,
        typer.Option(help="Their weights, a number from -1 to 1 a line: a file for each --references.", metavar="FILE"),
    ] = None
    utterances: Annotated[
        Path | None,
        typer.Option(help="Line-aligned utterances that are replied to, as --index needs them.", metavar="FILE"),
    ] = None

    @property
    def is_empty(self) -> bool:
        """Whether no file is named."""
        return not (self.replies or self.references or self.weights or self.utterances)

    @property
    def names(self) -> dict[str, list[str]]:
        """The files as they were named."""
        return {
            "replies": list(self.replies or []),
            "references": [str(path) for path in self.references or []],
            "weights": [str(path) for path in self.weights or []],
            "utterances": [str(self.utterances)] if self.utterances is not None else [],
        }

    def read(self, stack: ExitStack) -> Iterator[Item | BadItem]:
        """Yield the items of the lines; Usage where files are missing or named twice."""
        replies = self.replies or []
        if not (replies and self.references):
            raise Usage(
                "no items were given",
                remedy="name a file of items, or line-aligned files: --replies FILE --references FILE",
            )
        files = dict(_name_and_file(text) for text in replies)
        if len(files) < len(replies):
            raise Usage("two systems of one name", remedy="--replies NAME=FILE")
        if len([path for path in self._paths(files) if str(path) == "-"]) > 1:
            raise Usage("- twice", remedy="stdin can be one of the files only")
        return read_aligned(
            {name: stack.enter_context(file_or_stdin(path)) for name, path in files.items()},
            [stack.enter_context(file_or_stdin(path)) for path in self.references],
            [stack.enter_context(file_or_stdin(path)) for path in self.weights or []],
            None if self.utterances is None else stack.enter_context(file_or_stdin(self.utterances)),
        )

    def _paths(self, files: dict[str, Path]) -> list[Path]:
        utterances = [self.utterances] if self.utterances is not None else []
        return [*files.values(), *(self.references or []), *(self.weights or []), *utterances]


@dataclass(frozen=True, kw_only=True)
class ItemInputs:
    """Where a command reads its items."""

    items: Path | None = None
    aligned: AlignedOptions = AlignedOptions()
    table: TableOptions = TableOptions()
    allow_truncated: bool = False

    @property
    def names(self) -> dict[str, object]:
        """The files as they were named, for score files; nothing where one of them is stdin."""
        names = {"items": [str(self.items)] if self.items is not None else [], **self.aligned.names}
        if any(name == "-" or name.endswith("=-") for listed in names.values() for name in listed):
            return {}
        truncated = {"allow_truncated": True} if self.allow_truncated else {}
        return {**{what: listed for what, listed in names.items() if listed}, **self.table.names, **truncated}

    def read(self, progress: Progress) -> Iterator[Item | BadItem]:
        """Yield items from the files that the command names."""
        progress.stage("read")
        yield from self.within_stage(progress)

    def within_stage(self, progress: Progress) -> Iterator[Item | BadItem]:
        """Yield the same items as a part of another stage."""
        if self.items is not None and not self.aligned.is_empty:
            raise Usage("ITEMS and line-aligned files at once", remedy="one of the two")
        with ExitStack() as stack:
            if self.items is None:
                if self.table.names:
                    raise Usage("--map, --shape or --encoding without ITEMS", remedy="they are about a table")
                yield from self.aligned.read(stack)
                return
            yield from read_items(
                stack.enter_context(file_or_stdin(self.items)),
                shown_name=shown_name(self.items),
                on_unknown_field=progress.warn,
                allow_truncated=self.allow_truncated,
                table=self.table.request,
            )


def shown_name(items: Path) -> str:
    """Return the name of a file in messages."""
    return "stdin" if str(items) == "-" else str(items)


def _name_and_file(text: str) -> tuple[str, Path]:
    """Parse `NAME=FILE`, or a file that names the system."""
    name, equals, file = text.partition("=")
    if equals and file and not Path(text).exists():
        return system_name(name), Path(file)
    return "stdin" if text == "-" else system_name(Path(text).name.split(".")[0] or text), Path(text)
