"""Models of jobs."""

from __future__ import annotations

from pydantic import BaseModel, Field, RootModel

from refaug.service.jobs.job_order import JobOrder
from refaug.service.jobs.store import JobState
from refaug.service.web.schemas.common import Page, ResponseModel


class JobIn(RootModel[JobOrder]):
    """What a job is to do; `kind` says which of these it is."""


class JobOut(BaseModel):
    """A job."""

    id: str = Field(description="names the job")
    kind: str = Field(description="what kind of work it is")
    order: dict[str, object] = Field(description="what was asked for, with all defaults")
    resources: list[str] = Field(description="what it writes: no two jobs that share one run at once")
    state: JobState = Field(
        description="queued: it waits; running: it is being done; done, failed and cancelled: it has ended"
    )
    created: str = Field(description="when it was asked for")
    started: str | None = Field(description="when it was begun, the last time")
    finished: str | None = Field(description="when it ended")
    tries: int = Field(description="how often it was begun")
    progress: dict[str, object] | None = Field(
        description="where it is: stage, done, total and unit, and since when the stage goes on"
    )
    outcome: str | None = Field(description="what came of it, in a few words; null until it has ended")
    result: dict[str, object] | None = Field(description="what came of it")
    error: dict[str, object] | None = Field(description="why it failed: code, message, remedy, exit_code")
    requested_by: str | None = Field(description="name of the key that asked for it")
    schedule: str | None = Field(description="name of the schedule that asked for it")
    cancel_requested: bool = Field(description="whether it has been told to stop")


class OneJobOut(JobOut, ResponseModel):
    """A job."""


class JobsOut(Page, ResponseModel):
    """A page of jobs."""

    jobs: list[JobOut] = Field(description="newest first")
