"""A workbook is the table that its sheet shows; one that is ambiguous, damaged or huge is refused by name."""

from __future__ import annotations

import zipfile
from datetime import date
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from refusals import refusing

from refaug.core.errors import BadInput, DamagedSource
from refaug.core.records import Item
from refaug.scoring.items import BadItem, read_items
from refaug.tables import files
from refaug.tables.table_request import TableRequest

HEADER = ["item", "prompt", "gold", "model", "reply", "rating"]
ROWS = [
    ["tea", "Tea?", "Yes, please.", "new", "Sure.", 5],
    ["tea", "Tea?", "Yes, please.", "old", "No idea.", 2.0],
    ["bus", "Bus?", "Soon.", "old", "=1+1", None],
]


def saved(path: Path, *rows: list[Any], **sheets: list[list[Any]]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for title, of_sheet in sheets.items():
        sheet = book.create_sheet(title)
        for row in of_sheet:
            sheet.append(row)
    book.save(path)
    return path


def read(path: Path) -> list[Item | BadItem]:
    return list(read_items(path, table=TableRequest.parse((), None, "auto")))


def test_a_sheet_is_read_as_the_same_csv(tmp_path: Path) -> None:
    book = saved(tmp_path / "t.xlsx", HEADER, *ROWS[:2])
    text = "\n".join(",".join(f'"{cell}"' for cell in row) for row in (HEADER, *ROWS[:2])).replace('"2.0"', "2")
    (tmp_path / "t.csv").write_text(text)
    assert read(book) == read(tmp_path / "t.csv")
    (item,) = (one for one in read(book) if isinstance(one, Item))
    assert (item.id, dict(item.replies), dict(item.ratings)) == (
        "tea",
        {"new": "Sure.", "old": "No idea."},
        {"new": (5.0,), "old": (2.0,)},
    )


def test_a_sheet_that_states_a_smaller_size_is_read_whole_with_whole_numbers_as_texts(tmp_path: Path) -> None:
    book = saved(tmp_path / "t.xlsx", ["id", "reference", "reply:a", "reply:b"], ["1", 7, 42, "so"], ["2", "no", "b"])
    stale = tmp_path / "stale.xlsx"
    with zipfile.ZipFile(book) as members, zipfile.ZipFile(stale, "w") as changed:
        for name in members.namelist():
            changed.writestr(name, members.read(name).replace(b'<dimension ref="A1:D3"', b'<dimension ref="A1:C2"'))
    first, second = read(stale)
    assert isinstance(first, Item)
    assert isinstance(second, Item)
    assert ([reference.text for reference in first.references], first.replies) == (["7"], {"a": "42", "b": "so"})
    assert (second.id, second.replies) == ("2", {"a": "b"})


def test_empty_rows_dates_and_formulas_without_a_value(tmp_path: Path) -> None:
    book = saved(
        tmp_path / "t.xlsx", [], ["id", "reference", "reply:a"], [], ["1", "yes", date(2026, 1, 2)], [2, "no", "=A1"]
    )
    first, second = read(book)
    assert isinstance(first, Item)
    assert first.replies == {"a": "2026-01-02 00:00:00"}
    assert isinstance(second, Item | BadItem)
    assert second.line == 5 if isinstance(second, BadItem) else second.replies == {}


def test_a_row_longer_than_the_header_is_bad_alone(tmp_path: Path) -> None:
    book = saved(tmp_path / "t.xlsx", ["id", "reference", "reply:a"], ["1", "yes", "so", "x"], ["2", "no", "so"])
    bad, good = sorted(read(book), key=lambda one: isinstance(one, Item))
    assert isinstance(bad, BadItem)
    assert (bad.line, "more cells than the 3" in bad.message) == (2, True)
    assert isinstance(good, Item)
    assert good.id == "2"


def test_several_sheets_twin_columns_and_empty_books_are_refused(tmp_path: Path) -> None:
    with refusing(BadInput):
        read(saved(tmp_path / "two.xlsx", HEADER, *ROWS, notes=[["remember"]]))
    with refusing(BadInput, "reply"):
        read(saved(tmp_path / "twin.xlsx", ["reply", "reply"], ["a", "b"]))
    with refusing(BadInput):
        read(saved(tmp_path / "empty.xlsx"))


def test_a_damaged_book_and_one_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = saved(tmp_path / "t.xlsx", HEADER, *ROWS)
    (tmp_path / "cut.xlsx").write_bytes(book.read_bytes()[:-40])
    with refusing(DamagedSource, "cut.xlsx"):
        read(tmp_path / "cut.xlsx")
    with zipfile.ZipFile(tmp_path / "other.xlsx", "w") as members:
        members.writestr("word/document.xml", "<w/>")
    with refusing(DamagedSource, "other.xlsx"):
        read(tmp_path / "other.xlsx")
    monkeypatch.setattr(files, "_MOST_BYTES", 1_000)
    with refusing(BadInput, "1,000"):
        read(book)
