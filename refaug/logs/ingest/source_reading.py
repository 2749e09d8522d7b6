"""The first step of an ingest: it streams every source through the workers into staged parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

from refaug.core.errors import BadInput, TooManyBadRows
from refaug.core.processes.worker_processes import Workers
from refaug.core.progress import Progress
from refaug.logs.ingest.order import Unit
from refaug.logs.ingest.pairing import BlockResult, ReadSettings, block_worker
from refaug.logs.ingest.stage import Stage
from refaug.logs.ingest.staged_output import StagedOutput
from refaug.logs.reading.containers import Block
from refaug.logs.reading.sources import BadRow

if TYPE_CHECKING:
    from refaug.logs.ingest.on_cluster.ingest_cluster import IngestCluster

_SMALL_BYTES: Final = 4 << 20  # below this, starting workers takes longer than the work
_ROWS_BEFORE_SHARE: Final = 100  # a share of fewer rows says nothing
_WARNINGS: Final = 10


class BlockResults(Protocol):
    """Where the results of blocks come from."""

    def results(self, unit: int, first: int) -> Iterator[tuple[BlockResult, int]]:
        """Yield the results of a unit's blocks from one on, each with the position reached in the source."""


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

    def __init__(self, stage: Stage, progress: Progress, cluster: IngestCluster | None = None) -> None:
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
