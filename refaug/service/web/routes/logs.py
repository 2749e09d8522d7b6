"""Routes of logs: reading them, posting dialogues and erasing dialogues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Request
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from refaug.core.errors import NotFound, RefaugError
from refaug.logs.manifest import LogIngest, LogManifest
from refaug.logs.store import StoredLog, list_logs
from refaug.service.jobs.inbox import BadDialogues
from refaug.service.jobs.job_order import parse_order
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of
from refaug.service.web.dependencies import After, Limit, count_items, key_of, page_of
from refaug.service.web.handling.degradation import require_room
from refaug.service.web.handling.job_queueing import (
    CreatedResource,
    IdempotencyKey,
    create_once_in_database,
    enqueue_job,
)
from refaug.service.web.openapi import created, route_options
from refaug.service.web.problems import MAX_SHOWN, BadRequest
from refaug.service.web.schemas.common import Dialogue, OnError, Page, ResponseModel, StrictModel
from refaug.service.web.schemas.jobs import OneJobOut
from refaug.service.web.state import ServiceState, state_of

# ── Bodies and answers ────────────────────────────────────────────────────────────────────────────────────────────────


class DialoguesIn(StrictModel):
    """Dialogues for a log."""

    dialogues: list[Dialogue] = Field(
        description="whole dialogues: one that goes on later is posted when it has ended",
        min_length=1,
        max_length=1_000_000,
    )
    on_error: OnError = Field(
        default="fail", description="fail: one bad dialogue, and none is taken; report: the others are taken"
    )


class WaitingOut(BaseModel):
    """What was posted and is not in the log yet."""

    requests: int = Field(description="in how many requests it came")
    dialogues: int = Field(description="how many dialogues there are")
    bytes: int = Field(description="how much room they take")


class LogOut(BaseModel):
    """What a log holds."""

    name: str = Field(description="name of the log")
    problem: str | None = Field(description="what is wrong with its files; then the counts are null")
    pairs: int | None = Field(description="pairs of an utterance and its response")
    dialogues: int | None = Field(description="dialogues that have a pair")
    distinct_utterances: int | None = Field(description="different utterances, however they are written")
    bytes: int | None = Field(description="size of its files")
    updated: str | None = Field(description="when something was added or deleted; null before the first ingest")


class LogsOut(Page, ResponseModel):
    """A page of logs."""

    logs: list[LogOut] = Field(description="by name")


class OneLogOut(LogOut, ResponseModel):
    """A log."""

    created: str | None = Field(description="when it was begun; null before the first ingest")
    ingests: int = Field(description="how many runs have added to it")
    erased: dict[str, int] = Field(description="dialogues and speakers that were deleted, and stay out")
    waiting: WaitingOut = Field(description="what was posted and is not in it yet")


class IngestOut(BaseModel):
    """One run that has added to a log."""

    number: int = Field(description="its place among the runs, from 1")
    at: str = Field(description="when it ended")
    sources: int = Field(description="files that it read")
    bytes: int = Field(description="the size of these files")
    counts: dict[str, int] = Field(
        description="what it read, such as dialogues, turns and rows, and what was left out, by reason"
    )


class IngestsOut(Page, ResponseModel):
    """A page of the runs that have added to a log."""

    name: str = Field(description="name of the log")
    ingests: list[IngestOut] = Field(description="oldest first")


class BadDialogueOut(BaseModel):
    """A dialogue that was left out."""

    place: int = Field(description="its place in the list, from 0")
    id: str | None = Field(description="its id, where it has one")
    field: str = Field(description="the field that is wrong, such as `turns[1].text`")
    message: str = Field(description="what was found")


class PostedOut(ResponseModel):
    """Dialogues that are kept safely, and will be in the log with its next ingest."""

    log: str = Field(description="name of the log")
    accepted: int = Field(description="dialogues that were taken")
    duplicate: bool = Field(description="whether exactly these were posted before: then none is kept a second time")
    ids: list[str] = Field(description="the ids of those that were taken, in the order sent")
    waiting: WaitingOut = Field(description="what was posted and is not in the log yet, with these")
    problems: list[BadDialogueOut] = Field(description='what was left out, with "on_error": "report"')


# ── Routes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


router = APIRouter(prefix="/v1", tags=["logs"])

_TOTALS: Final = ("pairs", "dialogues", "distinct_utterances")
LogName = Annotated[str, Path(description="name of the log")]


# ── Reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/logs", **route_options(Scope.READ, LogsOut))
def list_all_logs(
    request: Request,
    after: After = "",
    limit: Limit = 50,
) -> Response:
    """Logs with their sizes, by name."""
    state = state_of(request)
    names, following = page_of(list_logs(state.home.logs), after, limit)
    return json_response({"logs": [_log_row(state, name) for name in names], "next": following})


def _log_row(state: ServiceState, name: str) -> Mapping[str, Any]:
    """Return a log as a row; a damaged log gets a row, too, so that the list stays complete."""
    try:
        return _manifest_row(StoredLog.open(state.home.logs, name).manifest)
    except RefaugError as error:
        return {"problem": state.without_paths(error.message), **_empty_row(name)}


def _manifest_row(manifest: LogManifest) -> Mapping[str, Any]:
    return {
        "name": manifest.name,
        "problem": None,
        **{total: manifest.totals.get(total, 0) for total in _TOTALS},
        "bytes": sum(part.size for part in manifest.parts),
        "updated": manifest.updated or None,
    }


def _empty_row(name: str) -> Mapping[str, Any]:
    return {"name": name, **dict.fromkeys((*_TOTALS, "bytes", "updated"))}


@router.get("/logs/{name}", **route_options(Scope.READ, OneLogOut, 400, 404))
def get_log(request: Request, name: LogName) -> Response:
    """What a log holds, and what was posted to it and waits for its next ingest."""
    state = state_of(request)
    waiting = state.inbox.waiting(name)
    try:
        manifest = StoredLog.open(state.home.logs, name).manifest
    except NotFound:
        if not waiting["dialogues"]:
            raise
        manifest = LogManifest(name=name, created="", updated="")  # the log will begin with these dialogues
    body = {
        **_manifest_row(manifest),
        "created": manifest.created or None,
        "ingests": len(manifest.ingests),
        "erased": {"dialogues": len(manifest.erased.dialogues), "speakers": len(manifest.erased.speakers)},
        "waiting": waiting,
    }
    return json_response(body)


@router.get("/logs/{name}/ingests", **route_options(Scope.READ, IngestsOut, 400, 404))
def list_ingests(request: Request, name: LogName, after: After = "", limit: Limit = 50) -> Response:
    """How a log grew: the runs that have added to it, oldest first, each with what it read and added."""
    ingests = StoredLog.open(state_of(request).home.logs, name).manifest.ingests
    numbers = [f"{number:08}" for number in range(1, len(ingests) + 1)]
    page, following = page_of(numbers, after, limit)
    rows = [_describe_ingest(int(number), ingests[int(number) - 1]) for number in page]
    return json_response({"name": name, "ingests": rows, "next": following})


def _describe_ingest(number: int, ingest: LogIngest) -> Mapping[str, Any]:
    return {
        "number": number,
        "at": ingest.at,
        "sources": len(ingest.sources),
        "bytes": sum(source.size for source in ingest.sources),
        "counts": dict(ingest.counts),
    }


# ── Posting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.post(
    "/logs/{name}/dialogues", **route_options(Scope.WRITE, {202: PostedOut}, 400, 413, 422, 503, 507, body=DialoguesIn)
)
async def post_dialogues(
    request: Request, name: LogName, posted: Annotated[DialoguesIn, Depends(body_of(DialoguesIn))]
) -> Response:
    """Keep dialogues for a log; they are on the disk when this answers, and in the log after its next ingest.

    The same dialogues sent again are known and kept once, so that a request without an answer can be repeated.
    """
    count_items(request, len(posted.dialogues))
    await run_in_threadpool(require_room, state_of(request))
    try:
        report = await run_in_threadpool(state_of(request).inbox.add, name, posted.dialogues, on_error=posted.on_error)
    except BadDialogues as error:
        listed = [
            {
                "item": bad_dialogue.id,
                "place": bad_dialogue.place,
                "field": f"dialogues[{bad_dialogue.place}]{f'.{bad_dialogue.field}' if bad_dialogue.field else ''}",
                "message": bad_dialogue.message,
            }
            for bad_dialogue in error.bad[:MAX_SHOWN]
        ]
        raise BadRequest(error.message, errors=listed, error_count=len(error.bad), remedy=error.remedy) from None
    return json_response(report, status=202)


# ── Erasing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.delete(
    "/logs/{name}/dialogues/{dialogue:path}", **route_options(Scope.ADMIN, {202: created(OneJobOut)}, 400, 404, 409)
)
async def erase_dialogue(
    request: Request,
    name: LogName,
    dialogue: Annotated[str, Path(description="id of the dialogue", min_length=1, max_length=500)],
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Erase a dialogue for good: out of the log, what was posted to it and the indexes that cover it.

    The job does all of it, and withdraws frozen sets that hold text of the dialogue; they are listed in its result.
    One such job waits at a time for each log: several dialogues are better named in one, POST /v1/jobs of kind `erase`.
    """

    def make() -> CreatedResource:
        state = state_of(request)
        _require_log(state, name)
        order = parse_order({"kind": "erase", "log": name, "dialogues": [dialogue]})
        return enqueue_job(state, order, key_of(request).name)

    return await create_once_in_database(request, "erase", idempotency_key, f"{name}/{dialogue}".encode(), make)


def _require_log(state: ServiceState, name: str) -> None:
    """Require that the log exists or dialogues wait for it; Usage for an invalid name."""
    if not state.inbox.waiting(name)["dialogues"]:
        StoredLog.open_unchecked(state.home.logs, name)
