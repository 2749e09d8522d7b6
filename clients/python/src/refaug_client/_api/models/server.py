"""Results about the server itself, its keys and its audit log, and what several answers have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Optional

from .base import Model, record


@record
class Health(Model):
    """The server lives, and is of this version."""

    status: str
    version: str


@record
class Ready(Model):
    """Whether the server answers requests without waiting for anything; `missing` names what is not there yet."""

    status: str  # `ready`, or `not ready`
    versions: dict[str, dict[str, str]] = field(default_factory=dict)  # what is served: kind, name, version
    troubles: dict[str, str] = field(default_factory=dict)
    degraded: list[str] = field(default_factory=list)  # what else does not work as it should, a sentence each
    missing: list[str] = field(default_factory=list)  # what is not there yet

    @property
    def is_ready(self) -> bool:
        """Whether nothing is missing."""
        return self.status == "ready"

    def __bool__(self) -> bool:
        return self.is_ready


@record
class ServerFigures(Model):
    """Figures of the last hours, added up over all processes: a number for each step, the oldest first."""

    step_hours: int
    begins: list[str]  # when each step begins, in UTC; the last one still runs
    requests: list[int]
    failures: list[int]  # requests that ended with 5xx
    median_s: list[Optional[float]]  # None without requests
    p95_s: list[Optional[float]]
    jobs_done: list[int]
    jobs_failed: list[int]
    database_bytes: list[Optional[int]]
    disk_free_bytes: list[Optional[int]]
    disk_bytes: list[Optional[int]]
    indexes: dict[str, dict[str, Any]] = field(default_factory=dict)  # recall, drift, bytes and pairs, by name
    backups: list[Mapping[str, Any]] = field(default_factory=list)  # at, name, bytes, damaged: the last first


@record
class ProblemCode(Model):
    """The meaning of a problem's code."""

    code: str
    status: int  # the usual one of answers with it
    title: str  # what it means


@record
class FieldProblem(Model):
    """What is wrong in one place of a request."""

    message: str  # what was found, and what would be right
    field: str = ""  # such as `items[3].references[0].weight`
    item: Optional[str] = None  # id of the item, where it has one
    place: Optional[int] = None  # the item's place in the list, from 0


@record
class Versions(Model):
    """The artefacts that made an answer: name, version and the beginning of the content's hash."""

    index: Optional[str] = None  # such as `chat@2026-11-20.1#9f2c41d07e12`
    rater: Optional[str] = None
    metrics: Optional[list[str]] = None


@record
class AuditEntry(Model):
    """Who did what to which thing, and when."""

    id: str
    at: str
    actor: str  # "key NAME", "user NAME" of the server's machine, "schedule NAME", or "anonymous"
    action: str  # publish, remove, erase, queue, ...
    subject: str  # such as "index chat@2026-11-20.1"
    details: Mapping[str, Any] = field(default_factory=dict)
    request: Optional[str] = None  # the id of the request


@record
class Key(Model):
    """A key, without its token."""

    id: str
    name: str  # whose key it is
    scopes: list[str]  # what it allows: read, score, write, study, admin
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
    name: str  # `anonymous` where none are required
    scopes: list[str]
    rate_per_s: Optional[float] = None
    quota_per_day: Optional[int] = None
    expires: Optional[str] = None
