"""Results about the audit log."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Optional

from .base import Model, record


@record
class AuditEntry(Model):
    """Who did what to which thing, and when."""

    id: str
    at: str
    actor: str  # "key NAME", "user NAME" of the server's machine, "schedule NAME", or "anonymous"
    action: str  # publish, remove, erase, queue, ...
    subject: str  # such as "index chat@2026-11-20.1"
    details: dict[str, Any] = field(default_factory=dict)
    request: Optional[str] = None  # the id of the request
