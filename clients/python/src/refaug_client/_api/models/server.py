"""Results about the server itself."""

from __future__ import annotations

from dataclasses import field

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
    missing: list[str] = field(default_factory=list)  # what is not there yet

    @property
    def is_ready(self) -> bool:
        """Whether nothing is missing."""
        return self.status == "ready"

    def __bool__(self) -> bool:
        return self.is_ready


@record
class ProblemCode(Model):
    """The meaning of a problem's code."""

    code: str
    status: int  # the usual one of answers with it
    title: str  # what it means
