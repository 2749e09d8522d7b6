"""`refaug agreement references`: which items of a test set need more references."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.item_inputs import ItemInputs, ItemsArgument
from refaug.cli.shared.output import JsonFlag, count_of, print_json, print_line, print_table
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.score_options import StrictFlag, report_problems, require_all
from refaug.operations.item_sources import TableOptions
from refaug.operations.scoring_options import ReferenceOptions

if TYPE_CHECKING:
    from refaug.agreement.reference_reliability import ReferenceSetFigures, ReliabilityReport
    from refaug.metrics.base import Metric

_NONE = "-"


@with_options
def references_command(
    context: typer.Context,
    items: ItemsArgument = None,
    *,
    metric: Annotated[
        str, typer.Option("-m", "--metric", help="What replies are scored by, against all references.", metavar="SPEC")
    ] = "chrf",
    table: TableOptions,
    listed: Annotated[
        int, typer.Option("--listed", help="Items that are listed, those that need references most.", min=1, max=10_000)
    ] = 10,
    seed: Annotated[int, typer.Option(help="Of drawn references of other items, and of folds.", min=0)] = 1,
    threads: ThreadsOption = None,
    strict: StrictFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Say which items need more references, by how reliable their reference sets are.

    A set is reliable where a metric's scores go with people's ratings of the replies. That is measured where ITEMS
    have ratings, and predicted from the references alone (docs/agreement.md).
    """
    ReferenceOptions().require_models(context.obj, [metric])
    from refaug.agreement.records import RatedItems, choose_metrics  # noqa: PLC0415
    from refaug.agreement.reference_reliability import reliability  # noqa: PLC0415
    from refaug.agreement.rows import RatedRows  # noqa: PLC0415
    from refaug.scoring.cases import split  # noqa: PLC0415
    from refaug.scoring.metric_setup.metric_requests import metrics_of  # noqa: PLC0415  compiles
    from refaug.scoring.metric_setup.model_registry import ModelRegistry  # noqa: PLC0415
    from refaug.scoring.metric_setup.scoring_steps import bound_metrics  # noqa: PLC0415
    from refaug.scoring.settings import MetaSettings  # noqa: PLC0415

    with display_progress(quiet=context.obj.quiet) as progress:
        good, bad = split(ItemInputs(items=items, table=table).read(progress))
        models = ModelRegistry(context.obj, threads)

        def built(text: str) -> Metric:
            return bound_metrics(metrics_of([text], None, source=models), models, progress=progress)[0]

        compared = choose_metrics([metric], None, built, {metric: metric})[0][0]
        has_ratings = any(one.ratings for one in good)
        rated = RatedRows.of(RatedItems(name="items", items=good), MetaSettings()) if has_ratings else None
        report = reliability(good, compared, rated, progress, seed=seed)
        report_problems(bad, [], progress)
    if as_json:
        print_json(report.as_json())
    else:
        _print(report, listed)
    require_all(bad, strict=strict)


def _print(report: ReliabilityReport, listed: int) -> None:
    columns = ("item", "references", "predicted", "measured", "replies", "separation", "margin", "support")
    title = f"{report.metric}: {count_of(len(report.items), 'item')}, those that need references most first"
    print_table(title, columns, [_cells(figures) for figures in report.items[:listed]])
    if report.without_references:
        print_line(f"without any reference: {count_of(len(report.without_references), 'item')}")
    if report.validity is None or report.shuffled is None:
        print_line(f"measured on {count_of(report.measured, 'item')}: too few to predict from")
        return
    low, high = report.shuffled
    print_line(
        f"predicted with measured, {report.measured:,} items, out of fold: Spearman {report.validity:.3f}; shuffled "
        f"[{low:.3f}, {high:.3f}]"
    )


def _cells(figures: ReferenceSetFigures) -> tuple[str, ...]:
    return (
        figures.item,
        str(figures.references),
        *(_figure(value) for value in (figures.predicted, figures.measured)),
        str(figures.replies),
        *(_figure(value) for value in (figures.separation, figures.margin, figures.support)),
    )


def _figure(value: float) -> str:
    return _NONE if value != value else f"{value:.3f}"  # noqa: PLR0124  NaN
