"""`refaug sets references`: weighted references for a test file."""

from __future__ import annotations

from pathlib import Path

import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.item_inputs import ItemInputs
from refaug.cli.shared.output import print_json_line
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.score_options import StrictFlag, report_problems, require_all
from refaug.operations.references import FindReferences
from refaug.scoring.items import BadItem


@with_options
def refs_command(context: typer.Context, *, order: FindReferences, strict: StrictFlag = False) -> None:
    """Weighted references for every item of a test file, as a test file again, with where each comes from."""
    from refaug.scoring.augmentation import found_json  # noqa: PLC0415  torch
    from refaug.scoring.metric_setup.scoring_steps import open_references  # noqa: PLC0415  torch

    assert order.index is not None, "it is checked"
    bad, inputs = list[BadItem](), ItemInputs(items=Path(order.items), table=order)
    with (
        display_progress(quiet=context.obj.quiet) as progress,
        open_references(
            context.obj, order.index, order.rater, order.settings, order.threads, progress, order.on
        ) as source,
    ):
        provenance = source.provenance.line
        for augmented in source.augment(inputs.within_stage(progress), progress):
            if isinstance(augmented, BadItem):
                bad.append(augmented)
                continue
            print_json_line(found_json(augmented, provenance))
        report_problems(bad, (), progress, rest="")
    require_all(bad, strict=strict)
