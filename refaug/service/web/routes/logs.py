"""Routes of logs: reading them, posting dialogues and erasing dialogues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Request
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from refaug.core.errors import NotFound, RefaugError
from refaug.logs.manifest import LogIngest, LogManifest
from refaug.logs.store import StoredLog, list_logs
from refaug.service.jobs.inbox import BadDialogues
from refaug.service.jobs.job_order import parse_order
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of, request_body
from refaug.service.web.dependencies import count_items, key_of, requires
from refaug.service.web.handling.job_queueing import (
    CreatedResource,
    IdempotencyKey,
    create_once_in_database,
    enqueue_job,
)
from refaug.service.web.handling.pagination import After, Limit, page_of
from refaug.service.web.openapi import CREATED_HEADERS, errors
from refaug.service.web.problems import BadRequest
from refaug.service.web.schemas.common import STRICT, OnError, ResponseModel
from refaug.service.web.schemas.jobs import OneJobOut
from refaug.service.web.state import ServiceState, state_of

# ── Bodies and answers ────────────────────────────────────────────────────────────────────────────────────────────────


_EXAMPLE: Final[Any] = {
    "id": "d-2041",
    "turns": [
        {"text": "Where do you buy tea?", "speaker": "ann", "time": "2026-11-20T08:30:00Z"},
        {"text": "At the market.", "speaker": "ben"},
    ],
    "tags": ["chat"],
}

# Dialogues go through the reader of log files, and fields that it would ignore are refused by place and name; so the
# model accepts anything, and the document describes the expected shape.
_TURN_SCHEMA: Final[dict[str, object]] = {
    "type": "object",
    "title": "Turn",
    "description": "What one speaker said.",
    "required": ["text"],
    "properties": {
        "text": {"type": "string", "description": "what was said"},
        "speaker": {"type": ["string", "integer", "null"], "description": "who said it; null if unknown"},
        "time": {
            "type": ["string", "number", "null"],
            "description": "when: ISO 8601, in UTC where no zone is said, or seconds since 1970",
        },
    },
}
_DIALOGUE_SCHEMA: Final[dict[str, object]] = {
    "type": "object",
    "title": "Dialogue",
    "description": "A dialogue, its turns in order.",
    "required": ["turns"],
    "properties": {
        "id": {
            "type": ["string", "integer", "null"],
            "minLength": 1,
            "maxLength": 200,
            "description": "names the dialogue within its log; without it, it gets one that follows from the content",
        },
        "turns": {
            "type": "array",
            "minItems": 1,
            "description": "what was said, in order: texts, or objects with a text",
            "items": {"anyOf": [{"type": "string"}, _TURN_SCHEMA]},
        },
        "tags": {
            "type": ["array", "string", "null"],
            "items": {"type": "string"},
            "description": "texts that are kept with every pair of it: a list, or a single one",
        },
    },
    "examples": [_EXAMPLE],
}


class DialoguesIn(BaseModel):
    """Dialogues for a log."""

    model_config = ConfigDict(**STRICT, json_schema_extra={"examples": [{"dialogues": [_EXAMPLE]}]})

    dialogues: list[Annotated[Any, WithJsonSchema(_DIALOGUE_SCHEMA)]] = Field(
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


class LogsOut(ResponseModel):
    """A page of logs."""

    logs: list[LogOut] = Field(description="by name")
    next: str | None = Field(description="the `after` of the next page; null on the last one")


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


class IngestsOut(ResponseModel):
    """A page of the runs that have added to a log."""

    name: str = Field(description="name of the log")
    ingests: list[IngestOut] = Field(description="oldest first")
    next: str | None = Field(description="the `after` of the next page; null on the last one")


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
_EXAMPLES: Final = {
    "a dialogue": {
        "dialogues": [{"id": "d-2041", "turns": [{"text": "Where do you buy tea?"}, {"text": "At the market."}]}]
    }
}
_READ: Final = [Depends(requires(Scope.READ))]
_WRITE: Final = [Depends(requires(Scope.WRITE))]
_ADMIN: Final = [Depends(requires(Scope.ADMIN))]
LogName = Annotated[str, Path(description="name of the log")]


# ── Reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/logs", dependencies=_READ, responses={200: {"model": LogsOut}, **errors()})
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


@router.get("/logs/{name}", dependencies=_READ, responses={200: {"model": OneLogOut}, **errors(400, 404)})
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


@router.get("/logs/{name}/ingests", dependencies=_READ, responses={200: {"model": IngestsOut}, **errors(400, 404)})
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
    "/logs/{name}/dialogues",
    status_code=202,
    dependencies=_WRITE,
    openapi_extra=request_body(DialoguesIn, examples=_EXAMPLES),
    responses={202: {"model": PostedOut}, **errors(400, 413, 422, 503, 507)},
)
async def post_dialogues(
    request: Request, name: LogName, posted: Annotated[DialoguesIn, Depends(body_of(DialoguesIn))]
) -> Response:
    """Keep dialogues for a log; they are on the disk when this answers, and in the log after its next ingest.

    The same dialogues sent again are known and kept once, so that a request without an answer can be repeated.
    """
    count_items(request, len(posted.dialogues))
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
            for bad_dialogue in error.bad
        ]
        raise BadRequest(error.message, errors=listed, remedy=error.remedy) from None
    return json_response(report, status=202)


# ── Erasing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@router.delete(
    "/logs/{name}/dialogues/{dialogue:path}",
    status_code=202,
    dependencies=_ADMIN,
    responses={202: {"model": OneJobOut, "headers": CREATED_HEADERS}, **errors(400, 404, 409)},
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
