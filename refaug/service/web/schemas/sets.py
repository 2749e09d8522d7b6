"""Models of frozen reference sets."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from refaug.operations.references import FrozenReferences
from refaug.operations.scoring_options import RequestedScoring
from refaug.scoring.reference_sets.reference_set import Purpose
from refaug.service.option_groups import OptionsBody
from refaug.service.web.problems import FieldProblem
from refaug.service.web.schemas import scoring
from refaug.service.web.schemas.common import (
    ItemsField,
    OnError,
    OnErrorField,
    OpenModel,
    Page,
    ResponseModel,
    StrictModel,
)

SystemName = Annotated[str, Field(min_length=1, max_length=200)]
MAX_REPLIES: Final = 1_000_000  # of a system; as many values as a body may have

MAX_WEIGHTS: Final = 250_000  # of references, in a body


class SetIn(OptionsBody[FrozenReferences]):
    """Items to be frozen with their weighted references."""

    items: ItemsField
    references: Literal["find", "given"] = Field(
        default="find",
        description="`find`: references are found and weighed first, by the server's index and rater where none is "
        "named; `given`: items are taken as they are",
    )
    on_error: OnErrorField = "fail"


class ReferenceWeightIn(StrictModel):
    """What a reference weighs by people, as the export of a study has it."""

    item: str = Field(description="id of the item", min_length=1)
    reference: str = Field(description="the text of the reference", min_length=1)
    weight: float = Field(description="from -1 (wrong) to 1 (as good as it gets)", ge=-1, le=1, allow_inf_nan=False)
    ratings: int | None = Field(default=None, description="how many people have rated it; nothing reads it", ge=1)


class DeriveIn(StrictModel):
    """What is to be another way than in the set that is derived from; what is left out stays as it is."""

    weights: Literal["one", "rated"] | None = Field(default=None, description="what references that were found weigh")
    parrot: Literal["rated", "off"] | Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)] | None = Field(
        default=None, description="the utterance itself as a reference: rated, off, or its weight"
    )
    gold: Literal["one", "rated"] | None = Field(default=None, description="what a gold weighs")
    k: int | None = Field(default=None, description="of what was found, the first so many stay", ge=1, le=1_000)
    people: list[ReferenceWeightIn] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_WEIGHTS,
        fail_fast=True,
        description="weights that people gave to references, as `GET /v1/studies/{id}/export?format=weights` has them; "
        "other references keep theirs",
    )


class SetScoresIn(OptionsBody[RequestedScoring]):
    """Replies to items of a set, and what they are to be scored with."""

    items: list[str] | None = Field(
        default=None,
        max_length=MAX_REPLIES,
        fail_fast=True,  # an error takes 300 bytes, and is found for two bytes that are sent
        description="ids of the items that the replies answer, one for each; an id may come several times. Left out: "
        "all items of the set, in its order",
    )
    replies: dict[SystemName, Annotated[list[str | None], Field(max_length=MAX_REPLIES, fail_fast=True)]] = Field(
        description="for each system its replies, in the order of `items`; null: it has none",
        min_length=1,
        max_length=1_000,
    )
    on_error: OnError = Field(
        default="fail",
        description="what an id does that the set does not have: `fail` refuses the request, `report` lists it under "
        "`problems` and scores the others",
    )
    return_: Literal["scores", "values", "stats"] = Field(
        default="scores",
        alias="return",
        description="`values`: for each system a list of its replies' scores, in the order sent, and no more of them; "
        "`stats`: the sums that they are made of, for POST /v1/scores/combine",
    )


class WithdrawalOut(BaseModel):
    """Why a set is not to be used any more."""

    reason: str = Field(description="why")
    instead: str | None = Field(description="the set to use instead")
    at: str = Field(description="when it was withdrawn")


class ManifestOut(BaseModel):
    """How a set was made."""

    id: str = Field(description="names what the set says: the same content has the same id wherever it is frozen")
    purpose: Purpose = Field(description="what it is for")
    created: str = Field(description="when it was frozen")
    items: int = Field(description="how many items it has")
    references: int = Field(description="how many references they have together")
    provenance: dict[str, str] = Field(description="what both forms of a signature say of the references")
    details: dict[str, str] = Field(description="what the full form says beside that")
    parent: str | None = Field(description="the set that it was derived from")
    how: dict[str, object] = Field(description="by which steps it came about")
    content: str = Field(description="SHA-256 of its items")
    refaug: str = Field(description="the release that wrote it")
    kind: str = Field(description="reference-set")
    format_version: int = Field(description="of its file")


class FrozenOut(ManifestOut, ResponseModel):
    """A set that is there now."""

    new: bool = Field(description="false: the same was frozen before, and stays as it was")
    problems: list[FieldProblem] = Field(description='items that were left out, with "on_error": "report"')
    warnings: list[str] = Field(description="what one should know of the others")


class ListedSetOut(BaseModel):
    """A set in a list."""

    id: str = Field(description="names the set")
    problem: str | None = Field(description="what is wrong with its file; then all else is null")
    purpose: Purpose | None = Field(description="what it is for")
    items: int | None = Field(description="how many items it has")
    references: int | None = Field(description="how many references they have together")
    created: str | None = Field(description="when it was frozen")
    parent: str | None = Field(description="the set that it was derived from")
    withdrawn: WithdrawalOut | None = Field(description="why it is not to be used any more, if so")


class SetsOut(Page, ResponseModel):
    """A page of sets."""

    sets: list[ListedSetOut] = Field(description="by id, withdrawn ones too")


class BinOut(BaseModel):
    """Some of the references' weights."""

    model_config = ConfigDict(populate_by_name=True)

    from_: float = Field(alias="from", description="the least weight in it")
    to: float = Field(description="up to this one")
    references: int = Field(description="how many have such a weight")


class EvidenceOut(BaseModel):
    """On what scores against a set stand; golds are not counted."""

    sources: dict[str, int] = Field(description="references by where they come from")
    thin: int = Field(description="items with few references of positive weight")
    weights: list[BinOut] = Field(description="how many references have which weight")


class OneSetOut(ManifestOut, ResponseModel):
    """A set."""

    withdrawn: WithdrawalOut | None = Field(description="why it is not to be used any more, if so")
    evidence: EvidenceOut = Field(description="on what scores against it stand")


class WithdrawnOut(WithdrawalOut, ResponseModel):
    """A set that was withdrawn."""

    id: str = Field(description="names the set")


class ScoredSetOut(BaseModel):
    """Which set scores are against."""

    id: str = Field(description="names the set")
    purpose: Purpose = Field(description="what it is for")
    items: int = Field(description="how many items it has")


class SystemOfSetOut(scoring.SystemFiguresOut):
    """One system under one metric."""

    replies: list[scoring.ReplyScoreOut] | None = Field(default=None, description="in the order sent")
    values: list[float | None] | None = Field(
        default=None, description='with `"return": "values"`: the scores alone; null where there is none'
    )


class MetricOfSetOut(scoring.MetricFiguresOut):
    """All systems under one metric."""

    references: str = Field(description="names the references and weights that were looked at")
    systems: dict[str, SystemOfSetOut] = Field(description="by name")


class SetScoresOut(OpenModel, ResponseModel):
    """Scores against a set: the JSON of `refaug sets score`, and which set it was."""

    scores: list[MetricOfSetOut] = Field(
        default=[], description="for each metric its signature and the scores of all systems"
    )
    stats: list[scoring.MetricSumsOut] | None = Field(
        default=None, description='with `"return": "stats"`: a metric each'
    )
    set: ScoredSetOut | None = Field(default=None, description="which set they are against")
    copies: dict[str, scoring.CopiesOut] | None = Field(
        default=None, description="by system: replies that repeat the utterance, or nearly; only where there are any"
    )
    problems: list[dict[str, object]] = Field(default=[], description="what could not be scored, and why")
    warnings: list[str] = Field(default=[], description="what one should know of the rest")
