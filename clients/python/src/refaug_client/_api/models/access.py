"""Results about the audit log and keys."""

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


@record
class Key(Model):
    """A key, without its token."""

    id: str
    name: str  # whose key it is
    scopes: list[str]  # what it allows: read, score, write, admin
    rate_per_s: Optional[float] = None  # requests a second, at most
    quota_per_day: Optional[int] = None  # requests a day (UTC), at most
    created: Optional[str] = None
    expires: Optional[str] = None
    revoked: Optional[str] = None


@record
class NewKey(Key):
    """A key that was made, with its token: no later answer has it."""

    token: str = field(default="", repr=False)


@record
class OwnKey(Model):
    """What the key of this client allows."""

    required: bool  # whether the server asks for keys
    name: str  # `anonymous` where none are asked for
    scopes: list[str]
    rate_per_s: Optional[float] = None
    quota_per_day: Optional[int] = None
    expires: Optional[str] = None
