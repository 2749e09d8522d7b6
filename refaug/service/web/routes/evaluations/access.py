"""Which uploads and evaluations a key sees: its own, and with the scope admin all; others are as if not there."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request

from refaug.core.errors import Conflict, NotAllowed, NotFound, TooLarge
from refaug.service.evaluations.evaluation_store import StoredEvaluation, evaluation_not_found
from refaug.service.evaluations.uploads import Upload, not_found, upload_in
from refaug.service.jobs.orders.evaluation_orders import ItemSources, MetaJob, ScoreJob
from refaug.service.jobs.store import Job, JobState
from refaug.service.keys import Key
from refaug.service.scopes import Scope
from refaug.service.web.dependencies import key_of
from refaug.service.web.handling.job_queueing import require_clusters, sources_of
from refaug.service.web.state import ServiceState, state_of

EvaluationId = Annotated[
    str, Path(description="id of the evaluation, which is that of its job", pattern=r"^[0-9a-z]{26}$")
]
_KINDS = ("score", "meta")


def is_visible(key: Key, owner: str | None) -> bool:
    """Whether a key sees what has this owner."""
    return key.allows(Scope.ADMIN) or owner == key.name


def visible_upload(request: Request, upload_id: str) -> Upload:
    """Return an upload; NotFound where there is none that the key sees."""
    upload = state_of(request).uploads.get(upload_id)
    if not is_visible(key_of(request), upload.owner):
        raise not_found(upload_id)
    return upload


def visible_job(request: Request, evaluation_id: str) -> Job | None:
    """Return the job of an evaluation that the key sees, or None; a job of another kind is none."""
    try:
        job = state_of(request).jobs.get(evaluation_id)
    except NotFound:
        return None
    return job if job.kind in _KINDS and is_visible(key_of(request), job.order.get("owner")) else None


def visible_result(request: Request, evaluation_id: str) -> StoredEvaluation:
    """Return a finished evaluation that the key sees; Conflict while its job has not ended well, else NotFound."""
    job = visible_job(request, evaluation_id)
    if job is not None and job.state is not JobState.DONE:
        raise Conflict(f"evaluation {evaluation_id} is {job.state.value}", remedy="wait until it is done, or retry it")
    stored = state_of(request).evaluations.get(evaluation_id)
    if not is_visible(key_of(request), stored.owner):
        raise evaluation_not_found(evaluation_id)
    return stored


def require_allowed_sources(request: Request, order: ItemSources | ScoreJob | MetaJob) -> None:
    """Raise NotFound for an upload of another key, and NotAllowed for other files where the key is no admin's."""
    key = key_of(request)
    names = sources_of(order) if isinstance(order, ScoreJob | MetaJob) else order.files
    for text in names:
        upload_id = upload_in(text)
        if upload_id is not None:
            visible_upload(request, upload_id)
        elif not key.allows(Scope.ADMIN):
            raise NotAllowed(
                f"key {key.name} names {text[:80]!r}, and only admin reads files of the server",
                remedy="upload the file, and name it as upload:ID",
            )


def require_allowed_cluster(request: Request, order: ScoreJob | MetaJob) -> None:
    """Raise NotAllowed for a cluster that the settings do not name, and for any where the key is no admin's."""
    key = key_of(request)
    if order.on is not None and not key.allows(Scope.ADMIN):
        raise NotAllowed(
            f"key {key.name} names a cluster, and only admin works on clusters",
            remedy="leave `on` out: the server's machine finds the same references",
        )
    require_clusters(state_of(request), order)


def require_within_limits(state: ServiceState, key: Key, order: ScoreJob | MetaJob) -> None:
    """Raise TooLarge for more draws than requests have, or Conflict for more evaluations at once than a key has."""
    if key.allows(Scope.ADMIN):
        return
    if isinstance(order, ScoreJob) and order.draws > state.serve.draws:
        raise TooLarge(
            f"{order.draws:,} draws are more than the {state.serve.draws:,} of one request",
            remedy="ask for fewer draws",
        )
    waiting = [
        job
        for job_state in (JobState.QUEUED, JobState.RUNNING)
        for kind in _KINDS
        for job in state.jobs.list(state=job_state, kind=kind, limit=1_000)[0]
        if job.order.get("owner") == key.name
    ]
    if len(waiting) >= state.serve.key_evaluations:
        raise Conflict(
            f"key {key.name} has {len(waiting):,} evaluations that wait or run", remedy="wait for one, or cancel one"
        )
