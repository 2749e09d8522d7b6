"""Routes of a study's figures: progress and balance, and the export of its tasks."""

from __future__ import annotations

import asyncio
import tempfile
from typing import Annotated, BinaryIO, Final, Literal

import orjson
from fastapi import APIRouter, Query, Request
from starlette.background import BackgroundTask
from starlette.responses import Response, StreamingResponse

from refaug.service.studies.study_figures import study_counts, study_pairs, study_slots
from refaug.service.studies.study_records import study_records
from refaug.service.studies.study_rows import StoredStudy
from refaug.service.web.answers import json_response
from refaug.service.web.handling import database_threads
from refaug.service.web.openapi import errors
from refaug.service.web.routes.studies.study_protocols import STUDY, StudyId
from refaug.service.web.schemas.studies.admin import StudyProgressOut
from refaug.service.web.state import ServiceState, state_of

router = APIRouter(prefix="/v1", tags=["studies"])

_PIECE: Final = 1 << 18
_LINES: Final = "application/x-ndjson"


@router.get("/studies/{id}/progress", dependencies=STUDY, responses={200: {"model": StudyProgressOut}, **errors(404)})
async def get_study_progress(request: Request, id: StudyId) -> Response:  # noqa: A002  the name in the address
    """How far the study is, and how its bots and the sides of its pairs are balanced."""
    state = state_of(request)

    def progress() -> dict[str, object]:
        study = state.studies.get(id)
        return {
            "state": study.state,
            "counts": study_counts(state.database, study),
            "bots": study_slots(state.database, study),
            "pairs": study_pairs(state.database, study),
        }

    return json_response(await database_threads.run_query(progress))


@router.get(
    "/studies/{id}/export",
    response_class=StreamingResponse,
    dependencies=STUDY,
    responses={
        200: {"description": "a task a line", "content": {_LINES: {"schema": {"type": "string"}}}},
        **errors(404),
    },
)
async def export_study(
    request: Request,
    id: StudyId,  # noqa: A002  the name in the address
    format: Annotated[  # noqa: A002  the name in the address
        Literal["jsonl"], Query(description="`jsonl`: a task a line, as reports read it")
    ] = "jsonl",
) -> Response:
    """Every task that is over, with its texts and answers, as of one moment; those of the pilot say so."""
    del format
    state = state_of(request)
    study = await database_threads.run_query(lambda: state.studies.get(id))
    file = await database_threads.run_query(lambda: _written(state, study))

    async def pieces() -> object:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece

    name = f'attachment; filename="{study.name}.jsonl"'
    return StreamingResponse(
        pieces(),  # type: ignore[arg-type]
        media_type=_LINES,
        headers={"Content-Disposition": name},
        background=BackgroundTask(file.close),
    )


def _written(state: ServiceState, study: StoredStudy) -> BinaryIO:
    """Write the lines into a file without a name: a slow client holds no connection of the database."""
    file = tempfile.TemporaryFile(dir=state.home.cache if state.home.cache.is_dir() else None)  # noqa: SIM115
    for record in study_records(state.database, study):
        file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
    file.seek(0)
    return file
