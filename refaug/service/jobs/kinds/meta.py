"""Jobs that measure how far metrics agree with people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from refaug.agreement.costs import RatedSizes
from refaug.agreement.meta import agreement
from refaug.agreement.records import ComparedMetric, RatedItems, choose_metrics
from refaug.core.errors import BadInput, Usage
from refaug.core.records import Item
from refaug.metrics.base import Metric
from refaug.metrics.costs import require_work
from refaug.operations.agreement import MeasureAgreement
from refaug.scoring.home.indexes import places_of
from refaug.scoring.item_files import InputFile, ItemFiles
from refaug.scoring.items import BadItem
from refaug.scoring.metric_setup import metric_requests
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.metric_setup.scoring_steps import bound_metrics, open_references
from refaug.scoring.provenance import Provenance, with_provenance
from refaug.scoring.settings import AugmentSettings, find_preset
from refaug.service.jobs.clusters import allowed_cluster
from refaug.service.jobs.kinds.job_context import JobContext
from refaug.service.jobs.kinds.result_files import job_models, store_agreement
from refaug.service.jobs.kinds.sources import ReplyLimit, named_file, resolve_metric_files


def meta_job(order: MeasureAgreement, context: JobContext) -> Mapping[str, Any]:
    """Return what `refaug agreement --json` prints, and keep it with its tables and plots as an evaluation."""
    if (preset := find_preset(order.settings.preset)) is not None:
        preset.require_effect(order.metrics_named())
    allowed_cluster(order.on, context.serve)
    metric_requests.refuse_judge(order.require_models(context.home, order.metrics_named()))
    _require_allowed(order, context)
    files = _named_files(order.data, context)
    context.progress.stage("read")
    limit = ReplyLimit(context.serve.evaluation_replies)
    sets = {name: _items(file, order, context, limit) for name, file in files.items()}
    specifications = order.metrics_for(item for items in sets.values() for item in items)
    _require_cost(order, sets, specifications, context)
    provenance, augmenting, based = Provenance(), None, None
    if order.index is not None:
        augmenting = order.settings
        sets, provenance = _with_references(order, order.index, sets, augmenting, context)
        based = metric_requests.baseline_setter(
            places_of(context.home).indexes, provenance.settings["index"], context.progress
        )
    elif preset is not None:
        preset.require_items(item for items in sets.values() for item in items)
    everything = [item for items in sets.values() for item in items]
    models = job_models(context, order, context.threads(order.threads))
    chosen, baseline = _choose_metrics(order, specifications, context, based, models)
    if (advice := metric_requests.baseline_advice([one.metric for one in chosen], everything)) is not None:
        context.progress.warn(advice)
    bound = bound_metrics(
        [one.metric for one in chosen], models, provenance, augmenting=augmenting, progress=context.progress
    )
    metrics = [replace(one, metric=metric) for one, metric in zip(chosen, bound, strict=True)]
    rated_sets = [RatedItems(name=name, items=items) for name, items in sets.items()]
    report = agreement(rated_sets, metrics, order.meta_settings, baseline=baseline, progress=context.progress)
    for warning in report.warnings:
        context.progress.warn(warning)
    context.progress.stage("store")
    store_agreement(order, report, [file.name for file in files.values()], context)
    return report.as_json()


def _with_references(
    order: MeasureAgreement,
    index: str,
    sets: Mapping[str, Sequence[Item | BadItem]],
    settings: AugmentSettings,
    context: JobContext,
) -> tuple[dict[str, list[Item | BadItem]], Provenance]:
    """Return the sets with weighted references from the index, and the provenance that their items have."""
    rater, on = order.rater if settings.needs_rater else None, allowed_cluster(order.on, context.serve)
    threads = context.reference_threads(order)
    with open_references(context.home, index, rater, settings, threads, context.progress, on) as references:
        provenance = references.provenance
        augmented = {
            name: [
                augmented_item
                if isinstance(augmented_item, BadItem)
                else with_provenance(augmented_item, provenance.line)
                for augmented_item in references.augment(items, context.progress)
            ]
            for name, items in sets.items()
        }
    return augmented, provenance


def _require_allowed(order: MeasureAgreement, context: JobContext) -> None:
    """Raise NotAllowed before any work where a metric names a file that jobs may not read."""
    resolve_metric_files(order.metrics_named(), context.home, context.serve)


def _named_files(names: Sequence[str], context: JobContext) -> dict[str, InputFile]:
    """Name every set by the stem of its file, or by its whole name where two stems are equal."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Usage(f"{twice} is named twice", remedy="give every test set once")
    files = [named_file(name, context.home, context.serve) for name in names]
    short = [file.name.rpartition("/")[2].split(".")[0] or file.name for file in files]
    return {
        stem if short.count(stem) == 1 else f"{file.name} ({place})" if file.name != name else name: file
        for place, (stem, file, name) in enumerate(zip(short, files, names, strict=True), start=1)
    }


def _items(file: InputFile, order: MeasureAgreement, context: JobContext, limit: ReplyLimit) -> list[Item | BadItem]:
    """Return the items of a set; TooLarge as soon as all sets together have more replies than a job compares."""
    items = list(limit.counted(ItemFiles(items=file, table=order.table), context.progress.warn))
    if not items:
        raise BadInput(f"there are no items in {file.name}", remedy="one item a line: docs/items.md")
    return items


def _require_cost(
    order: MeasureAgreement,
    sets: Mapping[str, Sequence[Item | BadItem]],
    specifications: Sequence[str],
    context: JobContext,
) -> None:
    """Raise TooLarge before references are found for more work than one evaluation may be."""
    found = order.settings.k if order.index is not None else 0
    compared = list(dict.fromkeys([*specifications, *([order.baseline] if order.baseline is not None else [])]))
    sizes = [RatedSizes.of(items, compared, found=found) for items in sets.values()]
    require_work(
        order.cost(sizes, metrics=len(compared)),
        context.serve.evaluation_s,
        what=f"agreement over {sum(one.rows for one in sizes):,} replies with up to "
        f"{max(one.annotators for one in sizes):,} ratings each and {order.draws:,} draws",
        setting="evaluation_s",
        remedy="compare fewer replies, ratings of a reply, metrics or draws at once",
    )


def _choose_metrics(
    order: MeasureAgreement,
    specifications: Sequence[str],
    context: JobContext,
    based: metric_requests.SetBaseline | None,
    models: ModelRegistry,
) -> tuple[list[ComparedMetric], str]:
    """Return the metrics without duplicates, and the name of the baseline."""
    rating = order.settings
    by_default = {"combine": rating.combine, "cal": rating.calibration}
    preset = find_preset(order.settings.preset)

    def build(text: str) -> Metric:
        resolved = resolve_metric_files([text], context.home, context.serve)
        texts = resolved if preset is None else preset.specifications(resolved)
        return metric_requests.metrics_of(texts, order.language, by_default, based, source=models)[0]

    return choose_metrics(specifications, order.baseline, build)
