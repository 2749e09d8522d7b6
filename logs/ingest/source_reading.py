"""The first step of an ingest: it streams every source through the workers into staged parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from refaug.core.errors import BadInput, TooManyBadRows
from refaug.core.processes.worker_processes import Workers
from refaug.core.progress import Progress
from refaug.logs.ingest.order import Unit
from refaug.logs.ingest.pairing import BlockResult, ReadSettings, block_worker
from refaug.logs.ingest.stage import Stage
from refaug.logs.ingest.staged_output import StagedOutput
from refaug.logs.reading.containers import Block
from refaug.logs.reading.sources import BadRow

_SMALL_BYTES: Final = 4 << 20  # below this, starting workers takes longer than the work
_ROWS_BEFORE_SHARE: Final = 100  # a share of fewer rows says nothing
_WARNINGS: Final = 10


class SourceReader:
    """Reads the sources of an ingest through worker processes, counts bad rows and refuses too many of them."""

    def __init__(self, stage: Stage, progress: Progress) -> None:
        self._stage, self._progress = stage, progress
        self._warned = False

    def read(self) -> None:
        """Stream every source through the workers into staged parts."""
        if self._stage.state.phase == "read":
            self._read_units()
        for unit, counts in zip(self._stage.units, self._stage.state.counts, strict=True):
            self._require_few_bad(unit, counts)  # all of them: a resumed run may allow less

    def _read_units(self) -> None:
        state = self._stage.state
        self._progress.stage("reading", sum(unit.sources[0].size for unit in self._stage.units), "B")
        self._progress.advance(sum(unit.sources[0].size for unit in self._stage.units[: state.unit]))
        size = sum(source.size for unit in self._stage.units[state.unit :] for source in unit.sources)
        count = 0 if size < _SMALL_BYTES else self._stage.order.worker_count
        with Workers(block_worker, count) as workers, StagedOutput(self._stage) as output:
            for index in range(state.unit, len(self._stage.units)):
                self._read_unit(index, workers, output)
            output.finish()

    def _read_unit(self, index: int, workers: Workers[ReadSettings, Block, BlockResult], output: StagedOutput) -> None:
        unit, state = self._stage.units[index], self._stage.state
        unit.require_unchanged()
        if len(state.counts) == index:
            state.counts.append({})
            state.pairs.append(0)
        counts = Counter(state.counts[index])
        finished_blocks = state.blocks if index == state.unit else 0
        output.begin(index, unit)
        position, blocks = unit.reader(self._stage.order.encoding, self._stage.order.block_bytes)
        before = 0
        try:
            for number, block_result in enumerate(
                workers.map(self._read_settings(unit), islice(blocks, finished_blocks, None)), finished_blocks + 1
            ):
                counts.update(block_result.counts)
                self._report_bad(unit, block_result.bad, counts)
                output.add(index, unit, number, block_result, counts)
                at_byte = max(position(), before)  # a source that is read to its end has no position any more
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
