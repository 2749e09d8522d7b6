"""Options are decoded strictly, whichever face they come from, and each fault names its field."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from refusals import refusing

from refaug.core.errors import Usage
from refaug.core.options.declaring import Distinct, Doc, FileNames, Ge, Gt, Le, Length, Lt, Named, Pattern, Schema, Size
from refaug.core.options.decoding import BadOptions, Options, as_values, decode, from_texts
from refaug.core.options.describing import options_by_spelling, schema_of


class Weights(StrEnum):
    ONE = "one"
    RATED = "rated"


@dataclass(frozen=True, kw_only=True)
class Retrieval(Options):
    """How references are found."""

    k: Annotated[int, Ge(1), Le(1_000), Doc("References to find.")] = 15
    near: Annotated[float, Gt(0), Lt(1)] = 0.9
    parrot: float | Literal["rated", "off"] = "off"
    after: datetime | None = None
    logs: Annotated[tuple[Annotated[str, Length(1, 5)], ...], Length(most=2)] = ()


NAME = Pattern(re.compile("[a-z]+"), "a name of small letters")


@dataclass(frozen=True, kw_only=True)
class Find(Options):
    """Find references."""

    index: Annotated[str, NAME, Doc("Index to search.", of_job="of a job `upload:ID`")]
    weights: Weights = Weights.RATED
    rater: str | None = None
    settings: Annotated[Retrieval, Doc("How.")] = field(default_factory=Retrieval)
    return_: Annotated[bool, Named("return")] = False
    more: dict[str, int] = field(default_factory=dict)
    items: Annotated[Any, Schema({"type": "array"})] = None

    def check(self) -> None:
        if self.weights is Weights.RATED and self.rater is None:
            raise Usage("rated weights need a rater", field="rater")


def faults_of(values: dict[str, Any], kind: type[Any] = Find) -> list[str]:
    with pytest.raises(BadOptions) as refused:
        decode(kind, values)
    return [fault.field for fault in refused.value.faults]


def test_values_become_the_fields_of_the_dataclass() -> None:
    moment = "2026-11-20T08:00:00+00:00"
    options = decode(
        Find,
        {
            "index": "chat",
            "weights": "one",
            "settings": {"k": 3, "parrot": -1, "after": moment, "logs": ["a", "b"]},
            "return": True,
            "more": {"x": 1},
            "items": [{"id": 1}],
        },
    )
    assert options == Find(
        index="chat",
        weights=Weights.ONE,
        settings=Retrieval(k=3, parrot=-1.0, after=datetime(2026, 11, 20, 8, tzinfo=UTC), logs=("a", "b")),
        return_=True,
        more={"x": 1},
        items=[{"id": 1}],
    )
    assert type(options.settings.parrot) is float
    assert options.weights is Weights.ONE
    assert options.stated == {"index", "weights", "settings", "return_", "more", "items"}
    assert options.settings.stated == {"k", "parrot", "after", "logs"}


def test_every_fault_is_told_with_its_place() -> None:
    values = {
        "indx": "chat",
        "weights": "rates",
        "settings": {"k": 0, "near": 1.0, "parrot": "on", "after": "today", "logs": ["", 7], "q": 1},
        "return": 1,
        "more": {"x": "1"},
    }
    assert set(faults_of(values)) == {
        "indx", "index", "weights", "settings.q", "settings.k", "settings.near", "settings.parrot", "settings.after",
        "settings.logs[0]", "settings.logs[1]", "return", "more.x",
    }  # fmt: skip


def test_places_in_lists_are_numbered() -> None:
    assert faults_of({"logs": ["", 7]}, Retrieval) == ["logs[0]", "logs[1]"]


@pytest.mark.parametrize(
    "values",
    [
        {"k": "7"},
        {"k": 7.0},
        {"k": True},
        {"k": None},
        {"k": 1_001},
        {"k": 10**5_000},
        {"near": "0.5"},
        {"near": float("nan")},
        {"near": 10**400},
        {"near": 0},
        {"parrot": True},
        {"after": datetime(2026, 1, 1)},  # noqa: DTZ001  without a zone
        {"after": 7},
        {"logs": "ab"},
        {"logs": {"a": 1}},
        {"logs": None},
    ],
)
def test_nothing_is_converted_silently(values: dict[str, Any]) -> None:
    [name] = values
    assert [place.partition("[")[0] for place in faults_of(values, Retrieval)] == [name]
    with pytest.raises(BadOptions) as refused:  # a constructor is held to the same, by the same message
        Retrieval(**values)
    with pytest.raises(BadOptions) as decoded:
        decode(Retrieval, values)
    assert refused.value.message == decoded.value.message
    assert refused.value.field == name


def test_an_unknown_option_comes_with_the_nearest_one() -> None:
    with pytest.raises(BadOptions) as refused:
        decode(Find, {"index": "chat", "rated": "base"})
    assert "'rater'" in refused.value.message
    assert refused.value.field == "rated"


def test_rules_between_options_name_a_field_in_every_face() -> None:
    for make in (
        lambda: decode(Find, {"index": "chat"}),
        lambda: Find(index="chat"),
        lambda: from_texts(Find, {"index": "chat"}),
    ):
        with pytest.raises(Usage) as refused:
            make()
        assert (refused.value.field, type(refused.value)) == ("rater", Usage)


def test_texts_of_a_command_line_are_read_by_the_kind_of_the_option() -> None:
    texts = {"k": "3", "near": "0.5", "parrot": "-0.5", "after": "2026-11-20T08:00:00Z", "logs": ["a"]}
    assert from_texts(Retrieval, texts) == Retrieval(
        k=3, near=0.5, parrot=-0.5, after=datetime(2026, 11, 20, 8, tzinfo=UTC), logs=("a",)
    )
    assert from_texts(Retrieval, {"parrot": "rated"}).parrot == "rated"
    for name, text in {"k": "three", "near": "1_0"}.items():
        with pytest.raises(BadOptions) as refused:
            from_texts(Retrieval, {name: text})
        assert refused.value.field == name


def test_a_constructor_states_what_differs_from_the_defaults() -> None:
    assert Retrieval(k=15, near=0.5).stated == {"near"}
    assert decode(Retrieval, {"k": 15}).stated == {"k"}
    assert dataclasses.replace(decode(Retrieval, {"k": 15}), near=0.5).stated == {"near"}


def test_values_are_read_back() -> None:
    options = Find(index="chat", weights=Weights.ONE, settings=Retrieval(logs=("a",)))
    assert decode(Find, as_values(options)) == options


def test_the_schema_has_texts_limits_and_defaults() -> None:
    schema = schema_of(Retrieval)
    assert schema["additionalProperties"] is False
    assert schema["properties"]["k"] == {
        "type": "integer", "minimum": 1, "maximum": 1_000, "description": "References to find.", "default": 15,
    }  # fmt: skip
    assert schema["properties"]["near"] == {
        "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": 0.9,
    }  # fmt: skip
    assert schema["properties"]["after"] == {
        "anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}], "default": None,
    }  # fmt: skip
    assert schema["properties"]["logs"] == {
        "type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 5}, "maxItems": 2, "default": [],
    }  # fmt: skip
    of_find = schema_of(Find)
    assert of_find["properties"]["index"]["description"] == "Index to search; of a job `upload:ID`."
    assert options_by_spelling(Find)["index"].doc == "Index to search."
    assert of_find["required"] == ["index"]
    assert of_find["properties"]["settings"] == {"anyOf": [schema], "description": "How."}
    assert of_find["properties"]["weights"] == {"type": "string", "enum": ["one", "rated"], "default": "rated"}
    assert of_find["properties"]["items"] == {"type": "array", "default": None}
    assert set(of_find["properties"]) == {"index", "weights", "rater", "settings", "return", "more", "items"}


def test_paths_are_for_commands_and_programs() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Writes(Options):
        to: Path | None = None

    assert decode(Writes, {"to": "a/b"}).to == Path("a/b")
    assert faults_of({"to": 1}, Writes) == ["to"]


def test_a_number_that_is_out_of_range_is_told_as_a_number_also_where_it_may_be_missing() -> None:
    with pytest.raises(BadOptions) as refused:
        from_texts(Maybe, {"latency_ms": "0"})
    assert "latency_ms" in refused.value.message


@dataclass(frozen=True, kw_only=True)
class Maybe(Options):
    latency_ms: Annotated[float | None, Gt(0)] = None
    memory: Annotated[int, Size()] = 0


@pytest.mark.parametrize(("text", "size"), [("512MiB", 512 << 20), ("2G", 2 << 30), ("1.5kb", 1536), (7, 7), ("7", 7)])
def test_sizes_are_bytes_or_texts_with_a_unit(text: Any, size: int) -> None:
    assert decode(Maybe, {"memory": text}).memory == size


@pytest.mark.parametrize("text", ["much", -1, 1.5, True, "1 2", "9" * 20])
def test_what_is_no_size_is_refused(text: Any) -> None:
    assert faults_of({"memory": text}, Maybe) == ["memory"]


@dataclass(frozen=True, kw_only=True)
class Compared(Options):
    """What is compared."""

    metrics: Annotated[tuple[str, ...], Length(1), Distinct()]


def test_elements_of_a_distinct_list_come_once() -> None:
    assert decode(Compared, {"metrics": ["bleu", "chrf"]}).metrics == ("bleu", "chrf")
    for make in (
        lambda: Compared(metrics=("bleu", "chrf", "bleu")),
        lambda: from_texts(Compared, {"metrics": ["bleu"] * 2}),
    ):
        with refusing(BadOptions, "bleu"):
            make()
    assert schema_of(Compared)["properties"]["metrics"]["uniqueItems"] is True


@dataclass(frozen=True, kw_only=True)
class Files(Options):
    replies: Annotated[dict[str, Annotated[str, Length(1, 9)]], FileNames()] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)


def test_texts_spell_values_by_names() -> None:
    spelled = from_texts(Files, {"replies": ["new=b.txt", "out/a.txt", "-"], "limits": ["p=0.5", "q=2"]})
    assert spelled == Files(replies={"new": "b.txt", "a": "out/a.txt", "stdin": "-"}, limits={"p": 0.5, "q": 2.0})


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"replies": ["a=b", "a=c"]}, "replies: 'a' comes twice"),
        ({"limits": ["p"]}, "limits: 'p' is not NAME=NUMBER"),
        ({"limits": ["p=much"]}, "limits.p"),
        ({"replies": ["a=" + "b" * 10]}, "replies.a"),
    ],
)
def test_wrong_texts_of_values_by_names_are_told(texts: dict[str, Any], message: str) -> None:
    with refusing(BadOptions, message):
        from_texts(Files, texts)


def test_what_a_group_does_not_state_stays_so() -> None:
    options = decode(Find, {"index": "chat", "weights": "one", "settings": {"k": 15}})
    assert as_values(options)["settings"] == {"k": 15}
    assert decode(Find, as_values(options)).settings.stated == {"k"}


def test_a_rule_of_a_group_names_the_group() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Outer(Options):
        find: Find

    assert faults_of({"find": {"index": "chat"}}, Outer) == ["find.rater"]


def test_names_that_may_be_meant_stand_beside_the_first_unknown_ones_alone() -> None:
    with pytest.raises(BadOptions) as refused:
        decode(Retrieval, {f"nea{number}": 1 for number in range(50)})
    messages = [fault.message for fault in refused.value.faults]
    assert messages == ["there is no such option; did you mean 'near'?"] * 20 + ["there is no such option"] * 30
