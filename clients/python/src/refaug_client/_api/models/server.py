"""Results about the server itself, and what several answers have."""

from __future__ import annotations

from dataclasses import field
from typing import Optional

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
    ruber: Optional[str] = None
    adem: Optional[str] = None
