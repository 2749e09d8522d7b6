"""Orders of jobs that freeze reference sets."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.service.jobs.orders.fields import (
    ON,
    THREADS,
    Spec,
    Stored,
    StrictModel,
    Text,
    require_exactly_one,
    require_searched,
)
from refaug.service.option_groups import OptionGroup

ReferenceSettings = Annotated[AugmentSettings, OptionGroup(AugmentSettings, "ReferenceSettings")]


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
