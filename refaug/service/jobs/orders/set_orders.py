"""Orders of jobs that freeze reference sets; how references are found, rated and weighed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from refaug.evaluation.scoring.augment_settings import AugmentSettings, GoldUse, WeightSource
from refaug.evaluation.scoring.presets import PresetName, find_preset, with_preset_defaults
from refaug.indexer.search.search_settings import MAX_REFERENCES, SearchSettings
from refaug.rater.rating_settings import Combine, RatingSettings
from refaug.service.jobs.orders.fields import (
    ON,
    THREADS,
    Count,
    Mode,
    Name,
    Share,
    Spec,
    Stored,
    StrictModel,
    Text,
    require_exactly_one,
    require_searched,
)


class ReferenceSettings(StrictModel):
    """How references are found, rated and weighed."""

    preset: PresetName | None = Field(
        default=None, description="`tsuta20`: every setting as in the code of Tsuta et al. (2020)"
    )
    k: int = Field(default=SearchSettings.k, description="how many references to find", ge=1, le=MAX_REFERENCES)
    mode: Mode = Field(default=SearchSettings.mode, description="how utterances are compared")
    gold: GoldUse = Field(default=AugmentSettings.gold, description="what a gold weighs; none: golds play no part")
    parrot: Literal["rated", "off"] | Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)] = Field(
        default=AugmentSettings.parrot, description="the utterance itself as a reference: rated, off, or its weight"
    )
    weights: WeightSource = Field(default=AugmentSettings.weights, description="what references that are found weigh")
    combine: Combine = Field(default=RatingSettings.combine, description="how the rater's two answers become one")
    calibrated: bool = Field(default=False, description="rate with the rater's temperature")
    exclude_logs: list[Name] = Field(default_factory=list, description="logs to take nothing from", max_length=1_000)
    after: str | None = Field(default=None, description="only pairs at or after this time; without a zone: UTC")
    before: str | None = Field(default=None, description="only pairs before this time; without a zone: UTC")
    near: Share = Field(default=SearchSettings.near, description="a response as like the gold as this is left out")
    near_tokens: int = Field(
        default=SearchSettings.near_tokens, description="where both have at least so many words", ge=0, le=1_000_000
    )
    depth: Count | None = Field(
        default=None, description="candidates that are ranked again; null: as many as are needed"
    )
    alpha: Share = Field(default=SearchSettings.alpha, description="the responses' share in the dialog modes")
    epsilon: Share = Field(default=SearchSettings.epsilon, description="what stands in for it otherwise")

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, fields: Any) -> Any:
        return with_preset_defaults(fields, "references")

    @model_validator(mode="after")
    def _agrees_with_preset(self) -> Self:
        if (preset := find_preset(self.preset)) is not None:
            preset.require_agreement(preset.references, self.model_dump())
        return self

    @field_validator("after", "before")
    @classmethod
    def _is_a_time(cls, text: str | None) -> str | None:
        if text is not None:
            parse_time(text)
        return text


def parse_time(text: str) -> datetime:
    """Return the time; without a zone it is UTC."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class FreezeJob(StrictModel):
    """Freeze items with their weighted references."""

    kind: Literal["freeze"] = Field(description="which job it is")
    items: Stored | None = Field(default=None, description="items that were sent to be frozen, by their stored name")
    source: Text | None = Field(default=None, description="a test file in inbox/ or a configured folder")
    purpose: Literal["train", "validation", "test"] = Field(description="what the set is for")
    index: Spec | None = Field(
        default=None, description="index that references are found in; without it they are taken as they are"
    )
    rater: Spec | None = Field(default=None, description="rater that weighs them")
    settings: ReferenceSettings | None = Field(default=None, description="how they are found, rated and weighed")
    strict: bool = Field(default=False, description="freeze nothing where any item cannot be used")
    threads: int | None = Field(default=None, description=THREADS, ge=1, le=1_024)
    on: Text | None = Field(default=None, description=ON)

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        require_exactly_one(self.items, self.source, "either items, or a source")
        if self.index is None and (self.rater is not None or self.settings is not None):
            raise ValueError("rater and settings are for references that an index finds: name one")
        require_searched(self.on, self.index)
        return self
