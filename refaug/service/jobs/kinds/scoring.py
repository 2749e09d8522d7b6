"""Jobs that score replies, by the steps of `refaug score`, and keep the scores as an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from refaug.core.errors import BadInput
from refaug.core.records import Item
from refaug.operations.scoring_options import Score
from refaug.scoring.evaluate import evaluate
from refaug.scoring.item_files import ItemFiles
from refaug.scoring.items import BadItem
from refaug.scoring.metric_setup.metric_requests import baseline_advice, refuse_judge
from refaug.scoring.metric_setup.scoring_steps import bound_metrics, chosen_metrics, find_references
from refaug.scoring.metric_setup.signature_requests import specification_texts
from refaug.scoring.provenance import Provenance
from refaug.scoring.score_files.score_document import FIELD, details_of
from refaug.scoring.score_files.score_file import sealed
from refaug.scoring.scores import Evaluation, percent
from refaug.service.jobs.clusters import allowed_cluster
from refaug.service.jobs.kinds.job_context import JobContext
from refaug.service.jobs.kinds.result_files import job_models, store_scores
from refaug.service.jobs.kinds.sources import ReplyLimit, item_files, resolve_metric_files

_SHOWN_BAD_ITEMS: Final = 5


def score_job(order: Score, context: JobContext) -> Mapping[str, Any]:
    """Store what `refaug score --json --details` prints, and return its main figures."""
    on = allowed_cluster(order.on, context.serve)
    refuse_judge(order.require_models(context.home, order.metrics))
    specifications = resolve_metric_files(order.metrics, context.home, context.serve)
    files = item_files(order, context.home, context.serve)
    context.progress.stage("read")
    test_items = _read(files, context)
    evaluation, scored_items = _score(order, specifications, test_items, context, on)
    for bad in evaluation.bad_items[:_SHOWN_BAD_ITEMS]:
        context.progress.warn(str(bad))
    for warning in evaluation.warnings:
        context.progress.warn(warning)
    context.progress.stage("store")
    document = sealed(
        {
            **evaluation.as_json(),
            FIELD: details_of(evaluation, scored_items),
            "inputs": {"files": files.names},
        }
    )
    stored = store_scores(order, evaluation, document, files.names, context)
    return {"evaluation": stored.id, **stored.counts, "scores": _main_figures(evaluation)}


def _read(files: ItemFiles, context: JobContext) -> list[Item | BadItem]:
    """Return the items; BadInput where there are none, TooLarge as soon as there are more replies than a job scores."""
    test_items = list(ReplyLimit(context.serve.evaluation_replies).counted(files, context.progress.warn))
    if not any(isinstance(test_item, Item) for test_item in test_items):
        bad = next((test_item for test_item in test_items if isinstance(test_item, BadItem)), None)
        raise BadInput(
            f"no item in {', '.join(files.names)}{f': {bad}' if bad is not None else ''}",
            remedy="a preview shows what is wrong with each row",
        )
    return test_items


def _score(
    order: Score,
    specifications: Sequence[str],
    test_items: list[Item | BadItem],
    context: JobContext,
    on: str | None,
) -> tuple[Evaluation, Sequence[Item | BadItem]]:
    """Return the scores, and the items with the references that they were scored against."""
    provenance: Provenance | None = None
    if order.index is not None:
        test_items, provenance = find_references(
            context.home,
            test_items,
            order.index,
            order.rater,
            order.settings,
            context.reference_threads(order),
            context.progress,
            on=on,
        )
    models, settings = job_models(context, order, context.threads(order.threads)), order.settings
    metrics = chosen_metrics(
        specification_texts(list(specifications)),
        test_items,
        models,
        provenance,
        references=settings,
        language=order.language,
        progress=context.progress,
    )
    if (advice := baseline_advice(metrics, test_items)) is not None:
        context.progress.warn(advice)
    augmenting = settings if order.index is not None or order.rater is not None else None
    bound = bound_metrics(metrics, models, provenance, augmenting=augmenting, progress=context.progress)
    evaluation = evaluate(test_items, bound, order, provenance=provenance, progress=context.progress)
    return percent(evaluation) if order.percent else evaluation, test_items


def _main_figures(evaluation: Evaluation) -> list[dict[str, object]]:
    """Return the corpus scores of all systems; the evaluation has the rest."""
    return [
        {
            "metric": scores.metric.name,
            "signature": scores.signature.short,
            "systems": {name: system.corpus for name, system in scores.systems.items()},
        }
        for scores in evaluation.scores
    ]
