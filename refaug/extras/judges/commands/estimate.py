"""`refaug judge estimate`: means of people's ratings from few ratings and the scores of many replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.scores.meta import read_set
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.item_inputs import ItemInputs
from refaug.cli.shared.output import JsonFlag, print_json, print_table
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.score_options import number, require_models
from refaug.core.errors import BadInput, Usage
from refaug.extras.judges.commands.judge_fit import RaterOption, metrics_as_named
from refaug.operations.item_sources import TableOptions

if TYPE_CHECKING:
    import numpy as np

    from refaug.agreement.rows import RatedRows
    from refaug.core.progress import Progress
    from refaug.metrics.base import Floats, Metric
    from refaug.metrics.statistics.prediction_powered import PoweredMean
    from refaug.metrics.statistics.resampling import Estimate


@dataclass(frozen=True, kw_only=True)
class _Table:
    """People's ratings and scores by context and system; NaN where there is none."""

    systems: tuple[str, ...]
    ratings: Floats  # (items, systems)
    scores: Floats
    contexts: np.ndarray[tuple[int], np.dtype[np.int64]]  # (items,): items with the same turns are one


@with_options
def estimate_command(
    context: typer.Context,
    items: Annotated[Path, typer.Argument(help="Items with replies, of which people rated some.", metavar="ITEMS")],
    *,
    metric: Annotated[str, typer.Option("--metric", "-m", help="Scores every reply, such as judge:model=NAME.")],
    rater: RaterOption = None,
    baseline: Annotated[
        str | None, typer.Option(help="System that every other one is compared with.", metavar="SYSTEM")
    ] = None,
    half_width: Annotated[
        float | None, typer.Option(help="Say how many labels an interval of ± this needs.", min=0, metavar="W")
    ] = None,
    table: TableOptions,
    threads: ThreadsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Estimate each system's mean rating from few ratings by people and the scores of all its replies.

    Where the rated replies are drawn at random, the interval holds whatever the metric is worth; the better it predicts
    ratings, the narrower it is.
    """
    from refaug.agreement.rows import require_one_scale  # noqa: PLC0415  numpy
    from refaug.extras.judges.fitted.scoring import unrated_rows  # noqa: PLC0415  scipy
    from refaug.metrics.statistics.prediction_powered import (  # noqa: PLC0415  scipy
        PoweredMean,
        powered_difference,
        powered_mean,
    )
    from refaug.scoring.metric_setup.model_registry import ModelRegistry  # noqa: PLC0415

    require_models(context.obj, [metric], rater=rater)
    models = ModelRegistry(context.obj, threads, default_rater=rater)
    with display_progress(quiet=context.obj.quiet) as progress:
        rows = unrated_rows(str(items), read_set(ItemInputs(items=items, table=table), progress))
        require_one_scale(rows.items)
        bound = metrics_as_named(models, [metric], progress)[0]
        rated = _rated_table(rows, _values(rows, metric, bound, progress))
        for remark in bound.remarks():
            progress.warn(remark)
    if baseline is not None and baseline not in rated.systems:
        raise Usage(f"--baseline {baseline}", remedy=f"systems of these items: {', '.join(rated.systems)}")
    columns = {name: (rated.ratings[:, place], rated.scores[:, place]) for place, name in enumerate(rated.systems)}
    means, needed, reasons = dict[str, PoweredMean](), dict[str, int | None](), dict[str, str]()
    for name, (ratings, scores) in columns.items():
        try:
            means[name] = powered_mean(ratings, scores, clusters=rated.contexts)
        except BadInput as error:
            reasons[name] = error.message
        else:
            if half_width is not None:
                needed[name] = _needed(half_width, ratings, scores, rated)
    if not means:
        first = next(iter(reasons))
        raise BadInput(f"{items}, system {first}: {reasons[first]}", remedy="rate at least 20 replies of a system")
    differences = dict[str, PoweredMean]()
    for name in [name for name in means if baseline in means and name != baseline]:
        pairs = (columns[name], columns[baseline or ""])
        try:
            differences[name] = powered_difference(
                (pairs[0][0], pairs[1][0]), (pairs[0][1], pairs[1][1]), clusters=rated.contexts
            )
        except BadInput as error:
            reasons[f"{name} against {baseline}"] = error.message
    if as_json:
        print_json(_json(metric, means, differences, baseline, reasons, needed if half_width is not None else None))
        return
    _print(metric, means, differences, baseline, reasons, half_width, needed)


def _values(rows: RatedRows, name: str, bound: Metric, progress: Progress) -> Floats:
    from refaug.agreement.records import ComparedMetric  # noqa: PLC0415
    from refaug.agreement.row_scores import values_of_rows  # noqa: PLC0415

    return values_of_rows(rows, ComparedMetric(name=name, metric=bound), progress)


def _rated_table(rows: RatedRows, values: Floats) -> _Table:
    import numpy as np  # noqa: PLC0415

    systems = tuple(dict.fromkeys(row.system for row in rows.rows))
    ratings, scores = (np.full((len(rows.items), len(systems)), np.nan) for _ in range(2))
    for row, value in zip(rows.rows, values, strict=True):
        at = row.item, systems.index(row.system)
        scores[at] = value
        given = [rating for rating in rows.items[row.item].ratings.get(row.system, ()) if rating is not None]
        ratings[at] = np.mean(given) if given else np.nan
    contexts = np.unique(["\x1e".join(item.turns) or item.id for item in rows.items], return_inverse=True)[1]
    return _Table(systems=systems, ratings=ratings, scores=scores, contexts=contexts.astype(np.int64))


def _needed(half_width: float, ratings: Floats, scores: Floats, rated: _Table) -> int | None:
    from refaug.metrics.statistics.prediction_powered import labels_needed  # noqa: PLC0415  scipy

    return labels_needed(half_width, ratings, scores, clusters=rated.contexts)


def _json(
    metric: str,
    means: Mapping[str, PoweredMean],
    differences: Mapping[str, PoweredMean],
    baseline: str | None,
    reasons: Mapping[str, str],
    needed: Mapping[str, int | None] | None,
) -> dict[str, object]:
    compared = {"baseline": baseline, "differences": {name: _figures(one) for name, one in differences.items()}}
    return {
        "metric": metric,
        "systems": {name: _figures(mean) for name, mean in means.items()},
        "not_estimated": dict(reasons),
        **(compared if baseline is not None else {}),
        **({"labels_needed": dict(needed)} if needed is not None else {}),
    }


def _figures(mean: PoweredMean) -> dict[str, object]:
    return {
        "mean": mean.powered.value,
        "interval": [mean.powered.low, mean.powered.high],
        "labels_only": mean.labels_only.value,
        "labels_only_interval": [mean.labels_only.low, mean.labels_only.high],
        "weight": mean.weight,
        "labelled": mean.labelled,
        "unlabelled": mean.unlabelled,
        "left_out": mean.left_out,
    }


def _print(
    metric: str,
    means: Mapping[str, PoweredMean],
    differences: Mapping[str, PoweredMean],
    baseline: str | None,
    reasons: Mapping[str, str],
    half_width: float | None,
    needed: Mapping[str, int | None],
) -> None:
    more = () if half_width is None else (f"labels for ± {half_width:g}",)
    rows = [
        (*_row(name, mean), *(("-" if needed[name] is None else f"{needed[name]:,}",) if more else ()))
        for name, mean in means.items()
    ]
    rows += [(name, "-", "-", reason, "-", *("-" for _ in more)) for name, reason in reasons.items()]
    print_table(
        f"mean ratings, with {metric}", ("system", "mean", "by labels alone", "labelled", "unlabelled", *more), rows
    )
    if differences:
        shown = [_row(name, difference) for name, difference in differences.items()]
        print_table(f"against {baseline}", ("system", "difference", "by labels alone", "labelled", "unlabelled"), shown)


def _row(name: str, mean: PoweredMean) -> Sequence[object]:
    return name, _shown(mean.powered), _shown(mean.labels_only), f"{mean.labelled:,}", f"{mean.unlabelled:,}"


def _shown(estimate: Estimate) -> str:
    return f"{number(estimate.value)} [{number(estimate.low)}, {number(estimate.high)}]"
