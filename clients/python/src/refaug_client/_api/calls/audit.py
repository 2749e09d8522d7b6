"""The call about the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Optional, Union

from refaug_client._api import models
from refaug_client._http.call import Call

from .bodies import PAGE
from .readers import read_page


def list_audit(
    *, since: Union[str, datetime, None] = None, after: Optional[str] = None, limit: int = PAGE
) -> Call[models.Rows[models.AuditEntry]]:
    """GET /v1/audit: one page."""
    moment = since.isoformat() if isinstance(since, datetime) else since
    read = read_page(models.AuditEntry, "entries")
    return Call("GET", "/v1/audit", read, query={"since": moment, "after": after, "limit": limit})
