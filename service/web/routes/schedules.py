"""Schedules: which there are, when they are due, what became of them; putting and deleting them."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import Response

from core.errors import NotFound
from service.job_store import JobStore
from service.keys import Scope
from service.schedules import Firing, Schedule
from service.web import rows
from service.web.answers import json_answer
from service.web.body import body_of, takes
from service.web.deps import requires
from service.web.openapi import errors
from service.web.paging import After, Limit, page_of
from service.web.queueing import require_sources
from service.web.schemas.schedules import DeletedOut, OneScheduleOut, ScheduleIn, SchedulesOut
from service.web.state import State, state_of

router = APIRouter(prefix="/v1", tags=["schedules"])

_NEXT: Final = 5
_FIRINGS: Final = 10
_EXAMPLES: Final = {
    "every night": {
        "cron": "30 2 * * *",
        "timezone": "Europe/Berlin",
        "order": {"kind": "index-update", "index": "chat"},
    }
}
_READ: Final = [Depends(requires(Scope.READ))]
_ADMIN: Final = [Depends(requires(Scope.ADMIN))]
ScheduleName = Annotated[str, Path(description="name of the schedule", pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]


@router.get("/schedules", dependencies=_READ, responses={200: {"model": SchedulesOut}, **errors(507)})
async def list_schedules(request: Request, after: After = "", limit: Limit = 50) -> Response:
    """Schedules by name, each with the next times it is due."""
    state = state_of(request)

    def page() -> tuple[list[dict[str, Any]], str | None]:
        there = {one.name: one for one in state.schedules.list()}
        names, following = page_of(sorted(there), after, limit)  # sorted here: databases have orders of their own
        return [_shown(state, there[name]) for name in names], following

    found, following = await rows.asked(page)
    return json_answer({"schedules": found, "next": following})


@router.get("/schedules/{name}", dependencies=_READ, responses={200: {"model": OneScheduleOut}, **errors(404, 507)})
async def get_schedule(request: Request, name: ScheduleName) -> Response:
    """A schedule, the next times it is due, and what became of the last ones."""
    state = state_of(request)
    return json_answer(await rows.asked(lambda: _whole(state, state.schedules.get(name))))


@router.put(
    "/schedules/{name}",
    dependencies=_ADMIN,
    openapi_extra=takes(ScheduleIn, examples=_EXAMPLES),
    responses={200: {"model": OneScheduleOut}, 201: {"model": OneScheduleOut}, **errors(403, 422)},
)
async def put_schedule(
    request: Request, name: ScheduleName, wanted: Annotated[ScheduleIn, Depends(body_of(ScheduleIn))]
) -> Response:
    """Make a schedule (201), or change one (200).

    With another time it counts from now on: nothing begins for what lies behind. Where several times were missed,
    because no server was running, the newest one begins a job and the others are noted.
    """
    state = state_of(request)

    def put() -> tuple[dict[str, Any], bool]:
        require_sources(state, wanted.order, there=False)  # each time it is due there may be others
        is_new = name not in {one.name for one in state.schedules.list()}
        found = state.schedules.put(
            name,
            cron=wanted.cron,
            timezone=wanted.timezone,
            order=wanted.order.model_dump(mode="json"),
            enabled=wanted.enabled,
        )
        return _whole(state, found), is_new

    body, is_new = await rows.asked(put)
    return json_answer(body, status=201 if is_new else 200)


@router.delete("/schedules/{name}", dependencies=_ADMIN, responses={200: {"model": DeletedOut}, **errors(404)})
async def delete_schedule(request: Request, name: ScheduleName) -> Response:
    """Take a schedule away; jobs that it has begun stay, and go on."""
    schedules = state_of(request).schedules
    await rows.asked(lambda: schedules.delete(name))
    return json_answer({"name": name})


def _shown(state: State, schedule: Schedule) -> dict[str, Any]:
    due = state.schedules.next_times(schedule.name, _NEXT) if schedule.enabled else []
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "order": schedule.order,
        "enabled": schedule.enabled,
        "created": schedule.created.isoformat(),
        "updated": schedule.updated.isoformat(),
        "next": [one.isoformat() for one in due],
    }


def _whole(state: State, schedule: Schedule) -> dict[str, Any]:
    """With what became of the last due times."""
    fired = state.schedules.firings(schedule.name, _FIRINGS)
    return {**_shown(state, schedule), "firings": [_fired(state.jobs, one) for one in fired]}


def _fired(jobs: JobStore, firing: Firing) -> dict[str, Any]:
    try:
        job_state = jobs.get(firing.job).state.value if firing.job is not None else None
    except NotFound:  # ended jobs are removed after a while
        job_state = None
    return {"due": firing.due.isoformat(), "job": firing.job, "state": job_state, "note": firing.note}
