"""`refaug sets …`: tables of any kind as items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import orjson
import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.item_inputs import shown_name
from refaug.cli.shared.output import count_of, file_or_stdin, print_facts, print_json_line, print_line
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.score_options import StrictFlag, report_problems, require_all
from refaug.core.errors import BadInput, NoSource
from refaug.core.files import write_aside
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.operations.item_sources import TableOptions
from refaug.scoring.items import BadItem, item_json, read_items
from refaug.tables.table_notes import TableNotes

_SHOWN_ITEMS: Final = 5


@dataclass
class _Counts:
    """What became of the rows of all files."""

    items: int = 0
    replies: int = 0
    ratings: int = 0
    bad: list[BadItem] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)  # item → the file that it is from

    def add(self, test_item: Item) -> None:
        """Count an item with its replies and ratings."""
        self.items += 1
        self.replies += len(test_item.replies)
        self.ratings += sum(rating is not None for ratings in test_item.ratings.values() for rating in ratings)

    @property
    def in_words(self) -> str:
        """The counts in words."""
        replies = f"{self.replies:,} {'reply' if self.replies == 1 else 'replies'}"
        return f"{count_of(self.items, 'item')}, {replies}, {count_of(self.ratings, 'rating')}"


@with_options
def convert_command(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(help="CSV, TSV, JSON, Parquet, Arrow, saved datasets; - for stdin.", metavar="IN"),
    ],
    *,
    table: TableOptions,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write into this file, not to stdout.", metavar="FILE"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing: show the first five items, and what is not used.")
    ] = False,
    strict: StrictFlag = False,
) -> None:
    """Write tables as items: JSON lines that every command reads (docs/tables.md)."""
    counts = _Counts()
    with display_progress(quiet=context.obj.quiet) as progress, _writer(output, is_dry=dry_run) as write:
        for file in files:
            notes = TableNotes(on_warning=progress.warn)
            _convert(file, table, notes, counts, write, progress)
            if dry_run:
                _print_notes(file, notes)
        report_problems(counts.bad, (), progress, rest="")
        if not counts.items:
            raise BadInput(f"no item in {count_of(len(files), 'file')}", remedy="--dry-run shows why")
        if dry_run:
            print_line(f"{counts.in_words}; {len(counts.bad):,} rows or items could not be used")
    require_all(counts.bad, strict=strict)


def _convert(
    file: Path,
    table: TableOptions,
    notes: TableNotes,
    counts: _Counts,
    write: Callable[[dict[str, object]], None],
    progress: Progress,
) -> None:
    """Write the items of a file; an id of an earlier file is refused by name."""
    with ExitStack() as stack:
        for test_item in read_items(
            stack.enter_context(file_or_stdin(file)),
            shown_name=shown_name(file),
            on_unknown_field=progress.warn,
            table=table.table,
            notes=notes,
        ):
            if isinstance(test_item, BadItem):
                counts.bad.append(test_item)
                continue
            if (first := counts.files.setdefault(test_item.id, str(file))) != str(file):
                raise BadInput(
                    f"{shown_name(file)}: item {test_item.id!r} is in {first} too",
                    remedy="convert the files one by one, or give their items ids of their own",
                )
            counts.add(test_item)
            write({**item_json(test_item), **test_item.search_notes})


@contextmanager
def _writer(output: Path | None, *, is_dry: bool) -> Iterator[Callable[[dict[str, object]], None]]:
    """Yield a function that writes an item: into a file that is there whole or not at all, or to stdout."""
    if is_dry:
        shown = list[dict[str, object]]()

        def show(document: dict[str, object]) -> None:
            if len(shown) < _SHOWN_ITEMS:
                shown.append(document)
                print_json_line(document)

        yield show
    elif output is None:
        yield print_json_line
    else:
        if not output.parent.is_dir():
            raise NoSource(f"{output.parent}: no such folder", remedy="name a file in a folder that is there")
        with write_aside(output) as file:

            def write_line(document: dict[str, object]) -> None:
                file.write(orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE))

            yield write_line


def _print_notes(file: Path, notes: TableNotes) -> None:
    """Print what a file is, which columns are used for what, and which are not."""
    columns = notes.columns
    if columns is None:
        print_facts(shown_name(file), {"kind": notes.kind or "JSON lines of items"})
        return
    used = [f"{column.field}{f':{column.system}' if column.system else ''} = {column.name}" for column in columns.used]
    print_facts(
        shown_name(file),
        {
            "kind": notes.kind,
            "one row": f"one {columns.shape.value}",
            "rows": notes.rows,
            "used": used,
            "not used": list(columns.unused),
            "duplicates": notes.duplicates,
            **({"left out": dict(notes.left_out)} if notes.left_out else {}),
        },
    )
