"""The folder in which an ingest is prepared, and the steps that work in it.

The state is written after every part; it and the parts it names are all that resuming needs.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from numpy.typing import NDArray

from core.engine import Engine
from core.errors import BadInput, TooManyBadRows
from core.files import (
    make_folder,
    remove_tree,
    storage_errors,
    sync_folder,
    write_aside,
    write_json,
)
from core.ingest_order import IngestOrder, IngestReport, Unit
from core.log_figures import known_pairs, new_totals
from core.log_store import (
    ROWS_A_GROUP,
    STAGE,
    LogIngest,
    LogManifest,
    LogPart,
    LogSource,
    PartsWriter,
    PartWriter,
    now,
    part_name,
    remove_leftovers,
    software,
)
from core.logs.rows import Block
from core.logs.sources import BadRow
from core.pairing import MESSAGE_SCHEMA, BlockResult, FloodCounter, Reading, Reject, block_worker
from core.pairs import PAIR_SCHEMA, erasure_key
from core.progress import Progress
from core.rejects import RejectsFile, as_reject, flooded_messages, flooded_turns, misplaced
from core.stage_state import StageState
from core.trees import TreeCounts, Trees
from core.workers import Workers

PART_BYTES: Final = 96 << 20  # of text and numbers; a part is also how much work a kill can cost
_SMALL_BYTES: Final = 4 << 20  # below this, starting workers takes longer than the work
_STATE: Final = "state.json"
_ROWS_BEFORE_SHARE: Final = 100  # a share of fewer rows says nothing
_WARNINGS: Final = 10
_AGAIN: Final = "duplicate pair ids"

STAGED_MESSAGE_SCHEMA: Final = pa.schema(
    [*MESSAGE_SCHEMA, ("seq", pa.int64()), ("source", pa.int32()), ("context", pa.bool_())]
)


class _Output:
    """The staged files that are being written. At a checkpoint the state comes to name what is finished of them."""

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

    def _path(self, what: str) -> Path:
        return self._stage.folder / f"{what}-{self._stage.state.steps:05}"

    def begin(self, index: int, unit: Unit) -> None:
        """Pairs and messages are not written at once, so that a checkpoint need carry only rows of one block."""
        if self._parts is not None and self._parts.kind != unit.kind:
            self._end_parts()
            self._checkpoint(index, 0)

    def add(self, index: int, unit: Unit, number: int, result: BlockResult, counts: Counter[str]) -> None:
        """A block's rows, less those that are one too many of the same."""
        over = self._over_cap(result)
        if over is not None:
            counts["dropped:flood"] += int(over.sum())
        if self._stage.order.rejects is not None:
            self._add_rejects(unit, result, over)
        if unit.kind == "messages":
            rows = self._messages(index, unit, result, over)
        else:
            rows = result.rows
            if over is not None:
                rows = rows.filter(pa.array(~(over[result.turns] | over[result.turns - 1])))
            self._stage.state.pairs[index] += rows.num_rows
        self._stage.state.counts[index] = dict(counts)
        if rows.num_rows:
            self._add_rows(unit.kind, rows)
        if self._parts is not None and self._parts.finished:
            self._checkpoint(index, number)

    def _over_cap(self, result: BlockResult) -> NDArray[np.bool_] | None:
        over = self.flood.over_cap(result.flood_keys) if result.flood_keys.any() else None
        return over if over is not None and over.any() else None

    def _add_rejects(self, unit: Unit, result: BlockResult, over: NDArray[np.bool_] | None) -> None:
        if over is not None:
            flooded = flooded_messages if unit.kind == "messages" else flooded_turns
            result.rejects += flooded(result, over)
        if result.rejects:
            self._rejects = self._rejects or self._stage.next_rejects()
            self._rejects.add(unit.name, result.rejects)

    def _messages(self, index: int, unit: Unit, result: BlockResult, over: Any) -> pa.RecordBatch:
        """A flooded message loses its text and stays a node: what others answered to it still has its tree."""
        rows, state = result.rows, self._stage.state
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        if over is not None:
            columns["text"] = pa.compute.if_else(pa.array(over), pa.scalar(None, pa.string()), columns["text"])
        columns["seq"] = pa.array(np.arange(state.messages, state.messages + rows.num_rows))
        columns["source"] = pa.array(np.full(rows.num_rows, index, dtype=np.int32))
        columns["context"] = pa.array(np.full(rows.num_rows, unit.context))
        state.messages += rows.num_rows
        return pa.record_batch(list(columns.values()), schema=STAGED_MESSAGE_SCHEMA)

    def _add_rows(self, kind: str, rows: pa.RecordBatch) -> None:
        stage = self._stage
        if self._parts is None:
            named = stage.state.message_parts if kind == "messages" else stage.state.parts
            schema = STAGED_MESSAGE_SCHEMA if kind == "messages" else PAIR_SCHEMA
            self._parts = PartsWriter(stage.folder, kind, first=len(named), part_bytes=PART_BYTES, schema=schema)
        self._parts.add(rows)
        self._last = rows

    def _name(self, finished: Iterable[LogPart]) -> None:
        assert self._parts is not None
        state = self._stage.state
        named = state.message_parts if self._parts.kind == "messages" else state.parts
        named += map(asdict, finished)

    def _end_parts(self) -> None:
        if self._parts is not None:
            self._name(self._parts.close())
            self._parts = None

    def finish(self) -> None:
        """Everything is read."""
        self._end_parts()
        state = self._stage.state
        state.phase = "messages" if state.message_parts else "joined"
        self._checkpoint(len(self._stage.units), 0)

    def _checkpoint(self, unit: int, blocks: int) -> None:
        """Let the state name what is finished, and keep what the rest of the reading depends on."""
        stage, state = self._stage, self._stage.state
        for read in stage.units[state.unit : unit + 1]:
            read.require_unchanged()
        if self._parts is not None:
            self._name(self._parts.take_finished())
        if self._rejects is not None:
            self._rejects.close()
            self._rejects, state.rejects = None, state.rejects + 1
        old = [self._path("flood"), self._path("carry")]
        state.steps += 1
        state.unit, state.blocks = unit, blocks
        if unit < len(stage.units):
            self.flood.save(self._path("flood"))
        self._carry()
        stage.save()
        for path in old:
            path.unlink(missing_ok=True)

    def _carry(self) -> None:
        """Keep the rows that were read and are in no finished part; all of them are of the last block."""
        state, rows = self._stage.state, self._parts.unfinished if self._parts is not None else 0
        state.carried = self._parts.kind if self._parts is not None and rows else ""
        if rows:
            assert rows <= self._last.num_rows
            with write_aside(self._path("carry")) as file, pa.ipc.new_stream(file, self._last.schema) as writer:
                writer.write_batch(self._last.slice(self._last.num_rows - rows))


class Stage:
    """The folder in which an ingest is prepared, and the steps that work in it."""

    def __init__(self, log: Path, order: IngestOrder, units: Sequence[Unit], manifest: LogManifest) -> None:
        self.log, self.order, self.units, self.manifest = log, order, units, manifest
        self.key = _key(order, units, manifest)
        self.folder = log / f"{STAGE}{self.key}"
        for other in log.glob(f"{STAGE}*"):
            if other != self.folder:
                remove_tree(other)  # of a run with other sources or settings
        state = StageState.read(self.folder / _STATE)
        self.state = state or StageState()
        self.resumed = state is not None and self._is_whole()
        if not self.resumed:
            self.state = StageState()
            remove_tree(self.folder)
        make_folder(self.folder)
        self._warned = False

    def _is_whole(self) -> bool:
        """Whether every file that the state names is there; parts may have been moved to their final names already."""
        state = self.state
        needed = [self.folder / f"rejects-{number:05}.jsonl" for number in range(state.rejects)]
        if state.phase == "read":
            needed.append(self.folder / f"flood-{state.steps:05}")
        if state.carried:
            needed.append(self.folder / f"carry-{state.steps:05}")
        sized = [(part, [staged, final]) for part, staged, final in self._placed()]
        if state.phase in ("read", "messages"):
            sized += [(part, [self.folder / part["file"]]) for part in state.message_parts]
        return all(path.exists() for path in needed) and all(
            any(path.exists() and path.stat().st_size == part["size"] for path in paths) for part, paths in sized
        )

    def _placed(self) -> list[tuple[dict[str, Any], Path, Path]]:
        """Every part that holds something, with its staged path and its final one."""
        filled = [part for part in self.state.parts if part["pairs"]]
        first = self.manifest.first_free_part()
        return [(p, self.folder / p["file"], self.log / part_name(n)) for n, p in enumerate(filled, first)]

    def save(self) -> None:
        """From here on this much is done."""
        write_json(self.folder / _STATE, asdict(self.state))

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, progress: Progress) -> None:
        """Stream every source through the workers into staged parts."""
        if self.state.phase == "read":
            self._read_units(progress)
        for unit, counts in zip(self.units, self.state.counts, strict=True):
            self._require_few_bad(unit, counts)  # all of them: a resumed run may allow less

    def _read_units(self, progress: Progress) -> None:
        state = self.state
        progress.stage("reading", sum(unit.sources[0].size for unit in self.units), "B")
        progress.advance(sum(unit.sources[0].size for unit in self.units[: state.unit]))
        size = sum(source.size for unit in self.units[state.unit :] for source in unit.sources)
        count = 0 if size < _SMALL_BYTES else self.order.worker_count
        with Workers(block_worker, count) as workers, _Output(self) as output:
            for index in range(state.unit, len(self.units)):
                self._read_unit(index, workers, output, progress)
            output.finish()

    def _read_unit(
        self, index: int, workers: Workers[Reading, Block, BlockResult], output: _Output, progress: Progress
    ) -> None:
        unit, state = self.units[index], self.state
        unit.require_unchanged()
        if len(state.counts) == index:
            state.counts.append({})
            state.pairs.append(0)
        counts = Counter(state.counts[index])
        done = state.blocks if index == state.unit else 0
        output.begin(index, unit)
        position, blocks = unit.reader(self.order.encoding, self.order.block_bytes)
        before = 0
        try:
            for number, result in enumerate(workers.map(self._reading(unit), islice(blocks, done, None)), done + 1):
                counts.update(result.counts)
                self._report_bad(unit, result.bad, counts, progress)
                output.add(index, unit, number, result, counts)
                here = max(position(), before)  # a source that is read to its end has no position any more
                progress.advance(here - before)
                before = here
            self._require_few_bad(unit, counts)
        except BadInput:
            unit.require_unchanged()  # if it was written to, that is what is wrong with it
            raise
        progress.advance(unit.sources[0].size - before)

    def _reading(self, unit: Unit) -> Reading:
        order, erased = self.order, self.manifest.erased
        markup = unit.format.markup if order.markup == "auto" else order.markup
        return Reading(
            source=unit.name,
            fingerprint=unit.sources[0].fingerprint,
            format=unit.format,
            cleaning=replace(order.cleaning, markup=markup),
            blocked_speakers=order.blocked_speakers,
            erased_speakers=frozenset(erased.speakers),
            erased_dialogues=frozenset(erased.dialogues),
            erasure_salt=self.manifest.name,
            use_ids=order.use_ids,
            rejects=order.rejects is not None,
        )

    def _report_bad(self, unit: Unit, bad: Sequence[BadRow], counts: Counter[str], progress: Progress) -> None:
        """The first bad rows are shown, all are counted; with --on-error stop the first one ends the run."""
        for row in bad:
            where = f"{unit.name}, {row.place} {row.line:,}"
            found = f": {row.excerpt!r}" if row.excerpt else ""
            if self.order.stop_on_error:
                raise BadInput(f"{where}: {row.message}{found}", remedy="--on-error report leaves such rows out")
            if len(self.state.problems) < _WARNINGS:
                self.state.problems.append(f"{where}: {row.message}{found}")
                progress.warn(self.state.problems[-1])
            elif not self._warned:
                self._warned = True
                progress.warn("further bad rows are only counted; --rejects FILE lists them all")
        if bad and (counts["rows"] >= 10 * _ROWS_BEFORE_SHARE or self.order.max_bad_share == 0):
            self._require_few_bad(unit, counts)

    def _require_few_bad(self, unit: Unit, counts: Mapping[str, int]) -> None:
        bad = sum(count for name, count in counts.items() if name.startswith("bad:"))
        rows = counts.get("rows", 0)
        enough = rows >= _ROWS_BEFORE_SHARE or self.order.max_bad_share == 0
        if enough and bad > self.order.max_bad_share * rows:
            reasons = ", ".join(f"{name[4:]} {count:,}" for name, count in counts.items() if name.startswith("bad:"))
            first = next((problem for problem in self.state.problems if problem.startswith(f"{unit.name}, ")), "")
            raise TooManyBadRows(
                f"{unit.name}: {bad:,} of {rows:,} rows are bad ({reasons}), more than "
                f"{self.order.max_bad_share:.0%}{f'; the first: {first}' if first else ''}",
                remedy="is it the right format (--format, --map, --encoding)? else allow more with --max-bad-share",
            )

    # ── trees ────────────────────────────────────────────────────────────────────────────────────────────────────

    def join_trees(self, progress: Progress) -> None:
        """Turn staged messages into staged pairs."""
        state = self.state
        if state.phase != "messages":
            return
        progress.stage("joining message trees", state.messages, "messages")
        staged = [self.folder / part["file"] for part in state.message_parts]
        with Engine(self.folder / "engine", memory=self.order.memory) as engine:
            trees = Trees(engine, staged, self.folder)
            counts = trees.link()
            state.tree_counts = asdict(counts)
            if self.order.rejects is not None:
                self._write_rejects((self.units[m.source].name, misplaced(m)) for m in trees.left_out())
            self._stage_pairs(trees.pairs(), progress)
        self._report_trees(counts, progress)
        state.phase = "joined"
        self.save()

    def _stage_pairs(self, batches: Iterable[pa.RecordBatch], progress: Progress) -> None:
        """Write joined pairs as further parts; nothing of this is in the state until all of it is."""
        parts = PartsWriter(self.folder, "pairs", first=len(self.state.parts), part_bytes=PART_BYTES)
        try:
            for batch in batches:
                parts.add(self._without_erased(batch).select(PAIR_SCHEMA.names))
                progress.advance(batch.num_rows)
            self.state.parts += map(asdict, parts.close())
        except BaseException:
            parts.abandon()
            raise

    def _without_erased(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Which dialogue a message belongs to is known only here, so it is here that erased ones are kept out."""
        erased = frozenset(self.manifest.erased.dialogues)
        if not erased:
            return batch
        gone = {
            name: erasure_key(name, self.manifest.name) in erased for name in batch["dialogue"].unique().to_pylist()
        }
        hits = pa.array([gone[name] for name in batch["dialogue"].to_pylist()], pa.bool_())
        if hits.true_count:
            self.state.tree_counts["erased"] = self.state.tree_counts.get("erased", 0) + hits.true_count
            if self.order.rejects is not None:
                rows = batch.filter(hits).to_pylist()
                self._write_rejects(
                    (self.units[row["source"]].name, as_reject(row, "erased", row["line"])) for row in rows
                )
        return batch.filter(pa.compute.invert(hits))

    def _report_trees(self, counts: TreeCounts, progress: Progress) -> None:
        if counts.in_cycles:
            self._note(f"{counts.in_cycles:,} messages answer each other in a circle and were left out", progress)
        if counts.duplicate_ids:
            self._note(f"{counts.duplicate_ids:,} messages have the id of an earlier one and were left out", progress)
        if counts.orphans > counts.messages // 2:
            self._note(
                f"{counts.orphans:,} of {counts.messages:,} messages answer one that no source holds; name the files "
                "that hold them too, or give them with --context",
                progress,
            )

    def _note(self, message: str, progress: Progress) -> None:
        self.state.problems.append(message)
        progress.warn(message)

    # ── pair ids that are there already ──────────────────────────────────────────────────────────────────────────

    def drop_known_pairs(self, progress: Progress) -> None:
        """A pair id names one pair for ever: of several with one id the first stays."""
        state = self.state
        if state.phase == "distinct" or not state.parts:
            return
        progress.stage("checking ids")
        staged = [self.folder / part["file"] for part in state.parts]
        starts = np.cumsum([0, *(part["pairs"] for part in state.parts)])
        again = 0
        with Engine(self.folder / "engine", memory=self.order.memory) as engine:
            stored = [self.log / part.file for part in self.manifest.parts]
            for index, rows in known_pairs(engine, stored, staged):
                units = [state.unit_of(int(starts[index]) + row) for row in rows]
                self._count_again(units)
                state.parts[index] = self._rewritten(index, rows, units)
                again += len(rows)
        if again:
            self._note(
                f"{again:,} pairs have the id (dialogue and position) of an earlier pair and were left out, as they "
                "should be when an export repeats dialogues; only where ids are not unique, --no-ids numbers by line",
                progress,
            )
        state.phase = "distinct"
        self.save()

    def _count_again(self, units: Iterable[int | None]) -> None:
        for unit, count in Counter(units).items():
            counts = self.state.tree_counts if unit is None else self.state.counts[unit]
            counts[_AGAIN] = counts.get(_AGAIN, 0) + count

    def _rewritten(self, index: int, rows: Sequence[int], units: Sequence[int | None]) -> dict[str, Any]:
        """A staged part without some of its rows."""
        old = self.folder / str(self.state.parts[index]["file"])
        writer = PartWriter(old.with_name(f"distinct-{index:05}.parquet"))
        gone, start = np.array(rows), 0
        rejected: list[dict[str, Any]] = []
        with pq.ParquetFile(old) as file:
            for batch in file.iter_batches(batch_size=ROWS_A_GROUP, use_threads=False):
                inside = gone[(gone >= start) & (gone < start + batch.num_rows)] - start
                keep = np.ones(batch.num_rows, dtype=bool)
                keep[inside] = False
                writer.add(batch.filter(pa.array(keep)))
                if self.order.rejects is not None:
                    rejected += batch.take(pa.array(inside)).to_pylist()
                start += batch.num_rows
        if rejected:
            names = ("" if unit is None else self.units[unit].name for unit in units)
            reasons = (as_reject(row, "duplicate-id") for row in rejected)
            self._write_rejects(zip(names, reasons, strict=True))
        return asdict(writer.close())

    # ── rejects ──────────────────────────────────────────────────────────────────────────────────────────────────

    def next_rejects(self) -> RejectsFile:
        """A file that counts once the state says so."""
        return RejectsFile(self.folder / f"rejects-{self.state.rejects:05}.jsonl")

    def _write_rejects(self, rejects: Iterable[tuple[str, Reject]]) -> None:
        file = self.next_rejects()
        try:
            for source, reject in rejects:
                file.add(source, (reject,))
            file.close()
        finally:
            file.abandon()
        self.state.rejects += 1

    def _gather_rejects(self) -> None:
        path = self.order.rejects
        if path is None:
            return
        with write_aside(path.resolve()) as file:  # through a link, not in place of it
            for number in range(self.state.rejects):
                with (self.folder / f"rejects-{number:05}.jsonl").open("rb") as rejects:
                    shutil.copyfileobj(rejects, file)

    # ── publishing ───────────────────────────────────────────────────────────────────────────────────────────────

    def publish(self, there: tuple[str, ...], progress: Progress) -> IngestReport:
        """Move the parts beside the others, then let the manifest name them: at that moment the log changes."""
        state = self.state
        pairs = sum(part["pairs"] for part in state.parts)
        counts = self._counts()
        if not pairs and not self.manifest.ingests:
            self._gather_rejects()
            raise BadInput(
                f"no pair came out of {counts['rows']:,} rows: {_why(counts)}",
                remedy="--rejects FILE shows what was left out and why",
            )
        progress.stage("publishing")
        parts = self._move_parts()
        with Engine(self.folder / "engine", memory=self.order.memory) as engine:
            stored = [self.log / part.file for part in self.manifest.parts]
            added = new_totals(engine, stored, [self.log / part.file for part in parts])
        totals = {name: self.manifest.totals.get(name, 0) + added[name] for name in added}
        run = LogIngest(
            key=self.key,
            at=now(),
            settings={**self.order.settings(), "context": self._context()},
            sources=tuple(self._sources()),
            counts=counts,
        )
        manifest = replace(
            self.manifest,
            updated=now(),
            parts=(*self.manifest.parts, *parts),
            ingests=(*self.manifest.ingests, run),
            totals=totals,
            software=software(),
            next_part=self.manifest.first_free_part() + len(parts),
        )
        self._gather_rejects()
        manifest.write(self.log)
        remove_leftovers(self.log, manifest, stages=True)
        return IngestReport(
            log=self.order.log,
            pairs_added=pairs,
            totals=totals,
            counts=counts,
            sources=run.sources,
            already_there=there,
            problems=tuple(state.problems),
            resumed=self.resumed,
        )

    def _move_parts(self) -> list[LogPart]:
        """Staged files under their final names; a run that was killed in the middle of this has moved some already."""
        moved = []
        with storage_errors(self.log):
            for part, staged, final in self._placed():
                if staged.exists():
                    staged.replace(final)
                moved.append(LogPart(**{**part, "file": final.name}))
            sync_folder(self.log)
        return moved

    def _counts(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for unit in self.state.counts:
            counts.update(unit)
        counts.update({f"trees:{name}": count for name, count in self.state.tree_counts.items()})
        return {name: count for name, count in sorted(counts.items()) if count}

    def _context(self) -> list[dict[str, str]]:
        """The sources that were read only for what others reply to: without them the same pairs do not come out."""
        beside = [source for unit in self.units if unit.context for source in unit.sources]
        return [{"name": source.name, "sha256": source.sha256} for source in beside]

    def _sources(self) -> Iterator[LogSource]:
        for unit, counts in zip(self.units, self.state.counts, strict=True):
            for source in unit.sources:
                if not unit.context:
                    yield LogSource(
                        name=source.name,
                        size=source.size,
                        sha256=source.sha256,
                        format=unit.format.name,
                        counts={name: count for name, count in sorted(counts.items()) if count},
                    )


def _key(order: IngestOrder, units: Sequence[Unit], manifest: LogManifest) -> str:
    """Names a staging folder: the same key, the same outcome."""
    what = {
        "settings": order.settings(),
        "sources": [[source.sha256 for source in unit.sources] + [unit.context] for unit in units],
        "names": [unit.name for unit in units],
        "rejects": order.rejects is not None,
        "stop_on_error": order.stop_on_error,
        "block_bytes": order.block_bytes,  # the state counts in blocks
        "erased": asdict(manifest.erased),
        "parts": [part.sha256 for part in manifest.parts],
        "software": software(),
    }
    return hashlib.sha256(orjson.dumps(what, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def _why(counts: Mapping[str, int]) -> str:
    reasons = {name: count for name, count in counts.items() if name.startswith(("bad:", "dropped:"))}
    reasons |= {name: counts[name] for name in ("one-turn dialogues", "trees:orphans") if counts.get(name)}
    return (
        ", ".join(f"{name.split(':')[-1]} {count:,}" for name, count in reasons.items()) or "nothing was said in them"
    )
