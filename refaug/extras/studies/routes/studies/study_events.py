"""The route of a study's progress as a stream of events, with the conventions of the events of jobs."""

from __future__ import annotations

import time
import zlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Final

import anyio
import orjson
from fastapi import APIRouter, Header, Query, Request
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.responses import Response

from refaug.core.errors import NotFound, StorageFull, Unavailable
from refaug.extras.studies.participation.study_figures import study_progress
from refaug.extras.studies.routes.parts import parts_of
from refaug.extras.studies.routes.studies.study_protocols import STUDY, StudyId
from refaug.service.database.database import time_text
from refaug.service.web.connection import event_stream
from refaug.service.web.handling import database_threads
from refaug.service.web.openapi import errors
from refaug.service.web.state import ServiceState, state_of

router = APIRouter(prefix="/v1", tags=["studies"])

_POLL_S: Final = 1.0  # between two looks: at once for people who watch, and a few counts a second for the database
_CHECK_BITS: Final = 22  # of an id, below the milliseconds of its time: what the figures were
_MAX_ID: Final = 2**63 - 1


@router.get(
    "/studies/{id}/events",
    dependencies=STUDY,
    response_class=EventSourceResponse,
    responses={
        200: {
            "description": "Events `progress` whenever it changes; `data` is JSON, as `GET /v1/studies/{id}/progress` "
            "answers it, with the time of the look as `at`.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **errors(404, 507),
    },
)
async def follow_study(
    request: Request,
    id: StudyId,  # noqa: A002  the name in the address
    after: Annotated[int, Query(description="only progress that is another than at this id", ge=0, le=_MAX_ID)] = 0,
    last_event_id: Annotated[
        int | None,
        Header(
            description="the last id that was received, as browsers send it when they connect again; it goes before "
            "`after`",
            ge=0,
            le=_MAX_ID,
        ),
    ] = None,
) -> Response:
    """The progress of a study now and whenever it changes; the stream ends when the study is closed, or removed.

    Ids rise, and say what the progress was: a client that connects again with the last one hears at once what has
    changed meanwhile, and nothing twice.
    """
    state = state_of(request)
    await database_threads.run_query(lambda: parts_of(state).studies.get(id))  # NotFound, before anything is sent
    stopping = anyio.Event()
    begin = after if last_event_id is None else last_event_id
    remedy = "close one, or ask for the progress"
    content = _events(state, id, begin, stopping)
    return event_stream.EventStream(content, request.app, stopping, remedy=remedy, ping_s=event_stream.PING_S)


async def _events(state: ServiceState, study: str, last: int, stopping: anyio.Event) -> AsyncIterator[ServerSentEvent]:
    """Yield the progress whenever it has changed since the last event, until the study or the server ends."""
    while not stopping.is_set():
        try:
            progress = await database_threads.poll_query(partial(_progress, state, study))
        except NotFound:  # removed during the stream
            return
        except (Unavailable, StorageFull):  # the database does not answer for a moment; the stream goes on
            progress = None
        if progress is not None:
            check = zlib.crc32(orjson.dumps(progress)) % (1 << _CHECK_BITS)
            if not last or last % (1 << _CHECK_BITS) != check:
                last = max(time.time_ns() // 1_000_000, (last >> _CHECK_BITS) + 1) << _CHECK_BITS | check
                content = orjson.dumps({"at": time_text(), **progress}).decode()
                yield ServerSentEvent(content, event="progress", id=str(last), sep="\n")
            if progress["state"] == "closed":
                return
        with anyio.move_on_after(_POLL_S):
            await stopping.wait()


def _progress(state: ServiceState, study: str) -> dict[str, object]:
    return study_progress(state.database, parts_of(state).studies.get(study))
