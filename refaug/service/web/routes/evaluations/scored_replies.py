"""Routes of the replies of an evaluation: paged lists, one in full, points of two metrics, and notes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from refaug.core.errors import Conflict, NotFound
from refaug.scoring.score_views.replies import ReplyOrder, ReplyQuery, full_reply, points_json, reply_rows
from refaug.scoring.score_views.score_view import ScoreView
from refaug.service.evaluations.notes import MAX_NOTE_CHARS, ReplyNote
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of
from refaug.service.web.dependencies import Limit, key_of
from refaug.service.web.handling import database_threads
from refaug.service.web.openapi import route_options
from refaug.service.web.routes.evaluations.access import EvaluationId
from refaug.service.web.schemas.common import ResponseModel, StrictModel
from refaug.service.web.state import state_of
from refaug.service.web.visibility import visible_result

# ── Bodies and answers ────────────────────────────────────────────────────────────────────────────────────────────────


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


class NoteIn(StrictModel):
    """A note to keep."""

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


# ── Routes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


router = APIRouter(prefix="/v1", tags=["evaluations"])

_MAX_POINTS: Final = 20_000
Place = Annotated[int, Path(description="place of the reply in the evaluation", ge=0, le=2**31 - 1)]
MetricPlace = Annotated[int, Query(description="place of a metric in the summary", ge=0, le=10_000)]
SystemName = Annotated[str | None, Query(description="only replies of this system", max_length=200)]
Bound = Annotated[float | None, Query(description="bound of the score by `metric`", allow_inf_nan=False)]


@router.get("/evaluations/{id}/replies", **route_options(Scope.SCORE, ScoredRepliesOut, 400, 404, 409))
async def list_scored_replies(
    request: Request,
    id: EvaluationId,
    metric: MetricPlace = 0,
    other: Annotated[int | None, Query(description="place of another metric", ge=0, le=10_000)] = None,
    sort: Annotated[
        Literal["place", "score", "other", "disagreement", "length", "item"],
        Query(description="what they are sorted by"),
    ] = "place",
    order: Annotated[Literal["ascending", "descending"], Query(description="which comes first")] = "ascending",
    system: SystemName = None,
    search: Annotated[str, Query(description="only those with this text, without case", max_length=1_000)] = "",
    low: Bound = None,
    high: Bound = None,
    has_note: Annotated[bool | None, Query(description="only those with a note, or without one")] = None,
    offset: Annotated[int, Query(description="how many to leave out", ge=0, le=2**31 - 1)] = 0,
    limit: Limit = 50,
) -> Response:
    """Replies with their scores by every metric, sorted, filtered and searched here.

    `disagreement` is how far the ranks of a reply by `metric` and by `other` lie apart, as a share of the replies that
    have both scores; replies without the figure that they are sorted by come last.
    """
    view = await _view(request, id)
    noted = {note.place for note in await _notes(request, id)}
    only = None if has_note is None else noted if has_note else set(range(len(view))) - noted
    query = ReplyQuery(
        metric=metric,
        other=other,
        order=ReplyOrder(sort),
        is_descending=order == "descending",
        system=system,
        search=search,
        low=low,
        high=high,
        only_places=only,
    )

    def page() -> Response:
        places = query.places(view)
        rows = reply_rows(view, places[offset : offset + limit].tolist(), metric, other)
        replies = [{**row, "has_note": row["place"] in noted} for row in rows]
        return json_response({"replies": replies, "total": len(places), "offset": offset})

    return await run_in_threadpool(page)


@router.get("/evaluations/{id}/replies/{place}", **route_options(Scope.SCORE, FullReplyOut, 404, 409))
async def get_scored_reply(request: Request, id: EvaluationId, place: Place) -> Response:
    """A reply in full: turns, references with their credit, every score, other systems' replies, and its note."""
    view = await _view(request, id)
    content = await run_in_threadpool(full_reply, view, place)
    note = next((note for note in await _notes(request, id) if note.place == place), None)
    return json_response({**content, "note": None if note is None else _note_json(view, note)})


@router.get("/evaluations/{id}/points", **route_options(Scope.SCORE, PointsOut, 400, 404, 409))
async def get_points(
    request: Request,
    id: EvaluationId,
    x: MetricPlace = 0,
    y: MetricPlace = 1,
    system: SystemName = None,
    limit: Annotated[int, Query(description="above this, a seeded sample", ge=1, le=_MAX_POINTS)] = 2_000,
) -> Response:
    """The scores of replies by two metrics, to be drawn as points."""
    view = await _view(request, id)
    return await run_in_threadpool(lambda: json_response(points_json(view, x, y, system, limit)))


@router.get("/evaluations/{id}/notes", **route_options(Scope.SCORE, NotesOut, 404, 409))
async def list_notes(request: Request, id: EvaluationId) -> Response:
    """The notes on the replies of an evaluation, by their places."""
    view = await _view(request, id)
    notes = [note for note in await _notes(request, id) if note.place < len(view)]
    return await run_in_threadpool(lambda: json_response({"notes": [_note_json(view, note) for note in notes]}))


@router.put("/evaluations/{id}/notes/{place}", **route_options(Scope.SCORE, OneNoteOut, 404, 409, body=NoteIn))
async def put_note(
    request: Request, id: EvaluationId, place: Place, body: Annotated[NoteIn, Depends(body_of(NoteIn))]
) -> Response:
    """Keep a note on a reply in place of the one before; an empty text removes it."""
    view = await _view(request, id)
    if place >= len(view):
        raise NotFound(f"there is no reply {place:,}", remedy=f"from 0 to {len(view) - 1:,}")
    put = partial(state_of(request).notes.put, id, place, text=body.text, author=key_of(request).name)
    return json_response(_note_json(view, await database_threads.run_query(put)))


def _note_json(view: ScoreView, note: ReplyNote) -> dict[str, object]:
    return {**note.as_json(), "item": view.ids[note.place], "system": view.system(note.place)}


async def _notes(request: Request, evaluation_id: str) -> Sequence[ReplyNote]:
    return await database_threads.run_query(partial(state_of(request).notes.all, evaluation_id))


async def _view(request: Request, evaluation_id: str) -> ScoreView:
    """Return the scores of an evaluation that the key sees; Conflict where it has none."""
    stored = await database_threads.run_query(partial(visible_result, request, evaluation_id))
    if stored.kind != "score":
        raise Conflict(f"evaluation {evaluation_id} is of kind {stored.kind}", remedy="its agreement is in the answer")
    return await run_in_threadpool(state_of(request).score_views.get, evaluation_id)
