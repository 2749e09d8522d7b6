"""Models of POST /v1/scores and POST /v1/scores/combine."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from refaug.operations.scoring_options import RequestedResampling, ScoreOptions
from refaug.service.option_groups import OptionsBody
from refaug.service.web.problems import FieldProblem
from refaug.service.web.schemas.common import (
    ItemsField,
    OnErrorField,
    OpenModel,
    Problems,
    ResponseModel,
    StrictModel,
    VersionsOut,
)


class ScoresIn(OptionsBody[ScoreOptions]):
    """Replies of some systems, and what they are to be scored by."""

    items: ItemsField
    references: Literal["find", "given"] | None = Field(
        default=None,
        description="`find`: further references are found and weighed, once for all metrics; `given`: the items are "
        "scored as they are. null: `find` where an index is named, or a metric that is named looks at weighted "
        "references",
    )
    on_error: OnErrorField = "fail"
    return_: Literal["scores", "stats"] = Field(
        default="scores",
        alias="return",
        description="`stats`: instead of scores the sums that they are made of, for POST /v1/scores/combine",
    )


class VerificationIn(StrictModel):
    """Scores that were answered or printed before, and the items that they are of."""

    scores: dict[str, object] = Field(
        description="an answer of POST /v1/scores, or the output of `refaug score --json`, as it came"
    )
    items: ItemsField


class VerifiedPartOut(OpenModel):
    """One part of scores, and what became of it."""

    part: str = Field(description="file, software, index, rater, data, replies, references, reply scores, …")
    state: Literal["holds", "unchecked", "missing", "differs"] = Field(
        description="`unchecked`: there is nothing to compare it with, or scores do not depend on it"
    )
    message: str = Field(description="what holds, differs or is missing")
    metric: str | None = Field(default=None, description="null: it is the same for all metrics")


class VerificationOut(OpenModel, ResponseModel):
    """Whether scores are reproduced from their signatures."""

    verdict: Literal["holds", "missing", "differs"] = Field(
        description="`differs` if any part differs, else `missing` if any is missing"
    )
    parts: list[VerifiedPartOut] = Field(description="in the order of the command's table")


class ReplyScoreOut(OpenModel):
    """The score of one reply."""

    id: str = Field(description="the item's")
    score: float | None = Field(description="null where there is none: `problem` says why")
    parts: dict[str, object] | None = Field(default=None, description="what the score was made of")
    combination: dict[str, object] | None = Field(
        default=None,
        description="with `explain`, for refaug-1: its parts with what each would say alone, the sum of what they add "
        "beside that of drawn replies, the guards, and the log-odds that all of it makes",
    )
    likenesses: list[dict[str, object]] | None = Field(
        default=None, description="with `explain`, for refaug-1: references by falling cosine, and whether each counts"
    )
    problem: str | None = Field(default=None, description="a code")
    message: str | None = Field(default=None, description="the same in words")


class SystemFiguresOut(OpenModel):
    """One system under one metric, without its replies."""

    corpus: float | None = Field(description="of all replies together")
    interval: list[float] | None = Field(description="of the corpus score")
    mean: float | None = Field(description="of the reply scores")
    mean_interval: list[float] | None = Field(description="of the mean")
    scored: int = Field(description="replies with a score")
    unscored: int = Field(description="replies without one")
    unscored_by_reason: dict[str, int] = Field(description="the same by code")
    interval_note: str | None = Field(default=None, description="why there is no interval, where one was asked for")
    parts: dict[str, object] | None = Field(default=None, description="what the corpus score was made of")


class SystemScoreOut(SystemFiguresOut):
    """One system under one metric, with every reply."""

    replies: list[ReplyScoreOut] = Field(description="in the order of the items")


class ComparisonOut(OpenModel):
    """A system beside the baseline, on the items that both have a score for."""

    difference: float | None = Field(description="of the corpus scores: the system's less the baseline's")
    interval: list[float] | None = Field(description="of the difference")
    p_bootstrap: float | None = Field(description="how likely so large a difference is by chance, by the bootstrap")
    p_randomisation: float | None = Field(description="the same by approximate randomisation")
    replies: int = Field(description="on how many replies it stands")
    left_out: int = Field(description="replies that only one of the two has a score for")
    note: str | None = Field(default=None, description="why there is none")


class MetricFiguresOut(OpenModel):
    """What numbers of one metric mean."""

    metric: str = Field(description="its name")
    signature: str = Field(description="all that the numbers depend on, in short; belongs beside every number")
    signature_full: str = Field(description="the same in full; it can be read back")
    corpus_from: Literal["sums", "mean"] = Field(description="where corpus scores come from")
    higher_is_better: bool = Field(description="the metric's direction")
    scale: float = Field(description="100 with `percent`, else 1")
    comparisons: dict[str, ComparisonOut] | None = Field(default=None, description="with the baseline, by name")


class MetricScoresOut(MetricFiguresOut):
    """All systems under one metric."""

    references: str = Field(description="names the references and weights that were looked at")
    systems: dict[str, SystemScoreOut] = Field(description="by name")


class CombinedMetricOut(MetricFiguresOut):
    """All systems under one metric, over all batches."""

    references: list[str] = Field(description="of each batch, what names the references that were looked at")
    systems: dict[str, SystemFiguresOut] = Field(description="by name")


class SystemSumsOut(OpenModel):
    """The sums of one system's replies."""

    items: list[str] = Field(description="of each row, the item's id")
    rows: list[list[float | None] | None] = Field(description="of each reply its sums; null where it has no score")
    scores: list[float | None] = Field(description="of each reply its score, which needs no other batch; null: none")
    problems: list[dict[str, object]] = Field(description="why a row has none: its number, a code, and words")


class MetricSumsOut(OpenModel):
    """What scores by one metric are made of."""

    metric: str = Field(description="its name")
    signature_full: str = Field(description="all that the sums depend on: only equal ones can be put together")
    columns: list[str] = Field(description="what each number of a row is")
    systems: dict[str, SystemSumsOut] = Field(description="by name")
    unsuitable: dict[str, str] | None = Field(
        default=None,
        description="`code` and `message` where the references of these items do not suit the metric; it is scored if "
        "those of any batch do",
    )


class ResamplingOut(BaseModel):
    """How intervals were drawn."""

    method: str = Field(description="in words")
    draws: int = Field(description="0: there are none")
    confidence: float = Field(description="of the intervals")
    seed: int = Field(description="of the resampling")
    baseline: str | None = Field(default=None, description="the system that the others are compared with")


class CopiesOut(BaseModel):
    """The replies of one system that repeat the utterance."""

    rows: list[int] = Field(description="their places among the replies of the system, from 0")
    items: list[str] = Field(description="of each, the id of the item")


class ScoreVersionsOut(VersionsOut):
    """What made scores."""

    metrics: list[str] | None = Field(
        default=None, description="the metrics, with `name@version#content` of the models that they name; where they do"
    )


class ScoresOut(OpenModel, Problems, ResponseModel):
    """What `refaug score --json` prints, with the versions that made it; with `stats`, sums instead of scores."""

    scores: list[MetricScoresOut] = Field(default=[], description="a metric each")
    data: str | None = Field(default=None, description="names the items and golds that were scored")
    utterances: str | None = Field(default=None, description="names the utterances that references were found for")
    replies: str | None = Field(default=None, description="names the replies that were scored")
    items: int | None = Field(default=None, description="how many")
    resampling: ResamplingOut | None = Field(default=None, description="how intervals were drawn")
    evidence: dict[str, dict[str, object]] | None = Field(
        default=None, description="on what weighted scores stand, by item"
    )
    copies: dict[str, CopiesOut] | None = Field(
        default=None, description="by system: replies that repeat the utterance, or nearly; only where there are any"
    )
    reply_provenance: dict[str, str] | None = Field(
        default=None, description="by system: which bot of refaug made its replies; only where one did"
    )
    stats: list[MetricSumsOut] | None = Field(default=None, description='with `"return": "stats"`: a metric each')
    versions: ScoreVersionsOut = Field(description="what was used beside the texts")
    missing_shards: list[str] = Field(
        default=[], description="shards that had no part in the references; see `partial`"
    )
    format_version: int | None = Field(default=None, description="of scores, for POST /v1/verifications")
    checksum: str | None = Field(
        default=None, description="SHA-256 of the answer without this and `request_id`: tells whether it was altered"
    )


class CombineIn(OptionsBody[RequestedResampling]):
    """What several requests with `"return": "stats"` gave."""

    batches: list[dict[str, object]] = Field(
        min_length=1, max_length=10_000, description="those answers as they came, of the same metrics"
    )
    on_error: Literal["fail", "report"] = Field(
        default="fail",
        description="`report`: a metric that the references of no batch suit is listed, and the others are scored",
    )


class CombinedOut(OpenModel, ResponseModel):
    """Scores of all batches together."""

    scores: list[CombinedMetricOut] = Field(description="a metric each")
    data: list[str | None] = Field(description="of each batch, what names the items and golds that were scored")
    items: int = Field(description="how many, each counted once")
    batches: int = Field(description="how many were put together")
    resampling: ResamplingOut = Field(description="how intervals were drawn")
    copies: dict[str, CopiesOut] | None = Field(
        default=None, description="by system: replies that repeat the utterance, over all batches"
    )
    reply_provenance: dict[str, str] | None = Field(
        default=None, description="by system: which bot of refaug made its replies; only where one did"
    )
    problems: list[FieldProblem] = Field(default=[], description="metrics that the references of no batch suit")
    warnings: list[str] = Field(description="what one should know of the numbers")
