"""`refaug train judge-fit …`: judges that are fitted to people's ratings, as a combination of metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.scores.meta import named_sets, read_set
from refaug.cli.shared.database import record_act
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.item_inputs import ItemInputs
from refaug.cli.shared.output import JsonFlag, print_facts, print_json, print_sections, print_table
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.score_options import require_models
from refaug.core.errors import Usage
from refaug.extras.judges.fitted.stored_judges import judge_sections
from refaug.operations.item_sources import TableOptions

if TYPE_CHECKING:
    from refaug.core.progress import Progress
    from refaug.metrics.base import Metric
    from refaug.scoring.metric_setup.model_registry import ModelRegistry


NameArgument = Annotated[str, typer.Argument(help="Name of the judge, or name@version.", metavar="JUDGE")]
RaterOption = Annotated[
    str | None,
    typer.Option("--rater", help="Rater of metrics that name none: name or name@version.", metavar="NAME"),
]


@dataclass(frozen=True, kw_only=True)
class _FitOptions:
    """How a judge is fitted; a group of options."""

    method: Annotated[
        str,
        typer.Option(
            help="ridge: weights by ridge regression on normal scores; equal: the same weight for every metric."
        ),
    ] = "ridge"
    length: Annotated[
        str, typer.Option(help="free, or held: a reply gets no more and no less for its length alone.")
    ] = "free"
    seed: Annotated[int, typer.Option(help="Of the folds over contexts.", min=0, max=2**32 - 1)] = 1


@with_options
def train_command(
    context: typer.Context,
    items: Annotated[list[Path], typer.Argument(help="Rated items, a file for each set.", metavar="ITEMS…")],
    *,
    name: Annotated[str, typer.Option(help="Name of the judge.")],
    metrics: Annotated[
        list[str],
        typer.Option("--metric", "-m", help="A metric with its settings; repeat it.", metavar="METRIC"),
    ],
    rater: RaterOption = None,
    fit: _FitOptions,
    table: TableOptions,
    threads: ThreadsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Fit a judge to rated items, and say how far judges like it agree with ratings that they never saw."""
    from refaug.agreement.records import ComparedMetric, RatedItems  # noqa: PLC0415
    from refaug.agreement.rows import RatedRows  # noqa: PLC0415
    from refaug.extras.judges.combined import FitSettings  # noqa: PLC0415  scipy
    from refaug.extras.judges.fitted.training import save_judge, train_judge  # noqa: PLC0415
    from refaug.metrics.signature import Signature  # noqa: PLC0415
    from refaug.scoring.metric_setup.metric_requests import stored_specification  # noqa: PLC0415  compiles
    from refaug.scoring.metric_setup.model_registry import ModelRegistry  # noqa: PLC0415
    from refaug.scoring.settings import MetaSettings  # noqa: PLC0415

    settings = FitSettings(method=fit.method, length=fit.length, seed=fit.seed)  # type: ignore[arg-type]
    if twice := next((metric for metric in metrics if metrics.count(metric) > 1), None):
        raise Usage(f"the metric {twice} is named twice", remedy="name each once")
    if nested := next((metric for metric in metrics if metric.partition(":")[0] == "judge-fit"), None):
        raise Usage(f"{nested} is a fitted judge", remedy="name the metrics that it adds")
    require_models(context.obj, metrics, rater=rater)
    files = named_sets(items, remedy="refaug train judge-fit ITEMS.jsonl --name NAME -m bleu -m chrf")
    with display_progress(quiet=context.obj.quiet) as progress:
        sets = [
            RatedRows.of(
                RatedItems(name=set_name, items=read_set(ItemInputs(items=path, table=table), progress)), MetaSettings()
            )
            for set_name, path in files.items()
        ]
        models = ModelRegistry(context.obj, threads, default_rater=rater)
        bound = metrics_as_named(models, metrics, progress)
        compared = [ComparedMetric(name=text, metric=metric) for text, metric in zip(metrics, bound, strict=True)]
        trained = train_judge(sets, compared, settings, progress)
        version = save_judge(
            context.obj,
            name,
            trained,
            [stored_specification(models, text, metric) for text, metric in zip(metrics, bound, strict=True)],
            [Signature.of(metric).full for metric in bound],
        )
    record_act(context.obj, "publish", f"judge-fit {name}@{version}")
    if as_json:
        print_json({"name": name, "version": version, "report": dict(trained.report)})
        return
    print_sections(judge_sections(f"judge-fit {name}@{version}", trained.report))


def metrics_as_named(models: ModelRegistry, specifications: Sequence[str], progress: Progress) -> list[Metric]:
    """Return the metrics, bound to the models that they name."""
    from refaug.scoring.metric_setup.metric_requests import metrics_of  # noqa: PLC0415  compiles
    from refaug.scoring.metric_setup.scoring_steps import bound_metrics  # noqa: PLC0415

    metrics = metrics_of(list(specifications), None, source=models)
    if len(metrics) != len(specifications):
        raise Usage("two of the metrics are the same one in other words", remedy="name each once")
    return bound_metrics(metrics, models, progress=progress)


@with_options
def score_command(
    context: typer.Context,
    judge: NameArgument,
    items: Annotated[Path, typer.Argument(help="Items with replies.", metavar="ITEMS")],
    *,
    table: TableOptions,
    threads: ThreadsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Score replies by a fitted judge; rows whose texts it was fitted to are left out and counted."""
    from refaug.agreement.records import ComparedMetric  # noqa: PLC0415
    from refaug.extras.judges.combined import bound_components  # noqa: PLC0415  scipy
    from refaug.extras.judges.fitted.scoring import score_rows, unrated_rows  # noqa: PLC0415
    from refaug.scoring.metric_setup.model_registry import ModelRegistry  # noqa: PLC0415
    from refaug.scoring.metric_setup.scoring_steps import bound_metrics  # noqa: PLC0415

    models = ModelRegistry(context.obj, threads)
    stored = models.fitted_judge(judge)
    with display_progress(quiet=context.obj.quiet) as progress:
        rows = unrated_rows(str(items), read_set(ItemInputs(items=items, table=table), progress))
        bound = bound_components(stored, models, partial(bound_metrics, models=models, progress=progress))
        compared = [ComparedMetric(name=metric.name, metric=metric) for metric in bound]
        scored = score_rows(stored, rows, compared, progress)
    if as_json:
        print_json(scored.as_json())
        return
    print_facts(
        f"judge-fit {stored.spec}",
        {"replies": scored.scored, "trained_on": scored.trained_on, "without_score": scored.unscored},
    )
    print_table(
        "systems", ("system", "mean", "replies"), [(name, f"{mean:.4f}", n) for name, mean, n in scored.systems()]
    )
