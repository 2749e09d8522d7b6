"""Records as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from refaug.core.records import OPTIONAL, json_form, named


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    size: int
    note: str | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True, kw_only=True)
class Whole:
    is_new: bool = field(metadata=named("new"))
    colour: Colour
    parts: tuple[Part, ...]
    by_colour: Mapping[Colour, Part]
    why: str | None = None


class Weight(float):
    """A number with a form of its own."""


@json_form.register
def _(weight: Weight) -> str:
    return f"{weight:g} kg"


def test_fields_stand_in_their_order_by_name_and_empty_optional_ones_are_left_out() -> None:
    whole = Whole(
        is_new=True,
        colour=Colour.RED,
        parts=(Part(size=1), Part(size=2, note="large")),
        by_colour=MappingProxyType({Colour.RED: Part(size=3)}),
    )
    form = json_form(whole)
    assert form == {
        "new": True,
        "colour": "red",
        "parts": [{"size": 1}, {"size": 2, "note": "large"}],
        "by_colour": {"red": {"size": 3}},
        "why": None,
    }
    assert list(form) == ["new", "colour", "parts", "by_colour", "why"]
    assert type(form["colour"]) is str


def test_an_optional_field_with_another_value_than_its_default_stays_though_it_is_empty() -> None:
    assert json_form(Part(size=0, note="")) == {"size": 0, "note": ""}


def test_a_registered_form_is_used_wherever_the_type_stands() -> None:
    assert json_form({"weights": [Weight(1.5), 2]}) == {"weights": ["1.5 kg", 2]}
