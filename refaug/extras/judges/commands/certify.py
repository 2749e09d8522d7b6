"""`refaug judge certify`: a passport of a judge, from labels by people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.scores.meta import read_set
from refaug.cli.shared.database import record_act
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.item_inputs import ItemInputs
from refaug.cli.shared.output import JsonFlag, print_json, print_sections
from refaug.cli.shared.progress import display_progress
from refaug.core.errors import Usage
from refaug.extras.judges.commands.judge import JudgeArgument, RubricOption, open_judge
from refaug.operations.item_sources import TableOptions

if TYPE_CHECKING:
    from refaug.agreement.rows import RatedRows
    from refaug.core.progress import Progress
    from refaug.extras.judges.metrics.judged_replies import JudgedReplies
    from refaug.metrics.base import Floats
    from refaug.scoring.metric_setup.model_registry import ModelRegistry

_RECOMMENDED = "refaug-1"


@dataclass(frozen=True, kw_only=True)
class _CertifyOptions:
    """How a judge is measured; a group of options."""

    refs: Annotated[
        str, typer.Option(help="References that it sees when it scores: none, gold or weighted.", metavar="REFS")
    ] = "none"
    settings: Annotated[
        str, typer.Option(help="Further settings of the metric judge, such as samples=5,temperature=0.7.")
    ] = ""
    least: Annotated[
        float, typer.Option(help="The interval of its agreement with people has to lie above this.", min=-1, max=1)
    ] = 0.2
    most: Annotated[int, typer.Option(help="Contexts that are probed, at most.", min=20, max=100_000)] = 100
    own: Annotated[
        list[str] | None,
        typer.Option(help="A system of the judge's model family; repeat it. The others are of other families."),
    ] = None
    trained_on: Annotated[
        list[Path] | None,
        typer.Option(help="Items that the judge was trained on or was shown; repeat it.", metavar="ITEMS"),
    ] = None
    seed: Annotated[int, typer.Option(help="Of the resampling and the choice of contexts.", min=0, max=2**32 - 1)] = 1


@with_options
def certify_command(
    context: typer.Context,
    judge: JudgeArgument,
    items: Annotated[Path, typer.Argument(help="Items with ratings by people, at least 50.", metavar="ITEMS")],
    *,
    name: Annotated[str, typer.Option(help="Name of the passport.")],
    rubric: RubricOption = "overall",
    measured: _CertifyOptions,
    table: TableOptions,
    as_json: JsonFlag = False,
) -> None:
    """Measure what a judge is worth on labels by people, and write its passport.

    Stopped, the same command goes on from the stored answers. Exit code 0 also where the judge is not certified.
    """
    from refaug.agreement.records import RatedItems  # noqa: PLC0415
    from refaug.extras.judges.language_models.rubric import find_rubric  # noqa: PLC0415  httpx2
    from refaug.extras.judges.passports.binding import passport_versions  # noqa: PLC0415
    from refaug.extras.judges.passports.certify import CertifyOrder, certify  # noqa: PLC0415  scipy
    from refaug.extras.judges.passports.stored_passports import passport_sections, save_passport  # noqa: PLC0415
    from refaug.scoring.items import BadItem  # noqa: PLC0415
    from refaug.scoring.metric_setup.model_registry import ModelRegistry  # noqa: PLC0415

    models = ModelRegistry(context.obj)
    with display_progress(quiet=context.obj.quiet) as progress:
        test_items = list(read_set(ItemInputs(items=items, table=table), progress))
        systems = {name for item in test_items if not isinstance(item, BadItem) for name in item.replies}
        own = set(measured.own or ())
        if unknown := sorted(own - systems):
            raise Usage(f"--own {unknown[0]}", remedy=f"systems of these items: {', '.join(sorted(systems))}")
        trained_on = [
            item
            for path in measured.trained_on or ()
            for item in read_set(ItemInputs(items=path), progress)
            if not isinstance(item, BadItem)
        ]
        asking, versions = open_judge(context, judge, progress), passport_versions(context.obj)
        figures = certify(
            RatedItems(name=items.stem, items=test_items),
            asking,
            find_rubric(rubric),
            lambda refs: _metric(models, judge, rubric, refs, measured.settings),
            measured.refs,
            CertifyOrder(
                least=measured.least,
                most=measured.most,
                own={system: system in own for system in systems} if own else {},
                trained_on=trained_on,
                after=[f"{name}@{newest}" for name in versions.names() for newest in versions.versions(name)[-1:]],
                seed=measured.seed,
            ),
            progress,
            beside={_RECOMMENDED: _recommended(models, progress)},
        )
        for remark in asking.remarks():
            progress.warn(remark)
        version = save_passport(context.obj, name, figures)
    record_act(context.obj, "publish", f"passport {name}@{version}")
    if as_json:
        print_json({"name": name, "version": version, "passport": figures})
        return
    print_sections(passport_sections(f"passport {name}@{version}", figures))


def _metric(models: ModelRegistry, judge: str, rubric: str, refs: str, more: str) -> JudgedReplies:
    """Return the metric judge with these settings, not bound to its judge."""
    from refaug.extras.judges.metrics.judged_replies import JudgedReplies  # noqa: PLC0415  numpy
    from refaug.scoring.metric_setup.metric_requests import metrics_of  # noqa: PLC0415  compiles

    text = f"judge:model={judge},rubric={rubric},refs={refs}{f',{more}' if more else ''}"
    metric = metrics_of([text], None, source=models)[0]
    assert isinstance(metric, JudgedReplies)
    return metric


def _recommended(models: ModelRegistry, progress: Progress) -> Callable[[RatedRows], Floats]:
    """Return what scores rows by the recommended metric."""
    from refaug.agreement.records import ComparedMetric  # noqa: PLC0415
    from refaug.agreement.row_scores import values_of_rows  # noqa: PLC0415
    from refaug.extras.judges.commands.judge_fit import metrics_as_named  # noqa: PLC0415

    def scored(rows: RatedRows) -> Floats:
        metric = metrics_as_named(models, [_RECOMMENDED], progress)[0]
        return values_of_rows(rows, ComparedMetric(name=_RECOMMENDED, metric=metric), progress)

    return scored
