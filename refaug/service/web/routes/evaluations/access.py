"""What an order of an evaluation may name and ask for, by the key that sends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import Path, Request

from refaug.core.errors import Conflict, NotAllowed, TooLarge
from refaug.operations.agreement import MeasureAgreement
from refaug.operations.item_sources import ItemSources
from refaug.operations.operation import Operation
from refaug.operations.scoring_options import Score
from refaug.service.evaluations.uploads import upload_in
from refaug.service.jobs.job_order import JobOrder
from refaug.service.jobs.store import JobState
from refaug.service.keys import Key
from refaug.service.scopes import Scope
from refaug.service.web.dependencies import key_of
from refaug.service.web.handling.job_queueing import require_clusters, sources_of
from refaug.service.web.state import ServiceState, state_of
from refaug.service.web.visibility import EVALUATION_KINDS, visible_upload

EvaluationId = Annotated[
    str, Path(description="id of the evaluation, which is that of its job", pattern=r"^[0-9a-z]{26}$")
]


def require_allowed_sources(request: Request, order: ItemSources | MeasureAgreement) -> None:
    """Raise NotFound for an upload of another key, and NotAllowed for other files where the key is no admin's."""
    key = key_of(request)
    names = sources_of(order) if isinstance(order, Operation) else order.files
    for text in names:
        upload_id = upload_in(text)
        if upload_id is not None:
            visible_upload(request, upload_id)
        elif not key.allows(Scope.ADMIN):
            raise NotAllowed(
                f"key {key.name} names {text[:80]!r}, and only admin reads files of the server",
                remedy="upload the file, and name it as upload:ID",
                scope=Scope.ADMIN,
            )


def require_allowed_cluster(request: Request, order: Score | MeasureAgreement) -> None:
    """Raise NotAllowed for a cluster that the settings do not name, and for any where the key is no admin's."""
    key = key_of(request)
    if order.on is not None and not key.allows(Scope.ADMIN):
        raise NotAllowed(
            f"key {key.name} names a cluster, and only admin works on clusters",
            remedy="leave `on` out: the server's machine finds the same references",
            scope=Scope.ADMIN,
        )
    require_clusters(state_of(request), order)


@contextmanager
def within_limits(state: ServiceState, key: Key, order: JobOrder) -> Iterator[None]:
    """Let the block queue an evaluation; TooLarge or Conflict where the key may not ask for it.

    Nothing else is queued from the count to the end of the block.
    """
    with state.database.writing() as connection:
        state.database.advisory_lock(connection, "enqueue")
        _require_within_limits(state, key, order)
        yield


def _require_within_limits(state: ServiceState, key: Key, order: JobOrder) -> None:
    """Raise TooLarge for more draws than requests have, or Conflict for more evaluations at once than a key has."""
    if key.allows(Scope.ADMIN):
        return
    if isinstance(order, Score) and order.draws > state.serve.draws:
        raise TooLarge(
            f"{order.draws:,} draws are more than the {state.serve.draws:,} of one request",
            remedy="ask for fewer draws",
        )
    waiting = [
        job
        for job_state in (JobState.QUEUED, JobState.RUNNING)
        for kind in EVALUATION_KINDS
        for job in state.jobs.list(state=job_state, kind=kind, limit=1_000)[0]
        if job.order.get("owner") == key.name
    ]
    if len(waiting) >= state.serve.key_evaluations:
        raise Conflict(
            f"key {key.name} has {len(waiting):,} evaluations that wait or run", remedy="wait for one, or cancel one"
        )
