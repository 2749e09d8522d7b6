"""Models of the audit log."""

from __future__ import annotations

from pydantic import BaseModel, Field

from refaug.service.web.schemas.common import Page, ResponseModel


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

    entries: list[AuditEntryOut] = Field(description="the oldest first")
