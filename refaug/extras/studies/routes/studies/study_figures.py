"""Routes of a study's figures: progress and balance, and the export of its tasks."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable
from typing import Annotated, BinaryIO, Final, Literal

from fastapi import APIRouter, Query, Request
from starlette.background import BackgroundTask
from starlette.responses import Response, StreamingResponse

from refaug.extras.studies.exports import ExportFormat
from refaug.extras.studies.exports import export_study as exported_pieces
from refaug.extras.studies.participation.study_figures import study_progress
from refaug.extras.studies.participation.study_records import study_records
from refaug.extras.studies.participation.study_store import StoredStudy
from refaug.extras.studies.records import task_line
from refaug.extras.studies.routes.parts import parts_of
from refaug.extras.studies.routes.studies.study_protocols import STUDY, StudyId
from refaug.extras.studies.schemas import StudyProgressOut
from refaug.service.web.answers import json_response
from refaug.service.web.handling import database_threads
from refaug.service.web.openapi import errors
from refaug.service.web.state import ServiceState, state_of

router = APIRouter(prefix="/v1", tags=["studies"])

_PIECE: Final = 1 << 18
_LINES: Final = "application/x-ndjson"
_CSV: Final = "text/csv; charset=utf-8"


@router.get("/studies/{id}/progress", dependencies=STUDY, responses={200: {"model": StudyProgressOut}, **errors(404)})
async def get_study_progress(request: Request, id: StudyId) -> Response:  # noqa: A002  the name in the address
    """How far the study is, and how its bots and the sides of its pairs are balanced."""
    state = state_of(request)

    progress = await database_threads.run_query(lambda: study_progress(state.database, parts_of(state).studies.get(id)))
    return json_response(progress)


@router.get(
    "/studies/{id}/export",
    response_class=StreamingResponse,
    dependencies=STUDY,
    responses={
        200: {
            "description": "a task a line",
            "content": {_LINES: {"schema": {"type": "string"}}, "text/csv": {"schema": {"type": "string"}}},
        },
        **errors(400, 404, 422),
    },
)
async def export_study(
    request: Request,
    id: StudyId,  # noqa: A002  the name in the address
    format: Annotated[  # noqa: A002  the name in the address
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
