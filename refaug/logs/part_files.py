"""Writing pairs into Parquet files, which become part of a log only through a manifest."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from refaug.core.files import sha256_of, storage_errors, sync_file
from refaug.logs.manifest import LogPart
from refaug.logs.pairs import PAIR_SCHEMA

ROWS_A_GROUP: Final = 20_000  # in every row group but a part's last


class PartWriter:
    """Writes pairs into one Parquet file, which becomes part of a log only through a manifest."""

    def __init__(self, path: Path, schema: pa.Schema = PAIR_SCHEMA) -> None:
        self.path = path
        self.pairs = 0
        self.bytes = 0  # of text and numbers, before compression
        with storage_errors(path):
            self._file = pa.OSFile(str(path), "wb")
            try:
                self._writer = pq.ParquetWriter(
                    self._file,
                    schema,
                    compression="zstd",
                    compression_level=3,
                    use_dictionary=[name for name in schema.names if name.endswith("speaker")],
                    write_statistics=False,
                )
            except OSError:
                self._file.close()
                raise

    def add(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Write one row group; its bytes depend on the rows alone, not on the pieces they come in."""
        if not rows.num_rows:
            return
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        with storage_errors(self.path):
            self._writer.write_table(table.combine_chunks(), row_group_size=table.num_rows)
        self.pairs += table.num_rows
        self.bytes += _bytes_of(table)

    def close(self) -> LogPart:
        """Finish the file and make it survive a power cut."""
        with storage_errors(self.path):
            self._writer.close()
            self._file.close()
            sync_file(self.path)
        return LogPart(
            file=self.path.name, size=self.path.stat().st_size, sha256=sha256_of(self.path), pairs=self.pairs
        )

    def abandon(self) -> None:
        """Close and delete a file that no manifest will name."""
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        self._writer.is_open = False  # else its destructor tries again
        with suppress(OSError):
            self._file.close()
        self.path.unlink(missing_ok=True)


def _bytes_of(table: pa.Table) -> int:
    """Return the size like `nbytes`, but the same for the same rows, however they lie in memory."""
    texts = (column for column in table.columns if pa.types.is_string(column.type))
    text = sum(int(pa.compute.sum(pa.compute.binary_length(column)).as_py() or 0) for column in texts)
    return text + 8 * int(table.num_rows * table.num_columns)


class PartsWriter:
    """Writes rows as parts whose cuts depend on the rows alone: the same rows give the same files."""

    def __init__(
        self, folder: Path, kind: str, *, first: int, part_bytes: int, schema: pa.Schema = PAIR_SCHEMA
    ) -> None:
        self.kind = kind
        self.finished: list[LogPart] = []
        self._folder, self._next, self._part_bytes, self._schema = folder, first, part_bytes, schema
        self._part: PartWriter | None = None
        self._pending: list[pa.RecordBatch] = []  # less than a row group

    @property
    def unfinished(self) -> int:
        """The number of rows in no finished part: the last ones added."""
        return (self._part.pairs if self._part else 0) + self._pending_rows

    @property
    def _pending_rows(self) -> int:
        return sum(batch.num_rows for batch in self._pending)

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows; whole row groups are written."""
        self._pending.append(rows)
        pending_rows = self._pending_rows
        if pending_rows < ROWS_A_GROUP:
            return
        table, whole = pa.Table.from_batches(self._pending), pending_rows - pending_rows % ROWS_A_GROUP
        self._pending = table.slice(whole).to_batches()
        for start in range(0, whole, ROWS_A_GROUP):
            self._write(table.slice(start, ROWS_A_GROUP))

    def take_finished(self) -> list[LogPart]:
        """Return the parts finished since the last call."""
        parts, self.finished = self.finished, []
        return parts

    def close(self) -> list[LogPart]:
        """Finish the last part, however small; return all parts not yet taken."""
        if self._pending_rows:
            self._write(pa.Table.from_batches(self._pending))
            self._pending = []
        if self._part is not None:
            self._finish(self._part)
        return self.take_finished()

    def abandon(self) -> None:
        """Abandon the unfinished part."""
        if self._part is not None:
            self._part.abandon()

    def _write(self, group: pa.Table) -> None:
        if self._part is None:
            self._part = PartWriter(self._folder / f"{self.kind}-{self._next:05}.parquet", self._schema)
        self._part.add(group)
        if self._part.bytes >= self._part_bytes:
            self._finish(self._part)

    def _finish(self, part: PartWriter) -> None:
        self.finished.append(part.close())
        self._part, self._next = None, self._next + 1
