"""`refaug refs`: weighted references for a test file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.errors import Usage
from core.items import BadItem, item_json, read_items
from service.cli.common import file_or_stdin, print_json_line
from service.cli.index_common import ThreadsOption
from service.cli.options import with_options
from service.cli.progress import shown_progress
from service.cli.references import Asked, IndexOption, RaterOption, opened
from service.cli.scoring import StrictFlag, report_problems, require_all


@with_options
def refs_command(
    context: typer.Context,
    items: Annotated[Path, typer.Argument(help="A test file; - for JSONL from stdin.")],
    *,
    index: IndexOption = None,
    rater: RaterOption = None,
    asked: Asked,
    threads: ThreadsOption = None,
    strict: StrictFlag = False,
) -> None:
    """Weighted references for every item of a test file, as a test file again, with where each comes from."""
    from service.augment import augment  # noqa: PLC0415

    if index is None:
        raise Usage("no index is named", remedy="--index NAME: refaug index list")
    asked.require_used(index, rater, rates=False)
    settings = asked.settings()
    bad = list[BadItem]()
    with (
        shown_progress(quiet=context.obj.quiet) as progress,
        file_or_stdin(items) as path,
        opened(context.obj, index, rater, settings, threads) as (found, weigher),
    ):
        for one in augment(
            read_items(path, called="stdin" if str(items) == "-" else str(items)), found, weigher, settings, progress
        ):
            if isinstance(one, BadItem):
                bad.append(one)
                continue
            line = item_json(one.item)
            line |= {"excluded": dict(one.excluded)} if one.excluded else {}
            line |= {"note": one.note} if one.note else {}
            print_json_line(line)
        report_problems(bad, (), progress, rest="")
    require_all(bad, strict=strict)
