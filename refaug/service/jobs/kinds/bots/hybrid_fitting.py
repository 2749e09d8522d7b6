"""Jobs that fit the hybrid metric to rated conversations; a version of a hybrid comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from refaug.core.artefacts.kinds import artefact_stores
from refaug.evaluation.conversations.encoders.opening import EncoderRequest
from refaug.evaluation.conversations.hybrids.fitting import HybridOrder, fit_hybrid
from refaug.evaluation.conversations.table import HybridSettings
from refaug.evaluation.conversations.table_rows import ConversationColumns
from refaug.evaluation.conversations.talks import usable_talks, without_bots
from refaug.metrics.conversations.components import Variants
from refaug.service.jobs.kinds.bots.conversation_judging import turn_judges
from refaug.service.jobs.kinds.job_context import JobContext
from refaug.service.jobs.kinds.named_models import require_order_models
from refaug.service.jobs.kinds.sources import named_file, require_source
from refaug.service.jobs.orders.conversation_orders import HybridFitJob


def hybrid_fit_job(order: HybridFitJob, context: JobContext) -> Mapping[str, Any]:
    """Fit and publish what `refaug hybrid fit` does, and return the version with its figures."""
    if order.metrics:
        require_order_models(order, context.home)
    file = named_file(order.conversations, context.home, context.serve)
    columns = ConversationColumns.parse(order.map, order.scale, order.encoding)
    encoders, judges = _encoders(order, context), turn_judges(order, context) if order.metrics else None

    def fit() -> dict[str, Any]:
        talks = usable_talks(file.path, file.name, columns, context.progress, bot=order.bot)
        fitted = fit_hybrid(
            context.home,
            order.name,
            without_bots(talks, order.without),
            HybridOrder(encoders=encoders, settings=_settings(order), judges=judges, columns=order.columns),
            context.progress,
        )
        return {"hybrid": order.name, "version": fitted.version, "report": dict(fitted.report)}

    facts = context.stages.run("fitted", fit)
    return {name: fact for name, fact in facts.items() if name != "seconds"}


def _encoders(order: HybridFitJob, context: JobContext) -> EncoderRequest:
    """Return the encoders, vectors with their version; NotAllowed for files that jobs may not read."""
    vectors = "@".join(artefact_stores(context.home)["vectors"].resolve(order.vectors))
    return EncoderRequest(
        vectors=vectors, sentiment=_allowed(order.sentiment, context), meaning=_allowed(order.meaning, context)
    )


def _allowed(encoder: str, context: JobContext) -> str:
    kind, colon, path = encoder.partition(":")
    return f"{kind}:{require_source(path, context.home, context.serve)}" if colon else encoder


def _settings(order: HybridFitJob) -> HybridSettings:
    forms = order.forms
    intercept = forms.pop("intercept")
    return HybridSettings(
        variants=Variants(**forms),  # type: ignore[arg-type]
        target=order.target,
        person_z=order.person_z,
        intercept=intercept,  # type: ignore[arg-type]
        penalty=order.ridge,
        draws=order.draws,
        seed=order.seed,
        is_paper=order.preset is not None,
    )


JOB_FUNCTIONS: Final = {"hybrid-fit": hybrid_fit_job}
