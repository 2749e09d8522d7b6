"""Columns on disk: what was written in pieces is what is mapped, and damage is named."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing

from refaug.core.errors import Corrupt
from refaug.indexer import columns as arrays
from refaug.indexer.columns import NpyWriter, TextColumn, TextWriter, map_array, text_batches

DTYPES = ["u8", "i8", "u2", "i4", "f4", "?"]


def written(path, dtype, pieces, **settings):
    with NpyWriter(path, dtype, **settings) as writer:
        for piece in pieces:
            writer.append(piece)
    return writer


def fail_after(writer, piece):
    with writer:
        writer.append(piece)
        raise KeyError


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(0, 300), max_size=5), dtype=st.sampled_from(DTYPES), width=st.sampled_from([None, 1, 3])
)
def test_array_written_in_pieces_is_a_numpy_file_and_maps_unchanged(tmp_path_factory, sizes, dtype, width):
    folder = tmp_path_factory.mktemp("npy")
    rng = np.random.default_rng(sum(sizes))
    whole = rng.integers(0, 2, (sum(sizes),) if width is None else (sum(sizes), width)).astype(dtype)
    pieces = np.split(whole, np.cumsum(sizes)[:-1]) if sizes else []
    writer = written(folder / "a.npy", dtype, pieces, width=width)
    assert writer.rows == writer.close() == len(whole)
    assert np.array_equal(np.load(folder / "a.npy", allow_pickle=False), whole)
    np.save(folder / "b.npy", whole)
    assert (folder / "a.npy").read_bytes() == (folder / "b.npy").read_bytes()
    mapped = map_array(folder / "a.npy", dtype)
    assert type(mapped) is np.ndarray
    assert (mapped.dtype, mapped.shape) == (whole.dtype, whole.shape)
    assert np.array_equal(mapped, whole)


def test_the_first_piece_says_how_wide_rows_are(tmp_path):
    matrix = np.arange(12, dtype=np.float32).reshape(4, 3)
    written(tmp_path / "a.npy", np.float32, [matrix[:1], matrix[1:].T.copy().T])  # the second in another order
    assert map_array(tmp_path / "a.npy", np.float32).tolist() == matrix.tolist()


def test_a_mapped_array_cannot_be_written_to(tmp_path):
    written(tmp_path / "a.npy", "i8", [np.arange(3)])
    with pytest.raises(ValueError, match="read-only"):
        map_array(tmp_path / "a.npy", "i8")[0] = 1


def test_the_header_of_many_rows_is_as_long_as_that_of_none(tmp_path):
    written(tmp_path / "none.npy", "?", [])
    written(tmp_path / "many.npy", "?", [np.zeros(1_000_000, bool)])
    assert (tmp_path / "none.npy").stat().st_size == 128
    assert (tmp_path / "many.npy").stat().st_size == 1_000_128


def test_a_block_that_fails_leaves_an_array_that_is_found_damaged(tmp_path):
    with pytest.raises(KeyError):
        fail_after(NpyWriter(tmp_path / "a.npy", "i8"), np.arange(3))
    with refusing(Corrupt, "128", "152"):
        map_array(tmp_path / "a.npy", "i8")


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: data[:-1], "152"),
        (lambda data: data + b"\0", "152"),
        (lambda data: data[:100], "its header is another"),
        (lambda data: b"", "its header is another"),
        (lambda data: b"PARQUET" + data[7:], "its header is another"),
        (lambda data: data.replace(b"<i8", b"<u8"), "of type <i8 were expected, <u8 were found"),
        (lambda data: data.replace(b"<i8", b"|O8"), "of type <i8 were expected, |O8 were found"),
        (lambda data: data.replace(b"False", b"True "), "its header is another"),
        (lambda data: data.replace(b"(3,)", b"(4,)"), "160"),
        (lambda data: data.replace(b"(3,), }" + 12 * b" ", b"(99999999999999999),"), "its header is another"),
        (lambda data: data.replace(b"\x76\x00", b"\x77\x00"), "its header is another"),
    ],
)
def test_a_damaged_array_is_named_with_what_was_expected_and_found(tmp_path, damage, why):
    path = tmp_path / "a.npy"
    written(path, "i8", [np.arange(3)])
    whole = path.read_bytes()
    damaged = damage(whole)
    assert damaged != whole
    path.write_bytes(damaged)
    with refusing(Corrupt, why) as caught:
        map_array(path, "i8")
    assert str(path) in str(caught.value)
    assert caught.value.remedy


@settings(deadline=None)
@given(data=st.data())
def test_a_damaged_header_is_corrupt_or_still_says_the_same(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("npy") / "a.npy"
    written(path, "i4", [np.arange(6, dtype=np.int32)])
    damaged = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, 127), min_size=1, max_size=3)):
        damaged[place] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged)
    with suppress(Corrupt):
        assert map_array(path, "i4").tolist() == [0, 1, 2, 3, 4, 5]


def test_an_array_that_is_missing_is_named(tmp_path):
    with refusing(Corrupt, "a.npy"):
        map_array(tmp_path / "a.npy", "i8")


# ── texts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def write_texts(path, texts, sizes, columns=("text",)):
    with TextWriter(path, columns) as writer:
        at = 0
        for size in sizes:
            writer.append(*(pa.array(texts[at : at + size], pa.string()) for _ in columns))
            at += size
        writer.append(*(pa.array(texts[at:], pa.string()) for _ in columns))
    return writer


TEXTS = st.lists(st.none() | st.text(max_size=5), max_size=60)


@settings(deadline=None)
@given(texts=TEXTS, sizes=st.lists(st.integers(0, 20), max_size=6), data=st.data())
def test_texts_are_found_by_their_rows_in_the_order_asked(tmp_path_factory, texts, sizes, data):
    path = tmp_path_factory.mktemp("texts") / "a.arrow"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "ROWS_A_BATCH", 8)
        writer = write_texts(path, texts, sizes)
        column = TextColumn.open(path)
        assert writer.rows == writer.close() == len(column) == len(texts)
        assert writer.text_bytes == sum(len(text.encode()) for text in texts if text is not None)
        assert [len(batch) for batch in text_batches(path)] == [8] * (len(texts) // 8) + [len(texts) % 8] * (
            len(texts) % 8 > 0
        )
        assert [text for batch in text_batches(path) for text in batch.to_pylist()] == texts
        write_texts(path.with_name("b.arrow"), texts, [])
        assert path.with_name("b.arrow").read_bytes() == path.read_bytes()
        rows = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=40) if texts else st.just([]))
        assert column.take(np.array(rows, np.int64)) == [texts[row] for row in rows]


def test_the_bytes_of_a_text_file_do_not_depend_on_the_pieces(tmp_path):
    texts = [f"text {number}" for number in range(70_000)]
    write_texts(tmp_path / "a.arrow", texts, [])
    write_texts(tmp_path / "b.arrow", texts, [1, 40_000, 29_000])
    assert (tmp_path / "a.arrow").read_bytes() == (tmp_path / "b.arrow").read_bytes()
    assert [len(batch) for batch in text_batches(tmp_path / "b.arrow")] == [65_536, 4_464]


def test_a_file_of_two_columns_gives_both(tmp_path):
    with TextWriter(tmp_path / "a.arrow", ("dialogue", "position")) as writer:
        writer.append(pa.array(["d", "e"]), pa.array(["1", "22"]))
    assert writer.text_bytes == 5
    assert TextColumn.open(tmp_path / "a.arrow", "dialogue").take(np.array([1, 0, 1])) == ["e", "d", "e"]
    assert TextColumn.open(tmp_path / "a.arrow", "position").take(np.array([1, 0, 1])) == ["22", "1", "22"]


def test_a_row_that_is_not_there_is_refused(tmp_path):
    write_texts(tmp_path / "a.arrow", ["a", "b"], [])
    column = TextColumn.open(tmp_path / "a.arrow")
    for rows in ([2], [-1], [0, 5, 1]):
        with pytest.raises(IndexError, match="2 rows"):
            column.take(np.array(rows))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: data[:-1], "an Arrow file was expected"),
        (lambda data: data[: len(data) // 2], "an Arrow file was expected"),
        (lambda data: data[:8], "an Arrow file was expected"),
        (lambda data: b"", "an Arrow file was expected"),
        (lambda data: b"ARROW1\0\0" * 40, "an Arrow file was expected"),
    ],
)
def test_a_damaged_text_file_is_named(tmp_path, damage, why):
    path = tmp_path / "a.arrow"
    write_texts(path, [random.Random(1).choice("ab") * 9 for _ in range(50)], [])
    path.write_bytes(damage(path.read_bytes()))
    with refusing(Corrupt, why) as caught:
        TextColumn.open(path)
    assert str(path) in str(caught.value)


def test_a_text_file_of_another_kind_is_refused_with_what_was_found(tmp_path):
    path = tmp_path / "a.arrow"
    write_texts(path, ["a"], [])
    with refusing(Corrupt, "response"):
        TextColumn.open(path, "response")
    table = pa.table({"text": [1, 2], "word": ["a", "b"]})
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table, max_chunksize=1)
    with refusing(Corrupt):
        TextColumn.open(path)
    with refusing(Corrupt, "65,536"):
        TextColumn.open(path, "word")
    with refusing(Corrupt):
        TextColumn.open(tmp_path / "b.arrow")


def test_a_block_that_fails_leaves_a_text_file_that_is_found_damaged(tmp_path):
    with pytest.raises(KeyError):
        fail_after(TextWriter(tmp_path / "a.arrow"), pa.array(["a"]))
    with refusing(Corrupt):
        TextColumn.open(tmp_path / "a.arrow")
