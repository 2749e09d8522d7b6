"""Results that several answers have."""

from __future__ import annotations

from typing import Optional

from .base import Model, record

# ── what several answers have ─────────────────────────────────────────────────────────────────────────────────────


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
