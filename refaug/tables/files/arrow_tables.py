"""Parquet files, Arrow files, and the folders that `datasets` saves: columns with types, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from refaug.core.errors import BadInput, DamagedSource, NoSource
from refaug.logs.reading.arrow_files import arrow_batches, arrow_schema
from refaug.logs.reading.containers import open_parquet, table_rows
from refaug.logs.reading.saved_datasets import SPLITS_FILE, STATE_FILE
from refaug.logs.reading.sources import BadRow, Source, note_reading
from refaug.tables.files.text_tables import NumberedRow, OpenTable

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET: Final = b"PAR1"
_BATCH_ROWS: Final = 64  # a file of some KiB may hold megabytes in each row
_MAX_STATE_BYTES: Final = 1 << 20

_Batches = Callable[[Sequence[str]], Iterator["pa.RecordBatch"]]


def open_parquet_table(path: Path, where: str) -> OpenTable:
    """Return the table of a Parquet file, whose rows are numbered from 1."""
    source = Source.of(path)

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with open_parquet(source) as file:
            yield from file.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns), use_threads=False)

    with open_parquet(source) as file:
        schema = file.schema_arrow
    return _table("Parquet", schema, batches, where)


def open_arrow_table(paths: Sequence[Path], where: str, kind: str = "Arrow") -> OpenTable:
    """Return the table of Arrow files or streams, one after the other."""

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for path in paths:
            for batch in arrow_batches(path, _BATCH_ROWS):
                yield batch.select(list(columns))

    return _table(kind, arrow_schema(paths[0], where), batches, where)


def open_saved_dataset(folder: Path, where: str) -> OpenTable:
    """Return the table of a folder that `Dataset.save_to_disk` wrote; a folder of several splits is refused."""
    if (folder / SPLITS_FILE).is_file():
        splits = _state(folder / SPLITS_FILE, where).get("splits")
        names = [str(name) for name in splits] if isinstance(splits, list) else []
        if len(names) != 1:
            raise BadInput(
                f"{where}: a saved dataset with {len(names)} splits: {', '.join(names[:10])}",
                remedy=f"name the folder of one: {where}/{names[0] if names else 'SPLIT'}",
            )
        return open_saved_dataset(folder / names[0], f"{where}/{names[0]}")
    if not (folder / STATE_FILE).is_file():
        raise NoSource(
            f"{where}: a folder without {STATE_FILE}",
            remedy="name a file, or a folder that datasets wrote with save_to_disk",
        )
    listed = _state(folder / STATE_FILE, where).get("_data_files")
    files = [file.get("filename") for file in listed if isinstance(file, dict)] if isinstance(listed, list) else []
    paths = [folder / Path(str(name)).name for name in files]
    if not paths or (missing := next((path for path in paths if not path.is_file()), None)):
        raise BadInput(f"{where}: {missing.name if paths and missing else 'its data'} is not there: an incomplete copy")
    return open_arrow_table(paths, where, "a saved dataset")


def _state(path: Path, where: str) -> dict[str, object]:
    try:
        if path.stat().st_size > _MAX_STATE_BYTES:
            raise BadInput(f"{where}: {path.name} is larger than a description of a dataset")
        state = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise BadInput(f"{where}: {path.name} cannot be read: {error}") from error
    return state if isinstance(state, dict) else {}


def _table(kind: str, schema: pa.Schema, batches: _Batches, where: str) -> OpenTable:
    labels = _label_names(schema)

    def rows(columns: Sequence[str]) -> Iterator[NumberedRow]:
        return _rows(batches(columns), labels, where)

    return OpenTable(kind=kind, columns=schema.names, rows=rows, has_keys=True)


def _rows(batches: Iterator[pa.RecordBatch], labels: dict[str, list[str]], where: str) -> Iterator[NumberedRow]:
    import pyarrow as pa  # noqa: PLC0415  most tables are text

    first = 1
    try:
        for batch in batches:
            note_reading(batch.nbytes)
            for row in table_rows(pa.Table.from_batches([batch]), first):
                yield row if isinstance(row, BadRow) or not labels else (row[0], _with_labels(row[1], labels))
            first += batch.num_rows
    except (OSError, pa.ArrowException) as error:
        raise DamagedSource(f"{where}: row {first:,} and what follows cannot be read: {error}") from error


def _label_names(schema: pa.Schema) -> dict[str, list[str]]:
    """Return the names of the labels by column: `datasets` stores their numbers."""
    try:
        described = orjson.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = described.get("info", {}).get("features", {})
        return {
            column: [str(name) for name in feature["names"]]
            for column, feature in features.items()
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and isinstance(feature["names"], list)
        }
    except (orjson.JSONDecodeError, AttributeError, KeyError):
        return {}


def _with_labels(row: Any, labels: dict[str, list[str]]) -> dict[str, object]:
    def name(column: str, cell: object) -> object:
        names = labels.get(column, [])
        return names[cell] if isinstance(cell, int) and 0 <= cell < len(names) else cell

    return {column: name(column, cell) for column, cell in row.items()}
