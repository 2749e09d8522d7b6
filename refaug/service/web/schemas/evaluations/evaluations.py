"""Models of evaluations: rows of a list, one with its summary, and orders."""

from __future__ import annotations

from pydantic import BaseModel, Field, RootModel

from refaug.service.jobs.orders.job_order import EvaluationOrder
from refaug.service.jobs.store import JobState
from refaug.service.web.schemas.common import ResponseModel


class EvaluationIn(RootModel[EvaluationOrder]):
    """What to evaluate: an order of kind score or meta."""


class EvaluationRow(BaseModel):
    """An evaluation: a job of kind score or meta, and what came of it."""

    id: str = Field(description="names it, and its job")
    kind: str = Field(description="score or meta")
    name: str = Field(description="its title")
    owner: str | None = Field(description="name of the key that asked for it")
    state: JobState = Field(description="where its job is; done: the result is there")
    created: str = Field(description="when it was asked for")
    finished: str | None = Field(description="when it ended")
    expires: str | None = Field(description="when it is removed; null before it is done")
    progress: dict[str, object] | None = Field(description="where its job is")
    error: dict[str, object] | None = Field(description="why it failed")
    order: dict[str, object] | None = Field(description="what was asked for; null where its job was removed")
    files: list[str] = Field(description="the files that it is of")
    counts: dict[str, int] | None = Field(description="items, replies and bad rows; null before it is done")


class EvaluationOut(EvaluationRow, ResponseModel):
    """An evaluation, with its result where it is done."""

    summary: dict[str, object] | None = Field(
        default=None,
        description="of a score: systems, metrics with intervals, comparisons and histograms, bad rows, warnings",
    )
    agreement: dict[str, object] | None = Field(default=None, description="of a meta: what `refaug meta --json` prints")


class EvaluationsOut(ResponseModel):
    """A page of evaluations."""

    evaluations: list[EvaluationRow] = Field(description="newest first")
    next: str | None = Field(description="the `after` of the next page; null on the last one")


class EvaluationComparisonOut(ResponseModel):
    """Two evaluations side by side, as `refaug compare --json` prints them."""

    first: str = Field(description="the first evaluation")
    second: str = Field(description="the second one")
    comparable: bool = Field(description="whether their scores may be compared")
    differences: list[dict[str, object]] = Field(description="what differs between them, and whether it matters")
    warnings: list[str] = Field(description="what to know")
    resampling: dict[str, object] = Field(description="how intervals and p are computed")
    comparisons: list[dict[str, object]] = Field(
        description="for each metric and system: tests, counts, changed replies"
    )
