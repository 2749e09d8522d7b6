"""Arrow files and streams, which `datasets` and other tools write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from refaug.core.errors import DamagedSource
from refaug.logs.reading.containers import ROWS_A_BLOCK, ArrowBlock, Block, as_stream
from refaug.logs.reading.sources import BadRow, Source

if TYPE_CHECKING:
    import pyarrow as pa

ARROW_FILE: Final = b"ARROW1"
ARROW_STREAM: Final = b"\xff\xff\xff\xff"


def is_arrow(head: bytes) -> bool:
    """Say whether a file that begins like this is an Arrow file or stream."""
    return head.startswith((ARROW_FILE, ARROW_STREAM))


def arrow_schema(path: Path, where: str) -> pa.Schema:
    """Return the schema of an Arrow file or stream; raise DamagedSource where it is not whole."""
    import pyarrow as pa  # noqa: PLC0415  most tables are text

    try:
        with pa.memory_map(str(path)) as file:
            return (pa.ipc.open_file(file) if _has_footer(path) else pa.ipc.open_stream(file)).schema
    except (OSError, pa.ArrowException) as error:
        raise DamagedSource(f"{where}: {path.name} is not a complete Arrow file: {error}") from error


def arrow_batches(path: Path, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an Arrow file or stream, cut to at most so many rows."""
    import pyarrow as pa  # noqa: PLC0415

    with pa.memory_map(str(path)) as file:
        if _has_footer(path):
            reader = pa.ipc.open_file(file)
            whole = (reader.get_batch(place) for place in range(reader.num_record_batches))
        else:
            whole = iter(pa.ipc.open_stream(file))
        for batch in whole:
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)


def arrow_blocks(source: Source) -> Iterator[Block]:
    """Yield the rows in blocks; what follows a damaged batch cannot be read, and is one bad row."""
    import pyarrow as pa  # noqa: PLC0415

    row = 0
    try:
        for batch in arrow_batches(source.path, ROWS_A_BLOCK):
            yield ArrowBlock(first_row=row, data=as_stream(batch))
            row += batch.num_rows
    except (OSError, pa.ArrowException) as error:
        message = f"row {row:,} and what follows cannot be read: {error}"
        yield ArrowBlock(first_row=row, data=b"", bad=BadRow(line=row, reason="damaged", message=message, place="row"))


def _has_footer(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(ARROW_FILE)) == ARROW_FILE
