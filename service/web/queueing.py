"""Jobs that a request asks for: what they may read is looked at before they wait, and the job is the answer."""

from __future__ import annotations

from core.errors import NoSource
from service.job_kinds.orders import (
    FreezeJob,
    IndexBuildJob,
    IngestJob,
    JobOrder,
    MetaJob,
    NightlyJob,
    VectorsJob,
    metrics_in,
    resources_of,
)
from service.job_kinds.sources import files_in, require_source
from service.web.once import Made
from service.web.schemas.jobs import shown_job
from service.web.state import State


def queued(state: State, order: JobOrder, requested_by: str) -> Made:
    """A job at the end of the queue; Conflict where one like it waits already."""
    job = state.jobs.enqueue(order.kind, order.model_dump(mode="json"), resources_of(order), requested_by=requested_by)
    return Made(status=202, body=shown_job(job), location=f"/v1/jobs/{job.id}")


def require_sources(state: State, order: JobOrder, *, there: bool) -> None:
    """NotAllowed now, not when the job runs, for files elsewhere than sources may lie; `there`: they exist already."""
    for text in sources_of(order):
        try:
            require_source(text, state.home, state.serve)
        except NoSource:
            if there:
                raise


def sources_of(order: JobOrder) -> list[str]:
    """The files and folders that an order names, those of its metrics and tokenizer too."""
    tokenizer = order.tokenizer if isinstance(order, VectorsJob | IndexBuildJob) else None
    return [*_read_by(order), *files_in(metrics_in(order), tokenizer)]


def _read_by(order: JobOrder) -> list[str]:
    match order:
        case IngestJob():
            return [*(order.sources or ()), *order.context]
        case NightlyJob():
            return [*(order.sources or ()), *([order.replies] if order.replies is not None else [])]
        case IndexBuildJob():
            return [order.encoder] if order.encoder is not None else []
        case FreezeJob():
            return [order.source] if order.source is not None else []
        case MetaJob():
            return list(order.data)
    return []
