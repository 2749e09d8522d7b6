"""A preview reads so many bytes and no more, and ends between two rows and two pieces when it is told to."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from refusals import refusing

from refaug.core.errors import Interrupted, TooLarge
from refaug.scoring.item_files import AlignedFiles, InputFile, ItemFiles, preview
from refaug.tables.table_request import TableRequest

MIB = 1 << 20
ITEM = {"utterance": "hi", "references": ["hey"], "replies": {"a": "x" * 1_000}}


def json_lines() -> bytes:
    return b"".join(json.dumps({"id": str(number), **ITEM}).encode() + b"\n" for number in range(3_000))


def rows_of_ratings() -> bytes:
    rows = (f"{number // 2},hi {number // 2},hey,a,{'x' * 1_000},w{number % 2},3\n" for number in range(3_000))
    return ("item,prompt,gold,model,reply,worker,score\n" + "".join(rows)).encode()


def files_of(path: Path, content: bytes, *mapping: str) -> ItemFiles:
    path.write_bytes(content)
    return ItemFiles(items=InputFile(path=path, name=path.name), table=TableRequest.parse(list(mapping)))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_items_are_those_of_the_whole_lines_within_the_limit(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    shown = preview(files_of(tmp_path / "items.jsonl", pack(json_lines())), 10_000, most_bytes=2 * MIB)
    lines = json_lines()[: 2 * MIB].count(b"\n")
    assert (shown.is_partial, shown.bad_count) == (True, 0)
    assert lines * 0.7 < shown.item_count <= lines  # the head of the file was read to recognise it
    whole = preview(files_of(tmp_path / "items.jsonl", pack(json_lines())), 10_000, most_bytes=16 * MIB)
    assert (whole.is_partial, whole.item_count, whole.warnings) == (False, 3_000, [])


def test_rows_of_ratings_within_the_limit_are_items(tmp_path: Path) -> None:
    files = files_of(tmp_path / "ratings.csv", rows_of_ratings(), "rating=score")
    shown = preview(files, 10_000, most_bytes=6 * MIB)
    assert (shown.is_partial, shown.bad_count, shown.items[0].ratings) == (True, 0, {"a": (3.0, 3.0)})
    assert 0 < shown.item_count < 1_500


def test_line_aligned_files_are_shown_as_far_as_all_of_them_were_read(tmp_path: Path) -> None:
    for name in ("replies", "golds"):
        (tmp_path / name).write_bytes(b"x" * 999 + b"\n" + (b"y" * 999 + b"\n") * 9_000)
    replies, golds = (InputFile(path=tmp_path / name, name=name) for name in ("replies", "golds"))
    shown = preview(
        ItemFiles(aligned=AlignedFiles(replies={"a": replies}, references=[golds])), 99_999, most_bytes=14 * MIB
    )
    assert shown.is_partial
    assert 4_000 < shown.item_count < 9_000


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(lambda: b"[" + b'{"a": 1},' * 400_000 + b"1]", id="an array"),
        pytest.param(lambda: b"{" + b" " * 9 * MIB, id="an object"),
        pytest.param(lambda: b" " * 99 * MIB, id="spaces"),
    ],
)
def test_files_without_an_item_within_the_limit_are_too_large(tmp_path: Path, content: Callable[[], bytes]) -> None:
    files = files_of(tmp_path / "bomb.gz", gzip.compress(content(), 1))
    with refusing(TooLarge, "bomb.gz"):
        preview(files, 10_000, most_bytes=2 * MIB)


@pytest.mark.parametrize(
    ("content", "mapping"),
    [
        (json_lines, []),
        (rows_of_ratings, ["rating=score"]),
        (lambda: b"a" * 40 * MIB, []),
        (lambda: b"[" + b"1," * 9 * MIB, []),
    ],
    ids=["items", "ratings", "one line", "an array"],
)
def test_a_preview_ends_with_the_row_or_the_piece_after_it_is_told_to(
    tmp_path: Path, content: Callable[[], bytes], mapping: list[str]
) -> None:
    files, checks = files_of(tmp_path / "rows.gz", gzip.compress(content(), 1), *mapping), 0

    def check() -> None:
        nonlocal checks
        checks += 1
        if checks > 20:
            raise Interrupted

    with pytest.raises(Interrupted):
        preview(files, 10_000, most_bytes=64 * MIB, check=check)
    assert checks == 21
