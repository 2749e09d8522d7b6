"""Any table is the items that Python's csv module and pandas read from the same bytes, and lines those of `split`."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from pathlib import Path

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing

from refaug.core.errors import RefaugError
from refaug.core.records import Item
from refaug.scoring.item_files import AlignedFiles, InputFile, ItemFiles, preview
from refaug.scoring.items import BadItem
from refaug.tables.table_request import TableRequest

# Texts with what separates cells and lines in them, and none that a reader may take for white space around a text.
WORDS = st.text(st.sampled_from("aé語😀 ,;\t\"'\n.0"), min_size=1, max_size=12).filter(
    lambda text: text == text.strip() and bool(text)
)
ROWS = st.lists(st.tuples(WORDS, WORDS, WORDS, WORDS), min_size=1, max_size=6)
MAPPING = ("id=key", "utterance=asked", "reference=gold", "reply:new=answer one", "reply:old=answer two")
HEADER = ("key", "asked", "gold", "answer one", "answer two")
LINES = st.text(st.sampled_from("aé語 ,\t\"'"), max_size=8)

UNQUOTABLE = str.maketrans(dict.fromkeys('"\t\r\n', "-"))


def read(content: bytes, name: str, *mapping: str) -> list[Item | BadItem]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"content{Path(name).suffix}"
        path.write_bytes(content)
        table = TableRequest.parse(list(mapping), None, "auto")
        return list(ItemFiles(items=InputFile(path=path, name=name), table=table).read())


def plain(items: list[Item | BadItem]) -> list[tuple[str, ...]]:
    """The key, utterance, gold and replies of each item."""
    rows = list[tuple[str, ...]]()
    for item in items:
        assert isinstance(item, Item), item
        [gold] = item.references
        rows.append((item.id, item.turns[-1], gold.text, item.replies["new"], item.replies["old"]))
    return rows


def written(rows: list[tuple[str, ...]], delimiter: str, line_end: str, quoting: int) -> str:
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, lineterminator=line_end, quoting=quoting)  # type: ignore[arg-type]
    writer.writerows([HEADER, *rows])
    return file.getvalue()


@settings(deadline=None, max_examples=50)
@given(
    ROWS,
    st.sampled_from([(",", ".csv"), ("\t", ".tsv"), (";", ".csv")]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_a_table_is_what_csv_and_pandas_read(
    texts: list[tuple[str, ...]], kind: tuple[str, str], line_end: str, quoting: int, encoding: str
) -> None:
    delimiter, ending = kind
    if ending == ".tsv":  # quotes mean nothing there, so that nothing can stand in for tabs and line ends
        texts, quoting = [tuple(cell.translate(UNQUOTABLE) for cell in row) for row in texts], csv.QUOTE_NONE
    rows = [(f"k{number}", *row) for number, row in enumerate(texts)]
    content = written(rows, delimiter, line_end, quoting)
    by_csv = [tuple(row) for row in csv.reader(io.StringIO(content, newline=""), delimiter=delimiter)][1:]
    frame = pd.read_csv(io.StringIO(content), sep=delimiter, dtype=str, keep_default_na=False)
    assert by_csv == [tuple(row) for row in frame.itertuples(index=False)] == rows
    assert plain(read(content.encode(encoding), f"t{ending}", *MAPPING)) == rows


@settings(deadline=None, max_examples=50)
@given(ROWS, st.booleans())
def test_json_lines_and_an_array_are_the_same_items_as_pandas_reads(
    texts: list[tuple[str, ...]], escaped: bool
) -> None:
    rows = [(f"k{number}", *row) for number, row in enumerate(texts)]
    objects = [dict(zip(HEADER, row, strict=True)) for row in rows]
    lines = "".join(f"{json.dumps(each, ensure_ascii=escaped)}\n" for each in objects)
    frame = pd.read_json(io.StringIO(lines), lines=True, dtype=False)
    assert [tuple(row) for row in frame[list(HEADER)].itertuples(index=False)] == rows
    assert plain(read(lines.encode(), "t.jsonl", *MAPPING)) == rows
    array = json.dumps(objects, ensure_ascii=escaped).encode()
    assert plain(read(array, "t.json", *MAPPING)) == rows


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(WORDS.map(str.split).map(" ".join), LINES, LINES, LINES), min_size=1, max_size=6))
def test_line_aligned_texts_are_what_split_makes_of_them(texts: list[tuple[str, str, str, str]]) -> None:
    columns = list(zip(*texts, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        files = list[InputFile]()
        for place, lines in enumerate(columns):
            path = Path(folder) / str(place)
            path.write_bytes("".join(f"{line}\n" for line in lines).encode())
            files.append(InputFile(path=path, name=f"file {place}"))
        aligned = AlignedFiles(replies={"a": files[0], "b": files[1]}, references=files[2:3], utterances=files[3])
        items = [item for item in ItemFiles(aligned=aligned).read() if isinstance(item, Item)]
        named = ItemFiles(aligned=aligned, systems=[*items[0].replies][:1]).read()
        assert all(isinstance(one, Item) and len(one.replies) == 1 for one in named)
        contents = [Path(file.path).read_bytes().decode().split("\n")[:-1] for file in files]
    replies_a, replies_b, golds, utterances = contents
    assert [item.replies["a"] for item in items] == replies_a
    assert [item.replies["b"] for item in items] == replies_b
    assert [[reference.text for reference in item.references] for item in items] == [
        [gold] if gold.strip() else [] for gold in golds
    ]
    assert [list(item.turns) for item in items] == [[text] if text.strip() else [] for text in utterances]


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=400), st.sampled_from(["t.csv", "t.tsv", "t.jsonl", "t.json", "t.txt", "t.parquet"]))
def test_any_bytes_are_items_bad_rows_or_a_named_error(content: bytes, name: str) -> None:
    require_items_or_a_named_error(content, name)


@settings(deadline=None, max_examples=50)
@given(
    ROWS,
    st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from([b"", b'"', b"\n", b",", b"\0", b"\xff"])), max_size=4),
)
def test_a_damaged_table_is_items_bad_rows_or_a_named_error(
    texts: list[tuple[str, ...]], damages: list[tuple[int, bytes]]
) -> None:
    rows = [(f"k{number}", *row) for number, row in enumerate(texts)]
    content = written(rows, ",", "\n", csv.QUOTE_MINIMAL).encode()
    for place, piece in damages:
        at = place % (len(content) + 1)
        content = content[:at] + piece + content[at + 1 :]
    require_items_or_a_named_error(content, "t.csv", *MAPPING)


def require_items_or_a_named_error(content: bytes, name: str, *mapping: str) -> None:
    """A preview counts what reading yields; an error names the file as people know it, and says what to do."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"content{Path(name).suffix}"
        path.write_bytes(content)
        table = TableRequest.parse(list(mapping), None, "auto")
        files = ItemFiles(items=InputFile(path=path, name=name), table=table)
        try:
            rows = list(files.read())
        except RefaugError as error:
            refusal = error
        else:
            refusal = None
        if refusal is not None:
            assert (name in refusal.message, str(path) in refusal.message, bool(refusal.remedy)) == (True, False, True)
            with refusing(type(refusal), name):
                preview(files, 10_000)
            return
        counts = preview(files, 10_000).as_json()["counts"]
        assert counts["items"] == sum(isinstance(row, Item) for row in rows)
        bad_rows = [row for row in rows if isinstance(row, BadItem)]
        assert counts["bad"] == len(bad_rows)
        assert all(row.file == name and row.line >= 1 and row.message for row in bad_rows)
