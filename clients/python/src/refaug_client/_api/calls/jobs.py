"""The calls about jobs and schedules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from refaug_client._api import models
from refaug_client._http.call import Answer, Call, path

from .bodies import PAGE, format_times, request_body
from .readers import read_model, read_page


def start_job(kind: str, **order: Any) -> Call[models.Job]:
    """POST /v1/jobs."""
    document = {"kind": kind, **(format_times(order) or {})}
    return Call("POST", "/v1/jobs", read_model(models.Job), body=document, keyed=True)


def list_jobs(
    *,
    state: Optional[str] = None,
    kind: Optional[str] = None,
    resource: Optional[str] = None,
    after: Optional[str] = None,
    limit: int = PAGE,
) -> Call[models.Rows[models.Job]]:
    """GET /v1/jobs: one page."""
    query = {"state": state, "kind": kind, "resource": resource, "after": after, "limit": limit}
    return Call("GET", "/v1/jobs", read_page(models.Job, "jobs"), query=query)


def get_job(id: str) -> Call[models.Job]:  # noqa: A002
    """GET /v1/jobs/{id}."""
    return Call("GET", path("v1", "jobs", id), read_model(models.Job))


def cancel_job(id: str) -> Call[models.Job]:  # noqa: A002
    """DELETE /v1/jobs/{id}: a job that has ended stays as it is, so that the call can be repeated."""
    return Call("DELETE", path("v1", "jobs", id), read_model(models.Job))


def retry_job(id: str) -> Call[models.Job]:  # noqa: A002
    """POST /v1/jobs/{id}/retry: never repeated by itself, since a second one is refused."""
    return Call("POST", path("v1", "jobs", id, "retry"), read_model(models.Job))


def follow_job(id: str, *, after: int = 0) -> Call[bytes]:  # noqa: A002
    """GET /v1/jobs/{id}/events: to be streamed."""
    headers = {"Accept": "text/event-stream"}
    route = path("v1", "jobs", id, "events")
    return Call("GET", route, lambda answer: answer.content, query={"after": after}, headers=headers)


def list_schedules(*, after: Optional[str] = None, limit: int = PAGE) -> Call[models.Rows[models.Schedule]]:
    """GET /v1/schedules: one page."""
    read = read_page(models.Schedule, "schedules")
    return Call("GET", "/v1/schedules", read, query={"after": after, "limit": limit})


def get_schedule(name: str) -> Call[models.Schedule]:
    """GET /v1/schedules/{name}."""
    return Call("GET", path("v1", "schedules", name), read_model(models.Schedule))


def put_schedule(
    name: str, *, cron: str, order: Mapping[str, Any], timezone: Optional[str] = None, enabled: Optional[bool] = None
) -> Call[models.Schedule]:
    """PUT /v1/schedules/{name}."""
    document = request_body(cron=cron, timezone=timezone, order=format_times(order), enabled=enabled)
    return Call("PUT", path("v1", "schedules", name), read_model(models.Schedule), body=document)


def delete_schedule(name: str) -> Call[None]:
    """DELETE /v1/schedules/{name}."""
    return Call("DELETE", path("v1", "schedules", name), _require_name)


def _require_name(answer: Answer) -> None:
    answer.json()["name"]
