"""Rows of the audit log for what a request has done."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from refaug.service.audit import actor_of
from refaug.service.web.dependencies import key_of
from refaug.service.web.state import state_of


def add_audit_row(request: Request, action: str, subject: str, **details: Any) -> None:
    """Add a row in the transaction of this thread, so that what a request does and its row come together."""
    state_of(request).audit.add(actor_of_request(request), action, subject, request=id_of_request(request), **details)


def try_to_add_audit_row(request: Request, action: str, subject: str, **details: Any) -> None:
    """Add a row for what has happened outside of the database, which may be away."""
    state_of(request).audit.try_to_add(
        actor_of_request(request), action, subject, request=id_of_request(request), **details
    )


def actor_of_request(request: Request) -> str:
    """Return the actor of a request: its key."""
    return actor_of(key_of(request).name)


def id_of_request(request: Request) -> str | None:
    """Return the id of a request, as its answer has it."""
    request_id: str | None = request.scope.get("request_id")
    return request_id
