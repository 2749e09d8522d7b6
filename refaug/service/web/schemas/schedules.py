"""Models of schedules."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from refaug.service.jobs.orders.job_order import JobOrder
from refaug.service.jobs.store import JobState
from refaug.service.web.schemas.common import STRICT, Page, ResponseModel


class ScheduleIn(BaseModel):
    """When which job begins."""

    model_config = ConfigDict(
        **STRICT,
        json_schema_extra={
            "examples": [
                {
                    "cron": "30 2 * * *",
                    "timezone": "Europe/Berlin",
                    "order": {"kind": "index-update", "index": "chat"},
                }
            ]
        },
    )

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
