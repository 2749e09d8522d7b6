"""Routes of logs: reading them, posting dialogues and erasing dialogues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from refaug.core.errors import NotFound, RefaugError
from refaug.logs.manifest import LogIngest, LogManifest
from refaug.logs.store import StoredLog, list_logs
from refaug.service.jobs.inbox import BadDialogues
from refaug.service.jobs.orders.job_order import parse_order
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of, request_body
from refaug.service.web.dependencies import count_items, key_of, requires
from refaug.service.web.handling.idempotency_keys import CreatedResource, IdempotencyKey, create_once_in_database
from refaug.service.web.handling.job_queueing import enqueue_job
from refaug.service.web.handling.pagination import After, Limit, page_of
from refaug.service.web.openapi import CREATED_HEADERS, errors
from refaug.service.web.problems import BadRequest
from refaug.service.web.schemas.jobs import OneJobOut
from refaug.service.web.schemas.logs import DialoguesIn, IngestsOut, LogsOut, OneLogOut, PostedOut
from refaug.service.web.state import ServiceState, state_of

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


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


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


# ── posting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


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


# ── erasing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


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
