"""`refaug score`: test files in, scores out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from core.errors import Usage
from core.items import BadItem, read_aligned, read_items, system_name
from core.progress import Progress
from core.records import Item
from service.cli.asking import Asking
from service.cli.common import file_or_stdin
from service.cli.index_common import ThreadsOption
from service.cli.options import with_options
from service.cli.progress import shown_progress
from service.cli.references import Asked, IndexOption, Made, augmented
from service.cli.scoring import Scoring, report_problems

ItemsArgument = Annotated[
    Path | None,
    typer.Argument(
        help="JSONL with one item a line, or a table (.tsv), compressed or not; - for JSONL from stdin.",
        metavar="[ITEMS]",
    ),
]
RepliesOption = Annotated[
    list[str] | None,
    typer.Option(help="Line-aligned replies of a system, NAME=FILE or FILE; repeat it; - for stdin.", metavar="FILE"),
]
ReferencesOption = Annotated[
    list[Path] | None,
    typer.Option(help="Line-aligned references, golds first; repeat it; empty lines: none.", metavar="FILE"),
]
RaterOption = Annotated[
    str | None,
    typer.Option(
        "--rater",
        help="Rater that weighs references that are found, and that the metric rater asks: name or name@version.",
        metavar="NAME",
    ),
]


@with_options
def score_command(
    context: typer.Context,
    items: ItemsArgument = None,
    replies: RepliesOption = None,
    references: ReferencesOption = None,
    weights: Annotated[
        list[Path] | None,
        typer.Option(help="Their weights, a number from -1 to 1 a line: a file for each --references.", metavar="FILE"),
    ] = None,
    *,
    scoring: Scoring,
    index: IndexOption = None,
    rater: RaterOption = None,
    asking: Asking,
    asked: Asked,
    threads: ThreadsOption = None,
) -> None:
    """Score the replies of one or several systems against their references.

    ITEMS is JSONL (docs/items.md); or give line-aligned files with --replies and --references. With --index, further
    references are found in it first, and weighed by --rater; a weighted form without b has that of the index. The
    metric rater asks --rater about the replies themselves, and ruber asks --ruber. What cannot be scored is listed and
    counted, and the rest is scored.
    """
    from service.asked_metrics import based_in, lacking_b  # noqa: PLC0415  compiles
    from service.evaluate import evaluate  # noqa: PLC0415
    from service.retrieval import places_of  # noqa: PLC0415

    settings = scoring.settings()
    asks_rater = asking.require_named(scoring.metric or [], rater, index=index)
    if index is None and rater is not None and not asks_rater:
        raise Usage(
            "--rater without --index",
            remedy="--index NAME, whose references it weighs, or --metric rater, for which it rates the replies",
        )
    asked.require_used(index, rater, rates=asks_rater)
    with shown_progress(quiet=context.obj.quiet) as progress:
        listed = list(items_from(items, replies or [], references or [], weights or [], progress))
        made = Made({}, {})
        if index is not None:
            listed, made = augmented(context.obj, listed, index, rater, asked.settings(), threads, progress)
        by_default = {"combine": asked.combine, "cal": "cal" if asked.calibrated else "raw"}
        indexes = places_of(context.obj).indexes
        based = based_in(indexes, made.by["index"], progress) if index is not None else None
        chosen = scoring.metrics(listed, by_default, based)
        if (advice := lacking_b(chosen, listed)) is not None:
            progress.warn(advice)
        chosen = asking.bound(
            context.obj,
            chosen,
            rater=made.by.get("rater", rater),
            index=made.by.get("index"),
            augmenting=asked.settings() if asks_rater or index is not None else None,
            threads=threads,
            progress=progress,
        )
        found = evaluate(listed, chosen, settings, provenance=made.by, details=made.details, progress=progress)
        report_problems(found.bad_items, found.warnings, progress)
    scoring.show(found)


# ── what comes in ─────────────────────────────────────────────────────────────────────────────────────────────────


def items_from(
    items: Path | None,
    replies: Sequence[str],
    references: Sequence[Path],
    weights: Sequence[Path],
    progress: Progress,
) -> Iterator[Item | BadItem]:
    """Items from wherever the command names them."""
    if items is not None and (replies or references or weights):
        raise Usage("ITEMS and line-aligned files at once", remedy="one of the two")
    progress.stage("read")
    with ExitStack() as stack:
        if items is not None:
            path = stack.enter_context(file_or_stdin(items))
            called = "stdin" if str(items) == "-" else str(items)
            yield from read_items(
                path, called=called, unknown=lambda name: progress.warn(f"field {name!r} is not used")
            )
            return
        if not (replies and references):
            raise Usage(
                "no items were given",
                remedy="name a file of items, or line-aligned files: --replies FILE --references FILE",
            )
        named = dict(_named(text) for text in replies)
        if len(named) < len(replies):
            raise Usage("two systems of one name", remedy="--replies NAME=FILE")
        inputs = [*named.values(), *references, *weights]
        if [str(path) for path in inputs].count("-") > 1:
            raise Usage("- twice", remedy="stdin can be one of the files only")
        spooled = {name: stack.enter_context(file_or_stdin(path)) for name, path in named.items()}
        yield from read_aligned(
            spooled,
            [stack.enter_context(file_or_stdin(path)) for path in references],
            [stack.enter_context(file_or_stdin(path)) for path in weights],
        )


def _named(text: str) -> tuple[str, Path]:
    """`NAME=FILE`, or a file after which the system is named."""
    name, equals, file = text.partition("=")
    if equals and file and not Path(text).exists():
        return system_name(name), Path(file)
    return "stdin" if text == "-" else system_name(Path(text).name.split(".")[0] or text), Path(text)
