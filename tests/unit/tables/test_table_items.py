"""Tables of any kind are the items that they spell, and what cannot be used is named by file, line and column."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refusing

from refaug.core.errors import BadInput, RefaugError
from refaug.core.records import Item
from refaug.scoring.items import BadItem, item_json, read_items
from refaug.tables import columns, files, table_items
from refaug.tables.table_notes import TableNotes
from refaug.tables.table_request import TableRequest

LONG = """item,prompt,gold,model,answer,worker,score
tea,Tea?,"Yes, please.",new,Sure.,w1,5
tea,Tea?,"Yes, please.",new,Sure.,w2,4
bus,Bus?,Soon.,old,Never.,w1,2
tea,Tea?,"Yes, please.",old,No idea.,w2,2
"""
LONG_MAP = ("reply=answer", "rating=score")
LONG_ITEMS = [
    {
        "id": "tea",
        "utterance": "Tea?",
        "references": ["Yes, please."],
        "replies": {"new": "Sure.", "old": "No idea."},
        "ratings": {"new": [5, 4], "old": [None, 2]},
    },
    {"id": "bus", "utterance": "Bus?", "references": ["Soon."], "replies": {"old": "Never."}, "ratings": {"old": [2]}},
]


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def items_of(path: Path, *mapping: str, shape: str | None = None, encoding: str = "auto") -> list[dict[str, Any]]:
    """The items of a table as plain JSON; a bad item fails the test."""
    found = list(read_items(path, table=TableRequest.parse(mapping, shape, encoding)))
    assert [one for one in found if isinstance(one, BadItem)] == []
    return [plain(one) for one in found if isinstance(one, Item)]


def plain(item: Item) -> dict[str, Any]:
    document = item_json(item)
    golds = [reference["text"] for reference in document["references"] if reference["source"] == "gold"]
    weighted = [reference for reference in document["references"] if reference["source"] != "gold"]
    return {**document, "references": [*golds, *weighted]}


def bad_of(path: Path, *mapping: str, shape: str | None = None) -> list[tuple[int, str]]:
    found = read_items(path, table=TableRequest.parse(mapping, shape))
    return [(one.line, one.message) for one in found if isinstance(one, BadItem)]


# ── shapes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_row_a_rating_becomes_items_with_a_place_for_each_annotator(tmp_path: Path) -> None:
    assert items_of(written(tmp_path / "long.csv", LONG), *LONG_MAP) == LONG_ITEMS


def test_one_row_a_reply_becomes_items_in_the_order_of_their_first_rows(tmp_path: Path) -> None:
    text = 'id,reference,system,reply,ratings\na,r,x,1,"4,5"\nb,s,x,2,\na,r,y,3,3\n'
    assert items_of(written(tmp_path / "t.csv", text)) == [
        {"id": "a", "references": ["r"], "replies": {"x": "1", "y": "3"}, "ratings": {"x": [4, 5], "y": [3]}},
        {"id": "b", "references": ["s"], "replies": {"x": "2"}},
    ]


def test_one_row_an_item_has_columns_for_each_system(tmp_path: Path) -> None:
    text = "Prompt,Gold,A answer,A score,B answer\nTea?,Yes.,Sure.,4,No.\nBus?,Soon.,Now.,,\n"
    mapping = ("utterance=Prompt", "reference=gold", "reply:a=A answer", "rating:a=A score", "reply:b=B answer")
    assert items_of(written(tmp_path / "t.csv", text), *mapping) == [
        {
            "id": "line-2",
            "utterance": "Tea?",
            "references": ["Yes."],
            "replies": {"a": "Sure.", "b": "No."},
            "ratings": {"a": [4]},
        },
        {"id": "line-3", "utterance": "Bus?", "references": ["Soon."], "replies": {"a": "Now.", "b": ""}},
    ]


def test_rows_without_ids_are_of_one_item_where_utterance_and_references_are_equal(tmp_path: Path) -> None:
    text = "utterance,reference,system,reply\nHi,Hello,x,1\nHi,Hey,x,2\nHi,Hello,y,3\n"
    found = items_of(written(tmp_path / "t.csv", text))
    assert [(one["references"], one["replies"]) for one in found] == [
        (["Hello"], {"x": "1", "y": "3"}),
        (["Hey"], {"x": "2"}),
    ]


def test_ratings_without_annotators_are_in_the_order_of_rows_when_the_shape_says_so(tmp_path: Path) -> None:
    text = "id,system,reply,rating\na,x,yes,4\na,x,yes,4\na,x,yes,1\n"
    assert items_of(written(tmp_path / "t.csv", text), shape="rating")[0]["ratings"] == {"x": [4, 4, 1]}


def test_annotators_who_rate_several_systems_in_a_row_are_one_item(tmp_path: Path) -> None:
    text = "id,annotator,reply:a,reply:b,rating:a,rating:b\n1,u,x,y,1,2\n1,v,x,y,3,4\n"
    found = items_of(written(tmp_path / "t.csv", text))
    assert [(one["replies"], one["ratings"]) for one in found] == [({"a": "x", "b": "y"}, {"a": [1, 3], "b": [2, 4]})]


# ── kinds of files ────────────────────────────────────────────────────────────────────────────────────────────────


def rows_of_long() -> list[dict[str, str]]:
    header, *rows = [line.replace('"Yes, please."', "Yes; please.").split(",") for line in LONG.splitlines()]
    return [dict(zip(header, (cell.replace(";", ",") for cell in row), strict=True)) for row in rows]


def as_numbers(rows: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [{**row, "score": int(row["score"])} for row in rows]


def test_every_kind_of_file_gives_the_same_items(tmp_path: Path) -> None:
    rows, table = rows_of_long(), pa.Table.from_pylist(as_numbers(rows_of_long()))
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    with pa.ipc.new_file(tmp_path / "f.arrow", table.schema) as file:
        file.write_table(table)
    with pa.ipc.new_stream(tmp_path / "s.arrow", table.schema) as stream:
        stream.write_table(table)
    tabs = "".join("\t".join(row) + "\r\n" for row in (rows[0], *(row.values() for row in rows)))
    semicolons = LONG.replace('"Yes, please."', "§").replace(",", ";").replace("§", '"Yes, please."')
    files = [
        written(tmp_path / "bom.csv", b"\xef\xbb\xbf" + semicolons.encode()),
        written(tmp_path / "stated.csv", "sep=;\r\n" + semicolons.replace("\n", "\r\n")),
        written(tmp_path / "unicode.txt", tabs.encode("utf-16")),
        written(tmp_path / "t.tsv", tabs),
        written(tmp_path / "t.csv.gz", gzip.compress(LONG.encode())),
        written(tmp_path / "t.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows)),
        written(tmp_path / "array.json", json.dumps(as_numbers(rows))),
        tmp_path / "t.parquet",
        tmp_path / "f.arrow",
        tmp_path / "s.arrow",
    ]
    for file in files:
        assert items_of(file, *LONG_MAP) == LONG_ITEMS, file.name


def saved_dataset(folder: Path, table: pa.Table) -> Path:
    """A folder as `Dataset.save_to_disk` writes it."""
    folder.mkdir(parents=True)
    half = table.num_rows // 2
    names = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    for name, part in zip(names, (table.slice(0, half), table.slice(half)), strict=True):
        with pa.ipc.new_stream(folder / name, table.schema) as stream:
            stream.write_table(part)
    state = {"_data_files": [{"filename": name} for name in names], "_split": "test"}
    (folder / "state.json").write_bytes(orjson.dumps(state))
    return folder


def test_saved_datasets_are_read_and_labels_have_their_names(tmp_path: Path) -> None:
    features = {"system": {"names": ["new", "old"], "_type": "ClassLabel"}}
    metadata = {b"huggingface": orjson.dumps({"info": {"features": features}})}
    content = {"id": [1, 1], "reference": [["a", "b"], ["a", "b"]], "system": [0, 1], "reply": ["x", None]}
    table = pa.table(content).replace_schema_metadata(metadata)
    one = saved_dataset(tmp_path / "one", table)
    expected = [{"id": "1", "references": ["a", "b"], "replies": {"new": "x"}}]
    assert items_of(one) == expected
    saved_dataset(tmp_path / "both" / "test", table)
    (tmp_path / "both" / "dataset_dict.json").write_text('{"splits": ["test"]}')
    assert items_of(tmp_path / "both") == expected
    (tmp_path / "both" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with refusing(BadInput):
        items_of(tmp_path / "both")
    (one / "data-00001-of-00002.arrow").unlink()
    with refusing(BadInput, "data-00001-of-00002.arrow"):
        items_of(one)


def test_chat_messages_are_turns_and_nested_fields_have_paths(tmp_path: Path) -> None:
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Tea?"},
    ]
    row = {"messages": messages, "out": {"text": "Sure."}, "gold": "Yes."}
    (item,) = items_of(written(tmp_path / "t.jsonl", json.dumps(row)), "reply=out.text")
    assert (item["turns"], item["replies"], item["references"]) == (
        ["Hi", "Hello", "Tea?"],
        {"reply": "Sure."},
        ["Yes."],
    )


def test_items_in_a_json_array_are_items(tmp_path: Path) -> None:
    assert items_of(written(tmp_path / "items.json", json.dumps(LONG_ITEMS))) == LONG_ITEMS


def test_json_lines_with_a_reply_each_are_rows_of_a_table(tmp_path: Path) -> None:
    rows = [
        {"prompt": "Tea?", "reference": "Yes.", "model": model, "response": reply}
        for model, reply in (("old", "No."), ("new", "Sure."))
    ]
    path = written(tmp_path / "rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert [dict(item["replies"]) for item in items_of(path)] == [{"old": "No.", "new": "Sure."}]
    alone = written(tmp_path / "alone.jsonl", '{"utterance": "Tea?", "references": ["Yes."], "response": "No."}\n')
    assert [item["replies"] for item in items_of(alone)] == [{"reply": "No."}]


# ── exports ───────────────────────────────────────────────────────────────────────────────────────────────────────

TASKS = [
    {
        "id": 7,
        "data": {"utterance": "Tea?", "system": system, "reply": reply, "reference": "Yes."},
        "annotations": [
            {"completed_by": 1, "result": [answer("quality", first)], "was_cancelled": False},
            {"completed_by": {"id": 2, "email": "b@c"}, "result": [answer("quality", 3)], "was_cancelled": False},
            {"completed_by": 3, "result": [], "was_cancelled": True},
        ],
    }
    for answer in [lambda name, stars: {"from_name": name, "type": "rating", "value": {"rating": stars}}]
    for system, reply, first in [("new", "Sure.", 5), ("old", "No.", 1)]
]


def test_label_studio_tasks_of_one_utterance_are_one_item(tmp_path: Path) -> None:
    notes = TableNotes()
    (item,) = read_items(written(tmp_path / "export.json", json.dumps(TASKS)), notes=notes)
    assert isinstance(item, Item)
    assert plain(item) == {
        "id": "line-1",
        "utterance": "Tea?",
        "references": ["Yes."],
        "replies": {"new": "Sure.", "old": "No."},
        "ratings": {"new": [5, 3], "old": [1, 3]},
    }
    assert dict(notes.left_out) == {"annotations that were cancelled or skipped": 2}


FIELDS = {"utterance": "Tea?", "reply": "Sure.", "reference": "Yes."}
ARGILLA = {
    "nested": {
        "id": "r1",
        "fields": FIELDS,
        "metadata": {"system": "new"},
        "responses": {
            "quality": [
                {"value": 4, "user_id": "u"},
                {"value": 1, "user_id": "v", "status": "draft"},
                {"value": 2, "user_id": "w", "status": "submitted"},
            ]
        },
    },
    "flat": {
        "id": "r1",
        "status": "completed",
        **FIELDS,
        "system": "new",
        "quality.responses": [4, 1, 2],
        "quality.responses.users": ["u", "v", "w"],
        "quality.responses.status": ["submitted", "draft", "submitted"],
    },
    "first version": {
        "fields": FIELDS,
        "metadata": {"system": "new"},
        "responses": [
            {"user_id": "u", "status": "submitted", "values": {"quality": {"value": 4}}},
            {"user_id": "w", "status": "submitted", "values": {"quality": {"value": 2}}},
        ],
    },
}


@pytest.mark.parametrize("version", ARGILLA)
def test_argilla_records_have_the_submitted_ratings(tmp_path: Path, version: str) -> None:
    expected = {"id": "line-1", "utterance": "Tea?", "references": ["Yes."], "replies": {"new": "Sure."}}
    for name, text in (("a.json", json.dumps([ARGILLA[version]])), ("a.jsonl", json.dumps(ARGILLA[version]))):
        assert items_of(written(tmp_path / name, text)) == [{**expected, "ratings": {"new": [4, 2]}}]


# ── numbers ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("delimiter", "cell", "rating"),
    [(";", "3,5", 3.5), (";", "1,500", 1.5), (",", '"3,5"', 3.5), (",", "4.5", 4.5), (",", " 4 ", 4), (",", "", None)],
)
def test_a_decimal_comma_is_read_where_it_can_be_nothing_else(
    tmp_path: Path, delimiter: str, cell: str, rating: float | None
) -> None:
    path = written(tmp_path / "t.csv", f"id{delimiter}reply:a{delimiter}rating:a\n1{delimiter}x{delimiter}{cell}\n")
    assert items_of(path)[0].get("ratings", {}) == ({} if rating is None else {"a": [rating]})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id,reply:a,rating:a\n1,x,1_000\n", "column 'rating:a': '1_000' is not a number"),
        ('id,reply:a,rating:a\n1,x,"1,500"\n', "column 'rating:a': '1,500' may be a decimal or a thousand"),
        ("id;reply:a;ratings:a\n1;x;4,5\n", "column 'ratings:a': '4,5' may be one rating or two"),
        ("id,reply:a,rating:a\n1,x,good\n", "column 'rating:a': 'good' is not a number"),
        ("id,reply:a,rating:a\n1,x,nan\n", "nan is out of range"),
        ("id,reply:a,rating:a\n1,x\n", "2 cells where the header names 3 columns"),
        ("id,scale,reply:a,rating:a\n1,high,x,4\n", "column 'scale': 'high' is not a scale such as 1-5"),
        ("id,system,reply\n1,,x\n", "column 'system': it is empty"),
        ("id,system,reply\n,a,x\n", "no id: it says which item the row is of"),
    ],
)
def test_a_bad_cell_is_named_by_line_and_column(tmp_path: Path, text: str, says: str) -> None:
    (bad,) = bad_of(written(tmp_path / "t.csv", text))
    assert (bad[0], says in bad[1]) == (2, True), bad


# ── rows that disagree ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("1,u,r,a,x,w1,4\n1,v,r,a,x,w2,4\n", "item 1: another utterance than in line 2: 'v', there 'u'"),
        ("1,u,r,a,x,w1,4\n1,u,s,a,x,w2,4\n", "item 1: another reference than in line 2: ['s'], there ['r']"),
        ("1,u,r,a,x,w1,4\n1,u,r,a,y,w2,4\n", "item 1: another reply of a than in line 2: 'y', there 'x'"),
        ("1,u,r,a,x,w1,4\n1,u,r,a,x,w1,5\n", "item 1: another rating of a by w1 than in line 2: 5.0, there 4.0"),
    ],
)
def test_rows_of_an_item_that_contradict_each_other_cost_the_item_alone(tmp_path: Path, rows: str, says: str) -> None:
    header = "id,utterance,reference,system,reply,annotator,rating\n"
    path = written(tmp_path / "t.csv", f"{header}{rows}2,w,t,a,z,w1,3\n")
    assert bad_of(path) == [(3, says)]
    assert [one.id for one in read_items(path) if isinstance(one, Item)] == ["2"]


def test_equal_rows_count_once_and_are_counted(tmp_path: Path) -> None:
    notes = TableNotes()
    path = written(tmp_path / "t.csv", LONG + LONG.splitlines()[1] + "\n")
    found = [one for one in read_items(path, table=TableRequest.parse(LONG_MAP), notes=notes) if isinstance(one, Item)]
    assert [plain(one) for one in found] == LONG_ITEMS
    assert (notes.duplicates, notes.first_duplicate) == (1, (6, 2))
    assert notes.warnings[-1] == "1 row repeats an earlier one, and counts once: line 6, of the item that begins in 2"


def test_a_column_of_scores_may_hold_the_ratings(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "utterance,system,reply,score\nu,a,x,4\n")
    notes = TableNotes()
    assert len([one for one in read_items(path, notes=notes) if isinstance(one, Item)]) == 1
    assert notes.warnings == ["column 'score' is not used; if it holds ratings: --map rating=score"]


def test_a_column_that_numbers_rows_is_not_taken_for_ids(tmp_path: Path) -> None:
    text = "id,utterance,system,reply,annotator,rating\n1,u,a,x,w1,4\n2,u,a,x,w2,5\n"
    path = written(tmp_path / "t.csv", text)
    with refusing(BadInput):
        items_of(path)
    assert [one["ratings"] for one in items_of(path, "id=")] == [{"a": [4, 5]}]


def test_two_scales_in_one_table_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "id,reply:a,rating:a,scale\n1,x,4,1-5\n2,y,70,0 to 100\n")
    with refusing(BadInput, "100"):
        items_of(path)


def test_a_stated_scale_bounds_every_rating(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "id,reply:a,rating:a\n1,x,4\n2,y,70\n")
    assert bad_of(path, "scale=1-5") == [(3, "70 is out of range: it must be from 1 to 5")]


def test_a_scale_in_a_later_row_bounds_the_ratings_of_its_item(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "id,system,reply,rating,scale\n1,a,x,9,\n1,b,y,2,1-5\n2,a,x,4,\n")
    assert bad_of(path) == [(2, "9 is out of range: it must be from 1 to 5")]


def test_annotators_of_different_scales_are_warned_about(tmp_path: Path) -> None:
    rows = "".join(f"{n},u{n},a,x{n},{who},{n * times}\n" for n in (1, 2, 3) for who, times in (("v", 1), ("w", 20)))
    notes = TableNotes()
    path = written(tmp_path / "t.csv", f"id,utterance,system,reply,annotator,rating\n{rows}")
    assert len(list(read_items(path, notes=notes))) == 3
    assert notes.warnings == ["annotators seem to use different scales: v from 1 to 3, w from 20 to 60"]


# ── what is refused ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "content", "mapping", "says"),
    [
        ("t.csv", LONG, ("reply=answr",), "answer"),
        ("t.csv", LONG, (), "one row a reply, and no column holds the reply; its columns are: item, prompt, gold"),
        ("t.csv", "a,b\n1,2\n", (), "no column is called reference or reply:SYSTEM, only a, b"),
        ("t.csv", "a,b\n1,2\n", ("reply=a", "system=b"), "no column says which rows are of one item"),
        ("t.csv", "id,reply:a\n", (), "there are no rows below the header"),
        ("t.csv", "", ("reply=a",), "empty"),
        ("t.csv", b"id,r\xe9ponse\n1,x\n", (), "line 1: not UTF-8 at byte 4"),
        ("t.csv", b"\x00\x01\x02\x03,\x00\n", (), "a binary file"),
        ("t.xlsx", b"PK\x03\x04" + b"\0" * 40, (), "the workbook cannot be read"),
        ("t.parquet", b"PAR1" + b"\0" * 40, ("reply=a",), "is not a whole Parquet file"),
        ("t.arrow", b"ARROW1" + b"\0" * 40, ("reply=a",), "is not a complete Arrow file"),
        ("t.json", '[{"id": 1', (), "not JSON"),
        ("t.csv", "id,reply,reply\n1,x,y\n", (), "2 columns reply"),
        ("t.csv", ",".join(f"c{n}" for n in range(columns.MAX_COLUMNS + 1)), (), "10,001"),
    ],
)
def test_a_file_that_cannot_be_a_table_is_refused_by_name(
    tmp_path: Path, name: str, content: str | bytes, mapping: tuple[str, ...], says: str
) -> None:
    path = written(tmp_path / name, content)
    with pytest.raises(RefaugError) as raised:
        items_of(path, *mapping)
    assert (str(path) in raised.value.message, says in raised.value.message) == (True, True), raised.value.message


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        (("utterence=a",), "utterance"),
        (("reply",), "is not FIELD=COLUMN"),
        (("id:x=a",), "id:x"),
        (("reply:=a",), "reply"),
        (("id=a", "id=b"), "--map"),
    ],
)
def test_a_map_that_says_nothing_is_refused(mapping: tuple[str, ...], says: str) -> None:
    with pytest.raises(RefaugError) as raised:
        TableRequest.parse(mapping)
    assert says in raised.value.message


def test_long_tables_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "t.csv", LONG)
    monkeypatch.setattr(table_items, "MAX_ROWS", 3)
    with refusing(BadInput):
        items_of(path, *LONG_MAP)
    monkeypatch.setattr(table_items, "MAX_ROWS", 4)
    monkeypatch.setattr(table_items, "MAX_ANNOTATORS", 1)
    with refusing(BadInput):
        items_of(path, *LONG_MAP)
    assert items_of(path, *LONG_MAP, "annotator=", shape="rating")[0]["ratings"] == {"new": [5, 4], "old": [2]}


def test_many_unused_columns_are_one_warning(tmp_path: Path) -> None:
    notes = TableNotes()
    names = ",".join(f"c{n}" for n in range(50))
    list(read_items(written(tmp_path / "t.csv", f"reference,{names}\nr,{names}\n"), notes=notes))
    assert notes.warnings == [f"50 columns are not used: {', '.join(f'c{n}' for n in range(20))} and 30 more"]


def test_fields_of_later_rows_are_columns_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"reference": "r", "system": "a", "reply": "x"}
    rows = [{"id": str(n), **row, **({"rating": 4} if n > 55 else {})} for n in range(60)]
    lines = written(tmp_path / "t.jsonl", "\n".join(map(json.dumps, rows)))
    array = written(tmp_path / "t.json", json.dumps(rows))
    assert [items_of(path)[-1]["ratings"] for path in (lines, array)] == [{"a": [4]}] * 2
    monkeypatch.setattr(files, "_KEYED", 56)
    notes = TableNotes()
    (*_, item) = read_items(lines, notes=notes)
    assert isinstance(item, Item)
    assert (item.ratings, len(notes.warnings)) == ({}, 1)
    assert "line 57 on are not used: rating" in notes.warnings[0]


def test_quotation_marks_that_cells_keep_are_told_of(tmp_path: Path) -> None:
    notes, text = TableNotes(), 'reference\treply:a\n"Oh, ""well"""\tx\n'
    kept, read = (
        [one.references[0].text for one in read_items(written(tmp_path / name, text), notes=notes)]
        for name in ("t.tsv", "t.csv")
    )
    assert (kept, read, len(notes.warnings)) == (['"Oh, ""well"""'], ['Oh, "well"'], 1)
