"""Jobs that measure how far metrics agree with people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from refaug.core.errors import BadInput, Usage
from refaug.core.records import Item
from refaug.evaluation.agreement.meta import agreement, default_metrics
from refaug.evaluation.agreement.records import ComparedMetric, MetaSettings, RatedItems, RowsChoice
from refaug.evaluation.metric_setup.metric_requests import MetricNeeds, baseline_advice, metrics_of
from refaug.evaluation.metric_setup.model_metrics import ModelNames, with_parts
from refaug.evaluation.scoring.items import BadItem, read_items
from refaug.evaluation.scoring.presets import find_preset
from refaug.metrics.base import Metric
from refaug.metrics.signature import Signature
from refaug.service.jobs.kinds.job_context import JobContext
from refaug.service.jobs.kinds.sources import require_source, resolve_metric_files
from refaug.service.jobs.orders.job_order import metrics_in
from refaug.service.jobs.orders.set_orders import MetaJob


def meta_job(order: MetaJob, context: JobContext) -> Mapping[str, Any]:
    """Return what `refaug meta --json` prints."""
    if (preset := find_preset(order.preset)) is not None:
        preset.require_effect(order.metrics)
    _require_named(order)
    _require_allowed(order, context)
    files = _named_files(order.data, context)
    settings = MetaSettings(
        rows=RowsChoice(order.rows),
        draws=order.draws,
        seed=order.seed,
        confidence=order.confidence,
        min_kappa=order.min_kappa,
    )
    context.progress.stage("read")
    sets = [RatedItems(name=name, items=_items(name, path, context)) for name, path in files.items()]
    everything = [item for one in sets for item in one.items]
    if preset is not None:
        preset.require_items(everything)
    chosen, baseline = _choose_metrics(order, order.metrics or default_metrics(everything), context)
    if (advice := baseline_advice([one.metric for one in chosen], everything)) is not None:
        context.progress.warn(advice)
    named = ModelNames(
        rater=order.rater, ruber=order.ruber, sample=order.sample, threads=context.threads(order.threads)
    )
    bound = with_parts([one.metric for one in chosen], context.home, named, progress=context.progress)
    metrics = [replace(one, metric=metric) for one, metric in zip(chosen, bound, strict=True)]
    report = agreement(sets, metrics, settings, baseline=baseline, progress=context.progress)
    for warning in report.warnings:
        context.progress.warn(warning)
    return report.as_json()


def _require_named(order: MetaJob) -> None:
    """Raise Usage before any work where a needed artefact is not named, or a named one is not used."""
    wants = [MetricNeeds.of(text) for text in metrics_in(order)]
    for field, needed in (
        ("rater", [one.name for one in wants if one.rater]),
        ("ruber", [one.name for one in wants if one.ruber]),
        ("sample", [one.name for one in wants if one.sample]),
    ):
        artefact = getattr(order, field)
        if needed and artefact is None:
            raise Usage(f"{needed[0]} asks a {field}, and none is named", remedy=f'"{field}": its name')
        weighs = field == "rater" and any(one.weigher for one in wants)
        if artefact is not None and not needed and not weighs:
            raise Usage(f"{field} {artefact}, and no metric asks for it", remedy=f"leave {field} out")


def _require_allowed(order: MetaJob, context: JobContext) -> None:
    """Raise NotAllowed before any work where a metric names a file that jobs may not read."""
    resolve_metric_files(metrics_in(order), context.home, context.serve)


def _named_files(names: Sequence[str], context: JobContext) -> dict[str, Path]:
    """Name every set by the stem of its file, or by its whole name where two stems are equal."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Usage(f"{twice} is named twice", remedy="give every test set once")
    short = [name.rpartition("/")[2].split(".")[0] or name for name in names]
    called = [one if short.count(one) == 1 else name for one, name in zip(short, names, strict=True)]
    return {one: require_source(name, context.home, context.serve) for one, name in zip(called, names, strict=True)}


def _items(name: str, path: Path, context: JobContext) -> list[Item | BadItem]:
    items = list(read_items(path, shown_name=name, on_unknown_field=context.progress.warn))
    if not items:
        raise BadInput(f"there are no items in {name}", remedy="one item a line: docs/items.md")
    return items


def _choose_metrics(
    order: MetaJob, specifications: Sequence[str], context: JobContext
) -> tuple[list[ComparedMetric], str]:
    """Return the metrics without duplicates, and the name of the baseline."""
    preset = find_preset(order.preset)
    named = dict[str, Metric]()
    for text in dict.fromkeys([*specifications, order.baseline or specifications[0]]):
        resolved = resolve_metric_files([text], context.home, context.serve)
        named[text] = metrics_of(resolved if preset is None else preset.specifications(resolved), order.language)[0]
    metrics = dict[str, ComparedMetric]()
    for text in specifications:
        metrics.setdefault(Signature.of(named[text]).full, ComparedMetric(name=text.strip(), metric=named[text]))
    if order.baseline is None:
        return list(metrics.values()), next(iter(metrics.values())).name
    baseline = ComparedMetric(name=order.baseline.strip(), metric=named[order.baseline])
    same_metric = metrics.get(Signature.of(baseline.metric).full)
    return (
        (list(metrics.values()), same_metric.name)
        if same_metric is not None
        else ([baseline, *metrics.values()], baseline.name)
    )


JOB_FUNCTIONS: Final = {"meta": meta_job}
