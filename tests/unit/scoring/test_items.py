"""Test files: what a good item becomes, and what is said of a bad one, with file, line, item and field."""

from __future__ import annotations

import bz2
import gzip
import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing

from refaug.core.errors import BadInput, DamagedSource, NoSource
from refaug.core.records import Item, Origin, Reference
from refaug.scoring.items import BadItem, parse_item, read_aligned, read_items, system_name
from refaug.tables.item_fields import ITEM_FIELDS


def written(path: Path, *lines: object, end: str = "\n") -> Path:
    """A file of these lines; what is not a text is written as JSON."""
    texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
    path.write_bytes("".join(text + end for text in texts).encode())
    return path


def good(found: Item | BadItem) -> Item:
    assert isinstance(found, Item), str(found)
    return found


def parsed(values: Mapping[str, Any]) -> Item | BadItem:
    return parse_item(values, where="request", line=3, fallback_id="3")


def references_of(*references: object) -> tuple[Reference, ...]:
    return good(parsed({"references": list(references)})).references


# ── good items ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_field_of_an_item_is_read() -> None:
    item = good(
        parsed(
            {
                "id": "d1",
                "turns": ["hello", "how are you?"],
                "references": ["fine", {"text": "bad", "weight": -0.5}],
                "replies": {"a": "good", "System B/2": ""},
                "ratings": {"a": [4, None, 2.5]},
                "dialogue": "log/d1",
                "time": "2027-06-01T09:00:00+00:00",
                "exclude": ["log/d2", "log/d3"],
            }
        )
    )
    assert item == Item(
        id="d1",
        turns=("hello", "how are you?"),
        references=(
            Reference(text="fine"),
            Reference(text="bad", weight=-0.5, source=Origin.SUPPLIED),
        ),
        dialogue="log/d1",
        time=datetime(2027, 6, 1, 9, tzinfo=UTC),
        exclude=("log/d2", "log/d3"),
        replies={"a": "good", "System B/2": ""},
        ratings={"a": (4.0, None, 2.5)},
    )
    assert item.id == "d1"
    assert item.utterance == "how are you?"
    assert item.gold == Reference(text="fine")


def test_an_item_needs_nothing_and_is_then_called_after_its_line() -> None:
    item = good(parsed({}))
    assert item == Item(id="3")
    assert item.utterance is None
    assert item.gold is None


@pytest.mark.parametrize(
    ("values", "turns"),
    [
        ({"utterance": "a"}, ("a",)),
        ({"turns": ["b", "a"]}, ("b", "a")),
        ({"utterance": "a", "turns": ["b", "a"]}, ("b", "a")),
        ({"utterance": "", "turns": []}, ("",)),
        ({"utterance": None, "turns": None}, ()),
    ],
)
def test_the_utterance_is_the_last_turn(values: dict[str, Any], turns: tuple[str, ...]) -> None:
    assert good(parsed(values)).turns == turns


@pytest.mark.parametrize(("given_", "name"), [("x y", "x y"), (17, "17"), (0, "0"), ("é", "é")])
def test_an_id_is_a_text_or_a_whole_number(given_: object, name: str) -> None:
    assert good(parsed({"id": given_})).id == name


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2027-06-01", datetime(2027, 6, 1)),  # noqa: DTZ001 — what is not said is not added
        ("2027-06-01T09:00:00Z", datetime(2027, 6, 1, 9, tzinfo=UTC)),
        (None, None),
    ],
)
def test_times_are_iso_8601(text: str | None, time: datetime | None) -> None:
    assert good(parsed({"time": text})).time == time


# ── references ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_plain_text_is_a_gold_and_a_weighted_one_is_supplied() -> None:
    first, second, third, fourth = references_of(
        "a", {"text": "b"}, {"text": "c", "weight": 0}, {"text": "", "weight": -1}
    )
    assert first == Reference(text="a", source=Origin.GOLD, weight=None)
    assert second == Reference(text="b", source=Origin.GOLD, weight=None)
    assert third == Reference(text="c", source=Origin.SUPPLIED, weight=0.0)
    assert fourth == Reference(text="", source=Origin.SUPPLIED, weight=-1.0)


@pytest.mark.parametrize(
    ("ratings", "scale", "weight"),
    [
        # 1 … 5 is mapped to −1 … 1: r → (r − 3) / 2.
        ([5], None, 1.0),
        ([1], None, -1.0),
        ([3, 3], None, 0.0),
        ([4, 5, 3], None, 0.5),
        ([4, 5, 3], [1, 5], 0.5),
        ([2], [1, 5], -0.5),
        ([0, 1], [0, 1], 0.0),
        ([7.5], [0, 10], 0.5),
        ([0], [-2, 2], 0.0),
        ([-2, 1], [-2, 2], -0.25),
        ([100], [0, 100], 1.0),
    ],
)
def test_ratings_are_mapped_from_their_scale_and_averaged(
    ratings: list[float], scale: list[float] | None, weight: float
) -> None:
    given_ = {"text": "a", "ratings": ratings, **({"scale": scale} if scale else {})}
    assert references_of(given_) == (Reference(text="a", weight=weight, source=Origin.SUPPLIED),)


@given(
    st.floats(-100, 100),
    st.floats(0.01, 100),
    st.lists(st.floats(0, 1), min_size=1, max_size=6),
)
@settings(max_examples=50, deadline=None)
def test_a_weight_out_of_ratings_is_from_minus_one_to_one(low: float, width: float, shares: list[float]) -> None:
    high = low + width
    ratings = [min(high, max(low, low + share * width)) for share in shares]
    (found,) = references_of({"text": "a", "ratings": ratings, "scale": [low, high]})
    expected = sum(2 * (one - low) / (high - low) - 1 for one in ratings) / len(ratings)
    assert found.weight == pytest.approx(expected, abs=1e-9)
    assert found.weight is not None
    assert -1 <= found.weight <= 1


def test_a_rating_is_the_weight_where_there_is_no_other() -> None:
    rated, weighed = references_of(
        {"text": "a", "source": "retrieved", "rating": 0.25, "similarity": 0.75},
        {"text": "a", "source": "retrieved", "rating": 0.25, "weight": -0.5},
    )
    assert rated == Reference(text="a", source=Origin.RETRIEVED, rating=0.25, weight=0.25, similarity=0.75)
    assert weighed == Reference(text="a", source=Origin.RETRIEVED, rating=0.25, weight=-0.5)


@pytest.mark.parametrize(
    ("source", "is_own"), [("gold", True), ("supplied", True), ("parrot", False), ("retrieved", False)]
)
def test_the_source_of_a_reference_is_kept(source: str, is_own: bool) -> None:
    (found,) = references_of({"text": "a", "source": source, "weight": 0.5})
    assert found.source is Origin(source)
    assert found.is_own is is_own


def test_what_else_stands_beside_a_reference_is_kept_as_it_came() -> None:
    more = {"rank": 3, "log": "chat", "index": "chat@1", "pair": "chat/d#1", "nested": {"a": [1]}}
    (found,) = references_of({"text": "a", "weight": 0.5, "similarity": 0.9, "rating": 0.4, "scale": [1, 5], **more})
    assert found.more == more
    (answer,) = references_of({"text": "a", "source": "retrieved", "weight": 0.5, "utterance": "hi"})
    assert (answer.utterance, answer.more) == ("hi", {})


def test_the_gold_is_the_first_one_wherever_it_stands() -> None:
    item = good(parsed({"references": [{"text": "a", "weight": 1}, "b", "c"]}))
    assert item.gold == Reference(text="b")


# ── what is wrong ─────────────────────────────────────────────────────────────────────────────────────────────────

WRONG = [
    ({"id": ""}, "id", "it is empty"),
    ({"id": " "}, "id", "it is empty"),
    ({"id": None}, "id", "a text was expected, null was found"),
    ({"id": True}, "id", "a text was expected, true or false, True was found"),
    ({"id": 1.5}, "id", "a text was expected, a number, 1.5 was found"),
    ({"id": ["a"]}, "id", "a text was expected, a list, ['a'] was found"),
    ({"utterance": 5}, "utterance", "a text was expected, a number, 5 was found"),
    ({"turns": "hello"}, "turns", "a list of texts was expected, a text, 'hello' was found"),
    ({"turns": ["a", None]}, "turns[1]", "a text was expected, null was found"),
    ({"turns": [["a"]]}, "turns[0]", "a text was expected, a list, ['a'] was found"),
    ({"turns": ["a", "b"], "utterance": "a"}, "utterance", "it is not the last of the turns: give one of the two"),
    ({"references": "a"}, "references", "a list was expected, gold first; a text, 'a' was found"),
    (
        {"references": {"text": "a"}},
        "references",
        "a list was expected, gold first; an object, {'text': 'a'} was found",
    ),
    (
        {"references": ["a", 5]},
        "references[1]",
        "a text, or an object with a text, was expected, a number, 5 was found",
    ),
    (
        {"references": [None]},
        "references[0]",
        "a text, or an object with a text, was expected, null was found",
    ),
    ({"references": [{}]}, "references[0]", "it has no text, only nothing"),
    ({"references": [{"weight": 1, "rank": 2}]}, "references[0]", "it has no text, only weight, rank"),
    ({"references": [{"text": 5}]}, "references[0].text", "a text was expected, a number, 5 was found"),
    ({"references": [{"text": None}]}, "references[0].text", "a text was expected, null was found"),
    (
        {"references": ["a", {"text": "b", "weight": 1.5}]},
        "references[1].weight",
        "1.5 is out of range: it must be from -1 to 1",
    ),
    (
        {"references": [{"text": "b", "weight": -1.0001}]},
        "references[0].weight",
        "-1.0001 is out of range: it must be from -1 to 1",
    ),
    (
        {"references": [{"text": "b", "weight": math.nan}]},
        "references[0].weight",
        "nan is out of range: it must be from -1 to 1",
    ),
    (
        {"references": [{"text": "b", "weight": math.inf}]},
        "references[0].weight",
        "inf is out of range: it must be from -1 to 1",
    ),
    (
        {"references": [{"text": "b", "weight": "0.5"}]},
        "references[0].weight",
        "a number was expected, a text, '0.5' was found",
    ),
    (
        {"references": [{"text": "b", "weight": True}]},
        "references[0].weight",
        "a number was expected, true or false, True was found",
    ),
    (
        {"references": [{"text": "b", "rating": 2}]},
        "references[0].rating",
        "2 is out of range: it must be from -1 to 1",
    ),
    (
        {"references": [{"text": "b", "similarity": math.nan}]},
        "references[0].similarity",
        "nan is out of range: it must be finite",
    ),
    (
        {"references": [{"text": "b", "source": "web"}]},
        "references[0].source",
        "'web' is none of gold, parrot, retrieved, supplied",
    ),
    (
        {"references": [{"text": "b", "source": ["gold"]}]},
        "references[0].source",
        "['gold'] is none of gold, parrot, retrieved, supplied",
    ),
    (
        {"references": [{"text": "b", "ratings": [3], "weight": 0.5}]},
        "references[0]",
        "it has a weight and ratings: one of them decides, so give one",
    ),
    (
        {"references": [{"text": "b", "ratings": []}]},
        "references[0].ratings",
        "a list of at least one number was expected, a list, [] was found",
    ),
    (
        {"references": [{"text": "b", "ratings": 4}]},
        "references[0].ratings",
        "a list of at least one number was expected, a number, 4 was found",
    ),
    (
        {"references": [{"text": "b", "ratings": [3, 6]}]},
        "references[0].ratings[1]",
        "6 is out of range: it must be from 1 to 5",
    ),
    (
        {"references": [{"text": "b", "ratings": [3, None]}]},
        "references[0].ratings[1]",
        "a number was expected, null was found",
    ),
    (
        {"references": [{"text": "b", "ratings": [5], "scale": [0, 4]}]},
        "references[0].ratings[0]",
        "5 is out of range: it must be from 0 to 4",
    ),
    *(
        (
            {"references": [{"text": "b", "ratings": [3], "scale": scale}]},
            "references[0].scale",
            f"the lowest and the highest rating were expected, such as [1, 5], {kind} was found",
        )
        for scale, kind in [
            (5, "a number, 5"),
            ([5], "a list, [5]"),
            ([1, 3, 5], "a list, [1, 3, 5]"),
            ("1-5", "a text, '1-5'"),
        ]
    ),
    (
        {"references": [{"text": "b", "ratings": [3], "scale": [5, 1]}]},
        "references[0].scale",
        "its lowest rating, 5, is not below its highest, 1",
    ),
    (
        {"references": [{"text": "b", "ratings": [3], "scale": [3, 3]}]},
        "references[0].scale",
        "its lowest rating, 3, is not below its highest, 3",
    ),
    (
        {"references": [{"text": "b", "ratings": [3], "scale": [1, "5"]}]},
        "references[0].scale[1]",
        "a number was expected, a text, '5' was found",
    ),
    (
        {"references": [{"text": "b", "ratings": [3], "scale": [1, math.inf]}]},
        "references[0].scale[1]",
        "inf is out of range: it must be finite",
    ),
    (
        {"replies": ["a"]},
        "replies",
        "an object with a system's name as each key was expected, a list, ['a'] was found",
    ),
    (
        {"replies": "a"},
        "replies",
        "an object with a system's name as each key was expected, a text, 'a' was found",
    ),
    (
        {"replies": {"x": ["a", "b"]}},
        "replies.x",
        "a list was found; a system has one reply an item: repeat the item",
    ),
    ({"replies": {"x": None}}, "replies.x", "a text was expected, null was found"),
    (
        {"replies": {"": "a"}},
        "replies",
        "'' is not a name for a system: printable, at most 200 characters",
    ),
    (
        {"replies": {"a\nb": "a"}},
        "replies",
        "'a\\nb' is not a name for a system: printable, at most 200 characters",
    ),
    (
        {"replies": {"n" * 201: "a"}},
        "replies",
        f"'{'n' * 60}' is not a name for a system: printable, at most 200 characters",
    ),
    (
        {"replies": {"x": "a"}, "ratings": {"y": [1]}},
        "ratings.y",
        "ratings of 'y', which has no reply here",
    ),
    (
        {"replies": {"x": "a"}, "ratings": {"x": 4}},
        "ratings.x",
        "a list with one number an annotator was expected, a number, 4 was found",
    ),
    (
        {"replies": {"x": "a"}, "ratings": {"x": [4, "5"]}},
        "ratings.x[1]",
        "a number was expected, a text, '5' was found",
    ),
    (
        {"replies": {"x": "a"}, "ratings": {"x": [math.nan]}},
        "ratings.x[0]",
        "nan is out of range: it must be finite",
    ),
    (
        {"ratings": [4]},
        "ratings",
        "an object with a system's name as each key was expected, a list, [4] was found",
    ),
    ({"dialogue": 5}, "dialogue", "a text was expected, a number, 5 was found"),
    ({"time": "yesterday"}, "time", "'yesterday' is not an ISO 8601 time such as 2027-06-01T09:00:00+00:00"),
    ({"time": "2027-13-01"}, "time", "'2027-13-01' is not an ISO 8601 time such as 2027-06-01T09:00:00+00:00"),
    ({"time": ""}, "time", "'' is not an ISO 8601 time such as 2027-06-01T09:00:00+00:00"),
    ({"time": 1_700_000_000}, "time", "a text was expected, a number, 1700000000 was found"),
    ({"exclude": "d1"}, "exclude", "a list of texts was expected, a text, 'd1' was found"),
    ({"exclude": ["d1", 2]}, "exclude[1]", "a text was expected, a number, 2 was found"),
]


@pytest.mark.parametrize(("values", "field", "message"), WRONG)
def test_what_is_wrong_with_an_item_is_said_with_its_field(values: dict[str, Any], field: str, message: str) -> None:
    name = values["id"] if isinstance(values.get("id"), str) else None
    assert parsed(values) == BadItem(file="request", line=3, item=name, field=field, message=message)


@pytest.mark.parametrize("weight", [10**400, -(10**400)], ids=["large", "small"])
def test_a_number_of_any_size_is_out_of_range(weight: int) -> None:
    found = parsed({"references": [{"text": "a", "weight": weight}]})
    assert isinstance(found, BadItem)
    assert found.field == "references[0].weight"


def test_a_scale_of_any_size_gives_a_weight_or_a_bad_item() -> None:
    found = parsed({"references": [{"text": "a", "ratings": [1e308, 1e308], "scale": [-1e308, 1.5e308]}]})
    if isinstance(found, Item):
        assert found.references[0].weight == pytest.approx(0.6)
    else:
        assert found.field.startswith("references[0]")


def test_a_long_value_is_shown_by_its_beginning() -> None:
    found = parsed({"turns": "x" * 10_000})
    assert isinstance(found, BadItem)
    assert found.message == f"a list of texts was expected, a text, '{'x' * 56}… was found"


@given(
    st.dictionaries(
        st.sampled_from(ITEM_FIELDS),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3),
                st.dictionaries(
                    st.sampled_from(["text", "weight", "ratings", "scale", "source", "x"]), inner, max_size=3
                ),
            ),
            max_leaves=6,
        ),
    )
)
@settings(max_examples=50, deadline=None)
def test_no_json_whatever_is_more_than_a_bad_item(values: dict[str, Any]) -> None:
    found = parsed(values)
    if isinstance(found, Item):
        assert all(-1 <= one.weight <= 1 for one in found.references if one.weight is not None)
    else:
        assert found.field.split(".")[0].split("[")[0] in ITEM_FIELDS
        assert found.message


@pytest.mark.parametrize(
    ("bad", "shown"),
    [
        (BadItem(file="t.jsonl", line=3, item="d1", field="time", message="no"), "t.jsonl, line 3, item d1, time: no"),
        (BadItem(file="t.jsonl", line=3, item=None, field="", message="no"), "t.jsonl, line 3: no"),
        (BadItem(file="t.jsonl", line=3, item=None, field="id", message="no"), "t.jsonl, line 3, id: no"),
    ],
)
def test_a_bad_item_is_shown_in_one_line(bad: BadItem, shown: str) -> None:
    assert str(bad) == shown


# ── files of items ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_bad_item_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    path = written(
        tmp_path / "test.jsonl",
        {"id": "a"},
        {"id": "b", "references": "x"},
        '{"id": "c"',
        "[1, 2]",
        "",
        "   ",
        {"references": [{"text": "x", "weight": 3}]},
        {"id": "d"},
    )
    name = str(path)
    assert list(read_items(path)) == [
        Item(id="a"),
        BadItem(
            file=name,
            line=2,
            item="b",
            field="references",
            message="a list was expected, gold first; a text, 'x' was found",
        ),
        BadItem(file=name, line=3, item=None, field="", message="not JSON at character 11: unexpected end of data"),
        BadItem(file=name, line=4, item=None, field="", message="a JSON object was expected, found list"),
        BadItem(
            file=name,
            line=7,
            item=None,
            field="references[0].weight",
            message="3 is out of range: it must be from -1 to 1",
        ),
        Item(id="d"),
    ]


def test_an_id_is_used_once(tmp_path: Path) -> None:
    path = written(
        tmp_path / "t.jsonl", {"id": "a"}, {"id": 2}, {"id": "a"}, {"id": "2"}, {"id": "b", "time": 1}, {"id": "b"}
    )
    found = list(read_items(path))
    assert [one.id for one in found if isinstance(one, Item)] == ["a", "2", "b"]
    assert [str(one).partition(", ")[2] for one in found if isinstance(one, BadItem)] == [
        "line 3, item a, id: 'a' was used in line 1: every item has an id of its own",
        "line 4, item 2, id: '2' was used in line 2: every item has an id of its own",
        "line 5, item b, time: a text was expected, a number, 1 was found",
    ]


def test_items_without_ids_are_called_after_their_lines(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", {}, "", {}, {"id": "x"}, {})
    assert [good(one).id for one in read_items(path)] == ["line-1", "line-3", "x", "line-5"]


def test_fields_that_no_item_has_are_told_once_each(tmp_path: Path) -> None:
    path = written(
        tmp_path / "t.jsonl",
        {"id": "a", "refs": ["x"], "utterence": "y"},
        {"id": "b", "refs": 1, "references": "wrong", "unseen": 0},
        {"id": "c", "comment": "", "refs": 2, "replies": {}},
    )
    told: list[str] = []
    assert len(list(read_items(path, on_unknown_field=told.append))) == 3
    assert told == [
        "field 'refs' is not used",
        "field 'utterence' is not used; did you mean 'utterance'?",
        "field 'unseen' is not used",
        "field 'comment' is not used",
    ]
    assert len(list(read_items(path))) == 3


def test_fields_that_no_reference_has_are_told_once_each(tmp_path: Path) -> None:
    retrieved = {"text": "x", "source": "retrieved", "weight": 0.5, "similarity": 1, "rating": 0.5}
    further = ("rank", "log", "index", "pair", "dialogue", "utterance", "speaker", "time", "count")
    path = written(
        tmp_path / "t.jsonl",
        {"id": "a", "references": ["x", {"text": "y", "wieght": 0.5}, {**retrieved, **dict.fromkeys(further, "1")}]},
        {"id": "b", "wieght": 1, "references": [{"text": "y", "wieght": 1, "note": "z"}, 3]},
        {"id": "c", "references": [{"txt": "y"}]},
    )
    told: list[str] = []
    assert len(list(read_items(path, on_unknown_field=told.append))) == 3
    assert told == [
        "field 'wieght' of references is not used; did you mean 'weight'?",
        "field 'wieght' is not used",
        "field 'note' of references is not used",
        "field 'txt' of references is not used; did you mean 'text'?",
    ]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress])
def test_compressed_files_are_read_whatever_they_are_called(tmp_path: Path, compress: Any) -> None:
    path = tmp_path / "test.jsonl"
    path.write_bytes(compress(b'{"id": "a"}\n{"id": "b"}'))
    assert [good(one).id for one in read_items(path)] == ["a", "b"]


def test_a_compressed_file_that_breaks_off_is_an_error_after_its_items(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl.gz"
    lines = "".join(json.dumps({"id": f"{number:x}", "utterance": f"{number**9:x}"}) + "\n" for number in range(2_000))
    path.write_bytes(gzip.compress(lines.encode())[:-5_000])
    before = list[str]()
    with refusing(DamagedSource) as damaged:
        before.extend(good(one).id for one in read_items(path))
    assert before == [f"{number:x}" for number in range(len(before))]
    assert len(before) > 100
    assert f"line {len(before) + 1}: " in damaged.value.message
    assert "--allow-truncated" in damaged.value.remedy


def test_byte_order_marks_and_carriage_returns_are_no_part_of_an_item(tmp_path: Path) -> None:
    text = '{"id": "é", "utterance": "ü"}\r\n\r\n{"id": "b"}\r\n'
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        path = tmp_path / encoding
        path.write_bytes(text.encode(encoding))
        first, second = map(good, read_items(path))
        assert (first.id, first.utterance, second.id) == ("é", "ü", "b")


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"id": "a\0\0"}\n\0\0\0\n{"id": "caf\xe9"}\n{"id": "b"}\n')
    found = list(read_items(path))
    assert [one.message.partition(":")[0] for one in found if isinstance(one, BadItem)] == [
        "2 NUL bytes",
        "3 NUL bytes",
        "not UTF-8 at byte 11 (0xe9)",
    ]
    assert found[2] == BadItem(
        file=str(path),
        line=3,
        item=None,
        field="",
        message="not UTF-8 at byte 11 (0xe9): save the file as UTF-8, of Latin-1 by iconv -f latin1 -t utf-8 FILE",
    )
    assert good(found[3]).id == "b"


def test_nan_is_no_json(tmp_path: Path) -> None:
    (found,) = read_items(written(tmp_path / "t.jsonl", '{"references": [{"text": "a", "weight": NaN}]}'))
    assert isinstance(found, BadItem)
    assert "not JSON at character 41" in found.message


@pytest.mark.parametrize("content", [b"", b"\n", b" \n\t\n", b"\xef\xbb\xbf"])
def test_a_file_of_nothing_has_no_items(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(content)
    assert list(read_items(path)) == []


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path):
        with refusing(NoSource, path.name):
            list(read_items(path))


# ── out and back in ───────────────────────────────────────────────────────────────────────────────────────────────

TEXTS = st.text(max_size=12)
NAMES = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8)
UNITS = st.floats(-1, 1)
MORE = st.dictionaries(st.sampled_from(["rank", "log", "pair"]), st.one_of(st.integers(0, 99), TEXTS), max_size=2)
REFERENCES = st.builds(
    Reference,
    text=TEXTS,
    source=st.sampled_from(Origin),
    weight=UNITS,
    similarity=st.none() | st.floats(-10, 10),
    rating=st.none() | UNITS,
    utterance=st.none() | TEXTS.filter(bool),
    more=MORE,
) | st.builds(Reference, text=TEXTS)


@st.composite
def whole_items(draw: st.DrawFn) -> Item:
    replies = draw(st.dictionaries(NAMES, TEXTS, max_size=3))
    rated = draw(st.lists(st.sampled_from(sorted(replies)), unique=True)) if replies else []
    ratings = st.lists(st.none() | st.floats(-1e6, 1e6), max_size=3).map(tuple)
    return Item(
        id=draw(NAMES),
        turns=tuple(draw(st.lists(TEXTS, max_size=3))),
        references=tuple(draw(st.lists(REFERENCES, max_size=3))),
        dialogue=draw(st.none() | TEXTS),
        time=draw(st.none() | st.datetimes(timezones=st.none() | st.just(UTC))),
        exclude=tuple(draw(st.lists(TEXTS, max_size=2))),
        replies=replies,
        ratings={name: draw(ratings) for name in rated},
    )


def as_json(item: Item) -> dict[str, Any]:
    """An item as a test file has it; what there is nothing of is left out."""
    values = {
        "id": item.id,
        "turns": list(item.turns),
        "references": [reference_as_json(one) for one in item.references],
        "replies": dict(item.replies),
        "ratings": {name: list(given_) for name, given_ in item.ratings.items()},
        "dialogue": item.dialogue,
        "time": item.time and item.time.isoformat(),
        "exclude": list(item.exclude),
    }
    return {name: value for name, value in values.items() if value is not None}


def reference_as_json(one: Reference) -> object:
    if one == Reference(text=one.text):
        return one.text
    numbers = {"weight": one.weight, "similarity": one.similarity, "rating": one.rating}
    return {"text": one.text, "source": one.source.value, "utterance": one.utterance, **numbers, **one.more}


@given(st.lists(whole_items(), max_size=4, unique_by=lambda item: item.id))
@settings(max_examples=50, deadline=None)
def test_an_item_written_as_json_comes_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, items: list[Item]
) -> None:
    path = written(tmp_path_factory.mktemp("items") / "t.jsonl", *map(as_json, items))
    assert list(read_items(path)) == items


# ── line-aligned files ────────────────────────────────────────────────────────────────────────────────────────────


def aligned(folder: Path, *columns: Sequence[str], weights: Sequence[Sequence[str]] = ()) -> list[Item | BadItem]:
    """Items out of a column of replies, columns of references, and columns of weights."""
    system, *references = [written(folder / f"text{place}", *column) for place, column in enumerate(columns)]
    worth = [written(folder / f"weights{place}", *column) for place, column in enumerate(weights)]
    return list(read_aligned({"x": system}, references, worth))


def test_lines_become_items(tmp_path: Path) -> None:
    assert aligned(tmp_path, ["r1", "r2"], ["g1", "g2"], ["h1", ""]) == [
        Item(
            id="1",
            references=(Reference(text="g1"), Reference(text="h1")),
            replies={"x": "r1"},
        ),
        Item(id="2", references=(Reference(text="g2"),), replies={"x": "r2"}),
    ]


def test_each_system_has_a_file_and_replies_may_be_empty(tmp_path: Path) -> None:
    a, b = written(tmp_path / "a", "1", "", "3"), written(tmp_path / "b", "", "", " 6 ")
    found = [good(one) for one in read_aligned({"a": a, "b": b}, [written(tmp_path / "g", "x", "y", "z")])]
    assert [one.replies for one in found] == [{"a": "1", "b": ""}, {"a": "", "b": ""}, {"a": "3", "b": " 6 "}]
    assert [list(one.replies) for one in found] == [["a", "b"]] * 3


def test_lines_with_weights_are_supplied_references(tmp_path: Path) -> None:
    (first, second) = aligned(tmp_path, ["r", "s"], ["g", "h"], ["i", ""], weights=[["1", "-0.25"], [" 5e-1 ", ""]])
    assert good(first).references == (
        Reference(text="g", weight=1.0, source=Origin.SUPPLIED),
        Reference(text="i", weight=0.5, source=Origin.SUPPLIED),
    )
    assert good(second).references == (Reference(text="h", weight=-0.25, source=Origin.SUPPLIED),)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ("nan", "nan is not from -1 to 1"),
        ("1.1", "1.1 is not from -1 to 1"),
        ("-inf", "-inf is not from -1 to 1"),
        ("", "'' is not a number from -1 to 1"),
        ("good", "'good' is not a number from -1 to 1"),
        ("0,5", "'0,5' is not a number from -1 to 1"),
    ],
)
def test_a_bad_weight_costs_its_item_and_no_other(tmp_path: Path, weight: str, message: str) -> None:
    first, bad, third = aligned(
        tmp_path, ["r", "s", "t"], ["g", "h", "i"], ["j", "k", "l"], weights=[["1", "1", "1"], ["0", weight, "0"]]
    )
    assert bad == BadItem(file=str(tmp_path / "weights1"), line=2, item="2", field="weight", message=message)
    assert [one.weight for one in good(first).references] == [1, 0]
    assert good(third).id == "3"


def test_files_of_different_length_are_each_named_with_their_lines(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        aligned(tmp_path, ["r"] * 1_200, ["g"] * 1_201, ["h"] * 1_200)
    a, b, c = (tmp_path / f"text{place}" for place in range(3))
    assert refused.value.message == (
        f"the files have different numbers of lines: {a} has 1,200, {b} has 1,201, {c} has 1,200"
    )
    assert refused.value.remedy == f"{a} ends first"


def test_a_file_of_nothing_is_shorter_than_one_of_an_empty_line(tmp_path: Path) -> None:
    assert aligned(tmp_path, [], []) == []
    assert aligned(tmp_path, [""], [""]) == [Item(id="1", replies={"x": ""})]
    with refusing(BadInput):
        aligned(tmp_path, [""], [])


def test_weights_are_given_for_every_file_of_references_or_for_none(tmp_path: Path) -> None:
    with refusing(BadInput):
        aligned(tmp_path, ["r"], ["g"], ["h"], weights=[["1"]])


@pytest.mark.parametrize(("end", "last"), [("\n", ""), ("\r\n", ""), ("\n", "\n"), ("\r\n", "\r\n")])
def test_ends_of_lines_and_of_the_file_are_no_part_of_a_text(tmp_path: Path, end: str, last: str) -> None:
    for name, text in (("r", "a"), ("g", "b")):
        (tmp_path / name).write_bytes(f"\ufeff{text}1{end}{text}2 \v{last}".encode())
    first, second = map(good, read_aligned({"x": tmp_path / "r"}, [tmp_path / "g"]))
    assert (first.replies["x"], second.replies["x"]) == ("a1", "a2 \v")
    assert [one.references[0].text for one in (first, second)] == ["b1", "b2 \v"]


def test_signs_that_only_some_programs_take_for_ends_of_lines_are_none(tmp_path: Path) -> None:
    text = "a\x0b\x0c\x1c\x85\u2028b"
    (found,) = aligned(tmp_path, [text], [text])
    assert good(found).replies["x"] == good(found).references[0].text == text


def test_compressed_aligned_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "r.gz").write_bytes(gzip.compress(b"a\nb\n"))
    found = [good(one) for one in read_aligned({"x": tmp_path / "r.gz"}, [written(tmp_path / "g", "c", "d")])]
    assert [one.replies["x"] for one in found] == ["a", "b"]


def test_bytes_that_are_no_utf8_are_named_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "r").write_bytes(b"a\ncaf\xe9\n")
    reading = read_aligned({"x": tmp_path / "r"}, [written(tmp_path / "g", "c", "d")])
    with refusing(BadInput):
        list(reading)


def test_a_missing_aligned_file_is_named(tmp_path: Path) -> None:
    with refusing(NoSource, "nowhere"):
        list(read_aligned({"x": tmp_path / "nowhere"}, [written(tmp_path / "g", "c")]))


def test_ratings_off_their_scale_are_refused_where_a_scale_is_given() -> None:
    values = {"id": "d", "replies": {"a": "x"}, "ratings": {"a": [1, None, 500]}}
    assert isinstance(parse_item(values, where="w", line=1, fallback_id="1"), Item)
    found = parse_item({**values, "scale": [1, 5]}, where="w", line=1, fallback_id="1")
    assert isinstance(found, BadItem)
    assert (found.field, found.message) == ("ratings.a[2]", "500 is out of range: it must be from 1 to 5")
    assert isinstance(parse_item({**values, "scale": [5, 1]}, where="w", line=1, fallback_id="1"), BadItem)


@pytest.mark.parametrize("name", ["", " ", "a\tb", "x" * 201])
def test_system_names_obey_the_same_rule_from_every_source(name: str) -> None:
    with refusing(BadInput):
        system_name(name)
    assert isinstance(parse_item({"replies": {name: "x"}}, where="w", line=1, fallback_id="1"), BadItem)
