"""What several routes take and give: items as they are documented, how references are found, versions, problems."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, WithJsonSchema

from core.errors import Usage
from indexer.queries import SearchSettings
from rater.rate import RatingSettings
from service.augment import AugmentSettings
from service.web.problems import FieldProblem

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
    },
}
# Validated by the parser of test files, which says what is wrong with which item; here they are only counted.
Item = Annotated[Any, WithJsonSchema(ITEM_SCHEMA)]
ItemsField = Annotated[
    list[Item], Field(min_length=1, description="at most the server's `items`, 1,000 unless set otherwise")
]


class RetrievalIn(BaseModel):
    """How references are found, rated and weighed; what is left out is as in the command.

    See docs/indexes.md for modes and exclusions, docs/raters.md for ratings and weights.
    """

    model_config = STRICT

    k: int = Field(default=15, ge=1, le=1_000, description="references to find for each item")
    mode: Literal["embedding-utterance", "embedding-dialog", "bm25-utterance", "bm25-dialog"] = Field(
        default="embedding-utterance", description="what is compared, and by what"
    )
    gold: Literal["one", "rated"] = Field(default="one", description="what a gold weighs: 1, or what the rater says")
    parrot: Literal["rated", "off"] | Annotated[float, Field(ge=-1, le=1)] = Field(
        default="rated", description="the utterance itself as a reference: `rated`, `off`, or its weight"
    )
    weights: Literal["rated", "one"] = Field(
        default="rated", description="what references that are found weigh; `one` needs no rater for them"
    )
    combine: Literal["first", "first-literal", "max", "confident", "mean"] = Field(
        default="first", description="how the rater's two answers become a rating"
    )
    calibrated: bool = Field(default=False, description="rate with the rater's temperature")
    exclude_logs: list[NameField] = Field(default=[], max_length=1_000, description="logs to take nothing from")
    after: AwareDatetime | None = Field(default=None, description="only pairs at or after this time")
    before: AwareDatetime | None = Field(default=None, description="only pairs before this time")
    near: float = Field(
        default=0.9, ge=0, le=1, description="a response as like the gold as this (Jaccard of its words) is left out"
    )
    near_tokens: int = Field(default=5, ge=0, le=1_000_000, description="where both have at least so many words")
    depth: int | None = Field(
        default=None, ge=1, le=1_000_000, description="candidates that are ranked again; null: as many as are needed"
    )
    alpha: float = Field(default=0.5, ge=0, le=1, description="the responses' share in the dialog modes")
    epsilon: float = Field(default=0.1, ge=0, le=1, description="what stands in for it otherwise")

    def settings(self, *, rates: bool = False) -> AugmentSettings:
        """The same as those who find and weigh take it; Usage where one setting does not go with another.

        `rates`: the rater is asked about something else, and looks at its settings whatever references weigh.
        """
        after: datetime | None = self.after
        found = AugmentSettings(
            search=SearchSettings(
                k=self.k,
                mode=self.mode,
                alpha=self.alpha,
                epsilon=self.epsilon,
                depth=self.depth,
                after=after,
                before=self.before,
                exclude_logs=tuple(self.exclude_logs),
                near=self.near,
                near_tokens=self.near_tokens,
            ),
            rating=RatingSettings(combine=self.combine, calibration="cal" if self.calibrated else "raw"),
            gold=self.gold,
            parrot=self.parrot,
            weights=self.weights,
        )
        if not found.search.is_dialog:
            self._require_unsaid("alpha", "epsilon", remedy='leave it out, or ask for a dialog "mode"')
        if not (found.needs_rater or rates):
            self._require_unsaid("combine", "calibrated", remedy="leave it out, or ask for rated weights")
        return found

    def _require_unsaid(self, *names: str, remedy: str) -> None:
        """Usage where one of these, which nothing looks at, was not left as it is by itself."""
        fields = type(self).model_fields
        if said := [name for name in names if getattr(self, name) != fields[name].default]:
            raise Usage(f"nothing looks at settings.{said[0]} with these settings", remedy=remedy)


class Answer(BaseModel):
    """What every answer has."""

    request_id: str = Field(description="names this request in the server's log")


class VersionsOut(BaseModel):
    """What made an answer: name, version and the beginning of the content's hash."""

    model_config = ConfigDict(extra="allow")

    index: str | None = Field(default=None, description="such as `chat@2026-11-20.1#9f2c41d07e12`; where one was asked")
    rater: str | None = Field(default=None, description="such as `base@3#41d07e9f2c55`; where one was asked")
    ruber: str | None = Field(default=None, description="where one was asked")


class Problems(BaseModel):
    """What went wrong with some items, and what one should know of the others."""

    problems: list[FieldProblem] = Field(description='items that were left out, with `"on_error": "report"`')
    warnings: list[str] = Field(description="what makes the numbers mean something else than one may think")
