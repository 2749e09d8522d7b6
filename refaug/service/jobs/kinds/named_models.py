"""Whether an order names the models that its metrics need, and no others."""

from __future__ import annotations

from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.evaluation.metric_setup.metric_requests import MetricNeeds, refuse_judge
from refaug.evaluation.metric_setup.signature_requests import specification_texts
from refaug.service.jobs.orders.conversation_orders import HybridFitJob, JudgeConversationsJob
from refaug.service.jobs.orders.evaluation_orders import MetaJob, ScoreJob
from refaug.service.jobs.orders.job_order import metrics_in


def require_models(order: ScoreJob | MetaJob | JudgeConversationsJob | HybridFitJob, home: Settings) -> None:
    """Raise Usage before any work where a needed artefact is not named, or a named one is not used."""
    wants = [MetricNeeds.of(text, home) for text in specification_texts(metrics_in(order))]
    refuse_judge(wants)
    rates = order.index is not None and order.reference_settings.needs_rater
    if rates and order.rater is None:
        raise Usage("something is to be rated, and no rater is named", remedy="rater, or weights one and parrot off")
    if order.index is not None and wants and not any(one.weighted or one.sample for one in wants):
        raise Usage(f"index {order.index}, and no metric looks at weighted references", remedy="leave index out")
    for field, needed in (
        ("rater", [one.name for one in wants if one.rater]),
        ("ruber", [one.name for one in wants if one.ruber]),
        ("adem", [one.name for one in wants if one.adem]),
        ("sample", [one.name for one in wants if one.sample]),
    ):
        artefact = getattr(order, field)
        if needed and artefact is None and not (field == "sample" and order.index is not None):
            raise Usage(f"{needed[0]} asks a {field}, and none is named", remedy=f'"{field}": its name')
        weighs = field == "rater" and (rates or any(one.weigher for one in wants))
        if artefact is not None and not needed and not weighs:
            raise Usage(f"{field} {artefact}, and no metric asks for it", remedy=f"leave {field} out")
