"""Routes of the replies of an evaluation: paged lists, one in full, points of two metrics, and notes."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from refaug.core.errors import Conflict, NotFound
from refaug.evaluation.score_views.replies import full_reply, reply_rows
from refaug.evaluation.score_views.reply_query import ReplyOrder, ReplyQuery, points_json
from refaug.evaluation.score_views.score_view import ScoreView
from refaug.service.evaluations.notes import ReplyNote
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of, request_body
from refaug.service.web.dependencies import key_of, requires
from refaug.service.web.openapi import errors
from refaug.service.web.routes.evaluations.access import EvaluationId
from refaug.service.web.schemas.evaluations import scored_replies
from refaug.service.web.state import state_of
from refaug.service.web.visibility import visible_result

router = APIRouter(prefix="/v1", tags=["evaluations"])

_SCORE: Final = [Depends(requires(Scope.SCORE))]
_MAX_POINTS: Final = 20_000
Place = Annotated[int, Path(description="place of the reply in the evaluation", ge=0, le=2**31 - 1)]
MetricPlace = Annotated[int, Query(description="place of a metric in the summary", ge=0, le=10_000)]
SystemName = Annotated[str | None, Query(description="only replies of this system", max_length=200)]
Bound = Annotated[float | None, Query(description="bound of the score by `metric`", allow_inf_nan=False)]


@router.get(
    "/evaluations/{id}/replies",
    dependencies=_SCORE,
    responses={200: {"model": scored_replies.ScoredRepliesOut}, **errors(400, 404, 409)},
)
def list_scored_replies(
    request: Request,
    id: EvaluationId,  # noqa: A002
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
    limit: Annotated[int, Query(description="how many on a page", ge=1, le=200)] = 50,
) -> Response:
    """Replies with their scores by every metric, sorted, filtered and searched here.

    `disagreement` is how far the ranks of a reply by `metric` and by `other` lie apart, as a share of the replies that
    have both scores; replies without the figure that they are sorted by come last.
    """
    view = _view(request, id)
    noted = {note.place for note in state_of(request).notes.all(id)}
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
    places = query.places(view)
    rows = reply_rows(view, places[offset : offset + limit].tolist(), metric, other)
    replies = [{**row, "has_note": row["place"] in noted} for row in rows]
    return json_response({"replies": replies, "total": len(places), "offset": offset})


@router.get(
    "/evaluations/{id}/replies/{place}",
    dependencies=_SCORE,
    responses={200: {"model": scored_replies.FullReplyOut}, **errors(404, 409)},
)
def get_scored_reply(request: Request, id: EvaluationId, place: Place) -> Response:  # noqa: A002
    """A reply in full: turns, references with their credit, every score, other systems' replies, and its note."""
    view = _view(request, id)
    content = full_reply(view, place)
    note = next((note for note in state_of(request).notes.all(id) if note.place == place), None)
    return json_response({**content, "note": None if note is None else _note_json(view, note)})


@router.get(
    "/evaluations/{id}/points",
    dependencies=_SCORE,
    responses={200: {"model": scored_replies.PointsOut}, **errors(400, 404, 409)},
)
def get_points(
    request: Request,
    id: EvaluationId,  # noqa: A002
    x: MetricPlace = 0,
    y: MetricPlace = 1,
    system: SystemName = None,
    limit: Annotated[int, Query(description="above this, a seeded sample", ge=1, le=_MAX_POINTS)] = 2_000,
) -> Response:
    """The scores of replies by two metrics, to be drawn as points."""
    return json_response(points_json(_view(request, id), x, y, system, limit))


@router.get(
    "/evaluations/{id}/notes",
    dependencies=_SCORE,
    responses={200: {"model": scored_replies.NotesOut}, **errors(404, 409)},
)
def list_notes(request: Request, id: EvaluationId) -> Response:  # noqa: A002
    """The notes on the replies of an evaluation, by their places."""
    view = _view(request, id)
    notes = [note for note in state_of(request).notes.all(id) if note.place < len(view)]
    return json_response({"notes": [_note_json(view, note) for note in notes]})


@router.put(
    "/evaluations/{id}/notes/{place}",
    dependencies=_SCORE,
    openapi_extra=request_body(scored_replies.NoteIn, examples={"a note": {"text": "right, but of another dialogue"}}),
    responses={200: {"model": scored_replies.OneNoteOut}, **errors(404, 409)},
)
async def put_note(
    request: Request,
    id: EvaluationId,  # noqa: A002
    place: Place,
    body: Annotated[scored_replies.NoteIn, Depends(body_of(scored_replies.NoteIn))],
) -> Response:
    """Keep a note on a reply in place of the one before; an empty text removes it."""
    return await run_in_threadpool(_put_note, request, id, place, body.text)


def _put_note(request: Request, evaluation_id: str, place: int, text: str) -> Response:
    view = _view(request, evaluation_id)
    if place >= len(view):
        raise NotFound(f"there is no reply {place:,}", remedy=f"from 0 to {len(view) - 1:,}")
    note = state_of(request).notes.put(evaluation_id, place, text=text, author=key_of(request).name)
    return json_response(_note_json(view, note))


def _note_json(view: ScoreView, note: ReplyNote) -> dict[str, object]:
    return {**note.as_json(), "item": view.ids[note.place], "system": view.system(note.place)}


def _view(request: Request, evaluation_id: str) -> ScoreView:
    """Return the scores of an evaluation that the key sees; Conflict where it has none."""
    stored = visible_result(request, evaluation_id)
    if stored.kind != "score":
        raise Conflict(f"evaluation {evaluation_id} is of kind {stored.kind}", remedy="its agreement is in the answer")
    return state_of(request).score_views.get(evaluation_id)
