"""Routes of jobs: queueing, reading, following and cancelling."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Annotated, Final

import anyio
import orjson
from fastapi import APIRouter, Header, Path, Query, Request
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.responses import Response

from refaug.core.errors import NotFound, StorageFull, Unavailable
from refaug.core.installation import OPERATIONS, registered
from refaug.operations.catalogue import find_operation
from refaug.service.jobs.job_order import parse_order
from refaug.service.jobs.store import Event, Job, JobState, JobStore
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import parse_body, read_body
from refaug.service.web.connection.event_stream import PING_S, EventStream
from refaug.service.web.dependencies import AfterRow, Limit, acting, key_of
from refaug.service.web.handling import database_threads, job_queueing
from refaug.service.web.handling.job_queueing import CreatedResource, IdempotencyKey, create_once_in_database
from refaug.service.web.openapi import TEXT, created, raw, route_options
from refaug.service.web.schemas.jobs import JobIn, JobsOut, OneJobOut
from refaug.service.web.state import ServiceState, state_of
from refaug.service.web.visibility import is_job_visible, visible_job

router = APIRouter(prefix="/v1", tags=["jobs"])

_POLL_S: Final = 0.4  # between two queries for events: immediate for people, and no load for the database
_MAX_EVENTS: Final = 500
_EVENTS: Final = "Events as they happen; `data` is JSON, `event` is state, stage, progress, warning or note."
_EXAMPLES: Final = {
    title: {"kind": name, **options}
    for name in registered(OPERATIONS)
    for title, options in find_operation(name).examples.items()
}
JobId = Annotated[str, Path(description="id of the job", pattern=r"^[0-9a-z]{26}$")]


# ── Queueing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.post(
    "/jobs", **route_options(Scope.ADMIN, {202: created(OneJobOut)}, 403, 404, 409, body=JobIn, examples=_EXAMPLES)
)
async def start_job(request: Request, idempotency_key: IdempotencyKey = None) -> Response:
    """Queue a job; the published versions keep answering until its result is complete.

    Of jobs with the same kind and resources one waits at a time: for a second one the answer is 409 and names the
    first. Files that a job reads lie in the server's inbox/ or in folders that its settings name, and are named from
    there. With an `Idempotency-Key`, the same request again gets the first one's answer.
    """
    raw = await read_body(request)
    order = job_queueing.with_owner((await parse_body(JobIn, raw)).root, key_of(request).name)

    def make() -> CreatedResource:
        job_queueing.require_sources(state_of(request), order, must_exist=True)
        job_queueing.require_bots(state_of(request), order)
        job_queueing.require_clusters(state_of(request), order)
        return job_queueing.enqueue_job(state_of(request), order, key_of(request).name)

    return await create_once_in_database(request, "jobs", idempotency_key, raw, make)


# ── Reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/jobs", **route_options(Scope.READ, JobsOut, 400, 507))
async def list_jobs(
    request: Request,
    state: Annotated[JobState | None, Query(description="only those in this state")] = None,
    kind: Annotated[str | None, Query(description="only those of this kind", pattern=r"^[a-z-]{1,40}$")] = None,
    resource: Annotated[
        str | None,
        Query(description="only those that write this, such as `index/chat`", max_length=200, pattern=r"^[^\x00]*$"),
    ] = None,
    after: AfterRow = None,
    limit: Limit = 50,
) -> Response:
    """Jobs, newest first: those of the server, and evaluations of the key that asks; with `admin` all."""
    jobs, is_listed = state_of(request).jobs, partial(is_job_visible, key_of(request))
    page, following = await database_threads.run_query(
        lambda: jobs.list(state=state, kind=kind, resource=resource, after=after, limit=limit, is_listed=is_listed)
    )
    return json_response({"jobs": [job.as_json() for job in page], "next": following})


@router.get("/jobs/{id}", **route_options(Scope.READ, OneJobOut, 404, 507))
async def get_job(request: Request, id: JobId) -> Response:
    """A job: where it is, and what came of it."""
    return json_response((await database_threads.run_query(partial(visible_job, request, id))).as_json())


@router.delete("/jobs/{id}", **route_options(Scope.ADMIN, {200: OneJobOut, 202: OneJobOut}, 404))
async def cancel_job(request: Request, id: JobId) -> Response:
    """Stop a job: 202 while it is on its way to a place where it can stop, 200 where it has ended.

    What it had finished is kept for the next one. One that waited never begins; one that had ended stays as it is.
    """
    cancel = partial(state_of(request).jobs.cancel, id, **acting(request))
    job = await database_threads.run_query(cancel)
    return json_response(job.as_json(), status=200 if job.state.is_ended else 202)


@router.post("/jobs/{id}/retry", **route_options(Scope.ADMIN, {202: OneJobOut}, 403, 404, 409))
async def retry_job(request: Request, id: JobId) -> Response:
    """Queue a job again that failed or was cancelled: under its id, and without doing again what it had finished.

    A job that is done, or has not ended, is 409, and so is one like which another one waits.
    """
    state = state_of(request)

    def retry() -> Job:
        job_queueing.require_sources(state, parse_order(state.jobs.get(id).order), must_exist=True)
        return state.jobs.retry(id, **acting(request))

    return json_response((await database_threads.run_query(retry)).as_json(), status=202)


# ── Following ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.get(
    "/jobs/{id}/events",
    response_class=EventSourceResponse,
    **route_options(Scope.READ, {200: raw(_EVENTS, {"text/event-stream": TEXT})}, 404, 507),
)
async def follow_job(
    request: Request,
    id: JobId,
    after: Annotated[int, Query(description="only events with a larger id", ge=0, le=2**63 - 1)] = 0,
    last_event_id: Annotated[
        int | None,
        Header(
            description="the last id that was received, as browsers send it when they connect again; it goes before "
            "`after`",
            ge=0,
            le=2**63 - 1,
        ),
    ] = None,
) -> Response:
    """All events of a job, those that were and those to come; the stream ends with the job.

    Ids rise, so a client that connects again with the last one misses none and gets none twice.
    """
    state = state_of(request)
    await database_threads.run_query(partial(visible_job, request, id))  # NotFound, before anything is sent
    stopping = anyio.Event()
    begin = after if last_event_id is None else last_event_id
    remedy = "close one, or ask for the job"
    return EventStream(_events(state, id, begin, stopping), request, stopping, remedy=remedy, ping_s=PING_S)


async def _events(
    state: ServiceState, job: str, after: int, stopping: anyio.Event
) -> AsyncGenerator[ServerSentEvent, None]:
    """Yield events as they appear, until the job has ended and all were sent, or the server stops."""
    while not stopping.is_set():
        try:
            events, is_over = await database_threads.poll_query(partial(_next_events, state.jobs, job, after))
        except NotFound:  # an old job, removed during the stream
            return
        except (Unavailable, StorageFull):  # the database does not answer for a moment; the stream goes on
            events, is_over = [], False
        for event in events:
            after = event.id
            yield _as_sse(event)
        if is_over and not events:
            return
        if not events:
            with anyio.move_on_after(_POLL_S):
                await stopping.wait()


def _next_events(jobs: JobStore, job: str, after: int) -> tuple[Sequence[Event], bool]:
    """Return further events, and whether the job has ended; its state is read first, since ending adds an event."""
    is_over = jobs.get(job).state.is_ended
    return jobs.events(job, after, _MAX_EVENTS), is_over


def _as_sse(event: Event) -> ServerSentEvent:
    content: dict[str, object] = {"at": event.at, **event.data}
    return ServerSentEvent(orjson.dumps(content).decode(), event=event.type, id=str(event.id), sep="\n")
