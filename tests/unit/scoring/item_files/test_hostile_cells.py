"""Cells that no item can hold cost their row, and no other one: in tables, JSON, exports, conversations and frames."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from refusals import refusing
from safeguards import needs_extra

import refaug
from refaug.core.errors import BadInput, RefaugError
from refaug.scoring.item_files import InputFile, ItemFiles, preview
from refaug.tables.table_request import TableRequest

GOOD_ROWS = 20
CELLS = ("[{[]:1}]", "['\\ud800']", f"[{'9' * 5_000},]", f"[-{'9' * 19},]", "[" * 900 + "]" * 900, "[{1: 'a'}]")
COLUMNS = {"turns": '["hi"]', "reference": "hey", "reply:a": "hello", "ratings:a": "3"}
NESTED = json.loads("[" * 300 + "]" * 300)
ITEM = {"utterance": "hi", "references": ["hey"], "replies": {"a": "hello"}}
ROW = {"utterance": "hi", "reference": "hey", "system": "a", "reply": "hello", "annotator": "ann", "rating": 3}


def counts_of(path: Path, content: bytes, *mapping: str) -> tuple[int, int]:
    """The items and the bad rows of a preview that can be answered."""
    path.write_bytes(content)
    files = ItemFiles(items=InputFile(path=path, name=path.name), table=TableRequest.parse(list(mapping)))
    shown = orjson.loads(orjson.dumps(preview(files, 1_000).as_json()))
    counts = shown["counts"]
    assert len(shown["bad_rows"]) == counts["bad"]
    return counts["items"], counts["bad"]


@pytest.mark.parametrize("column", ["turns", "reference", "ratings:a"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_that_no_item_can_hold_costs_its_row_alone(tmp_path: Path, cell: str, column: str) -> None:
    def line(number: int, **cells: str) -> str:
        return ";".join([str(number), *({**COLUMNS, **cells}[name] for name in COLUMNS)])

    rows = [line(number) for number in range(GOOD_ROWS)]
    table = "\n".join([";".join(["id", *COLUMNS]), *rows, line(GOOD_ROWS, **{column: cell.replace('"', '""')})])
    assert counts_of(tmp_path / "rows.csv", table.encode()) == (GOOD_ROWS, 1)


def json_lines(plain: dict[str, Any], **wrong: Any) -> bytes:
    """Good rows, then one that is wrong, as JSON lines."""
    rows: list[dict[str, Any]] = [
        {**plain, "id": str(number), "utterance": f"hi {number}"} for number in range(GOOD_ROWS)
    ]
    return b"\n".join(json.dumps(row).encode() for row in [*rows, {**plain, "id": "wrong", **wrong}])


@pytest.mark.parametrize(
    "wrong",
    [
        {"references": [{"text": "hey", "about": NESTED}]},
        {"references": [{"text": "hey", "source": NESTED}]},
        {"note": NESTED},
        {"id": NESTED},
        {"utterance": NESTED},
    ],
)
def test_an_item_nested_too_deep_costs_its_line_alone(tmp_path: Path, wrong: dict[str, Any]) -> None:
    assert counts_of(tmp_path / "items.jsonl", json_lines(ITEM, **wrong)) == (GOOD_ROWS, 1)


@pytest.mark.parametrize("column", ["id", "utterance", "reference", "system", "reply", "annotator", "rating"])
def test_a_row_of_a_rating_nested_too_deep_costs_its_line_alone(tmp_path: Path, column: str) -> None:
    content = json_lines(ROW, **{column: NESTED})
    assert counts_of(tmp_path / "rows.jsonl", content, "id=id") == (GOOD_ROWS, 1)


LABEL_STUDIO = {
    "id": 1,
    "data": {"utterance": "hi", "reference": "hey", "reply": "hello"},
    "annotations": [{"completed_by": 1, "result": [{"from_name": "q", "type": "c", "value": {"c": 3}}]}],
}
ARGILLA = {
    "fields": {"utterance": "hi", "reference": "hey", "reply": "hello"},
    "responses": {"q": [{"user_id": "ann", "value": 3}]},
}


@pytest.mark.parametrize(
    ("good", "wrong"),
    [
        (LABEL_STUDIO, {"annotations": [1]}),
        (LABEL_STUDIO, {"data": 1}),
        (LABEL_STUDIO, {"annotations": [{"result": [{"from_name": ["q"], "type": "c", "value": {}}]}]}),
        (ARGILLA, {"responses": {"q": [1]}}),
        (ARGILLA, {"responses": {"q": 1}}),
    ],
)
def test_a_row_that_no_program_exports_costs_itself_or_names_the_file(
    tmp_path: Path, good: dict[str, Any], wrong: dict[str, Any]
) -> None:
    array = json.dumps([good, {**good, **wrong}]).encode()
    assert counts_of(tmp_path / "export.json", array, "id=") == (1, 1)
    with refusing(BadInput, "alone.json"):
        counts_of(tmp_path / "alone.json", json.dumps([{**good, **wrong}]).encode())


@needs_extra("conversations")
@pytest.mark.parametrize("turns", CELLS)
def test_a_conversation_that_cannot_be_held_costs_its_row_alone(tmp_path: Path, turns: str) -> None:
    from refaug.extras.conversations.options import ConversationColumns  # noqa: PLC0415
    from refaug.extras.conversations.reading import BadConversation  # noqa: PLC0415
    from refaug.extras.conversations.talks import conversations_in  # noqa: PLC0415

    path = tmp_path / "chats.csv"
    good = "[{'role': 'user', 'text': 'hi'}, {'role': 'bot', 'text': 'hey'}]"
    path.write_text(f"id;bot;turns;score\n1;b;{good};3\n2;b;{turns};3\n3;b;{good};²\n", encoding="utf-8")
    columns = ConversationColumns.parse(["rating:q=score"])
    kinds = [isinstance(row, BadConversation) for row in conversations_in(path, "chats.csv", columns)]
    assert kinds == [False, True, True]


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": 10**5_000},
        {"ratings": {"a": [10**5_000]}},
        {"utterance": "\ud800"},
        {"utterance": 10**5_000},
        {"references": ["\ud800"]},
        {"references": [{"text": "a", "x": NESTED}]},
        {"replies": {"a": "half: \udc00"}},
    ],
)
def test_items_in_python_that_cannot_be_held_are_bad_ones(wrong: dict[str, Any]) -> None:
    items: list[dict[str, Any]] = [{**ITEM, "id": str(number)} for number in range(GOOD_ROWS)]
    scores = refaug.score(items=[*items, {**ITEM, **wrong}], metric="chrf", on_error="report")
    assert [problem.place for problem in scores.problems] == [GOOD_ROWS]
    with pytest.raises(RefaugError):
        refaug.score(items=[{**ITEM, **wrong}], metric="chrf")
