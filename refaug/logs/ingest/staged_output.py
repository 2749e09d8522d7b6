"""The files that an ingest writes while it reads its sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from refaug.core.files import (
    write_aside,
)
from refaug.logs.ingest.order import Unit
from refaug.logs.ingest.pairing import MESSAGE_SCHEMA, BlockResult, FloodCounter
from refaug.logs.ingest.rejects import RejectsFile, flooded_messages, flooded_turns
from refaug.logs.ingest.stage import Stage
from refaug.logs.manifest import LogPart
from refaug.logs.pairs import PAIR_SCHEMA
from refaug.logs.part_files import PartsWriter

STAGED_MESSAGE_SCHEMA: Final = pa.schema(
    [*MESSAGE_SCHEMA, ("seq", pa.int64()), ("source", pa.int32()), ("context", pa.bool_())]
)


class StagedOutput:
    """The staged files being written; at a checkpoint the state names the finished ones."""

    def __init__(self, stage: Stage) -> None:
        self._stage, state = stage, stage.state
        self._parts: PartsWriter | None = None
        self._rejects: RejectsFile | None = None
        self._last = pa.record_batch([], schema=pa.schema([]))  # rows of the last block
        self.flood = FloodCounter(stage.order.cleaning.flood_cap)
        if self._path("flood").exists():
            self.flood.load(self._path("flood"))
        if state.carried:
            with pa.ipc.open_stream(self._path("carry").read_bytes()) as reader:
                self._add_rows(state.carried, next(iter(reader)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        for file in (self._parts, self._rejects):
            if file is not None:
                file.abandon()

    def _path(self, kind: str) -> Path:
        return self._stage.folder / f"{kind}-{self._stage.state.steps:05}"

    def begin_to_resume(self) -> None:
        """Save the state before anything is read, so that files which a cluster leaves in the stage outlive a kill."""
        if not self._stage.state.steps:
            self._checkpoint(0, 0)

    def begin(self, index: int, unit: Unit) -> None:
        """Finish the parts of another kind: at a checkpoint, only rows of one block and kind may be unfinished."""
        if self._parts is not None and self._parts.kind != unit.kind:
            self._end_parts()
            self._checkpoint(index, 0)

    def add(self, index: int, unit: Unit, number: int, block_result: BlockResult, counts: Counter[str]) -> None:
        """Add a block's rows, without messages over the flood cap."""
        is_over_cap = self._find_floods(block_result)
        if is_over_cap is not None:
            counts["dropped:flood"] += int(is_over_cap.sum())
        if self._stage.order.rejects is not None:
            self._add_rejects(unit, block_result, is_over_cap)
        if unit.kind == "messages":
            rows = self._messages(index, unit, block_result, is_over_cap)
        else:
            rows = block_result.rows
            if is_over_cap is not None:
                rows = rows.filter(pa.array(~(is_over_cap[block_result.turns] | is_over_cap[block_result.turns - 1])))
            self._stage.state.pairs[index] += rows.num_rows
        self._stage.state.counts[index] = dict(counts)
        if rows.num_rows:
            self._add_rows(unit.kind, rows)
        if self._parts is not None and self._parts.finished:
            self._checkpoint(index, number)

    def _find_floods(self, block_result: BlockResult) -> NDArray[np.bool_] | None:
        is_over_cap = self.flood.over_cap(block_result.flood_keys) if block_result.flood_keys.any() else None
        return is_over_cap if is_over_cap is not None and is_over_cap.any() else None

    def _add_rejects(self, unit: Unit, block_result: BlockResult, is_over_cap: NDArray[np.bool_] | None) -> None:
        if is_over_cap is not None:
            flooded = flooded_messages if unit.kind == "messages" else flooded_turns
            block_result.rejects += flooded(block_result, is_over_cap)
        if block_result.rejects:
            self._rejects = self._rejects or self._stage.next_rejects()
            self._rejects.add(unit.name, block_result.rejects)

    def _messages(self, index: int, unit: Unit, block_result: BlockResult, is_over_cap: Any) -> pa.RecordBatch:
        """Return a block's messages.

        A flooded one loses its text but stays a node, so that replies to it keep their tree.
        """
        rows, state = block_result.rows, self._stage.state
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        if is_over_cap is not None:
            columns["text"] = pa.compute.if_else(pa.array(is_over_cap), pa.scalar(None, pa.string()), columns["text"])
        columns["seq"] = pa.array(np.arange(state.messages, state.messages + rows.num_rows))
        columns["source"] = pa.array(np.full(rows.num_rows, index, dtype=np.int32))
        columns["context"] = pa.array(np.full(rows.num_rows, unit.context))
        state.messages += rows.num_rows
        return pa.record_batch(list(columns.values()), schema=STAGED_MESSAGE_SCHEMA)

    def _add_rows(self, kind: str, rows: pa.RecordBatch) -> None:
        if self._parts is None:
            schema = STAGED_MESSAGE_SCHEMA if kind == "messages" else PAIR_SCHEMA
            self._parts = self._stage.parts_writer(kind, schema)
        self._parts.add(rows)
        self._last = rows

    def _record_parts(self, finished: Iterable[LogPart]) -> None:
        assert self._parts is not None
        state = self._stage.state
        named = state.message_parts if self._parts.kind == "messages" else state.parts
        named += map(asdict, finished)

    def _end_parts(self) -> None:
        if self._parts is not None:
            self._record_parts(self._parts.close())
            self._parts = None

    def finish(self) -> None:
        """Record that everything is read."""
        self._end_parts()
        state = self._stage.state
        state.phase = "messages" if state.message_parts else "joined"
        self._checkpoint(len(self._stage.units), 0)

    def _checkpoint(self, unit: int, blocks: int) -> None:
        """Save how far the reading is, and everything that a later run needs to continue from here."""
        stage, state = self._stage, self._stage.state
        for unit_read in stage.units[state.unit : unit + 1]:
            unit_read.require_unchanged()
        if self._parts is not None:
            self._record_parts(self._parts.take_finished())
        if self._rejects is not None:
            self._rejects.close()
            self._rejects, state.rejects = None, state.rejects + 1
        old = [self._path("flood"), self._path("carry")]
        state.steps += 1
        state.unit, state.blocks = unit, blocks
        if unit < len(stage.units):
            self.flood.save(self._path("flood"))
        self._save_carried_rows()
        stage.save()
        for path in old:
            path.unlink(missing_ok=True)

    def _save_carried_rows(self) -> None:
        """Save the rows that were read and are in no finished part; all of them are of the last block."""
        state, rows = self._stage.state, self._parts.unfinished if self._parts is not None else 0
        state.carried = self._parts.kind if self._parts is not None and rows else ""
        if rows:
            assert rows <= self._last.num_rows
            with write_aside(self._path("carry")) as file, pa.ipc.new_stream(file, self._last.schema) as writer:
                writer.write_batch(self._last.slice(self._last.num_rows - rows))
