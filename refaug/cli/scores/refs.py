"""`refaug refs`: weighted references for a test file."""

from __future__ import annotations

import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.item_inputs import ItemInputs, RequiredItemsArgument
from refaug.cli.shared.output import print_json_line
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.reference_options import IndexOption, OnOption, RaterOption, require_used
from refaug.cli.shared.score_options import StrictFlag, report_problems, require_all
from refaug.core.errors import Usage
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.items import BadItem
from refaug.operations.item_sources import TableOptions


@with_options
def refs_command(
    context: typer.Context,
    items: RequiredItemsArgument,
    *,
    table: TableOptions,
    index: IndexOption = None,
    rater: RaterOption = None,
    settings: AugmentSettings,
    threads: ThreadsOption = None,
    on: OnOption = None,
    strict: StrictFlag = False,
) -> None:
    """Weighted references for every item of a test file, as a test file again, with where each comes from."""
    from refaug.evaluation.metric_setup.scoring_steps import open_references  # noqa: PLC0415  torch

    if index is None:
        raise Usage("no index is named", remedy="--index NAME: refaug index list")
    require_used(settings, index, rater, rates=False)
    bad = list[BadItem]()
    with (
        display_progress(quiet=context.obj.quiet) as progress,
        open_references(context.obj, index, rater, settings, threads, progress, on) as source,
    ):
        provenance = source.provenance.line
        for augmented in source.augment(ItemInputs(items=items, table=table).within_stage(progress), progress):
            if isinstance(augmented, BadItem):
                bad.append(augmented)
                continue
            print_json_line(augmented.as_json(provenance))
        report_problems(bad, (), progress, rest="")
    require_all(bad, strict=strict)
