"""Results about reference sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Optional

from .base import Model, record, shorten
from .server import FieldProblem


@record
class Withdrawal(Model):
    """Why a set is not to be used any more, and which one to use instead."""

    reason: str
    instead: Optional[str] = None
    at: str = ""
    id: Optional[str] = None


@record
class ListedSet(Model):
    """A set in a list; where `problem` says what is wrong with its file, all else is None."""

    id: str
    problem: Optional[str] = None
    purpose: Optional[str] = None
    items: Optional[int] = None
    references: Optional[int] = None
    created: Optional[str] = None
    parent: Optional[str] = None  # the set that it was derived from
    withdrawn: Optional[Withdrawal] = None


@record
class Bin(Model):
    """How many references have a weight between two numbers."""

    low: float = field(metadata={"key": "from"})
    high: float = field(metadata={"key": "to"})
    references: int


@record
class Evidence(Model):
    """How many references support scores against a set; golds are not counted."""

    sources: dict[str, int]  # references by where they come from
    thin: int  # items with few references of positive weight
    weights: list[Bin]  # how many references have which weight


@record
class ReferenceSet(Model):
    """A frozen set of items with weighted references: how it was made, and how many references support scores."""

    id: str
    purpose: str
    items: int
    references: int
    created: str = ""
    provenance: dict[str, str] = field(default_factory=dict)  # what both forms of a signature say of the references
    details: dict[str, str] = field(default_factory=dict)  # what the full form says beside that
    parent: Optional[str] = None  # the set that it was derived from
    how: Mapping[str, Any] = field(default_factory=dict)  # by which steps it came about
    content: str = ""  # SHA-256 of its items
    refaug: str = ""  # the release that wrote it
    kind: str = "reference-set"
    format_version: int = 1  # of its file
    withdrawn: Optional[Withdrawal] = None
    evidence: Optional[Evidence] = None

    def __repr__(self) -> str:
        withdrawn = f", withdrawn: {shorten(self.withdrawn.reason)}" if self.withdrawn else ""
        return (
            f"{type(self).__name__}({self.id}, {self.purpose}, {self.items:,} items, "
            f"{self.references:,} references{withdrawn})"
        )


@record
class FrozenSet(ReferenceSet):
    """The set that a call froze; `new` says whether it was not there before."""

    new: bool = True
    problems: list[FieldProblem] = field(default_factory=list)  # items that were left out, with on_error="report"
    warnings: list[str] = field(default_factory=list)  # what one should know of the others
