"""The calls about uploaded files and evaluations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Optional

from refaug_client._api import models
from refaug_client._http.call import Call, path

from .bodies import PAGE, format_times, request_body
from .readers import read_model, read_page

DownloadFormat = Literal["json", "csv", "latex", "html"]
ReplyOrder = Literal["place", "score", "other", "disagreement", "length", "item"]


def upload_file(
    content: bytes,
    *,
    name: Optional[str] = None,
    format: Optional[str] = None,  # noqa: A002
) -> Call[models.Upload]:
    """POST /v1/uploads: sent again it would be a second file."""
    return Call(
        "POST",
        "/v1/uploads",
        read_model(models.Upload),
        query={"name": name or "file", "format": format},
        body=content,
        headers={"Content-Type": "application/octet-stream"},
        repeatable=False,
    )


def list_uploads() -> Call[models.UploadList]:
    """GET /v1/uploads."""
    return Call("GET", "/v1/uploads", read_model(models.UploadList))


def get_upload(id: str) -> Call[models.Upload]:  # noqa: A002
    """GET /v1/uploads/{id}."""
    return Call("GET", path("v1", "uploads", id), read_model(models.Upload))


def download_upload(id: str) -> Call[bytes]:  # noqa: A002
    """GET /v1/uploads/{id}/content."""
    route = path("v1", "uploads", id, "content")
    return Call("GET", route, lambda answer: answer.content, headers={"Accept": "*/*"})


def remove_upload(id: str) -> Call[models.Upload]:  # noqa: A002
    """DELETE /v1/uploads/{id}."""
    return Call("DELETE", path("v1", "uploads", id), read_model(models.Upload))


def preview_files(
    *,
    items: Optional[str] = None,
    replies: Optional[Mapping[str, str]] = None,
    references: Optional[Sequence[str]] = None,
    weights: Optional[Sequence[str]] = None,
    utterances: Optional[str] = None,
    map: Optional[Sequence[str]] = None,  # noqa: A002
    shape: Optional[Literal["item", "reply", "rating"]] = None,
    encoding: Optional[str] = None,
    allow_truncated: Optional[bool] = None,
) -> Call[models.FilePreview]:
    """POST /v1/uploads/preview."""
    document = request_body(
        items=items,
        replies=replies,
        references=references,
        weights=weights,
        utterances=utterances,
        map=map,
        shape=shape,
        encoding=encoding,
        allow_truncated=allow_truncated,
    )
    return Call("POST", "/v1/uploads/preview", read_model(models.FilePreview), body=document, timed=True)


def start_evaluation(kind: str, **order: Any) -> Call[models.Evaluation]:
    """POST /v1/evaluations."""
    document = {"kind": kind, **(format_times(order) or {})}
    return Call("POST", "/v1/evaluations", read_model(models.Evaluation), body=document, keyed=True)


def list_evaluations(
    *, kind: Optional[str] = None, after: Optional[str] = None, limit: int = PAGE
) -> Call[models.Rows[models.Evaluation]]:
    """GET /v1/evaluations: one page."""
    query = {"kind": kind, "after": after, "limit": limit}
    return Call("GET", "/v1/evaluations", read_page(models.Evaluation, "evaluations"), query=query)


def get_evaluation(id: str) -> Call[models.Evaluation]:  # noqa: A002
    """GET /v1/evaluations/{id}."""
    return Call("GET", path("v1", "evaluations", id), read_model(models.Evaluation))


def remove_evaluation(id: str) -> Call[models.Evaluation]:  # noqa: A002
    """DELETE /v1/evaluations/{id}: never repeated by itself, since the first one may have cancelled."""
    return Call("DELETE", path("v1", "evaluations", id), read_model(models.Evaluation), repeatable=False)


def cancel_evaluation(id: str) -> Call[models.Evaluation]:  # noqa: A002
    """POST /v1/evaluations/{id}/cancel: never repeated by itself, since an ended evaluation is refused."""
    route = path("v1", "evaluations", id, "cancel")
    return Call("POST", route, read_model(models.Evaluation), repeatable=False)


def retry_evaluation(id: str) -> Call[models.Evaluation]:  # noqa: A002
    """POST /v1/evaluations/{id}/retry: never repeated by itself, since a second one is refused."""
    route = path("v1", "evaluations", id, "retry")
    return Call("POST", route, read_model(models.Evaluation), repeatable=False)


def list_scored_replies(
    id: str,  # noqa: A002
    *,
    metric: int = 0,
    other: Optional[int] = None,
    sort: Optional[ReplyOrder] = None,
    order: Optional[Literal["ascending", "descending"]] = None,
    system: Optional[str] = None,
    search: Optional[str] = None,
    low: Optional[float] = None,
    high: Optional[float] = None,
    has_note: Optional[bool] = None,
    offset: int = 0,
    limit: int = 50,
) -> Call[models.ScoredReplies]:
    """GET /v1/evaluations/{id}/replies: one page."""
    query = {
        "metric": metric,
        "other": other,
        "sort": sort,
        "order": order,
        "system": system,
        "search": search,
        "low": low,
        "high": high,
        "has_note": has_note,
        "offset": offset,
        "limit": limit,
    }
    return Call("GET", path("v1", "evaluations", id, "replies"), read_model(models.ScoredReplies), query=query)


def get_scored_reply(id: str, place: int) -> Call[models.FullReply]:  # noqa: A002
    """GET /v1/evaluations/{id}/replies/{place}."""
    return Call("GET", path("v1", "evaluations", id, "replies", str(place)), read_model(models.FullReply))


def get_points(
    id: str,  # noqa: A002
    *,
    x: int = 0,
    y: int = 1,
    system: Optional[str] = None,
    limit: Optional[int] = None,
) -> Call[models.ScorePoints]:
    """GET /v1/evaluations/{id}/points."""
    query = {"x": x, "y": y, "system": system, "limit": limit}
    return Call("GET", path("v1", "evaluations", id, "points"), read_model(models.ScorePoints), query=query)


def download_evaluation(id: str, *, format: Optional[DownloadFormat] = None) -> Call[bytes]:  # noqa: A002
    """GET /v1/evaluations/{id}/download."""
    route = path("v1", "evaluations", id, "download")
    return Call("GET", route, lambda answer: answer.content, query={"format": format}, headers={"Accept": "*/*"})


def compare_evaluations(
    id: str,  # noqa: A002
    second: str,
    *,
    system: Optional[str] = None,
    first_system: Optional[str] = None,
    second_system: Optional[str] = None,
    search: Optional[str] = None,
    limit: Optional[int] = None,
    anyway: Optional[bool] = None,
) -> Call[models.EvaluationComparison]:
    """GET /v1/evaluations/{id}/comparison."""
    query = {
        "with": second,
        "system": system,
        "first_system": first_system,
        "second_system": second_system,
        "search": search,
        "limit": limit,
        "anyway": anyway,
    }
    route = path("v1", "evaluations", id, "comparison")
    return Call("GET", route, read_model(models.EvaluationComparison), query=query)


def list_notes(id: str) -> Call[models.Rows[models.ReplyNote]]:  # noqa: A002
    """GET /v1/evaluations/{id}/notes."""
    return Call("GET", path("v1", "evaluations", id, "notes"), read_page(models.ReplyNote, "notes"))


def put_note(id: str, place: int, text: str) -> Call[models.ReplyNote]:  # noqa: A002
    """PUT /v1/evaluations/{id}/notes/{place}."""
    route = path("v1", "evaluations", id, "notes", str(place))
    return Call("PUT", route, read_model(models.ReplyNote), body={"text": text})
