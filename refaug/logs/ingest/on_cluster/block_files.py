"""Results of blocks as files: tasks on many machines write them, and the process that gathers them reads them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refaug.core.errors import Corrupt
from refaug.core.files import write_aside
from refaug.logs.ingest.pairing import BlockResult, Reject
from refaug.logs.reading.containers import as_stream
from refaug.logs.reading.sources import BadRow

_SCHEMA: Final = pa.schema(
    [("rows", pa.large_binary()), ("turns", pa.large_binary()), ("flood_keys", pa.large_binary()), ("facts", "binary")]
)
_LZ4: Final = pa.ipc.IpcWriteOptions(compression="lz4")


def write_block_results(path: Path, results: Iterable[tuple[BlockResult, int]]) -> int:
    """Write the results of blocks, each with the position in its source where the block ends; return their number."""
    count = 0
    with write_aside(path) as file, pa.ipc.new_file(file, _SCHEMA, options=_LZ4) as writer:
        for block_result, position in results:
            columns = [as_stream(block_result.rows), *map(_bytes_of, (block_result.turns, block_result.flood_keys))]
            facts = {
                "position": position,
                "counts": block_result.counts,
                "bad": [asdict(bad) for bad in block_result.bad],
                "rejects": [asdict(reject) for reject in block_result.rejects],
            }
            columns.append(
                json.dumps(facts, default=int).encode()
            )  # escapes half characters, which UTF-8 does not have
            writer.write_batch(
                pa.record_batch(
                    [pa.array([c], type_) for c, type_ in zip(columns, _SCHEMA.types, strict=True)], _SCHEMA
                )
            )
            count += 1
    return count


def _bytes_of(numbers: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(numbers).tobytes()


def read_block_results(path: Path) -> Iterator[tuple[BlockResult, int]]:
    """Yield what `write_block_results` wrote, one block after the other."""
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
            for number in range(file.num_record_batches):
                yield _result_of(file.get_batch(number))
    except pa.ArrowException as error:
        raise Corrupt(f"{path} is damaged: {error}", remedy="delete it and run the same command again") from error


def _result_of(batch: pa.RecordBatch) -> tuple[BlockResult, int]:
    rows, turns, flood_keys, packed_facts = (column[0].as_py() for column in batch.columns)
    facts = json.loads(packed_facts)
    with pa.ipc.open_stream(rows) as reader:
        block_rows = next(iter(reader))
    block_result = BlockResult(
        rows=block_rows,
        turns=np.frombuffer(turns, np.int64),
        flood_keys=np.frombuffer(flood_keys, np.uint64),
        counts=Counter(facts["counts"]),
        bad=[BadRow(**bad) for bad in facts["bad"]],
        rejects=[Reject(**reject) for reject in facts["rejects"]],
    )
    return block_result, int(facts["position"])
