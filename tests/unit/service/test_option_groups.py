"""A body has the fields of a dataclass of options, read by their decoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from pydantic import ValidationError

from refaug.core.errors import Usage
from refaug.core.options.declaring import Doc, Ge, Le, Length, Named
from refaug.core.options.decoding import Options
from refaug.service.option_groups import OptionsBody
from refaug.service.web.problems import from_validation


@dataclass(frozen=True, kw_only=True)
class Search(Options):
    """How references are found."""

    k: Annotated[int, Ge(1), Le(9), Doc("References to find.")] = 3


@dataclass(frozen=True, kw_only=True)
class Find(Options):
    """Find references."""

    index: Annotated[str, Doc("Index to search.")]
    metrics: Annotated[tuple[Annotated[str, Length(1, 5)], ...], Doc("What to score with.")] = ()
    settings: Annotated[Search, Doc("How.")] = field(default_factory=Search)
    return_: Annotated[bool, Named("return"), Doc("What comes back.")] = False
    draws: int = 0

    def check(self) -> None:
        if self.return_ and self.draws:
            raise Usage("it has no effect with return", remedy="leave it out", field="draws")


class FindIn(OptionsBody[Find]):
    """Items and how references are found for them."""

    items: list[Any]


def faults_of(body: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ValidationError) as refused:
        FindIn.model_validate(body)
    return {one["field"]: one["message"] for one in from_validation(refused.value, model=FindIn).errors}


def test_the_options_are_those_of_the_body() -> None:
    raw = b'{"items": [1], "index": "chat", "metrics": ["bleu"], "settings": {"k": 5}, "return": true}'
    body = FindIn.model_validate_json(raw)
    assert body.items == [1]
    assert body.options == Find(index="chat", metrics=("bleu",), settings=Search(k=5), return_=True)
    assert body.options.stated == {"index", "metrics", "settings", "return_"}
    assert FindIn(items=[], index="chat", draws=0).options.stated == {"index", "draws"}


def test_every_fault_has_its_place_and_the_message_of_all_faces() -> None:
    assert faults_of({"items": 1, "metrics": ["bleu", "", 3], "settings": {"k": 10}, "metric": 1}) == {
        "items": "a list is expected; found 1",
        "index": "it is missing",
        "metrics[1]": "it is empty: at least 1",
        "metrics[2]": "3 is not a text",
        "settings.k": "10 is out of range: from 1 to 9",
        "metric": "there is no such field; found 1; did you mean 'metrics'?",
    }


def test_a_rule_between_options_is_a_usage_of_its_field() -> None:
    with pytest.raises(Usage) as refused:
        FindIn(items=[], index="chat", draws=2, **{"return": True})
    assert (refused.value.field, refused.value.remedy) == ("draws", "leave it out")


def test_the_schema_has_the_texts_limits_and_defaults() -> None:
    schema = FindIn.model_json_schema()
    assert schema["required"] == ["index", "items"]
    assert schema["additionalProperties"] is False
    returned = {"type": "boolean", "description": "What comes back.", "default": False}
    assert schema["properties"]["return"] == returned | {"title": "Return"}
    settings = schema["properties"]["settings"]
    assert settings["description"] == "How."
    assert settings["anyOf"][0]["title"] == "Search"
    assert settings["anyOf"][0]["properties"]["k"]["maximum"] == 9
