"""Results about uploaded files and evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Optional

from .base import Model, record, shorten
from .jobs import ENDED_STATES


@record
class Upload(Model):
    """An uploaded file; orders name it as `upload.source`."""

    id: str
    name: str  # what messages call it
    format: str
    bytes: int
    sha256: str
    created: str
    expires: str
    owner: str  # name of the key that sent it

    @property
    def source(self) -> str:
        """The name of the file in orders."""
        return f"upload:{self.id}"


@record
class UploadList(Model):
    """The uploaded files that the key sees, and the room for more."""

    uploads: list[Upload]  # newest first
    bytes: int  # what all uploads on the server take
    limit_bytes: int  # what they may take
    largest_bytes: int  # what one of them may take


@record
class FilePreview(Model):
    """Files as a score would read them."""

    items: list[Mapping[str, Any]]  # the first five
    counts: Mapping[str, Any]  # items, replies, ratings, bad; is_partial
    systems: list[str]
    table: Optional[Mapping[str, Any]]  # columns that are used and not used; None for files without columns
    warnings: list[str]
    bad_rows: list[Mapping[str, Any]]  # file, line, item, field, message: the first hundred
    more_bad_rows: int


@record
class Evaluation(Model):
    """An evaluation: a job of kind score or meta, and what came of it."""

    id: str
    kind: str
    name: str
    state: str  # queued, running, done, failed or cancelled
    created: str
    owner: Optional[str] = None
    finished: Optional[str] = None
    expires: Optional[str] = None
    progress: Optional[Mapping[str, Any]] = None
    error: Optional[Mapping[str, Any]] = None
    order: Optional[Mapping[str, Any]] = None
    files: list[str] = field(default_factory=list)
    counts: Optional[dict[str, int]] = None  # items, replies, bad
    summary: Optional[Mapping[str, Any]] = None  # of a score that is done
    agreement: Optional[Mapping[str, Any]] = None  # of a meta that is done

    @property
    def is_ended(self) -> bool:
        """Whether it is done, failed or cancelled."""
        return self.state in ENDED_STATES

    def __repr__(self) -> str:
        error = f", error={shorten(self.error.get('message', self.error))}" if self.error else ""
        return f"Evaluation({self.id}, {self.kind}, {self.state}{error})"


@record
class ScoredReply(Model):
    """A reply in a list, with its scores by every metric."""

    place: int
    item: str
    system: str
    reply: str  # the first 300 characters
    is_cut: bool
    utterance: str
    scores: list[Optional[float]]
    disagreement: Optional[float] = None
    problem: Optional[str] = None
    has_note: bool = False


@record
class ScoredReplies(Model):
    """A page of replies."""

    replies: list[ScoredReply]
    total: int  # that pass the filters
    offset: int


@record
class ReplyNote(Model):
    """A note on a reply."""

    place: int
    item: str
    system: str
    text: str
    author: str
    changed: str


@record
class FullReply(Model):
    """A reply in full."""

    place: int
    item: str
    system: str
    reply: str
    utterance: str
    turns: list[str]
    references: list[Mapping[str, Any]]
    ratings: Optional[list[Optional[float]]]
    scores: list[Mapping[str, Any]]
    others: list[Mapping[str, Any]]
    note: Optional[ReplyNote] = None


@record
class ScorePoints(Model):
    """The scores of replies by two metrics."""

    x: str
    y: str
    points: list[list[float]]  # place, score by x, score by y
    systems: list[str]
    system_of: list[int]
    total: int
    is_sampled: bool


@record
class EvaluationComparison(Model):
    """Two evaluations side by side, as `refaug compare --json` prints them."""

    first: str
    second: str
    comparable: bool
    differences: list[Mapping[str, Any]]
    warnings: list[str]
    resampling: Mapping[str, Any]
    comparisons: list[Mapping[str, Any]]
