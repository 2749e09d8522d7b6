"""Logs: what they hold, dialogues that are posted to them, and dialogues that have to go."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from core.errors import NotFound, RefaugError
from core.log_store import LogManifest, StoredLog, list_logs
from service.job_kinds.orders import parse_order
from service.keys import Scope
from service.posted import BadDialogues
from service.web.answers import json_answer
from service.web.body import body_of, takes
from service.web.deps import counted, key_of, requires
from service.web.once import IdempotencyKey, Made, once_written
from service.web.openapi import MADE, errors
from service.web.paging import After, Limit, page_of
from service.web.problems import BadRequest
from service.web.queueing import queued
from service.web.schemas.jobs import OneJobOut
from service.web.schemas.logs import DialoguesIn, LogsOut, OneLogOut, PostedOut
from service.web.state import State, state_of

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


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/logs", dependencies=_READ, responses={200: {"model": LogsOut}, **errors()})
def list_all_logs(
    request: Request,
    after: After = "",
    limit: Limit = 50,
) -> Response:
    """Logs with their sizes, by name."""
    state = state_of(request)
    names, following = page_of(list_logs(state.home.logs), after, limit)
    return json_answer({"logs": [_listed(state, name) for name in names], "next": following})


def _listed(state: State, name: str) -> dict[str, Any]:
    """A log in one row; a damaged one must not hide the others."""
    try:
        return _row(StoredLog.open(state.home.logs, name).manifest)
    except RefaugError as error:
        return {"problem": state.without_paths(error.message), **_empty(name)}


def _row(manifest: LogManifest) -> dict[str, Any]:
    return {
        "name": manifest.name,
        "problem": None,
        **{total: manifest.totals.get(total, 0) for total in _TOTALS},
        "bytes": sum(part.size for part in manifest.parts),
        "updated": manifest.updated or None,
    }


def _empty(name: str) -> dict[str, Any]:
    return {"name": name, **dict.fromkeys((*_TOTALS, "bytes", "updated"))}


@router.get("/logs/{name}", dependencies=_READ, responses={200: {"model": OneLogOut}, **errors(400, 404)})
def get_log(request: Request, name: LogName) -> Response:
    """What a log holds, and what was posted to it and waits for its next ingest."""
    state = state_of(request)
    waiting = state.posted.waiting(name)
    try:
        manifest = StoredLog.open(state.home.logs, name).manifest
    except NotFound:
        if not waiting["dialogues"]:
            raise
        manifest = LogManifest(name=name, created="", updated="")  # it begins with what waits
    body = {
        **_row(manifest),
        "created": manifest.created or None,
        "ingests": len(manifest.ingests),
        "erased": {"dialogues": len(manifest.erased.dialogues), "speakers": len(manifest.erased.speakers)},
        "waiting": waiting,
    }
    return json_answer(body)


# ── posting ───────────────────────────────────────────────────────────────────────────────────────────────────────


@router.post(
    "/logs/{name}/dialogues",
    status_code=202,
    dependencies=_WRITE,
    openapi_extra=takes(DialoguesIn, examples=_EXAMPLES),
    responses={202: {"model": PostedOut}, **errors(400, 413, 422, 503, 507)},
)
async def post_dialogues(
    request: Request, name: LogName, posted: Annotated[DialoguesIn, Depends(body_of(DialoguesIn))]
) -> Response:
    """Keep dialogues for a log; they are on the disk when this answers, and in the log after its next ingest.

    The same dialogues sent again are known and kept once, so that a request without an answer can be repeated.
    """
    counted(request, len(posted.dialogues))
    try:
        found = await run_in_threadpool(state_of(request).posted.add, name, posted.dialogues, on_error=posted.on_error)
    except BadDialogues as error:
        listed = [
            {
                "item": one.id,
                "place": one.place,
                "field": f"dialogues[{one.place}]{f'.{one.field}' if one.field else ''}",
                "message": one.message,
            }
            for one in error.bad
        ]
        raise BadRequest(error.message, errors=listed, remedy=error.remedy) from None
    return json_answer(found, status=202)


# ── erasing ───────────────────────────────────────────────────────────────────────────────────────────────────────


@router.delete(
    "/logs/{name}/dialogues/{dialogue:path}",
    status_code=202,
    dependencies=_ADMIN,
    responses={202: {"model": OneJobOut, "headers": MADE}, **errors(400, 404, 409)},
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

    def make() -> Made:
        state = state_of(request)
        _require_log(state, name)
        order = parse_order({"kind": "erase", "log": name, "dialogues": [dialogue]})
        return queued(state, order, key_of(request).name)

    return await once_written(request, "erase", idempotency_key, f"{name}/{dialogue}".encode(), make)


def _require_log(state: State, name: str) -> None:
    """The log is there, or something waits for it; Usage for what is no name of one."""
    if not state.posted.waiting(name)["dialogues"]:
        StoredLog.open_unchecked(state.home.logs, name)
