"""Models of GET /v1/metrics, of health and of problem codes."""

from __future__ import annotations

from pydantic import BaseModel, Field

from refaug.service.web.schemas.common import ResponseModel


class ParameterOut(BaseModel):
    """One key of a metric's specification."""

    name: str = Field(description="the key")
    default: str = Field(description="empty: it has to be given")
    values: str = Field(description="what it may be, in words")
    choices: list[str] | None = Field(description="where it is one of a few words")
    help: str = Field(description="what it does")


class MetricOut(BaseModel):
    """One metric."""

    name: str = Field(description="as it is asked for")
    summary: str = Field(description="what it is")
    references: str = Field(description="which references it looks at: gold, golds, own, rated, weighted or utterance")
    range: list[float | None] = Field(description="the least and the largest score; null: no bound")
    higher_is_better: bool = Field(description="its direction")
    corpus_from: str = Field(description="whether a corpus score comes from `sums` or is the `mean` of reply scores")
    needs: list[str] = Field(description="beside the texts")
    paper: str = Field(description="where it comes from")
    parameters: list[ParameterOut] = Field(description="with their defaults")


class MetricsOut(ResponseModel):
    """The catalogue."""

    metrics: list[MetricOut] = Field(description="all of them")


class HealthOut(ResponseModel):
    """The process lives."""

    status: str = Field(description="ok")
    version: str = Field(description="of refaug")


class ReadyOut(ResponseModel):
    """Requests are answered without waiting for anything to be opened or compiled."""

    status: str = Field(description="ready")
    versions: dict[str, dict[str, str]] = Field(description="what is served: kind, name, version")
    troubles: dict[str, str] = Field(description="what is published and cannot be opened; an older version may serve")
    degraded: list[str] = Field(
        description="what else does not work as it should, a sentence each: the database, the disk, schedules, the "
        "webhook; looked for every ten seconds"
    )


class ProblemCodeOut(ResponseModel):
    """What a code of problem means."""

    code: str = Field(description="the code")
    status: int = Field(description="the usual status of answers with it")
    title: str = Field(description="what it means")
