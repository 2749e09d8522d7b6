"""The calls about studies with people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, Optional, Union

from refaug_client._api import models
from refaug_client._http.call import Answer, Call, path

from .bodies import PAGE, request_body, to_list
from .readers import read_model, read_page

ExportFormat = Literal["jsonl", "csv", "items", "conversations", "acute", "dpo", "weights"]


def list_studies(*, after: Optional[str] = None, limit: int = PAGE) -> Call[models.Rows[models.ListedStudy]]:
    """GET /v1/studies: one page."""
    reader = read_page(models.ListedStudy, "studies")
    return Call("GET", "/v1/studies", reader, query={"after": after, "limit": limit})


def create_study(
    name: str, protocol: Mapping[str, Any], *, items: Optional[Iterable[Mapping[str, Any]]] = None
) -> Call[models.Study]:
    """POST /v1/studies: not repeated by itself, since the second one finds the name taken."""
    document = request_body(name=name, protocol=dict(protocol), items=None if items is None else to_list(items))
    return Call("POST", "/v1/studies", read_model(models.Study), body=document, repeatable=False)


def get_study(id: str) -> Call[models.Study]:  # noqa: A002
    """GET /v1/studies/{id}."""
    return Call("GET", path("v1", "studies", id), read_model(models.Study))


def amend_study(id: str, protocol: Mapping[str, Any], *, reason: Optional[str] = None) -> Call[models.Study]:  # noqa: A002
    """PUT /v1/studies/{id}/protocol: the same protocol a second time changes nothing."""
    document = request_body(protocol=dict(protocol), reason=reason)
    return Call("PUT", path("v1", "studies", id, "protocol"), read_model(models.Study), body=document)


def delete_study(id: str) -> Call[None]:  # noqa: A002
    """DELETE /v1/studies/{id}: not repeated by itself, since the second one finds nothing."""
    return Call("DELETE", path("v1", "studies", id), _require_id, repeatable=False)


def add_study_items(id: str, items: Iterable[Mapping[str, Any]]) -> Call[models.AddedItems]:  # noqa: A002
    """POST /v1/studies/{id}/dialogues: not repeated by itself, since ids would be there twice."""
    route = path("v1", "studies", id, "dialogues")
    return Call("POST", route, read_model(models.AddedItems), body={"items": to_list(items)}, repeatable=False)


def pilot_study(id: str) -> Call[models.Study]:  # noqa: A002
    """POST /v1/studies/{id}/pilot."""
    return _state(id, "pilot")


def open_study(id: str) -> Call[models.Study]:  # noqa: A002
    """POST /v1/studies/{id}/open."""
    return _state(id, "open")


def pause_study(id: str) -> Call[models.Study]:  # noqa: A002
    """POST /v1/studies/{id}/pause."""
    return _state(id, "pause")


def close_study(id: str) -> Call[models.Study]:  # noqa: A002
    """POST /v1/studies/{id}/close."""
    return _state(id, "close")


def preview_study(id: str, *, language: Optional[str] = None) -> Call[models.StudyPreview]:  # noqa: A002
    """GET /v1/studies/{id}/preview."""
    route = path("v1", "studies", id, "preview")
    return Call("GET", route, read_model(models.StudyPreview), query={"language": language})


def create_invites(
    id: str,  # noqa: A002
    *,
    count: Optional[int] = None,
    label: Optional[str] = None,
    uses_max: Optional[int] = None,
    expires: Union[str, datetime, None] = None,
) -> Call[models.Rows[models.NewStudyInvite]]:
    """POST /v1/studies/{id}/invites: never repeated by itself, since tokens are in the first answer alone."""
    moment = expires.isoformat() if isinstance(expires, datetime) else expires
    document = request_body(count=count, label=label, uses_max=uses_max, expires=moment)
    reader = read_page(models.NewStudyInvite, "invites")
    return Call("POST", path("v1", "studies", id, "invites"), reader, body=document, repeatable=False)


def list_invites(
    id: str,  # noqa: A002
    *,
    after: Optional[str] = None,
    limit: int = PAGE,
) -> Call[models.Rows[models.StudyInvite]]:
    """GET /v1/studies/{id}/invites: one page."""
    reader = read_page(models.StudyInvite, "invites")
    return Call("GET", path("v1", "studies", id, "invites"), reader, query={"after": after, "limit": limit})


def revoke_invite(id: str, invite: str) -> Call[models.StudyInvite]:  # noqa: A002
    """DELETE /v1/studies/{id}/invites/{invite}: a second time changes nothing."""
    return Call("DELETE", path("v1", "studies", id, "invites", invite), read_model(models.StudyInvite))


def list_participants(
    id: str,  # noqa: A002
    *,
    after: Optional[str] = None,
    limit: int = PAGE,
) -> Call[models.Rows[models.StudyParticipant]]:
    """GET /v1/studies/{id}/participants: one page."""
    reader = read_page(models.StudyParticipant, "participants")
    return Call("GET", path("v1", "studies", id, "participants"), reader, query={"after": after, "limit": limit})


def get_participant(id: str, code: str) -> Call[models.ParticipantTasks]:  # noqa: A002
    """GET /v1/studies/{id}/participants/{code}."""
    return Call("GET", path("v1", "studies", id, "participants", code), read_model(models.ParticipantTasks))


def exclude_participant(id: str, code: str, *, reason: Optional[str]) -> Call[models.ParticipantExclusion]:  # noqa: A002
    """PUT /v1/studies/{id}/participants/{code}/exclusion; the server wants null for taking in again."""
    route = path("v1", "studies", id, "participants", code, "exclusion")
    return Call("PUT", route, read_model(models.ParticipantExclusion), body={"reason": reason})


def renew_resume_link(id: str, code: str) -> Call[models.ResumeLink]:  # noqa: A002
    """POST /v1/studies/{id}/participants/{code}/resume-link: former links and sessions end."""
    route = path("v1", "studies", id, "participants", code, "resume-link")
    return Call("POST", route, read_model(models.ResumeLink))


def erase_participant(id: str, code: str) -> Call[None]:  # noqa: A002
    """DELETE /v1/studies/{id}/participants/{code}."""
    return Call("DELETE", path("v1", "studies", id, "participants", code), _require_code)


def get_study_progress(id: str) -> Call[models.StudyProgress]:  # noqa: A002
    """GET /v1/studies/{id}/progress."""
    return Call("GET", path("v1", "studies", id, "progress"), read_model(models.StudyProgress))


def get_study_report(id: str, *, draws: Optional[int] = None) -> Call[models.StudyReport]:  # noqa: A002
    """GET /v1/studies/{id}/report."""
    return Call("GET", path("v1", "studies", id, "report"), read_model(models.StudyReport), query={"draws": draws})


def get_study_agreement(id: str) -> Call[models.Rows[models.QuestionAgreement]]:  # noqa: A002
    """GET /v1/studies/{id}/agreement."""
    return Call("GET", path("v1", "studies", id, "agreement"), read_page(models.QuestionAgreement, "questions"))


def list_disagreements(id: str, *, limit: Optional[int] = None) -> Call[models.Rows[models.Disagreement]]:  # noqa: A002
    """GET /v1/studies/{id}/disagreements."""
    reader = read_page(models.Disagreement, "items")
    return Call("GET", path("v1", "studies", id, "disagreements"), reader, query={"limit": limit})


def adjudicate_item(
    id: str,  # noqa: A002
    item: str,
    question: str,
    value: Union[float, str],
    *,
    note: Optional[str] = None,
) -> Call[models.Adjudication]:
    """PUT /v1/studies/{id}/adjudications."""
    document = request_body(item=item, question=question, value=value, note=note)
    return Call("PUT", path("v1", "studies", id, "adjudications"), read_model(models.Adjudication), body=document)


def plan_study(
    *,
    difference: Optional[float] = None,
    win_rate: Optional[float] = None,
    sd: Optional[float] = None,
    power: Optional[float] = None,
    alpha: Optional[float] = None,
    ratings_per_participant: Optional[int] = None,
    rho: Optional[float] = None,
) -> Call[models.StudyPower]:
    """POST /v1/studies/power; the server wants either a difference of means or a win rate."""
    document = request_body(
        difference=difference,
        win_rate=win_rate,
        sd=sd,
        power=power,
        alpha=alpha,
        ratings_per_participant=ratings_per_participant,
        rho=rho,
    )
    return Call("POST", "/v1/studies/power", read_model(models.StudyPower), body=document)


def export_study(
    id: str,  # noqa: A002
    *,
    format: Optional[ExportFormat] = None,  # noqa: A002
    question: Optional[str] = None,
) -> Call[bytes]:
    """GET /v1/studies/{id}/export: to be streamed, since it may be large."""
    route, query = path("v1", "studies", id, "export"), {"format": format, "question": question}
    return Call("GET", route, lambda answer: answer.content, query=query, headers={"Accept": "*/*"})


def _state(id: str, act: str) -> Call[models.Study]:  # noqa: A002
    return Call("POST", path("v1", "studies", id, act), read_model(models.Study), repeatable=False)


def _require_id(answer: Answer) -> None:
    answer.json()["id"]


def _require_code(answer: Answer) -> None:
    answer.json()["code"]
