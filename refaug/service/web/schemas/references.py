"""Models of POST /v1/references and POST /v1/ratings."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from refaug.operations.references import RateCandidates, RetrievalOptions
from refaug.service.option_groups import OptionsBody
from refaug.service.web.schemas.common import (
    STRICT,
    ItemsField,
    OnErrorField,
    Problems,
    ResponseModel,
    VersionsOut,
)


class ReferencesIn(OptionsBody[RetrievalOptions]):
    """Test pairs that further references are wanted for."""

    items: ItemsField
    on_error: OnErrorField = "fail"


class ReferenceOut(BaseModel):
    """A reference with its weight and where it comes from."""

    model_config = ConfigDict(extra="allow")

    text: str = Field(description="what it says")
    source: Literal["gold", "parrot", "retrieved", "supplied"] = Field(description="where it comes from")
    weight: float | None = Field(default=None, description="what a match with it is worth, from -1 to 1")
    similarity: float | None = Field(default=None, description="of what it answered to the item's utterance")
    rating: float | None = Field(default=None, description="what the rater gave it, from -1 to 1")
    unused: bool | None = Field(default=None, description="true: a gold that weighted scores leave out")
    rank: int | None = Field(default=None, description="its place among those that were found, from 1")
    utterance: str | None = Field(default=None, description="what it answered, where it was found")
    speaker: str | None = Field(default=None, description="who said it, where the log names speakers")
    time: str | None = Field(default=None, description="when it was said, where the log has times, ISO 8601")


class ExcludedReferenceOut(BaseModel):
    """A pair of the log that came up, and was left out."""

    model_config = ConfigDict(extra="allow")

    text: str = Field(description="what it says")
    reason: str = Field(
        description="`test_pair`, `gold`, `near_gold`, `parrot`, `near_parrot`, `own_dialogue`, `dialogue`, `time`, "
        "`log` or `duplicate`"
    )
    similarity: float = Field(description="of what it answered to the item's utterance")
    utterance: str = Field(description="what it answered")
    log: str = Field(description="the log that it is from")
    dialogue: str = Field(description="the dialogue that it is from")


class ReferencedItemOut(BaseModel):
    """An item with its references; again a valid item."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(description="the item's")
    references: list[ReferenceOut] = Field(description="golds and supplied ones, the parrot, then what was found")
    excluded: dict[str, int] = Field(default={}, description="what was left out on the way, counted by the reason")
    excluded_references: list[ExcludedReferenceOut] = Field(
        default=[],
        description="the first of these, at most `settings.show_excluded`, in the order in which they came up",
    )
    note: str | None = Field(default=None, description="why nothing was found, or nothing could be rated")
    missing_shards: list[str] = Field(
        default=[], description="shards that had no part in its references, where `partial` allows that"
    )
    provenance: str = Field(description="how its references were made, as signatures say it; keep it in the item")
    evidence: dict[str, object] = Field(description="on what a weighted score of it stands")


class ReferencesOut(Problems, ResponseModel):
    """The items in the order sent, without those under `problems`."""

    items: list[ReferencedItemOut] = Field(description="in the order sent")
    versions: VersionsOut = Field(description="what made the references")
    provenance: dict[str, str] = Field(description="what signatures of scores by these references say of them")
    missing_shards: list[str] = Field(
        default=[], description="shards that had no part in the references of some item; see `partial`"
    )


class CandidateIn(BaseModel):
    """A text to be rated."""

    model_config = STRICT

    text: str = Field(description="the text")
    utterance: str | None = Field(default=None, description="what it answered; null: the test pair's utterance")


class PairIn(BaseModel):
    """A test pair, and what is to be rated against it."""

    model_config = STRICT

    utterance: str = Field(min_length=1, description="what is replied to")
    golds: list[str] = Field(min_length=1, max_length=1_000, description="responses that fit; the rating is the mean")
    candidates: list[CandidateIn] = Field(max_length=10_000, description="what is to be rated")


class RatingsIn(OptionsBody[RateCandidates]):
    """Texts that a rater is asked about."""

    pairs: list[PairIn] = Field(
        min_length=1, max_length=100_000, fail_fast=True, description="test pairs with their candidates"
    )


class RatingsOut(ResponseModel):
    """Ratings in the order sent."""

    ratings: list[list[float]] = Field(description="for each pair, those of its candidates, from -1 to 1")
    versions: VersionsOut = Field(description="what rated them")
    warnings: list[str] = Field(description="what makes the ratings mean less than one may think")
