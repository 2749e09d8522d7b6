"""Jobs that fit the hybrid metric to rated conversations; a version of a hybrid comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refaug.core.artefacts.kinds import artefact_stores
from refaug.extras.conversations.hybrids.fitting import HybridOrder, fit_hybrid
from refaug.extras.conversations.jobs.conversation_judging import source_file, turn_judges
from refaug.extras.conversations.operations.fit_hybrid import FitHybrid
from refaug.extras.conversations.options.hybrid_settings import EncoderRequest
from refaug.extras.conversations.talks import read_talks
from refaug.service.jobs.kinds.job_context import JobContext
from refaug.service.jobs.kinds.sources import require_source


def hybrid_fit_job(order: FitHybrid, context: JobContext) -> Mapping[str, Any]:
    """Fit and publish what `refaug train hybrid` does, and return the version with its figures."""
    judges = turn_judges(order, context) if order.metrics else None
    fitted_to, encoders = source_file(order, context), _encoders(order, context)

    def fit() -> dict[str, Any]:
        talks = read_talks(context.home, order, fitted_to, context.progress)
        hybrid_order = HybridOrder(encoders=encoders, settings=order, judges=judges, columns=order.columns)
        fitted = fit_hybrid(context.home, order.name, talks, hybrid_order, context.progress)
        return {"hybrid": order.name, "version": fitted.version, "report": dict(fitted.report)}

    facts = context.stages.run("fitted", fit)
    return {name: fact for name, fact in facts.items() if name != "seconds"}


def _encoders(order: FitHybrid, context: JobContext) -> EncoderRequest:
    """Return the encoders, vectors with their version; NotAllowed for files that jobs may not read."""
    if "/" in order.vectors:
        vectors = str(require_source(order.vectors, context.home, context.serve))
    else:
        vectors = "@".join(artefact_stores(context.home)["vectors"].resolve(order.vectors))
    return EncoderRequest(
        vectors=vectors, sentiment=_allowed(order.sentiment, context), meaning=_allowed(order.meaning, context)
    )


def _allowed(encoder: str, context: JobContext) -> str:
    kind, colon, path = encoder.partition(":")
    return f"{kind}:{require_source(path, context.home, context.serve)}" if colon else encoder
