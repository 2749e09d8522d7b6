"""Rows out of every container: what is broken is named by line, and the rows around it come through unchanged."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refaug.core.errors import BadInput, DamagedSource
from refaug.logs.reading.containers import (
    ArrowBlock,
    Block,
    Row,
    RowBlock,
    aligned_blocks,
    arrow_rows,
    count_lines,
    csv_blocks,
    excerpt,
    json_rows,
    listed_rows,
    open_parquet,
    parlai_blocks,
    parquet_blocks,
    require_even,
    tab_rows,
)
from refaug.logs.reading.sources import BadRow, LineBlock, LineReader, Source

PAIR = ("utterance", "response")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


def reader_of(folder: Path, data: bytes, name: str = "log", **how: Any) -> LineReader:
    path = folder / name
    path.write_bytes(data)
    return LineReader(Source.of(path), **how)


def json_of(data: bytes, first_line: int = 1) -> list[tuple[int, Row] | BadRow]:
    return list(json_rows(LineBlock(first_line=first_line, data=data)))


def tab_of(data: bytes, columns: tuple[str, ...] = PAIR) -> list[tuple[int, Row] | BadRow]:
    return list(tab_rows(LineBlock(first_line=1, data=data), columns))


def listed(blocks: Iterable[Block]) -> list[tuple[int, list[Any] | BadRow]]:
    """Rows with their lines; the bad ones have to agree with where they stand."""
    rows: list[tuple[int, list[Any] | BadRow]] = []
    for block in blocks:
        assert isinstance(block, RowBlock)
        for line, row in zip(block.lines, block.rows, strict=True):
            assert not isinstance(row, BadRow) or row.line == line
            rows.append((line, row if isinstance(row, BadRow) else list(row)))
    return rows


def csv_of(folder: Path, data: bytes | str) -> list[tuple[int, list[Any] | BadRow]]:
    return listed(csv_blocks(reader_of(folder, data if isinstance(data, bytes) else data.encode())))


# ── JSON lines ────────────────────────────────────────────────────────────────────────────────────────────────────

BROKEN_JSON = [
    (b'{"text": "cut in h', "not JSON at character 19: unexpected end of data", '{"text": "cut in h'),
    (b'{"text": "a"} {"text": "b"}', "not JSON at character 15: unexpected content after document", None),
    (b'{"text": NaN}', "not JSON at character 10: unexpected character, expected a JSON value", None),
    (b'{"text": "\\ud83d alone"}', "not JSON at character 11: no low surrogate in string", None),
    (b'{"text": "\\udc00"}', "not JSON at character 11: invalid high surrogate in string", None),
    (
        b"\0" * 2000,
        "2,000 NUL bytes: the file was cut off by a crash, or is not UTF-8",
        "\ufffd" * 80,
    ),
    (b'{"a": 1\0}', "1 NUL bytes: the file was cut off by a crash, or is not UTF-8", '{"a": 1\ufffd}'),
    (
        b'{"text": "se\xf1or"}',
        "not UTF-8 at byte 12 (0xf1): if the file is in Latin-1, say --encoding latin-1",
        '{"text": "se\\xf1or"}',
    ),
    (
        b'{"id": "a", "turns": [{"text": "b", "text": "c"}]}',
        "the key 'text' is there twice in one object: name each once",
        None,
    ),
    (b'{"id": 1, "id": 1}', "the key 'id' is there twice in one object: name each once", None),
    (
        b"{",
        "not JSON: it goes on in the next line, and one object a line is expected (jq -c . FILE writes them so)",
        None,
    ),
    (b'["a", "b"]', "a JSON object was expected, found list", '["a", "b"]'),
    (b'"a"', "a JSON object was expected, found str", '"a"'),
    (b"17", "a JSON object was expected, found int", "17"),
    (b"null", "a JSON object was expected, found NoneType", "null"),
    (b"<html>", "not JSON at character 1: unexpected character, expected a JSON value", "<html>"),
]


@pytest.mark.parametrize(("line", "message", "shown"), BROKEN_JSON)
def test_a_broken_json_line_is_named_and_its_neighbours_survive(line: bytes, message: str, shown: str | None) -> None:
    before, bad, after = json_of(b'{"text": "one"}\n' + line + b'\n{"text": "three"}', first_line=41)
    assert (before, after) == ((41, {"text": "one"}), (43, {"text": "three"}))
    assert bad == BadRow(line=42, reason="json", message=message, excerpt=line.decode() if shown is None else shown)


def test_empty_lines_are_passed_over_and_counted() -> None:
    assert json_of(b'\n{"a": 1}\n  \t\n\r\n{"a": 2}\r\n') == [(2, {"a": 1}), (5, {"a": 2})]


@given(rows=st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=5) | st.integers(-9, 9) | st.none())))
def test_json_objects_come_back_as_they_were_written(rows: list[dict[str, Any]]) -> None:
    data = b"\n".join(orjson.dumps(row) for row in rows)
    assert json_of(data, first_line=7) == list(enumerate(rows, 7))


@given(junk=st.binary(max_size=30).filter(lambda junk: b"\n" not in junk), at=st.integers(0, 3))
@settings(max_examples=50, deadline=None)
def test_no_bytes_on_one_line_touch_another(junk: bytes, at: int) -> None:
    good = [b'{"n": %d}' % number for number in range(3)]
    rows = json_of(b"\n".join([*good[:at], junk, *good[at:]]))
    others = [row for row in rows if not isinstance(row, BadRow) and row[0] != at + 1]
    assert others == [(number + 1 + (number >= at), {"n": number}) for number in range(3)]
    assert [row.line for row in rows if isinstance(row, BadRow)] in ([], [at + 1])


def test_an_excerpt_is_short_and_harmless_to_print() -> None:
    assert excerpt(b"\x1b[31mred\x07 \xff\xc3\xa9\t") == "\ufffd[31mred\ufffd \\xffé\ufffd"
    assert excerpt("犬\u202e\n") == "犬\ufffd\ufffd"
    assert excerpt(b"x" * 500) == excerpt("x" * 500) == "x" * 80


# ── TSV ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_tabs_separate_and_quotes_mean_nothing() -> None:
    assert tab_of(b'say "hi\t"hi\n\'a\t\r\n  \nx\ty\r') == [
        (1, {"utterance": 'say "hi', "response": '"hi'}),
        (2, {"utterance": "'a", "response": ""}),
        (4, {"utterance": "x", "response": "y"}),
    ]


def test_bad_tsv_lines_are_named_and_their_neighbours_survive() -> None:
    first, short, long, nul, latin, last = tab_of(b"a\tb\nalone\na\tb\tc\n\0\0\0\nse\xf1or\tb\ny\tz")
    assert (first, last) == (
        (1, {"utterance": "a", "response": "b"}),
        (6, {"utterance": "y", "response": "z"}),
    )
    where = "where 2 are expected (utterance, response)"
    assert short == BadRow(line=2, reason="fields", message=f"1 fields {where}", excerpt="alone")
    assert long == BadRow(line=3, reason="fields", message=f"3 fields {where}", excerpt="a\ufffdb\ufffdc")
    assert nul == BadRow(line=4, reason="fields", message=f"1 fields {where}", excerpt="\ufffd" * 3)
    assert latin == BadRow(
        line=5,
        reason="encoding",
        message="not UTF-8 at byte 2 (0xf1): if the file is in Latin-1, say --encoding latin-1",
        excerpt="se\\xf1or\ufffdb",
    )


def test_a_byte_that_a_named_encoding_lacks_is_named_in_that_encoding(folder: Path) -> None:
    reader = reader_of(folder, b"a\tb\ncaf\xe9 \x81\tb\nc\td\n", encoding="cp1252")
    first, bad, last = (row for block in reader if isinstance(block, LineBlock) for row in tab_rows(block, PAIR))
    assert (first, last) == ((1, {"utterance": "a", "response": "b"}), (3, {"utterance": "c", "response": "d"}))
    assert isinstance(bad, BadRow)
    assert (bad.line, bad.reason) == (2, "encoding")
    assert bad.message == "byte 0x81 after 5 characters is not of the file's encoding, or is half a character"


# ── CSV ───────────────────────────────────────────────────────────────────────────────────────────────────────────

FIELDS = st.text(st.sampled_from([*'ab ,,""\t;\'é犬\0', "\n"]), max_size=8)


@given(
    rows=st.lists(st.tuples(FIELDS, FIELDS, FIELDS), max_size=8),
    terminator=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    block_bytes=st.integers(1, 50),
)
@example(rows=[("", "", ""), ("a\n", "\n", '"')], terminator="\r\n", quoting=csv.QUOTE_MINIMAL, block_bytes=3)
@settings(max_examples=50, deadline=None)
def test_csv_is_read_as_it_was_written(
    folder: Path, rows: list[tuple[str, str, str]], terminator: str, quoting: int, block_bytes: int
) -> None:
    text = io.StringIO()
    lines = []
    writer = csv.writer(text, lineterminator=terminator, quoting=quoting)  # type: ignore[arg-type]
    for row in rows:
        lines.append(text.getvalue().count("\n") + 1)
        writer.writerow(row)
    reader = reader_of(folder, text.getvalue().encode(), block_bytes=block_bytes)
    assert listed(csv_blocks(reader)) == [(line, list(row)) for line, row in zip(lines, rows, strict=True)]


def test_line_ends_inside_quotes_become_newlines(folder: Path) -> None:
    assert csv_of(folder, 'a,"b\r\nc"\r\nd,e\r\n') == [(1, ["a", "b\nc"]), (3, ["d", "e"])]


def test_a_byte_order_mark_is_not_part_of_the_first_field(folder: Path) -> None:
    assert csv_of(folder, '\ufeffutterance,"response"\na,b\n') == [(1, ["utterance", "response"]), (2, ["a", "b"])]


def test_a_stray_quote_costs_its_own_line_only(folder: Path) -> None:
    first, bad, *rest = csv_of(folder, 'a,b\nhe said,"hi\nc,d\ne,f\n')
    assert first == (1, ["a", "b"])
    assert bad == (
        2,
        BadRow(
            line=2,
            reason="csv",
            message="a quote is opened and not closed: no end before the file's",
            excerpt='he said,"hi',
        ),
    )
    assert rest == [(3, ["c", "d"]), (4, ["e", "f"])]


def test_a_stray_quote_is_recognised_when_a_later_one_seems_to_close_it(folder: Path) -> None:
    rows = csv_of(folder, 'a,b\nhe said,"hi\nc,d\nand,"good",bye\ne,f\n')
    assert rows[0] == (1, ["a", "b"])
    assert rows[1] == (
        2,
        BadRow(
            line=2,
            reason="csv",
            message="a quote is opened and not closed: 3 fields over 3 lines where 2 are expected",
            excerpt='he said,"hi',
        ),
    )
    assert rows[2:] == [(3, ["c", "d"]), (4, ["and", "good", "bye"]), (5, ["e", "f"])]


def test_an_unclosed_quote_is_found_whatever_other_quotes_the_line_has(folder: Path) -> None:
    rows = csv_of(folder, 'a,b\nan 8" disk,"wow\nc,d\n')
    assert [row for row in rows if not isinstance(row[1], BadRow)] == [(1, ["a", "b"]), (3, ["c", "d"])]
    assert isinstance(rows[1][1], BadRow)
    assert rows[1][1].message == "a quote is opened and not closed: no end before the file's"


def test_stray_quote_on_the_first_line_is_detected_by_the_column_count(folder: Path) -> None:
    reader = reader_of(folder, b'"hi,there\na,"b\nb"\nc,d\n')
    (_, bad), *rest = listed(csv_blocks(reader, columns=2))
    assert bad == BadRow(
        line=1,
        reason="csv",
        message="a quote is opened and not closed: 1 fields over 2 lines where 2 are expected",
        excerpt='"hi,there',
    )
    assert rest == [(2, ["a", "b\nb"]), (4, ["c", "d"])]


def test_an_unclosed_quote_does_not_set_the_number_of_columns(folder: Path) -> None:
    (_, bad), *rest = csv_of(folder, '"hi,there\na,b\nc,d\n')
    assert isinstance(bad, BadRow)
    assert rest == [(2, ["a", "b"]), (3, ["c", "d"])]


def test_a_stray_quote_looks_a_thousand_lines_ahead_and_no_further(folder: Path) -> None:
    later = [(number, [str(number), "x"]) for number in range(2, 2502)]
    text = 'a,"b\n' + "".join(f"{number},x\n" for number, _ in later)
    (_, bad), *rest = csv_of(folder, text)
    assert isinstance(bad, BadRow)
    assert "1,000" in bad.message
    assert rest == later


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"c\rd,e", "a carriage return inside a line"),
        (b"x" * 1_100_000 + b",y", "not CSV: field larger than field limit (1048576)"),
    ],
)
def test_what_the_csv_parser_refuses_costs_its_own_line_only(folder: Path, line: bytes, message: str) -> None:
    first, (number, bad), last = csv_of(folder, b"a,b\n" + line + b"\nf,g\n")
    assert (first, last) == ((1, ["a", "b"]), (3, ["f", "g"]))
    assert isinstance(bad, BadRow)
    assert (number, bad.reason, bad.message) == (2, "csv", message)


def test_wrong_numbers_of_fields_are_named_with_the_columns() -> None:
    block = RowBlock(lines=[1, 2, 5], rows=[["a", "b"], ["a"], ["a", "b", "c"]])
    where = "where 2 are expected (utterance, response)"
    assert list(listed_rows(block, PAIR)) == [
        (1, {"utterance": "a", "response": "b"}),
        BadRow(line=2, reason="fields", message=f"1 fields {where}", excerpt="a"),
        BadRow(line=5, reason="fields", message=f"3 fields {where}", excerpt="a\ufffdb\ufffdc"),
    ]


def test_empty_lines_between_csv_rows_are_passed_over(folder: Path) -> None:
    assert csv_of(folder, "a,b\n\n\r\nc,d\n\n") == [(1, ["a", "b"]), (4, ["c", "d"])]


def test_nul_bytes_do_not_stop_the_csv_reader(folder: Path) -> None:
    assert csv_of(folder, b"a,b\n\0\0\0\nc\0,d\n") == [(1, ["a", "b"]), (2, ["\0\0\0"]), (3, ["c\0", "d"])]


def test_a_csv_line_that_is_not_utf_8_is_a_bad_row(folder: Path) -> None:
    first, (_, bad), last = csv_of(folder, b"a,b\nse\xf1or,x\nc,d\n")
    assert (first, last) == ((1, ["a", "b"]), (3, ["c", "d"]))
    assert bad == BadRow(
        line=2,
        reason="encoding",
        message="not UTF-8 at byte 2 (0xf1): if the file is in Latin-1, say --encoding latin-1",
        excerpt="se\\xf1or,x",
    )


def test_quoted_field_with_an_unreadable_line_is_rejected_whole(folder: Path) -> None:
    rows = csv_of(folder, b'a,b\nc,"one\ntw\xf6\nthree"\nd,e\n')
    assert [(line, row.reason if isinstance(row, BadRow) else row) for line, row in rows] == [
        (1, ["a", "b"]),
        (3, "encoding"),
        (5, ["d", "e"]),
    ]


def test_csv_out_of_a_damaged_stream_keeps_the_rows_before(folder: Path) -> None:
    rows = csv_of(folder, gzip.compress(b'a,b\nc,"d\ne"\nf,g\n')[:-5])
    assert rows[:3] == [(1, ["a", "b"]), (2, ["c", "d\ne"]), (4, ["f", "g"])]
    ((line, bad),) = rows[3:]
    assert isinstance(bad, BadRow)
    assert (line, bad.reason) == (5, "damaged")


def test_long_rows_make_small_blocks(folder: Path) -> None:
    many = "".join(f"{number},{'x' * 1000}\n" for number in range(20_000))
    sizes = [len(block.rows) for block in csv_blocks(reader_of(folder, many.encode())) if isinstance(block, RowBlock)]
    assert sum(sizes) == 20_000
    assert max(sizes) < 8500
    short = list(csv_blocks(reader_of(folder, b"a,b\n" * 45_000)))
    assert [len(block.rows) for block in short if isinstance(block, RowBlock)] == [20_000, 20_000, 5_000]


# ── two aligned files ─────────────────────────────────────────────────────────────────────────────────────────────


def aligned_of(folder: Path, left: bytes, right: bytes) -> list[tuple[int, list[Any] | BadRow]]:
    return listed(aligned_blocks(reader_of(folder, left, "in.txt"), reader_of(folder, right, "out.txt")))


def test_lines_answer_lines_of_the_same_number(folder: Path) -> None:
    assert aligned_of(folder, b'hi\r\n\n"how\n', b"hello\n\xc3\xa9\nfine") == [
        (1, ["hi", "hello"]),
        (2, ["", "é"]),
        (3, ['"how', "fine"]),
    ]


@given(rows=st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=10), block_bytes=st.integers(1, 40))
@settings(deadline=None)
def test_aligned_lines_come_back_in_pairs(folder: Path, rows: list[tuple[str, str]], block_bytes: int) -> None:
    pairs = [(left.replace("\n", " "), right.replace("\n", " ")) for left, right in rows]
    left = reader_of(folder, "".join(f"{pair[0]}\n" for pair in pairs).encode(), "in", block_bytes=block_bytes)
    right = reader_of(folder, "".join(f"{pair[1]}\n" for pair in pairs).encode(), "out", block_bytes=7)
    require_even(left, right)
    assert listed(aligned_blocks(left, right)) == [(line, list(pair)) for line, pair in enumerate(pairs, 1)]


def test_aligned_files_of_different_lengths_are_refused_with_both_counts(folder: Path) -> None:
    left, right = reader_of(folder, b"a\nb\nc\n", "in.txt"), reader_of(folder, b"1\n2", "out.txt")
    said = f"{folder / 'in.txt'} has 3 lines, {folder / 'out.txt'} has 2"
    for check in (require_even, lambda *both: list(aligned_blocks(*both))):
        with pytest.raises(BadInput) as refused:
            check(left, right)
        assert refused.value.message == f"line-aligned files must be of one length: {said}"


@pytest.mark.parametrize("side", ["in.txt", "out.txt"])
def test_a_bad_line_does_not_shift_the_alignment(folder: Path, side: str) -> None:
    files = {"in.txt": b"a\nb\nc\nd\n", "out.txt": b"1\n2\n3\n4\n"}
    files[side] = files[side][:2] + b"\xff\n" + b"x" * 300 + b"\n" + files[side][-2:]
    readers = [reader_of(folder, files[name], name, block_bytes=50) for name in files]
    for reader in readers:
        reader.max_line_bytes = 200
    require_even(*readers)
    first, (_, unreadable), (_, long), last = listed(aligned_blocks(*readers))
    assert (first, last) == ((1, ["a", "1"]), (4, ["d", "4"]))
    assert unreadable == BadRow(
        line=2,
        reason="encoding",
        message=f"in {side}: not UTF-8 at byte 0 (0xff): if the file is in Latin-1, say --encoding latin-1",
        excerpt="\\xff",
    )
    assert long == BadRow(
        line=3, reason="too-long-line", message=f"in {side}: a line of 300 bytes; at most 200 are read"
    )


@pytest.mark.parametrize("side", ["in.txt", "out.txt"])
def test_a_damaged_one_of_two_aligned_files_cannot_be_used_in_part(folder: Path, side: str) -> None:
    files = {"in.txt": gzip.compress(b"a\nb\n"), "out.txt": gzip.compress(b"1\n2\n")}
    files[side] = files[side][:-3]
    readers = [reader_of(folder, files[name], name) for name in files]
    for check in (require_even, lambda *both: list(aligned_blocks(*both))):
        with pytest.raises(DamagedSource) as refused:
            check(*readers)
        said = "the file breaks off or is damaged here (the compressed data end in the middle)"
        assert refused.value.message == f"{folder / side}, line 3: {said}"
        assert refused.value.remedy == "line-aligned files cannot be used in part"


@pytest.mark.parametrize(("data", "lines"), [(b"", 0), (b"\n", 1), (b"a", 1), (b"a\n", 1), (b"a\n\nb", 3)])
def test_lines_are_counted_with_or_without_a_last_newline(folder: Path, data: bytes, lines: int) -> None:
    assert count_lines(reader_of(folder, data)) == lines


# ── ParlAI ────────────────────────────────────────────────────────────────────────────────────────────────────────


def parlai_of(folder: Path, *lines: str | bytes) -> list[tuple[int, list[Any] | BadRow]]:
    data = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    return listed(parlai_blocks(reader_of(folder, data)))


def test_an_episode_is_a_dialogue(folder: Path) -> None:
    assert parlai_of(
        folder,
        "text:hi\tlabels:hello",
        "text:how are you?\tlabels:fine: really\tepisode_done:True",
        "",
        "text:next\teval_labels:yes\treward:1.0\tepisode_done:True\r",
        "text:open\tlabels:end",
    ) == [
        (1, [["hi", "hello", "how are you?", "fine: really"], ""]),
        (4, [["next", "yes"], ""]),
        (5, [["open", "end"], ""]),
    ]


def test_lines_of_persona_before_the_text_are_left_out_and_escapes_undone(folder: Path) -> None:
    assert parlai_of(folder, "text:your persona: I ski.\\nhi\tlabels:two\\nlines\tepisode_done:True") == [
        (1, [["hi", "two\nlines"], ""])
    ]


def test_further_labels_are_dialogues_of_their_own_with_ids_of_their_own(folder: Path) -> None:
    rows = parlai_of(folder, "text:x\tlabels:y", "text:hi\tlabels:a|b||c\tepisode_done:True")
    fingerprint = reader_of(folder, b"text:x\tlabels:y\ntext:hi\tlabels:a|b||c\tepisode_done:True").source.fingerprint
    assert rows == [
        (2, [["hi", "b"], f"{fingerprint}:2.2"]),
        (2, [["hi", "c"], f"{fingerprint}:2.3"]),
        (1, [["x", "y", "hi", "a"], ""]),
    ]


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        (
            "text:no label here\tepisode_done:True",
            BadRow(
                line=2,
                reason="fields",
                message="no text: or no labels: here",
                excerpt="text:no label here\ufffdepisode_done:True",
            ),
        ),
        (
            b"text:se\xf1or\tlabels:x",
            BadRow(
                line=2,
                reason="encoding",
                message="not UTF-8 at byte 7 (0xf1): if the file is in Latin-1, say --encoding latin-1",
                excerpt="text:se\\xf1or\ufffdlabels:x",
            ),
        ),
    ],
)
def test_turns_around_a_bad_line_are_not_taken_for_neighbours(folder: Path, line: str | bytes, bad: BadRow) -> None:
    assert parlai_of(folder, "text:a\tlabels:b", line, "text:c\tlabels:d") == [
        (1, [["a", "b"], ""]),
        (2, bad),
        (3, [["c", "d"], ""]),
    ]


# ── Parquet ───────────────────────────────────────────────────────────────────────────────────────────────────────


def parquet_of(path: Path) -> list[tuple[int, Row] | BadRow]:
    rows: list[tuple[int, Row] | BadRow] = []
    for block in parquet_blocks(Source.of(path)):
        assert isinstance(block, ArrowBlock)
        rows += arrow_rows(block) if block.bad is None else [block.bad]
    return rows


def corrupted(path: Path, group: int) -> None:
    """Overwrite the beginning of a row group's last column."""
    with pq.ParquetFile(path) as file:
        column = file.metadata.row_group(group).column(file.metadata.num_columns - 1)
        start = column.dictionary_page_offset or column.data_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + 16] = b"\xff" * 16
    path.write_bytes(data)


def test_rows_of_all_groups_are_numbered_from_nought(tmp_path: Path) -> None:
    rows = [{"utterance": f"u{number}", "response": f"r{number}"} for number in range(10)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "p", row_group_size=4)
    assert parquet_of(tmp_path / "p") == list(enumerate(rows))


def test_dialogues_in_parquet_are_lists_or_lists_of_structs(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"turns": ["a", "b"], "messages": [{"text": "a", "speaker": "x"}, {"text": "b", "speaker": None}]},
        {"turns": [], "messages": None},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "p")
    assert parquet_of(tmp_path / "p") == list(enumerate(rows))


def test_a_corrupted_row_group_is_named_and_the_others_survive(tmp_path: Path) -> None:
    rows = [{"utterance": f"u{number}", "response": f"r{number}"} for number in range(3000)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "p", row_group_size=1000)
    corrupted(tmp_path / "p", 1)
    found = parquet_of(tmp_path / "p")
    assert found[:1000] == list(enumerate(rows[:1000]))
    bad = found[1000]
    assert isinstance(bad, BadRow)
    assert (bad.line, bad.reason, bad.place) == (1000, "damaged", "row")
    assert bad.message.startswith("row group 1 (rows 1,000 to 1,999) cannot be read: ")
    assert found[1001:] == list(enumerate(rows[2000:], 2000))


def test_a_checksum_that_does_not_fit_is_damage(tmp_path: Path) -> None:
    table = pa.table({"utterance": ["hello there"] * 500, "response": [f"r{number}" for number in range(500)]})
    pq.write_table(
        table,
        tmp_path / "p",
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    )
    data = (tmp_path / "p").read_bytes()
    (tmp_path / "p").write_bytes(data.replace(b"hello there", b"jello there", 1))
    (bad,) = parquet_of(tmp_path / "p")
    assert isinstance(bad, BadRow)
    assert bad.message.startswith("row group 0 (rows 0 to 499) cannot be read: ")
    assert "CRC checksum verification failed" in bad.message


def test_a_parquet_file_that_was_cut_is_refused_by_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"utterance": ["a"], "response": ["b"]}), tmp_path / "p")
    whole = (tmp_path / "p").read_bytes()
    for cut in (4, 20, len(whole) // 2, len(whole) - 1):
        (tmp_path / "p").write_bytes(whole[:cut])
        with pytest.raises(DamagedSource) as refused:
            open_parquet(Source.of(tmp_path / "p"))
        assert refused.value.message.startswith(f"{tmp_path / 'p'} is not a whole Parquet file: ")


def test_a_text_that_is_not_utf_8_costs_its_own_row_only(tmp_path: Path) -> None:
    offsets = pa.array([0, 2, 4, 6], pa.int32()).buffers()[1]
    broken = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"ab\xff\xfecd")])
    pq.write_table(pa.table({"response": broken}), tmp_path / "p")
    first, bad, last = parquet_of(tmp_path / "p")
    assert (first, last) == ((0, {"response": "ab"}), (2, {"response": "cd"}))
    assert isinstance(bad, BadRow)
    assert (bad.line, bad.reason, bad.place) == (1, "fields", "row")
    assert bad.message.startswith("a value cannot be read: 'utf-8' codec can't decode byte 0xff")


def test_times_in_parquet_are_utc_in_microseconds(tmp_path: Path) -> None:
    nanoseconds = pa.array([1_700_000_000_123_456_789, None], pa.int64())
    table = pa.table(
        {
            "nano": nanoseconds.cast(pa.timestamp("ns")),
            "zone": nanoseconds.cast(pa.timestamp("ns", "America/New_York")),
        }
    )
    pq.write_table(table, tmp_path / "p")
    moment = datetime(2023, 11, 14, 22, 13, 20, 123456)  # noqa: DTZ001  as Arrow gives it
    assert parquet_of(tmp_path / "p") == [(0, {"nano": moment, "zone": moment}), (1, {"nano": None, "zone": None})]


def test_wide_rows_make_small_blocks(tmp_path: Path) -> None:
    letters = [bytes([97 + number % 26]).decode() * 40_000 + str(number) for number in range(1000)]
    pq.write_table(pa.table({"response": letters}), tmp_path / "p", use_dictionary=False)
    sizes = [len(list(arrow_rows(block))) for block in parquet_blocks(Source.of(tmp_path / "p"))]  # type: ignore[arg-type]
    assert sum(sizes) == 1000
    assert max(sizes) < 250


def test_a_parquet_file_without_rows_gives_none(tmp_path: Path) -> None:
    pq.write_table(pa.table({"response": pa.array([], pa.string())}), tmp_path / "p")
    assert parquet_of(tmp_path / "p") == []


# ── everything at once ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("blocks", [csv_blocks, parlai_blocks])
@given(
    data=st.lists(st.sampled_from([b'"', b",", b"\n", b"\r", b"a", b"\0", b"\xff", b"text:a\tlabels:b|c"])).map(
        b"".join
    )
)
@settings(max_examples=50, deadline=None)
def test_no_bytes_stop_a_reader_and_lines_are_within_the_file(
    folder: Path, blocks: Callable[[LineReader], Iterable[Block]], data: bytes
) -> None:
    lines = [line for line, _ in listed(blocks(reader_of(folder, data)))]
    assert all(1 <= line <= data.count(b"\n") + 1 for line in lines)
