"""Models that several routes share: items as documented, settings of references, versions, problems."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from refaug.core.errors import Usage
from refaug.evaluation.scoring.augment_settings import AugmentSettings, GoldUse
from refaug.evaluation.scoring.presets import PresetName, find_preset
from refaug.indexer.search.search_settings import MAX_DEPTH, MAX_REFERENCES, Mode, Partial, SearchSettings
from refaug.rater.rating_settings import Combine, RatingSettings
from refaug.service.web.problems import FieldProblem

# Bodies are read strictly: "15" is no number and 1 is not true, as in files.
STRICT: Final = ConfigDict(extra="forbid", strict=True)
OnError = Literal["fail", "report"]
OnErrorField = Annotated[
    OnError,
    Field(
        description="what a bad item does: `fail` refuses the request, `report` lists it under `problems` and does "
        "the others"
    ),
]
NameField = Annotated[str, Field(min_length=1, max_length=200)]

_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
_REFERENCE: Final = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "title": "Reference",
            "description": "A reference with what is known of it.",
            "required": ["text"],
            "properties": {
                "text": {"type": "string", "description": "what it says"},
                "source": {
                    "type": "string",
                    "enum": ["gold", "parrot", "retrieved", "supplied"],
                    "description": "where it comes from; without it, supplied where people weighted it, else gold",
                },
                "weight": {
                    "type": "number",
                    "minimum": -1,
                    "maximum": 1,
                    "description": "what a match with it is worth",
                },
                "unused": {
                    "type": "boolean",
                    "description": "true: a gold that weighted scores leave out, as `gold: none` writes it",
                },
                "ratings": {
                    "type": "array",
                    "items": {"type": "number"},
                    "minItems": 1,
                    "description": "of people; mapped linearly from `scale` to -1 … 1, and their mean is the weight",
                },
                "scale": {
                    "type": "array",
                    "items": {"type": "number"},
                    "minItems": 2,
                    "maxItems": 2,
                    "description": "the least and the best of those ratings, such as [1, 5]",
                },
            },
        },
    ],
    "description": "a text, which is a gold; or an object, which with a weight or ratings is one supplied by people",
}
ITEM_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "title": "Item",
    "description": "A test pair with the replies of some systems, as a line of a test file (docs/items.md).",
    "properties": {
        "id": {"type": "string", "description": "one of its own in the request; without it, `item-` and its place"},
        "utterance": {"type": "string", "description": "what is replied to"},
        "turns": {**_TEXTS, "description": "the dialogue so far, instead; the last one is the utterance"},
        "references": {"type": "array", "items": _REFERENCE, "description": "gold first"},
        "replies": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "one of each system, by its name",
        },
        "dialogue": {"type": "string", "description": "the dialogue it is from: nothing is retrieved from that one"},
        "time": {"type": "string", "description": "when it was said, ISO 8601"},
        "exclude": {**_TEXTS, "description": "dialogues to retrieve nothing from"},
        "ratings": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": ["number", "null"]}},
            "description": "how people rated the replies, one number an annotator",
        },
        "provenance": {"type": "string", "description": "as POST /v1/references wrote it; signatures have it"},
        "reply_provenance": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "by system: which bot made its reply, as `refaug replies` wrote it",
        },
    },
}
# Validated by the parser of test files, which names the faults of each item; the model only counts the items.
Item = Annotated[Any, WithJsonSchema(ITEM_SCHEMA)]
ItemsField = Annotated[
    list[Item],
    Field(min_length=1, max_length=100_000, description="at most the server's `items`, 1,000 unless set otherwise"),
]


class RetrievalIn(BaseModel):
    """How references are found, rated and weighed; what is left out is as in the command.

    See docs/indexes.md for modes and exclusions, docs/raters.md for ratings and weights.
    """

    model_config = STRICT

    preset: PresetName | None = Field(
        default=None, description="`tsuta20`: every setting, and weighted BLEU, as in the code of Tsuta et al. (2020)"
    )
    k: int = Field(default=SearchSettings.k, ge=1, le=MAX_REFERENCES, description="references to find for each item")
    mode: Mode = Field(default=SearchSettings.mode, description="what is compared, and by what")
    gold: GoldUse = Field(
        default=AugmentSettings.gold,
        description="what a gold weighs: 1, or what the rater says; `none`: golds play no part",
    )
    parrot: Literal["rated", "off"] | Annotated[float, Field(ge=-1, le=1)] = Field(
        default=AugmentSettings.parrot, description="the utterance itself as a reference: `rated`, `off`, or its weight"
    )
    weights: Literal["rated", "one"] = Field(
        default=AugmentSettings.weights,
        description="what references that are found weigh; `one` needs no rater for them",
    )
    combine: Combine = Field(default=RatingSettings.combine, description="how the rater's two answers become a rating")
    calibrated: bool = Field(default=False, description="rate with the rater's temperature")
    exclude_logs: list[NameField] = Field(default=[], max_length=1_000, description="logs to take nothing from")
    after: AwareDatetime | None = Field(default=None, description="only pairs at or after this time")
    before: AwareDatetime | None = Field(default=None, description="only pairs before this time")
    near: float = Field(
        default=SearchSettings.near,
        ge=0,
        le=1,
        description="a response as like the gold as this (Jaccard of its words) is left out",
    )
    near_tokens: int = Field(
        default=SearchSettings.near_tokens, ge=0, le=1_000_000, description="where both have at least so many words"
    )
    depth: int | None = Field(
        default=None, ge=1, le=MAX_DEPTH, description="candidates that are ranked again; null: as many as are needed"
    )
    alpha: float = Field(
        default=SearchSettings.alpha, ge=0, le=1, description="the responses' share in the dialog modes"
    )
    epsilon: float = Field(default=SearchSettings.epsilon, ge=0, le=1, description="what stands in for it otherwise")

    partial: Partial = Field(
        default=SearchSettings.partial,
        description="of an index on a cluster: `allow` gives the references of the shards that answer, and names the "
        "others; `refuse` gives an error then",
    )

    @model_validator(mode="after")
    def _with_preset(self) -> Self:
        # Not before the fields are read: JSON would be read as Python then, whose strict times are no texts.
        if (preset := find_preset(self.preset)) is not None:
            for name in preset.references.keys() - self.model_fields_set:
                setattr(self, name, preset.references[name])
        return self

    def settings(self, *, rates: bool = False) -> AugmentSettings:
        """Return the settings for augmenting; Usage where one setting does not go with another.

        `rates`: the rater is asked about something else, so its settings have an effect in any case.
        """
        if not self.model_fields_set:
            return _DEFAULT_SETTINGS
        augment_settings = AugmentSettings.from_options(**self.model_dump())
        if not augment_settings.search.is_dialog:
            self._require_unsaid("alpha", "epsilon", remedy='leave it out, or ask for a dialog "mode"')
        if not (augment_settings.needs_rater or rates):
            self._require_unsaid("combine", "calibrated", remedy="leave it out, or ask for rated weights")
        return augment_settings

    def _require_unsaid(self, *names: str, remedy: str) -> None:
        """Raise Usage where a setting without an effect differs from its default."""
        fields = type(self).model_fields
        if idle_fields := [name for name in names if getattr(self, name) != fields[name].default]:
            raise Usage(f"nothing looks at settings.{idle_fields[0]} with these settings", remedy=remedy)


_DEFAULT_SETTINGS: Final = AugmentSettings.from_options(**RetrievalIn().model_dump())  # every setting has an effect


class ResponseModel(BaseModel):
    """What every answer has."""

    request_id: str = Field(description="names this request in the server's log")


class VersionsOut(BaseModel):
    """What made an answer: name, version and the beginning of the content's hash."""

    model_config = ConfigDict(extra="allow")

    index: str | None = Field(default=None, description="such as `chat@2026-11-20.1#9f2c41d07e12`; where one was asked")
    rater: str | None = Field(default=None, description="such as `base@3#41d07e9f2c55`; where one was asked")
    ruber: str | None = Field(default=None, description="where one was asked")
    adem: str | None = Field(default=None, description="where one was asked")


class Problems(BaseModel):
    """What went wrong with some items, and what one should know of the others."""

    problems: list[FieldProblem] = Field(description='items that were left out, with `"on_error": "report"`')
    warnings: list[str] = Field(description="what makes the numbers mean something else than one may think")


class Page(BaseModel):
    """Fields shared by all paginated responses."""

    next: str | None = Field(description="the `after` of the next page; null on the last one")
