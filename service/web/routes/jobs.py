"""Jobs: asking for work that takes longer than a request, looking at it, following it and stopping it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Annotated, Any, Final

import anyio
import orjson
from fastapi import APIRouter, Depends, FastAPI, Header, Path, Query, Request
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from core.errors import NotFound, Overloaded, StorageFull, Unavailable
from service.job_store import Event, JobState, JobStore
from service.keys import Scope
from service.web import rows
from service.web.answers import json_answer
from service.web.body import parsed, raw_body, takes
from service.web.deps import key_of, requires
from service.web.once import IdempotencyKey, Made, once_written
from service.web.openapi import MADE, errors
from service.web.queueing import queued, require_sources
from service.web.schemas.jobs import JobIn, JobsOut, OneJobOut, shown_job
from service.web.state import State, state_of

router = APIRouter(prefix="/v1", tags=["jobs"])

PING_S: Final = 15  # proxies drop what is silent for half a minute
_POLL_S: Final = 0.4  # rows are looked for so often: people see it as at once, and the database does not notice
_GRACE_S: Final = 5.0  # for the last look of a stream when the server stops; it takes milliseconds
_AT_ONCE: Final = 500
_EXAMPLES: Final = {
    "ingest what was posted": {"kind": "ingest", "log": "chat", "posted": True},
    "bring an index up to its logs": {"kind": "index-update", "index": "chat"},
    "a night": {"kind": "nightly", "log": "chat", "index": "chat"},
}
_READ: Final = [Depends(requires(Scope.READ))]
_ADMIN: Final = [Depends(requires(Scope.ADMIN))]
JobId = Annotated[str, Path(description="id of the job", pattern=r"^[0-9a-z]{26}$")]


# ── asking ────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.post(
    "/jobs",
    status_code=202,
    dependencies=_ADMIN,
    openapi_extra=takes(JobIn, examples=_EXAMPLES),
    responses={202: {"model": OneJobOut, "headers": MADE}, **errors(403, 409)},
)
async def start_job(request: Request, idempotency_key: IdempotencyKey = None) -> Response:
    """Queue a job; the published versions keep answering until its result is complete.

    Of jobs with the same kind and resources one waits at a time: for a second one the answer is 409 and names the
    first. Files that a job reads lie in the server's inbox/ or in folders that its settings name, and are named from
    there. With an `Idempotency-Key`, the same request again gets the first one's answer.
    """
    raw = await raw_body(request)
    order = parsed(JobIn, raw).root

    def make() -> Made:
        require_sources(state_of(request), order, there=True)
        return queued(state_of(request), order, key_of(request).name)

    return await once_written(request, "jobs", idempotency_key, raw, make)


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/jobs", dependencies=_READ, responses={200: {"model": JobsOut}, **errors(400, 507)})
async def list_jobs(
    request: Request,
    state: Annotated[JobState | None, Query(description="only those in this state")] = None,
    kind: Annotated[str | None, Query(description="only those of this kind", pattern=r"^[a-z-]{1,40}$")] = None,
    after: Annotated[str | None, Query(description="what `next` was on the page before", max_length=200)] = None,
    limit: Annotated[int, Query(description="how many on a page", ge=1, le=200)] = 50,
) -> Response:
    """Jobs, newest first."""
    jobs = state_of(request).jobs
    found, following = await rows.asked(lambda: jobs.list(state=state, kind=kind, after=after, limit=limit))
    return json_answer({"jobs": [shown_job(job) for job in found], "next": following})


@router.get("/jobs/{id}", dependencies=_READ, responses={200: {"model": OneJobOut}, **errors(404, 507)})
async def get_job(request: Request, id: JobId) -> Response:  # noqa: A002  the name in the address
    """A job: where it is, and what came of it."""
    jobs = state_of(request).jobs
    return json_answer(shown_job(await rows.asked(lambda: jobs.get(id))))


@router.delete(
    "/jobs/{id}",
    dependencies=_ADMIN,
    responses={200: {"model": OneJobOut}, 202: {"model": OneJobOut}, **errors(404)},
)
async def cancel_job(request: Request, id: JobId) -> Response:  # noqa: A002
    """Stop a job: 202 while it is on its way to a place where it can stop, 200 where it has ended.

    What it had finished is kept for the next one. One that waited never begins; one that had ended stays as it is.
    """
    jobs = state_of(request).jobs
    job = await rows.asked(lambda: jobs.cancel(id))
    return json_answer(shown_job(job), status=200 if job.state.is_ended else 202)


# ── following ─────────────────────────────────────────────────────────────────────────────────────────────────────


class JobEvents(EventSourceResponse):
    """A stream of events that is counted for as long as somebody listens."""

    def __init__(self, content: AsyncIterator[ServerSentEvent], app: FastAPI, stopping: anyio.Event) -> None:
        super().__init__(
            content,
            ping=PING_S,
            ping_message_factory=_ping,
            sep="\n",
            shutdown_event=stopping,
            shutdown_grace_period=_GRACE_S,
        )
        self._app = app
        _require_room(app)
        app.state.streams = _streams(app) + 1

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Stream, and give the place free however it ends."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._app.state.streams -= 1


def _streams(app: FastAPI) -> int:
    found: int = getattr(app.state, "streams", 0)
    return found


def _require_room(app: FastAPI) -> None:
    state: State = app.state.refaug
    if _streams(app) >= state.serve.streams:
        raise Overloaded(
            f"{state.serve.streams:,} streams of events are open",
            remedy="close one, or ask for the job",
            retry_after_s=5,
        )


def _ping() -> ServerSentEvent:
    return ServerSentEvent(comment="still here", sep="\n")


@router.get(
    "/jobs/{id}/events",
    dependencies=_READ,
    response_class=EventSourceResponse,
    responses={
        200: {
            "description": "Events as they happen; `data` is JSON, `event` is state, stage, progress, warning or note.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **errors(404, 507),
    },
)
async def follow_job(
    request: Request,
    id: JobId,  # noqa: A002
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
    await rows.asked(lambda: state.jobs.get(id))  # NotFound, before anything is sent
    stopping = (
        anyio.Event()
    )  # set when the server is told to stop; the app itself hears of it when all requests have ended
    begin = after if last_event_id is None else last_event_id
    return JobEvents(_events(state, id, begin, stopping), request.app, stopping)


async def _events(state: State, job: str, after: int, stopping: anyio.Event) -> AsyncIterator[ServerSentEvent]:
    """Rows as they appear, until the job has ended and all of its rows were sent, or the server stops."""
    while not stopping.is_set():
        try:
            found, is_over = await rows.looked_at(partial(_look, state.jobs, job, after))
        except NotFound:  # an old job, removed while somebody looked at it
            return
        except (Unavailable, StorageFull):  # the database is away for a moment; who listens need not know
            found, is_over = [], False
        for event in found:
            after = event.id
            yield _sent(event)
        if is_over and not found:
            return
        if not found:
            with anyio.move_on_after(_POLL_S):
                await stopping.wait()


def _look(jobs: JobStore, job: str, after: int) -> tuple[Sequence[Event], bool]:
    """Further events, and whether no more can come: its state is asked for first, since its end comes with an event."""
    is_over = jobs.get(job).state.is_ended
    return jobs.events(job, after, _AT_ONCE), is_over


def _sent(event: Event) -> ServerSentEvent:
    data: dict[str, Any] = {"at": event.at, **event.data}
    return ServerSentEvent(orjson.dumps(data).decode(), event=event.type, id=str(event.id), sep="\n")
