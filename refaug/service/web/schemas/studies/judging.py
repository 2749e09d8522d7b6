"""Models of a study's agreement, disagreements and power."""

from __future__ import annotations

from pydantic import BaseModel, Field

from refaug.service.web.schemas.common import STRICT, ResponseModel

_Answer = float | str


class StudyReportOut(ResponseModel):
    """The figures of a study."""

    report: dict[str, object] = Field(description="counts, exclusions, checks, analyses with and without exclusions")


class QuestionAgreementOut(BaseModel):
    """How far participants agree on one question; null where it cannot be computed."""

    question: str = Field(description="its id")
    rows_are: str = Field(description="what several people judged: items, or bots where each had their own chats")
    rows: int = Field(description="how many of them have two ratings or more")
    participants: int = Field(description="who answered it")
    alpha_ordinal: float | None = Field(description="Krippendorff's α, ordinal")
    alpha_interval: float | None = Field(description="Krippendorff's α, interval")
    kappa_median: float | None = Field(description="the median κ of pairs of participants")
    ambiguous: float | None = Field(description="the share of items on which choices are even")


class StudyAgreementOut(ResponseModel):
    """Agreement so far."""

    questions: list[QuestionAgreementOut] = Field(description="those that were answered")


class AdjudicationOut(BaseModel):
    """What counts, as it was decided."""

    value: _Answer = Field(description="the answer that counts")
    note: str = Field(description="why")
    by: str = Field(description="the name of the key that decided it")
    at: str = Field(description="when")


class OneAnswerOut(BaseModel):
    """The answer of one participant."""

    participant: str = Field(description="their code")
    value: _Answer = Field(description="as it was given; of a choice, the system that was preferred, or tie")


class DisagreementOut(BaseModel):
    """One thing about which participants disagree."""

    item: str = Field(description="the unit that was judged")
    question: str = Field(description="its id")
    ratings: list[OneAnswerOut] = Field(description="the answers, by participant")
    spread: float = Field(description="their range as a share of the scale, 0 to 1")
    adjudicated: AdjudicationOut | None = Field(description="what was decided")


class DisagreementsOut(ResponseModel):
    """What participants disagree about, the widest first."""

    items: list[DisagreementOut] = Field(description="without those on which all agree")


class AdjudicationIn(BaseModel):
    """A decision about a disagreement."""

    model_config = STRICT

    item: str = Field(description="the unit that was judged", min_length=1, max_length=600)
    question: str = Field(description="id of the question", min_length=1, max_length=64)
    value: _Answer = Field(description="the answer that counts")
    note: str = Field(default="", description="why", max_length=2_000)


class OneAdjudicationOut(AdjudicationOut, ResponseModel):
    """The decision as it is kept."""


class PowerIn(BaseModel):
    """A study that is to be planned: what it should see, and how sure it should be."""

    model_config = STRICT

    difference: float | None = Field(default=None, description="of the means of two bots", gt=0, le=1e6)
    win_rate: float | None = Field(default=None, description="of one of two bots, without ties", gt=0, lt=1)
    sd: float = Field(default=1.3, description="standard deviation of a rating", gt=0, le=1e6)
    power: float = Field(default=0.8, description="chance to see it", gt=0, lt=1)
    alpha: float = Field(default=0.05, description="level of the two-sided test", gt=0, lt=1)
    ratings_per_participant: int = Field(default=1, description="of each bot, or votes", ge=1, le=200)
    rho: float = Field(default=0.3, description="correlation of the ratings of one participant", ge=0, le=1)


class PowerOut(ResponseModel):
    """How much a study needs."""

    n: int = Field(description="ratings of each bot, or votes on the pair")
    participants: int = Field(description="who are needed for them at least")
    design_effect: float = Field(description="by how much several ratings of one person enlarge the number")
