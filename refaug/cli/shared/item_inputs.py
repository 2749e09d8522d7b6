"""The items that a command reads: from a test file, or line-aligned texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

from refaug.cli.shared.output import file_or_stdin
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.operations.item_sources import AlignedOptions, ItemSources, TableOptions

if TYPE_CHECKING:
    from refaug.scoring.items import BadItem

_ITEMS_HELP = "JSONL with one item a line, or a table of any kind, compressed or not; - for stdin."
ItemsArgument = Annotated[Path | None, typer.Argument(help=_ITEMS_HELP, metavar="[ITEMS]")]


@dataclass(frozen=True, kw_only=True)
class ItemInputs:
    """Where a command reads its items."""

    items: Path | None = None
    aligned: AlignedOptions = field(default_factory=AlignedOptions)
    table: TableOptions = field(default_factory=TableOptions)
    allow_truncated: bool = False
    systems: Sequence[str] = ()

    @classmethod
    def of(cls, sources: ItemSources) -> Self:
        """Return the inputs that an operation names."""
        items = None if sources.items is None else Path(sources.items)
        return cls(
            items=items,
            aligned=sources,
            table=sources,
            allow_truncated=sources.allow_truncated,
            systems=sources.systems,
        )

    @property
    def names(self) -> dict[str, object]:
        """The files as they were named, for score files; nothing where one of them is stdin."""
        items = [str(self.items)] if self.items is not None else []
        if "-" in (*items, *self.aligned.aligned_files):
            return {}
        more = {"allow_truncated": self.allow_truncated, "systems": list(self.systems)}
        named = {"items": items} if items else {}
        return {
            **named,
            **self.aligned.aligned_names,
            **self.table.table_names,
            **{name: given for name, given in more.items() if given},
        }

    def read(self, progress: Progress) -> Iterator[Item | BadItem]:
        """Yield items from the files that the command names."""
        progress.stage("read")
        yield from self.within_stage(progress)

    def within_stage(self, progress: Progress) -> Iterator[Item | BadItem]:
        """Yield the same items as a part of another stage."""
        from refaug.scoring.items import of_systems, read_items  # noqa: PLC0415  readers: a help needs none

        with ExitStack() as stack:
            if self.items is None:
                test_items = self._aligned_items(stack)
            else:
                test_items = read_items(
                    stack.enter_context(file_or_stdin(self.items)),
                    shown_name=shown_name(self.items),
                    on_unknown_field=progress.warn,
                    allow_truncated=self.allow_truncated,
                    table=self.table.table,
                )
            yield from of_systems(test_items, self.systems)

    def _aligned_items(self, stack: ExitStack) -> Iterator[Item | BadItem]:
        from refaug.scoring.items import read_aligned, system_name  # noqa: PLC0415

        aligned = self.aligned

        def opened(name: str) -> Path:
            return stack.enter_context(file_or_stdin(Path(name)))

        return read_aligned(
            {system_name(name): opened(file) for name, file in aligned.replies.items()},
            [opened(file) for file in aligned.references],
            [opened(file) for file in aligned.weights],
            None if aligned.utterances is None else opened(aligned.utterances),
        )


def shown_name(items: Path) -> str:
    """Return the name of a file in messages."""
    return "stdin" if str(items) == "-" else str(items)
