"""Tables of items: tab-separated columns are the same items as JSON, and are refused as precisely."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from refusals import refusing

from refaug.core.errors import BadInput
from refaug.core.records import Item
from refaug.scoring.items import BadItem, read_items

HEADER = "id\tutterance\treference\treference\tweight\treply:new\tratings:new\treply:old"


def table(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def test_a_table_is_the_same_items_as_json(tmp_path: Path) -> None:
    tsv = table(
        tmp_path / "items.tsv",
        HEADER,
        "d1\tWhen is supper?\tAt eight.\tNever.\t-0.5\tAt eight.\t4,,5\tWho knows.",
        "",
        "d2\t\tYes.\t\t\tNo.\t\t",
    )
    values = [
        {
            "id": "d1",
            "utterance": "When is supper?",
            "references": ["At eight.", {"text": "Never.", "weight": -0.5}],
            "replies": {"new": "At eight.", "old": "Who knows."},
            "ratings": {"new": [4, None, 5]},
        },
        {"id": "d2", "references": ["Yes."], "replies": {"new": "No.", "old": ""}},
    ]
    jsonl = table(tmp_path / "items.jsonl", *(json.dumps(one) for one in values))
    found = list(read_items(tsv))
    assert found == list(read_items(jsonl))
    assert all(isinstance(one, Item) for one in found)
    packed = tmp_path / "items.tsv.gz"
    packed.write_bytes(gzip.compress(tsv.read_bytes()))
    assert list(read_items(packed)) == found


def test_unknown_column_is_mentioned_and_a_lone_reply_gets_a_name(tmp_path: Path) -> None:
    told: list[str] = []
    path = table(tmp_path / "items.tsv", "reference\treply\tspeaker", "a\tb\tc", "d\te\tf")
    found = [one for one in read_items(path, on_unknown_field=told.append) if isinstance(one, Item)]
    assert told == ["column 'speaker' is not used"]
    assert [(one.id, dict(one.replies)) for one in found] == [("line-2", {"reply": "b"}), ("line-3", {"reply": "e"})]


@pytest.mark.parametrize(
    ("line", "field", "says"),
    [
        ("d1\tu\tr", "", "3 cells where the header names 8 columns"),
        ("d1\tu\tr\tr2\t2\tx\t\ty", "references[1].weight", "2 is out of range: it must be from -1 to 1"),
        ("d1\tu\tr\tr2\thalf\tx\t\ty", "", "column 'weight': 'half' is not a number"),
        ("d1\tu\tr\tr2\tnan\tx\t\ty", "references[1].weight", "nan is out of range: it must be from -1 to 1"),
        ("d1\tu\tr\tr2\t1\tx\t4;5\ty", "", "column 'ratings:new': '4;5' is not a number"),
        ("d0\tu\tr\tr2\t1\tx\t\ty", "id", "'d0' was used in line 2: every item has an id of its own"),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_read(tmp_path: Path, line: str, field: str, says: str) -> None:
    good = "d0\tu\tr\t\t\tx\t\ty"
    path = table(tmp_path / "items.tsv", HEADER, good, line, good.replace("d0", "d9"))
    found = list(read_items(path))
    assert [one.id for one in found if isinstance(one, Item)] == ["d0", "d9"]
    bad = next(one for one in found if isinstance(one, BadItem))
    assert (bad.line, bad.field, bad.message) == (3, field, says)


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("id\tutterance", "no column is called reference or reply:SYSTEM, only id, utterance"),
        ("weight\treference", "a column weight that no column reference stands before"),
        ("reference\treply:a\treply:a", "two columns reply:a"),
        ('{"id": "d1"}', "no column is called reference"),
    ],
)
def test_a_header_that_cannot_be_one_is_refused(tmp_path: Path, header: str, says: str) -> None:
    with refusing(BadInput, says):
        list(read_items(table(tmp_path / "items.tsv", header, "x")))


def test_a_line_in_another_encoding_is_one_bad_item(tmp_path: Path) -> None:
    path = tmp_path / "items.tsv"
    path.write_bytes(b"reference\treply:a\r\nr\tx\r\ncaf\xe9\ty\r\n")
    found = list(read_items(path))
    assert [one.line for one in found if isinstance(one, BadItem)] == [3]
    assert [dict(one.replies) for one in found if isinstance(one, Item)] == [{"a": "x"}]
