"""Models of GET /v1/figures: how the service was over time."""

from __future__ import annotations

from pydantic import BaseModel, Field

from refaug.service.web.schemas.common import ResponseModel


class IndexFiguresOut(BaseModel):
    """The published version of an index over time; a number for each step, null where it was not measured."""

    recall: list[float | None] = Field(description="the share of exact search's answers that it finds")
    drift: list[float | None] = Field(
        description="how far a reply's score had moved on the nightly job's set, on average, when it was published"
    )
    bytes: list[int | None] = Field(description="its size")
    pairs: list[int | None] = Field(description="its pairs")


class BackupOut(BaseModel):
    """A backup that was made of this home."""

    at: str = Field(description="when it was complete")
    name: str = Field(description="the name of its folder")
    bytes: int = Field(description="its size")
    damaged: int = Field(description="files that were damaged in the home")


class FiguresOut(ResponseModel):
    """Figures of the last hours, added up over all processes; a number for each step, the oldest first."""

    step_hours: int = Field(description="hours in a step: 1 for a week, more for longer")
    begins: list[str] = Field(description="when each step begins, in UTC; the last one still runs")
    requests: list[int] = Field(description="requests to routes under /v1/, without streams of events")
    failures: list[int] = Field(description="of these, the ones that ended with 5xx")
    median_s: list[float | None] = Field(
        description="seconds within which half of them were answered, from counts of 16 ranges; null without any"
    )
    p95_s: list[float | None] = Field(description="seconds within which 95 % of them were answered")
    jobs_done: list[int] = Field(description="jobs that ended well")
    jobs_failed: list[int] = Field(description="jobs that failed")
    database_bytes: list[int | None] = Field(description="size of the database; null where it was not measured")
    disk_free_bytes: list[int | None] = Field(description="free bytes of the home's disk")
    disk_bytes: list[int | None] = Field(description="size of the home's disk")
    indexes: dict[str, IndexFiguresOut] = Field(description="by name")
    backups: list[BackupOut] = Field(description="the newest ones, the last first")
