"""The models that the metrics of an order need."""

from __future__ import annotations

from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.evaluation.metric_setup.metric_requests import (
    MetricRequest,
    refuse_judge,
    require_index_used,
    require_models,
)
from refaug.evaluation.metric_setup.model_registry import MetricModels, ModelRegistry
from refaug.evaluation.metric_setup.signature_requests import specification_texts
from refaug.operations.agreement import MeasureAgreement
from refaug.operations.score import Score
from refaug.service.jobs.kinds.job_context import JobContext
from refaug.service.jobs.orders.conversation_orders import HybridFitJob, JudgeConversationsJob
from refaug.service.jobs.orders.job_order import metrics_in


def job_models(
    context: JobContext, order: Score | MeasureAgreement | JudgeConversationsJob | HybridFitJob, threads: int
) -> MetricModels:
    """Return the models of the metrics of an order; metrics name no files of the server."""
    return MetricModels(registry=ModelRegistry(context.home, threads, allows_paths=False), rater=order.rater)


def require_order_models(order: JudgeConversationsJob | HybridFitJob, home: Settings) -> None:
    """Raise Usage before any work where a needed model is not named, or the rater or the index is not used."""
    requests = [MetricRequest.of(text, home) for text in specification_texts(metrics_in(order))]
    refuse_judge(requests)
    weighs = order.index is not None and order.reference_settings.needs_rater
    if weighs and order.rater is None:
        raise Usage("something is to be rated, and no rater is named", remedy="rater, or weights one and parrot off")
    if order.index is not None:
        require_index_used(requests)
    require_models(requests, rater=order.rater, index=order.index)
    if order.rater is not None and not weighs and not any(request.rates_by_default for request in requests):
        raise Usage(f"rater {order.rater}, and no metric asks for it", remedy="leave rater out")
