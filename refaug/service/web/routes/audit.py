"""The route of the audit log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.dependencies import After, Limit
from refaug.service.web.handling import database_threads
from refaug.service.web.openapi import route_options
from refaug.service.web.schemas.common import Page, ResponseModel
from refaug.service.web.state import state_of

# ── Bodies and answers ────────────────────────────────────────────────────────────────────────────────────────────────


class AuditEntryOut(BaseModel):
    """One act."""

    id: str = Field(description="rises with the time")
    at: str = Field(description="when it was done, in UTC")
    actor: str = Field(
        description="`key NAME`, `user NAME` of the machine, `schedule NAME`, or `anonymous` where no keys are needed"
    )
    action: str = Field(
        description="publish, rollback, remove, delete, erase, withdraw, queue, cancel, create, revoke, …"
    )
    subject: str = Field(description="what it was done to, such as `index chat@2026-11-20.1`")
    details: dict[str, object] = Field(description="further facts, such as the job that did it")
    request: str | None = Field(description="the request's id, as in its answer and in the server's log")


class AuditOut(ResponseModel, Page):
    """A page of the audit log."""

    entries: list[AuditEntryOut] = Field(description="the oldest first, or the newest")


# ── Routes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


router = APIRouter(prefix="/v1", tags=["audit"])


@router.get("/audit", **route_options(Scope.ADMIN, AuditOut, 507))
async def list_audit_log(
    request: Request,
    since: Annotated[
        datetime | None, Query(description="only what was done at this time or later; UTC without a zone")
    ] = None,
    newest: Annotated[bool, Query(description="the newest first, instead of the oldest")] = False,
    after: After = "",
    limit: Limit = 50,
) -> Response:
    """Who published, removed, erased, withdrew, queued and cancelled, made backups, and made or revoked keys."""
    audit = state_of(request).audit
    moment = since.replace(tzinfo=UTC) if since is not None and since.tzinfo is None else since
    page, following = await database_threads.run_query(
        lambda: audit.page(since=moment, after=after, limit=limit, newest=newest)
    )
    return json_response({"entries": [entry.as_json() for entry in page], "next": following})
