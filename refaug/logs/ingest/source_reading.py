"""The first step of an ingest: it streams every source through the workers into staged parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from refaug.core.errors import BadInput, TooManyBadRows
from refaug.core.files import (
    write_aside,
)
from refaug.core.processes.worker_processes import Workers
from refaug.core.progress import Progress
from refaug.logs.ingest.order import Stage, Unit
from refaug.logs.ingest.pairing import (
    MESSAGE_SCHEMA,
    BlockResult,
    FloodCounter,
    ReadSettings,
    RejectsFile,
    block_worker,
    flooded_messages,
    flooded_turns,
)
from refaug.logs.ingest.reply_trees import Trees
from refaug.logs.manifest import LogPart
from refaug.logs.pairs import PAIR_SCHEMA
from refaug.logs.part_files import PartsWriter
from refaug.logs.reading.containers import Block
from refaug.logs.reading.sources import BadRow, Source

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


_SMALL_BYTES: Final = 4 << 20  # below this, starting workers takes longer than the work
_ROWS_BEFORE_SHARE: Final = 100  # a share of fewer rows says nothing
_WARNINGS: Final = 10


class BlockResults(Protocol):
    """Where the results of blocks come from."""

    def results(self, unit: int, first: int) -> Iterator[tuple[BlockResult, int]]:
        """Yield the results of a unit's blocks from one on, each with the position reached in the source."""


class IngestMachines(Protocol):
    """A cluster as the steps of an ingest use it."""

    def require_alike(self, log: Path, files: Sequence[Path]) -> None:
        """Refuse a cluster with a machine that does not see the log or a source, or has other software."""

    def fingerprints(self, files: Sequence[Path]) -> list[Source]:
        """Compute the fingerprints of sources."""

    def stage_name(self, what: str) -> str:
        """Return the name of a stage for the progress."""

    def reading(self, stage: Stage, settings: Sequence[ReadSettings]) -> AbstractContextManager[BlockResults]:
        """Begin to read all that is not yet gathered."""

    def tree_pairs(self, stage: Stage, trees: Trees) -> Iterator[pa.RecordBatch]:
        """Yield the pairs of linked messages."""


class _LocalReading:
    """The results of blocks that worker processes of this machine read."""

    def __init__(self, stage: Stage, settings: Sequence[ReadSettings]) -> None:
        self._stage, self._settings = stage, settings
        size = sum(source.size for unit in stage.units[stage.state.unit :] for source in unit.sources)
        self._workers = Workers[ReadSettings, Block, BlockResult](
            block_worker, 0 if size < _SMALL_BYTES else stage.order.worker_count
        )

    def __enter__(self) -> Self:
        self._workers.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._workers.__exit__(kind, error, at)

    def results(self, unit: int, first: int) -> Iterator[tuple[BlockResult, int]]:
        """Yield the results of a unit's blocks from one on, each with the position reached in the source."""
        order = self._stage.order
        position, blocks = self._stage.units[unit].reader(order.encoding, order.block_bytes)
        for block_result in self._workers.map(self._settings[unit], islice(blocks, first, None)):
            yield block_result, position()


class SourceReader:
    """Reads the sources of an ingest here or on a cluster, counts bad rows and refuses too many of them."""

    def __init__(self, stage: Stage, progress: Progress, cluster: IngestMachines | None = None) -> None:
        self._stage, self._progress, self._cluster = stage, progress, cluster
        self._warned = False

    def read(self) -> None:
        """Stream every source through the workers into staged parts."""
        if self._stage.state.phase == "read":
            self._read_units()
        for unit, counts in zip(self._stage.units, self._stage.state.counts, strict=True):
            self._require_few_bad(unit, counts)  # all of them: a resumed run may allow less

    def _read_units(self) -> None:
        state = self._stage.state
        what = "reading" if self._cluster is None else self._cluster.stage_name("reading")
        self._progress.stage(what, sum(unit.sources[0].size for unit in self._stage.units), "B")
        self._progress.advance(sum(unit.sources[0].size for unit in self._stage.units[: state.unit]))
        with self._reading() as reading, StagedOutput(self._stage) as output:
            if self._cluster is not None:
                output.begin_to_resume()
            for index in range(state.unit, len(self._stage.units)):
                self._read_unit(index, reading, output)
            output.finish()

    def _reading(self) -> AbstractContextManager[BlockResults]:
        settings = [self._read_settings(unit) for unit in self._stage.units]
        if self._cluster is None:
            return _LocalReading(self._stage, settings)
        return self._cluster.reading(self._stage, settings)

    def _read_unit(self, index: int, reading: BlockResults, output: StagedOutput) -> None:
        unit, state = self._stage.units[index], self._stage.state
        unit.require_unchanged()
        if len(state.counts) == index:
            state.counts.append({})
            state.pairs.append(0)
        counts = Counter(state.counts[index])
        finished_blocks = state.blocks if index == state.unit else 0
        output.begin(index, unit)
        before = 0
        try:
            for number, (block_result, position) in enumerate(
                reading.results(index, finished_blocks), finished_blocks + 1
            ):
                counts.update(block_result.counts)
                self._report_bad(unit, block_result.bad, counts)
                output.add(index, unit, number, block_result, counts)
                at_byte = max(position, before)  # a source that is read to its end has no position any more
                self._progress.advance(at_byte - before)
                before = at_byte
            self._require_few_bad(unit, counts)
        except BadInput:
            unit.require_unchanged()  # reports a changed source as such
            raise
        self._progress.advance(unit.sources[0].size - before)

    def _read_settings(self, unit: Unit) -> ReadSettings:
        order, erased = self._stage.order, self._stage.manifest.erased
        markup = unit.format.markup if order.markup == "auto" else order.markup
        return ReadSettings(
            source=unit.name,
            fingerprint=unit.sources[0].fingerprint,
            format=unit.format,
            cleaning=replace(order.cleaning, markup=markup),
            blocked_speakers=order.blocked_speakers,
            erased_speakers=frozenset(erased.speakers),
            erased_dialogues=frozenset(erased.dialogues),
            erasure_salt=self._stage.manifest.name,
            use_ids=order.use_ids,
            rejects=order.rejects is not None,
        )

    def _report_bad(self, unit: Unit, bad: Sequence[BadRow], counts: Counter[str]) -> None:
        """Show the first bad rows and count all; with --on-error stop the first one ends the run."""
        for row in bad:
            where = f"{unit.name}, {row.place} {row.line:,}"
            shown_excerpt = f": {row.excerpt!r}" if row.excerpt else ""
            if self._stage.order.stop_on_error:
                raise BadInput(
                    f"{where}: {row.message}{shown_excerpt}", remedy="--on-error report leaves such rows out"
                )
            if len(self._stage.state.problems) < _WARNINGS:
                self._stage.warn(f"{where}: {row.message}{shown_excerpt}", self._progress)
            elif not self._warned:
                self._warned = True
                self._progress.warn("further bad rows are only counted; --rejects FILE lists them all")
        if bad and (counts["rows"] >= 10 * _ROWS_BEFORE_SHARE or self._stage.order.max_bad_share == 0):
            self._require_few_bad(unit, counts)

    def _require_few_bad(self, unit: Unit, counts: Mapping[str, int]) -> None:
        bad = sum(count for name, count in counts.items() if name.startswith("bad:"))
        rows = counts.get("rows", 0)
        enough = rows >= _ROWS_BEFORE_SHARE or self._stage.order.max_bad_share == 0
        if enough and bad > self._stage.order.max_bad_share * rows:
            reasons = ", ".join(f"{name[4:]} {count:,}" for name, count in counts.items() if name.startswith("bad:"))
            first = next(
                (problem for problem in self._stage.state.problems if problem.startswith(f"{unit.name}, ")), ""
            )
            raise TooManyBadRows(
                f"{unit.name}: {bad:,} of {rows:,} rows are bad ({reasons}), more than "
                f"{self._stage.order.max_bad_share:.0%}{f'; the first: {first}' if first else ''}",
                remedy="is it the right format (--format, --map, --encoding)? else allow more with --max-bad-share",
            )
