"""Routes of schedules."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from refaug.core.errors import NotFound
from refaug.service.jobs.job_order import JobOrder
from refaug.service.jobs.schedules import Firing, Schedule
from refaug.service.jobs.store import JobState, JobStore
from refaug.service.scopes import Scope
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import body_of
from refaug.service.web.dependencies import After, Limit, add_audit_row, page_of
from refaug.service.web.handling import database_threads
from refaug.service.web.handling.job_queueing import require_clusters, require_sources
from refaug.service.web.openapi import route_options
from refaug.service.web.schemas.common import Page, ResponseModel, StrictModel
from refaug.service.web.state import ServiceState, state_of

# ── Bodies and answers ────────────────────────────────────────────────────────────────────────────────────────────────


class ScheduleIn(StrictModel):
    """When which job begins."""

    cron: str = Field(
        description="minute, hour, day of the month, month, day of the week: `30 2 * * *` is 02:30 every day",
        min_length=1,
        max_length=200,
    )
    timezone: str = Field(
        default="UTC", description="by which clocks, such as Europe/Berlin", min_length=1, max_length=100
    )
    order: JobOrder = Field(description="what the job is to do, as in POST /v1/jobs")
    enabled: bool = Field(default=True, description="false: it is kept, and nothing begins")


class FiringOut(BaseModel):
    """What became of one due time."""

    due: str = Field(description="when it was due")
    job: str | None = Field(description="the job that was begun")
    state: JobState | None = Field(description="the job's state; null where there is no job, or it was removed since")
    note: str | None = Field(description="why no job was begun: it was missed, or another one still waited")


class ScheduleOut(BaseModel):
    """A schedule."""

    name: str = Field(description="its name")
    cron: str = Field(description="minute, hour, day of the month, month, day of the week")
    timezone: str = Field(description="by which clocks")
    order: dict[str, object] = Field(description="what its jobs do, with all defaults")
    enabled: bool = Field(description="whether it begins anything")
    created: str = Field(description="when it was made")
    updated: str = Field(description="when it was changed last")
    next: list[str] = Field(
        description="the next times it is due, on the clocks of its zone; none if it is not enabled"
    )


class SchedulesOut(Page, ResponseModel):
    """A page of schedules."""

    schedules: list[ScheduleOut] = Field(description="by name")


class OneScheduleOut(ScheduleOut, ResponseModel):
    """A schedule with what became of its last due times."""

    firings: list[FiringOut] = Field(description="newest first")


class DeletedOut(ResponseModel):
    """A schedule that is no more; its jobs stay."""

    name: str = Field(description="the name that it had")


# ── Routes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


router = APIRouter(prefix="/v1", tags=["schedules"])

_MAX_NEXT_TIMES: Final = 5
_MAX_FIRINGS: Final = 10
ScheduleName = Annotated[str, Path(description="name of the schedule", pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]


@router.get("/schedules", **route_options(Scope.READ, SchedulesOut, 507))
async def list_schedules(request: Request, after: After = "", limit: Limit = 50) -> Response:
    """Schedules by name, each with the next times it is due."""
    state = state_of(request)

    def page() -> tuple[list[dict[str, object]], str | None]:
        schedules = {one.name: one for one in state.schedules.list()}
        names, following = page_of(sorted(schedules), after, limit)  # sorted here: databases sort differently
        return [_describe(state, schedules[name]) for name in names], following

    listed, following = await database_threads.run_query(page)
    return json_response({"schedules": listed, "next": following})


@router.get("/schedules/{name}", **route_options(Scope.READ, OneScheduleOut, 404, 507))
async def get_schedule(request: Request, name: ScheduleName) -> Response:
    """A schedule, the next times it is due, and what became of the last ones."""
    state = state_of(request)
    return json_response(
        await database_threads.run_query(lambda: _describe_with_firings(state, state.schedules.get(name)))
    )


@router.put(
    "/schedules/{name}",
    **route_options(Scope.ADMIN, {200: OneScheduleOut, 201: OneScheduleOut}, 403, 422, body=ScheduleIn),
)
async def put_schedule(
    request: Request, name: ScheduleName, body: Annotated[ScheduleIn, Depends(body_of(ScheduleIn))]
) -> Response:
    """Make a schedule (201), or change one (200).

    With another time it counts from now on: nothing begins for what lies behind. Where several times were missed,
    because no server was running, the newest one begins a job and the others are noted.
    """
    state = state_of(request)

    def put() -> tuple[dict[str, object], bool]:
        require_sources(state, body.order, must_exist=False)  # the files may differ each time it is due
        require_clusters(state, body.order)
        body.order.require_within(partial(getattr, state.serve))
        is_new = name not in {one.name for one in state.schedules.list()}
        with state.database.writing():
            schedule = state.schedules.put(
                name,
                cron=body.cron,
                timezone=body.timezone,
                order=body.order.as_order(),
                enabled=body.enabled,
            )
            add_audit_row(request, "put", f"schedule {name}", kind=body.order.kind)
        return _describe_with_firings(state, schedule), is_new

    content, is_new = await database_threads.run_query(put)
    return json_response(content, status=201 if is_new else 200)


@router.delete("/schedules/{name}", **route_options(Scope.ADMIN, DeletedOut, 404))
async def delete_schedule(request: Request, name: ScheduleName) -> Response:
    """Take a schedule away; jobs that it has begun stay, and go on."""
    state = state_of(request)

    def delete() -> None:
        with state.database.writing():
            state.schedules.delete(name)
            add_audit_row(request, "delete", f"schedule {name}")

    await database_threads.run_query(delete)
    return json_response({"name": name})


def _describe(state: ServiceState, schedule: Schedule) -> dict[str, object]:
    due = state.schedules.next_times(schedule.name, _MAX_NEXT_TIMES) if schedule.enabled else []
    return {**schedule.as_json(), "next": [one.isoformat() for one in due]}


def _describe_with_firings(state: ServiceState, schedule: Schedule) -> dict[str, object]:
    """Describe a schedule with its last due times, and the state of the job of each."""
    fired = state.schedules.firings(schedule.name, _MAX_FIRINGS)
    return {**_describe(state, schedule), "firings": [_describe_firing(state.jobs, one) for one in fired]}


def _describe_firing(jobs: JobStore, firing: Firing) -> dict[str, object]:
    try:
        job_state = jobs.get(firing.job).state.value if firing.job is not None else None
    except NotFound:  # ended jobs are removed after some time
        job_state = None
    return {"due": firing.due.isoformat(), "job": firing.job, "state": job_state, "note": firing.note}
