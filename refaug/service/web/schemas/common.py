"""Models that several routes share: items as documented, settings of references, versions, problems."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

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
ITEM_SCHEMA: Final[dict[str, object]] = {
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
            "description": "by system: which bot made its reply, as `refaug bots reply` wrote it",
        },
    },
}
# Validated by the parser of test files, which names the faults of each item; the model only counts the items.
Item = Annotated[Any, WithJsonSchema(ITEM_SCHEMA)]
ItemsField = Annotated[
    list[Item],
    Field(min_length=1, max_length=100_000, description="at most the server's `items`, 1,000 unless set otherwise"),
]


class ResponseModel(BaseModel):
    """What every answer has."""

    request_id: str = Field(description="names this request in the server's log")


class VersionsOut(BaseModel):
    """What made an answer: name, version and the beginning of the content's hash."""

    model_config = ConfigDict(extra="allow")

    index: str | None = Field(default=None, description="such as `chat@2026-11-20.1#9f2c41d07e12`; where one was used")
    rater: str | None = Field(default=None, description="such as `base@3#41d07e9f2c55`; where one was used")


class Problems(BaseModel):
    """What went wrong with some items, and what one should know of the others."""

    problems: list[FieldProblem] = Field(description='items that were left out, with `"on_error": "report"`')
    warnings: list[str] = Field(description="what makes the numbers mean something else than one may think")


class Page(BaseModel):
    """Fields shared by all paginated responses."""

    next: str | None = Field(description="the `after` of the next page; null on the last one")
