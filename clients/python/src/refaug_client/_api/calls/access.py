"""The calls about keys and the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Optional, Union

from refaug_client._api import models
from refaug_client._http.call import Call, path

from .bodies import PAGE, request_body
from .readers import read_model, read_page


def get_own_key() -> Call[models.OwnKey]:
    """GET /v1/key."""
    return Call("GET", "/v1/key", read_model(models.OwnKey))


def list_keys(*, after: Optional[str] = None, limit: int = PAGE) -> Call[models.Rows[models.Key]]:
    """GET /v1/keys: one page."""
    return Call("GET", "/v1/keys", read_page(models.Key, "keys"), query={"after": after, "limit": limit})


def create_key(
    name: str,
    *,
    scopes: Sequence[str],
    rate_per_s: Optional[float] = None,
    quota_per_day: Optional[int] = None,
    expires: Union[str, datetime, None] = None,
) -> Call[models.NewKey]:
    """POST /v1/keys: never repeated by itself, since the token is in the first answer alone."""
    moment = expires.isoformat() if isinstance(expires, datetime) else expires
    document = request_body(
        name=name, scopes=list(scopes), rate_per_s=rate_per_s, quota_per_day=quota_per_day, expires=moment
    )
    return Call("POST", "/v1/keys", read_model(models.NewKey), body=document)


def revoke_key(id: str) -> Call[models.Key]:  # noqa: A002
    """DELETE /v1/keys/{id}: a second time changes nothing."""
    return Call("DELETE", path("v1", "keys", id), read_model(models.Key))


def list_audit(
    *, since: Union[str, datetime, None] = None, after: Optional[str] = None, limit: int = PAGE
) -> Call[models.Rows[models.AuditEntry]]:
    """GET /v1/audit: one page."""
    moment = since.isoformat() if isinstance(since, datetime) else since
    read = read_page(models.AuditEntry, "entries")
    return Call("GET", "/v1/audit", read, query={"since": moment, "after": after, "limit": limit})
