"""Models of the replies of an evaluation, of points and of notes."""

from __future__ import annotations

from pydantic import BaseModel, Field

from refaug.service.evaluations.notes import MAX_NOTE_CHARS
from refaug.service.web.schemas.common import STRICT, ResponseModel


class ScoredReplyRow(BaseModel):
    """A reply in a list."""

    place: int = Field(description="its place in the evaluation, which never changes")
    item: str = Field(description="id of the item")
    system: str = Field(description="whose reply it is")
    reply: str = Field(description="the first 300 characters")
    is_cut: bool = Field(description="whether there are more")
    utterance: str = Field(description="what it replies to, the first 300 characters")
    scores: list[float | None] = Field(description="by every metric, in the order of the summary")
    disagreement: float | None = Field(description="how far its ranks by both metrics lie apart, from 0 to 1")
    problem: str | None = Field(description="code of the reason why the metric has no score of it")
    has_note: bool = Field(description="whether the reply has a note")


class ScoredRepliesOut(ResponseModel):
    """A page of replies."""

    replies: list[ScoredReplyRow] = Field(description="in the order that was asked for")
    total: int = Field(description="how many pass the filters")
    offset: int = Field(description="how many of them come before this page")


class NoteOut(BaseModel):
    """A note on a reply."""

    place: int = Field(description="place of the reply")
    item: str = Field(description="id of its item")
    system: str = Field(description="whose reply it is")
    text: str = Field(description="the note")
    author: str = Field(description="name of the key that wrote it")
    changed: str = Field(description="when it was written")


class OneNoteOut(NoteOut, ResponseModel):
    """A note on a reply."""


class NotesOut(ResponseModel):
    """All notes on an evaluation."""

    notes: list[NoteOut] = Field(description="by the places of their replies")


class NoteIn(BaseModel):
    """A note to keep."""

    model_config = STRICT

    text: str = Field(description="the note; empty: none any more", max_length=MAX_NOTE_CHARS, pattern=r"^[^\x00]*$")


class FullReplyOut(ResponseModel):
    """A reply in full."""

    place: int = Field(description="its place in the evaluation")
    item: str = Field(description="id of the item")
    system: str = Field(description="whose reply it is")
    reply: str = Field(description="the reply")
    utterance: str = Field(description="what it replies to")
    turns: list[str] = Field(description="the turns before it, in order")
    references: list[dict[str, object]] = Field(description="the references of the item, as items have them")
    ratings: list[float | None] | None = Field(description="what people gave it")
    scores: list[dict[str, object]] = Field(
        description="by every metric: score, or problem and message; parts; references with their weight and credit"
    )
    others: list[dict[str, object]] = Field(description="replies of other systems to the same item")
    note: NoteOut | None = Field(description="the note on it")


class PointsOut(ResponseModel):
    """The scores of replies by two metrics."""

    x: str = Field(description="signature of the first metric")
    y: str = Field(description="signature of the second metric")
    points: list[tuple[int, float, float]] = Field(description="place, score by x, score by y")
    systems: list[str] = Field(description="the systems")
    system_of: list[int] = Field(description="for each point, the place of its system in `systems`")
    total: int = Field(description="how many replies have both scores")
    is_sampled: bool = Field(description="whether these are a sample of them")
