"""Arrow files and folders of saved datasets as logs: the rows of each, and none of what describes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from refusals import refusing

from refaug.core.errors import DamagedSource
from refaug.logs.reading.arrow_files import arrow_batches, arrow_blocks
from refaug.logs.reading.containers import arrow_rows
from refaug.logs.reading.formats import Container, blocks_of, detect, rows_of
from refaug.logs.reading.shapes import Shape
from refaug.logs.reading.sources import BadRow, LineReader, Source, find_files

ROWS = [
    {"messages": [{"role": "user", "content": f"Is it {number}?"}, {"role": "assistant", "content": "Yes."}]}
    for number in range(5)
]


def write(path: Path, *, as_file: bool = False, rows: list[dict[str, Any]] = ROWS, batch: int = 2) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows)
    opened = pa.ipc.new_file if as_file else pa.ipc.new_stream
    with pa.OSFile(str(path), "wb") as file, opened(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch)
    return path


def save(folder: Path, **files: list[dict[str, Any]]) -> None:
    """Write a folder as `Dataset.save_to_disk` does."""
    for name, rows in files.items():
        write(folder / f"{name}.arrow", rows=rows)
    listed = [{"filename": f"{name}.arrow"} for name in files]
    (folder / "state.json").write_text(json.dumps({"_data_files": listed, "_split": "train"}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": {}}))


@pytest.mark.parametrize("as_file", [False, True])
def test_rows_of_an_arrow_file_are_dialogues_as_in_parquet(tmp_path: Path, as_file: bool) -> None:
    source = Source.of(write(tmp_path / "chats", as_file=as_file))
    format_ = detect(source, requested="auto", mapping={}, encoding="auto")
    assert (format_.name, format_.container, format_.shape) == ("arrow", Container.ARROW, Shape.DIALOGUES)
    rows = [row for block in blocks_of(LineReader(source), format_) for row in rows_of(block, format_)]
    assert rows == list(enumerate(ROWS))


def test_large_batches_are_cut(tmp_path: Path) -> None:
    path = write(tmp_path / "chats.arrow", batch=5)
    assert [batch.num_rows for batch in arrow_batches(path, 2)] == [2, 2, 1]


def test_what_follows_a_cut_is_one_bad_row(tmp_path: Path) -> None:
    path = write(tmp_path / "chats.arrow")
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    blocks = list(arrow_blocks(Source.of(path)))
    whole = [row for block in blocks[:-1] for row in arrow_rows(block)]
    assert whole == list(enumerate(ROWS))[: len(whole)]
    bad = blocks[-1].bad
    assert isinstance(bad, BadRow)
    assert (bad.line, bad.reason, bad.place) == (len(whole), "damaged", "row")


def test_a_file_without_a_schema_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "chats.arrow"
    path.write_bytes(b"\xff\xff\xff\xff\x10")
    with refusing(DamagedSource, "chats.arrow"):
        detect(Source.of(path), requested="auto", mapping={}, encoding="auto")


def test_a_saved_dataset_is_its_data_files_alone(tmp_path: Path) -> None:
    save(tmp_path / "hf" / "train", one=ROWS[:3], two=ROWS[3:])
    save(tmp_path / "hf" / "test", one=ROWS[:1])
    (tmp_path / "hf" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    write(tmp_path / "hf" / "train" / "cache-12.arrow")
    names = [str(path.relative_to(tmp_path)) for path in find_files([str(tmp_path / "hf")])]
    assert names == ["hf/test/one.arrow", "hf/train/one.arrow", "hf/train/two.arrow"]


@pytest.mark.parametrize("state", ["{", "{}", '{"_data_files": [1]}', '{"_data_files": null}', "[]"])
def test_other_files_of_these_names_stay(tmp_path: Path, state: str) -> None:
    for name, text in (("state.json", state), ("dataset_dict.json", "{}"), ("dataset_info.json", "{}")):
        (tmp_path / name).write_text(text)
    names = [path.name for path in find_files([str(tmp_path)])]
    assert names == ["dataset_dict.json", "dataset_info.json", "state.json"]
