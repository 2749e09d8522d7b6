"""Models that several routes share: items as documented, settings of references, versions, problems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from refaug.service.web.problems import FieldProblem


class StrictModel(BaseModel):
    """A body, or a part of one, without further fields."""

    # "15" is no number and 1 is not true, as in files
    model_config = ConfigDict(extra="forbid", strict=True)


class OpenModel(BaseModel):
    """A part of an answer that later versions may add fields to."""

    model_config = ConfigDict(extra="allow")


OnError = Literal["fail", "report"]
OnErrorField = Annotated[
    OnError,
    Field(
        description="what a bad item does: `fail` refuses the request, `report` lists it under `problems` and does "
        "the others"
    ),
]

_SHAPES: Final[dict[str, dict[str, object]]] = orjson.loads(Path(__file__).with_name("shapes.json").read_bytes())
# Validated by the parser of test files, which names the faults of each item; the model only counts the items.
Item = Annotated[Any, WithJsonSchema(_SHAPES["item"])]
# Dialogues go through the reader of log files, and fields that it would ignore are refused by place and name; so the
# model accepts anything, and the document describes the expected shape.
Dialogue = Annotated[Any, WithJsonSchema(_SHAPES["dialogue"])]
ItemsField = Annotated[
    list[Item],
    Field(min_length=1, max_length=100_000, description="at most the server's `items`, 1,000 unless set otherwise"),
]


class ResponseModel(BaseModel):
    """What every answer has."""

    request_id: str = Field(description="names this request in the server's log")


class VersionsOut(OpenModel):
    """What made an answer: name, version and the beginning of the content's hash."""

    index: str | None = Field(default=None, description="such as `chat@2026-11-20.1#9f2c41d07e12`; where one was used")
    rater: str | None = Field(default=None, description="such as `base@3#41d07e9f2c55`; where one was used")


class Problems(BaseModel):
    """What went wrong with some items, and what one should know of the others."""

    problems: list[FieldProblem] = Field(description='items that were left out, with `"on_error": "report"`')
    warnings: list[str] = Field(description="what makes the numbers mean something else than one may think")


class Page(BaseModel):
    """Fields shared by all paginated responses."""

    next: str | None = Field(description="the `after` of the next page; null on the last one")
