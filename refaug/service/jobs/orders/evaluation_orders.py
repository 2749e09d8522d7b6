"""Orders of jobs whose results are evaluations: scores of replies, and agreement of metrics with people's ratings."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from refaug.core.errors import Usage
from refaug.core.options.decoding import decode
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.presets import PresetName
from refaug.evaluation.scoring.score_settings import (
    MAX_CONFIDENCE,
    MAX_DRAWS,
    MIN_CONFIDENCE,
    ScoreSettings,
)
from refaug.evaluation.tables.table_request import RowShape, TableRequest
from refaug.logs.reading.sources import encoding_of
from refaug.service.jobs.orders.fields import ON, THREADS, Count, Seed, Spec, StrictModel, Text, require_searched
from refaug.service.jobs.orders.set_orders import ReferenceSettings

SystemName = Annotated[str, Field(min_length=1, max_length=200)]
FILE_OF_JOB: Final = "`upload:ID`, or a file in inbox/ or in a configured folder"


class TableFields(StrictModel):
    """What the columns of a table hold, as `refaug score --map` has it."""

    map: list[Text] = Field(
        default_factory=list,
        description="which column of a table holds what: FIELD=COLUMN or FIELD:SYSTEM=COLUMN",
        max_length=1_000,
    )
    shape: Literal["item", "reply", "rating"] | None = Field(
        default=None, description="what a row of a table is; null: its columns tell"
    )
    encoding: str | None = Field(
        default=None, description="encoding of a table; null: UTF-8 or what its first bytes say", max_length=40
    )

    @field_validator("encoding")
    @classmethod
    def _knows_encoding(cls, encoding: str | None) -> str | None:
        try:
            encoding_of(b"", encoding or "auto")
        except Usage as error:
            raise ValueError(f"{error.message}: {error.remedy}") from None
        return encoding

    @model_validator(mode="after")
    def _maps_fields(self) -> Self:
        try:
            _ = self.table
        except Usage as error:
            raise ValueError(f"{error.message}: {error.remedy}") from None
        return self

    @property
    def table(self) -> TableRequest:
        """The columns and the shape that are named."""
        shape = None if self.shape is None else RowShape(self.shape).value
        return TableRequest.parse(self.map, shape, self.encoding or "auto")


class ItemSources(TableFields):
    """The files that items are read from: a file of items or a table, or line-aligned texts."""

    items: Text | None = Field(default=None, description=f"items or a table: {FILE_OF_JOB}")
    replies: dict[SystemName, Text] = Field(
        default_factory=dict, description="line-aligned replies of each system", max_length=1_000
    )
    references: list[Text] = Field(
        default_factory=list, description="line-aligned references, golds first", max_length=1_000
    )
    weights: list[Text] = Field(
        default_factory=list, description="their weights, a file for each of references", max_length=1_000
    )
    utterances: Text | None = Field(default=None, description="line-aligned utterances that are replied to")
    allow_truncated: bool = Field(
        default=False, description="use the items before the place where a compressed file breaks off"
    )

    @model_validator(mode="after")
    def _names_files(self) -> Self:
        has_lines = bool(self.replies or self.references or self.weights or self.utterances)
        if (self.items is None) == (not has_lines):
            raise ValueError("either items, or line-aligned replies and references")
        if has_lines and not (self.replies and self.references):
            raise ValueError("line-aligned files are replies by system and at least one file of references")
        if has_lines and (not self.table.is_empty or self.allow_truncated):
            raise ValueError("map, shape, encoding and allow_truncated are for items")
        return self

    @property
    def files(self) -> list[str]:
        """The files in the order in which they are named."""
        single = [text for text in (self.items, self.utterances) if text is not None]
        return [*single, *self.replies.values(), *self.references, *self.weights]


class EvaluationOrder(StrictModel):
    """What both kinds of evaluations are asked for with."""

    name: str = Field(default="", description="a title for people", max_length=200)
    owner: str | None = Field(
        default=None, description="the name of the key that sees the evaluation; the server fills it in", max_length=64
    )
    index: Spec | None = Field(
        default=None, description="index that references are found in first; without it they are taken as they are"
    )
    rater: Spec | None = Field(
        default=None, description="rater that weighs references that are found, and that the metric rater asks"
    )
    preset: PresetName | None = Field(
        default=None, description="`tsuta20`: weighted BLEUs and references as in the code of Tsuta et al. (2020)"
    )
    settings: ReferenceSettings | None = Field(default=None, description="how they are found, rated and weighed")
    language: str | None = Field(default=None, description="decides the tokenizer of the metrics", max_length=35)
    threads: int | None = Field(default=None, description=THREADS, ge=1, le=1_024)
    on: Text | None = Field(default=None, description=ON)

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        require_searched(self.on, self.index)
        if self.index is None and self.settings is not None:
            raise ValueError("settings are for references that an index finds: name one")
        if self.index is not None:
            _ = self.reference_settings  # raises where settings contradict the preset
        return self

    @property
    def reference_settings(self) -> AugmentSettings:
        """How references are found in the index: with the preset of the order, if it has one."""
        settings = self.settings or AugmentSettings()
        if self.preset is None or settings.preset is not None:
            return settings
        stated = {name: getattr(settings, name) for name in settings.stated}
        return decode(AugmentSettings, {"preset": self.preset, **stated})


class ScoreJob(EvaluationOrder, ItemSources):
    """Score replies, as `refaug score` does, and keep the scores as an evaluation."""

    kind: Literal["score"] = Field(description="which job it is")
    metrics: list[Text] = Field(
        default_factory=list,
        description="what to score with: NAME or NAME:key=value,…; without any, the one that the references suit",
        max_length=100,
    )
    baseline: SystemName | None = Field(default=None, description="the system that every other is compared with")
    draws: int = Field(
        default=ScoreSettings.draws, description="draws of the bootstrap; 0: no intervals", ge=0, le=MAX_DRAWS
    )
    confidence: float = Field(
        default=ScoreSettings.confidence, description="of the intervals", ge=MIN_CONFIDENCE, le=MAX_CONFIDENCE
    )
    seed: Seed = Field(default=ScoreSettings.seed, description="of the draws")
    percent: bool = Field(default=False, description="scores in [0, 1] times 100")
    explain: bool = Field(
        default=False, description="n-grams credited to which reference, and scores without each of them"
    )

    @model_validator(mode="after")
    def _compares_with_draws(self) -> Self:
        if self.baseline is not None and not self.draws:
            raise ValueError("a comparison without draws: draws from 1, or no baseline")
        return self


class MetaJob(EvaluationOrder, TableFields):
    """Say how far metrics agree with people's ratings."""

    kind: Literal["meta"] = Field(description="which job it is")
    data: list[Text] = Field(
        description="test sets with ratings: `upload:ID`, or files in inbox/ or in configured folders",
        min_length=1,
        max_length=100,
    )
    metrics: list[Text] = Field(
        default_factory=list,
        description="what to compare: NAME or NAME:key=value,…; without any: those of bleu, multi-bleu, rouge-l and "
        "chrf that apply, and upsilon-bleu with an index",
        max_length=1_000,
    )
    baseline: Text | None = Field(
        default=None, description="the one of the metrics that every other is compared with; without it, the first"
    )
    rows: Literal["fair", "all"] = Field(
        default="fair", description="fair: no replies that are one of their own golds; all: every rated reply"
    )
    draws: Count = Field(default=10_000, description="draws of the bootstrap over contexts")
    confidence: float = Field(default=0.95, description="of the intervals", ge=MIN_CONFIDENCE, le=MAX_CONFIDENCE)
    seed: Seed = Field(default=1, description="of the draws")
    min_kappa: float | None = Field(
        default=None, description="leave out annotators whose mean κ with the others is lower", ge=-1, le=1
    )
