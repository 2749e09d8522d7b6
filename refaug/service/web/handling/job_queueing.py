"""Jobs that a request queues: their input files are checked first, and the job is the response."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from refaug.bots.kinds import parse_bot
from refaug.core.errors import NoSource
from refaug.operations.operation import OwnedOperation
from refaug.service.jobs.clusters import require_cluster
from refaug.service.jobs.kinds.sources import files_in, require_source
from refaug.service.jobs.orders.job_order import JobOrder, bots_in, metrics_in, resources_of
from refaug.service.web.handling.idempotency_keys import CreatedResource
from refaug.service.web.schemas.jobs import describe_job
from refaug.service.web.state import ServiceState

Order = TypeVar("Order", bound=JobOrder)


def enqueue_job(state: ServiceState, order: JobOrder, requested_by: str) -> CreatedResource:
    """Queue a job; Conflict if a job of the same kind and resources waits already."""
    job = state.jobs.enqueue(order.kind, order.as_order(), resources_of(order), requested_by=requested_by)
    return CreatedResource(status=202, body=describe_job(job), location=f"/v1/jobs/{job.id}")


def with_owner(order: Order, key_name: str) -> Order:
    """Return the order, one whose outcome a key sees with the key that asks for it as its owner."""
    if isinstance(order, OwnedOperation):
        return replace(order, owner=key_name)
    return order


def require_sources(state: ServiceState, order: JobOrder, *, must_exist: bool) -> None:
    """Raise NotAllowed before the job runs for files outside the allowed folders; `must_exist`: else NoSource."""
    for text in sources_of(order):
        try:
            require_source(text, state.home, state.serve)
        except NoSource:
            if must_exist:
                raise
    state.models.require_names(metrics_in(order))


def require_clusters(state: ServiceState, order: JobOrder) -> None:
    """Raise NotAllowed before the job runs for a cluster that the settings do not name."""
    if (address := cluster_of(order)) is not None:
        require_cluster(address, state.serve)


def cluster_of(order: JobOrder) -> str | None:
    """Return the address of the cluster that an order names, or None."""
    return getattr(order, "on", None)


def require_bots(state: ServiceState, order: JobOrder) -> None:
    """Raise Usage for a wrong specification of a bot, and NotFound for a missing bot, before the job runs."""
    for text in bots_in(order):
        specification = parse_bot(text)
        if specification.is_stored:
            state.bots.get(specification.source)


def sources_of(order: JobOrder) -> list[str]:
    """Return the files and folders that an order names, with those of its metrics and its tokenizer."""
    return [*order.sources_named(), *files_in(metrics_in(order), getattr(order, "tokenizer", None))]
