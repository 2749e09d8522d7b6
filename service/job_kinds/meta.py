"""Jobs that measure how far metrics agree with people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from core.errors import BadInput, Usage
from core.items import BadItem, read_items
from core.records import Item
from metrics.signature import Signature
from service.asked_metrics import Wants, lacking_b, metrics_of
from service.job_kinds.orders import MetaJob, metrics_in
from service.job_kinds.sources import metrics_within, require_source
from service.job_kinds.work import Work
from service.meta import agreement, default_metrics
from service.meta_records import ComparedMetric, MetaSettings, RatedItems, RowsChoice
from service.ruber_scores import Named, with_parts


def meta_job(order: MetaJob, work: Work) -> Mapping[str, Any]:
    """As `refaug meta --json`."""
    _require_named(order)
    _require_allowed(order, work)
    files = _named_files(order.data, work)
    settings = MetaSettings(
        rows=RowsChoice(order.rows),
        draws=order.draws,
        seed=order.seed,
        confidence=order.confidence,
        min_kappa=order.min_kappa,
    )
    work.progress.stage("read")
    sets = [RatedItems(name=name, items=_items(name, path)) for name, path in files.items()]
    everything = [item for one in sets for item in one.items]
    chosen, baseline = _chosen(order, order.metrics or default_metrics(everything), work)
    if (told := lacking_b([one.metric for one in chosen], everything)) is not None:
        work.progress.warn(told)
    named = Named(rater=order.rater, ruber=order.ruber, sample=order.sample, threads=order.threads)
    bound = with_parts([one.metric for one in chosen], work.home, named, progress=work.progress)
    metrics = [replace(one, metric=metric) for one, metric in zip(chosen, bound, strict=True)]
    found = agreement(sets, metrics, settings, baseline=baseline, progress=work.progress)
    for warning in found.warnings:
        work.progress.warn(warning)
    return found.as_json()


def _require_named(order: MetaJob) -> None:
    """Usage where somebody who is asked is missing, or somebody is named whom no metric asks, before any work."""
    wants = [Wants.of(text) for text in metrics_in(order)]
    for field, needed in (
        ("rater", [one.name for one in wants if one.rater]),
        ("ruber", [one.name for one in wants if one.ruber]),
        ("sample", [one.name for one in wants if one.sample]),
    ):
        given = getattr(order, field)
        if needed and given is None:
            raise Usage(f"{needed[0]} asks a {field}, and none is named", remedy=f'"{field}": its name')
        weighs = field == "rater" and any(one.weigher for one in wants)
        if given is not None and not needed and not weighs:
            raise Usage(f"{field} {given}, and no metric asks for it", remedy=f"leave {field} out")


def _require_allowed(order: MetaJob, work: Work) -> None:
    """NotAllowed where a metric names a file that jobs may not read, before any work."""
    metrics_within(metrics_in(order), work.home, work.serve)


def _named_files(names: Sequence[str], work: Work) -> dict[str, Path]:
    """Every set by the short name of its file, or by its whole name where two would have the same."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Usage(f"{twice} is named twice", remedy="give every test set once")
    short = [name.rpartition("/")[2].split(".")[0] or name for name in names]
    called = [one if short.count(one) == 1 else name for one, name in zip(short, names, strict=True)]
    return {one: require_source(name, work.home, work.serve) for one, name in zip(called, names, strict=True)}


def _items(name: str, path: Path) -> list[Item | BadItem]:
    items = list(read_items(path, called=name))
    if not items:
        raise BadInput(f"there are no items in {name}", remedy="one item a line: docs/items.md")
    return items


def _chosen(order: MetaJob, asked: Sequence[str], work: Work) -> tuple[list[ComparedMetric], str]:
    """The metrics, each once however it is written, and the name of the one that is the baseline."""
    named = {
        text: metrics_of(metrics_within([text], work.home, work.serve), order.language)[0]
        for text in dict.fromkeys([*asked, order.baseline or asked[0]])
    }
    found = dict[str, ComparedMetric]()
    for text in asked:
        found.setdefault(Signature.of(named[text]).full, ComparedMetric(name=text.strip(), metric=named[text]))
    if order.baseline is None:
        return list(found.values()), next(iter(found.values())).name
    baseline = ComparedMetric(name=order.baseline.strip(), metric=named[order.baseline])
    known = found.get(Signature.of(baseline.metric).full)
    return (list(found.values()), known.name) if known is not None else ([baseline, *found.values()], baseline.name)


WORK: Final = {"meta": meta_job}
