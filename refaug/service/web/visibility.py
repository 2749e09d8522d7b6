"""Which uploads, jobs and evaluations a key sees: its own, and with the scope admin all; others are as if not there.

Orders of evaluations, and those whose outcome is an upload, name their owner. Jobs without an owner's name in their
order, such as updates of an index, are the server's: every key that may read jobs sees them.
"""

from __future__ import annotations

from typing import Final

from fastapi import Request

from refaug.core.errors import Conflict, NotFound
from refaug.service.evaluations.evaluation_store import StoredEvaluation, evaluation_not_found
from refaug.service.evaluations.uploads import Upload, not_found
from refaug.service.jobs.store import Job, JobState, job_not_found
from refaug.service.keys import Key
from refaug.service.scopes import Scope
from refaug.service.web.dependencies import key_of
from refaug.service.web.state import state_of

EVALUATION_KINDS: Final = ("score", "meta")


def is_visible(key: Key, owner: str | None) -> bool:
    """Whether a key sees what has this owner."""
    return key.allows(Scope.ADMIN) or owner == key.name


def is_job_visible(key: Key, job: Job) -> bool:
    """Whether a key sees a job: one of the server's, its own, or with the scope admin any."""
    return "owner" not in job.order or is_visible(key, job.order["owner"])


def visible_job(request: Request, job_id: str) -> Job:
    """Return a job; NotFound where there is none that the key sees."""
    job = state_of(request).jobs.get(job_id)
    if not is_job_visible(key_of(request), job):
        raise job_not_found(job_id)
    return job


def visible_upload(request: Request, upload_id: str) -> Upload:
    """Return an upload; NotFound where there is none that the key sees."""
    upload = state_of(request).uploads.get(upload_id)
    if not is_visible(key_of(request), upload.owner):
        raise not_found(upload_id)
    return upload


def evaluation_job(request: Request, evaluation_id: str) -> Job | None:
    """Return the job of an evaluation that the key sees, or None; a job of another kind is none."""
    try:
        job = visible_job(request, evaluation_id)
    except NotFound:
        return None
    return job if job.kind in EVALUATION_KINDS else None


def find_result(request: Request, evaluation_id: str) -> StoredEvaluation | None:
    """Return a finished evaluation that the key sees, or None."""
    stored = state_of(request).evaluations.find(evaluation_id)
    return stored if stored is not None and is_visible(key_of(request), stored.owner) else None


def visible_result(request: Request, evaluation_id: str) -> StoredEvaluation:
    """Return a finished evaluation that the key sees; Conflict while its job has not ended well, else NotFound."""
    job = evaluation_job(request, evaluation_id)
    if job is not None and job.state is not JobState.DONE:
        raise Conflict(f"evaluation {evaluation_id} is {job.state.value}", remedy="wait until it is done, or retry it")
    if (stored := find_result(request, evaluation_id)) is None:
        raise evaluation_not_found(evaluation_id)
    return stored
