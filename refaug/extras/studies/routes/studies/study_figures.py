"""Routes of a study's figures: progress and balance, also as a stream of events, and the export of its tasks."""

from __future__ import annotations

import asyncio
import tempfile
import time
import zlib
from collections.abc import AsyncGenerator, Iterable
from functools import partial
from typing import Annotated, BinaryIO, Final, Literal

import anyio
import orjson
from fastapi import APIRouter, Header, Query, Request
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.background import BackgroundTask
from starlette.responses import Response, StreamingResponse

from refaug.core.errors import NotFound, StorageFull, Unavailable
from refaug.extras.studies.exports import ExportFormat
from refaug.extras.studies.exports import export_study as exported_pieces
from refaug.extras.studies.participation.study_figures import study_progress
from refaug.extras.studies.participation.study_records import study_records
from refaug.extras.studies.participation.study_store import StoredStudy
from refaug.extras.studies.records import task_line
from refaug.extras.studies.routes.parts import parts_of
from refaug.extras.studies.routes.studies.study_protocols import StudyId
from refaug.extras.studies.schemas import StudyProgressOut
from refaug.service.database.database import time_text
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.connection import event_stream
from refaug.service.web.handling import database_threads
from refaug.service.web.openapi import TEXT, raw, route_options
from refaug.service.web.state import ServiceState, state_of

router = APIRouter(prefix="/v1", tags=["studies"])

_POLL_S: Final = 1.0  # between two looks: at once for people who watch, and a few counts a second for the database
_CHECK_BITS: Final = 22  # of an id, below the milliseconds of its time: what the figures were
_MAX_ID: Final = 2**63 - 1
_EVENTS: Final = (
    "Events `progress` whenever it changes; `data` is JSON, as `GET /v1/studies/{id}/progress` answers it, with the "
    "time of the look as `at`."
)


@router.get(
    "/studies/{id}/events",
    response_class=EventSourceResponse,
    **route_options(
        Scope.STUDY, {200: raw(_EVENTS, {"text/event-stream": TEXT})}, 404, 507, other_scope=Scope.STUDY_READ
    ),
)
async def follow_study(
    request: Request,
    id: StudyId,
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
    return event_stream.EventStream(content, request, stopping, remedy=remedy, ping_s=event_stream.PING_S)


async def _events(
    state: ServiceState, study: str, last: int, stopping: anyio.Event
) -> AsyncGenerator[ServerSentEvent, None]:
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


_PIECE: Final = 1 << 18
_LINES: Final = "application/x-ndjson"
_CSV: Final = "text/csv; charset=utf-8"


@router.get("/studies/{id}/progress", **route_options(Scope.STUDY, StudyProgressOut, 404, other_scope=Scope.STUDY_READ))
async def get_study_progress(request: Request, id: StudyId) -> Response:
    """How far the study is, and how its bots and the sides of its pairs are balanced."""
    state = state_of(request)

    progress = await database_threads.run_query(lambda: study_progress(state.database, parts_of(state).studies.get(id)))
    return json_response(progress)


@router.get(
    "/studies/{id}/export",
    response_class=StreamingResponse,
    **route_options(
        Scope.STUDY,
        {200: raw("a task a line", {_LINES: TEXT, "text/csv": TEXT})},
        400,
        404,
        422,
        other_scope=Scope.STUDY_READ,
    ),
)
async def export_study(
    request: Request,
    id: StudyId,
    format: Annotated[
        Literal["jsonl", "csv", "items", "conversations", "acute", "dpo", "weights"],
        Query(
            description="`jsonl`: a task a line, as reports read it; `csv`: exchanges, with the columns of "
            "neural_chat_web; `items` for `refaug agreement`; `conversations` for `refaug agreement hybrid`; `acute`, "
            "`dpo`: pairs of dialogues and of replies; `weights` of references"
        ),
    ] = "jsonl",
    question: Annotated[
        str | None, Query(description="the question whose answers count in `items`, `dpo` and `weights`", max_length=64)
    ] = None,
) -> Response:
    """Every task that is over, with its texts and answers, as of one moment; those of the pilot in `jsonl` alone."""
    state = state_of(request)
    study = await database_threads.run_query(lambda: parts_of(state).studies.get(id))
    file = await database_threads.run_query(lambda: _written(state, study, ExportFormat(format), question))

    async def pieces() -> object:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece

    is_csv = format == "csv"
    name = f'attachment; filename="{study.name}.{"csv" if is_csv else "jsonl"}"'
    return StreamingResponse(
        pieces(),  # type: ignore[arg-type]
        media_type=_CSV if is_csv else _LINES,
        headers={"Content-Disposition": name},
        background=BackgroundTask(file.close),
    )


def _written(state: ServiceState, study: StoredStudy, form: ExportFormat, question: str | None) -> BinaryIO:
    """Write the lines into a file without a name: a slow client holds no connection of the database."""
    file = tempfile.TemporaryFile(dir=state.home.cache if state.home.cache.is_dir() else None)  # noqa: SIM115
    try:
        file.writelines(_pieces(state, study, form, question))
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


def _pieces(state: ServiceState, study: StoredStudy, form: ExportFormat, question: str | None) -> Iterable[bytes]:
    records = study_records(state.database, study)
    if form is ExportFormat.JSONL and question is None:
        return map(task_line, records)
    return exported_pieces(records, study.protocol.fields, form, question=question)
