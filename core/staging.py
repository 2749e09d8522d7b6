"""The folder in which an ingest is prepared, and the steps that work in it.

The state is written after every part; it and the parts it names are all that resuming needs.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from core.engine import Engine
from core.errors import BadInput, Corrupt, TooManyBadRows
from core.files import read_json, remove_tree, storage_errors, sync_folder, write_aside, write_json
from core.ingest_order import IngestOrder, IngestReport, Unit
from core.log_figures import known_pairs, new_totals
from core.log_store import (
    LogIngest,
    LogManifest,
    LogPart,
    LogSource,
    PartWriter,
    now,
    remove_unnamed,
    software,
)
from core.logs.rows import Block
from core.logs.shapes import Shape
from core.logs.sources import BadRow
from core.pairing import MESSAGE_SCHEMA, BlockResult, FloodCounter, Reading, Reject, block_worker
from core.progress import Progress
from core.trees import LeftOut, TreeCounts, Trees
from core.workers import Workers

PART_BYTES: Final = 96 << 20  # of Arrow data; a part is also how much work a kill can cost
_SMALL_BYTES: Final = 4 << 20  # below this, starting workers takes longer than the work
_STATE: Final = "state.json"
_ROWS_BEFORE_SHARE: Final = 100  # a share of fewer rows says nothing
_WARNINGS: Final = 10

_STAGED_MESSAGE_SCHEMA: Final = pa.schema(
    [*MESSAGE_SCHEMA, ("seq", pa.int64()), ("source", pa.int32()), ("context", pa.bool_())]
)


@dataclass(slots=True)
class StageState:
    """How far a staged ingest is; written after every part, and all that resuming needs beside the parts."""

    unit: int = 0  # index of the unit in work
    blocks: int = 0  # blocks of it that are in finished parts
    messages: int = 0
    parts: list[dict[str, Any]] = field(default_factory=list)
    message_parts: list[dict[str, Any]] = field(default_factory=list)
    counts: list[dict[str, int]] = field(default_factory=list)  # one a unit
    tree_counts: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    rejects: int = 0  # number of finished rejects files
    phase: str = "read"  # then "joined", "distinct"

    @classmethod
    def read(cls, path: Path) -> StageState:
        """What `save` wrote."""
        try:
            return cls(**read_json(path))  # type: ignore[arg-type]
        except TypeError as error:
            raise Corrupt(f"{path}: {error}", remedy=f"delete {path.parent} and run again") from error


class _Output:
    """The staged files that are being written, pairs and messages; closed together, so that a state can name them."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.pairs: PartWriter | None = None
        self.messages: PartWriter | None = None
        self.rejects: list[tuple[str, Reject]] = []
        self.flood = FloodCounter(stage.order.cleaning.flood_cap)
        if self._flood_path(stage.state).exists():
            self.flood.load(self._flood_path(stage.state))

    def _flood_path(self, state: StageState) -> Path:
        return self.stage.folder / f"flood-{len(state.parts)}-{len(state.message_parts)}"

    def add(self, index: int, unit: Unit, result: BlockResult, counts: Counter[str]) -> None:
        """A block's rows, less those that are one too many of the same."""
        over = self.flood.over_cap(result.flood_keys) if result.flood_keys.any() else None
        flooded = over is not None and bool(over.any())
        if flooded and over is not None:
            counts["dropped:flood"] += int(over.sum())
        self.rejects += [(unit.name, reject) for reject in result.rejects]
        if unit.format.shape is Shape.MESSAGES:
            self._add_messages(index, unit, result, over if flooded else None)
            return
        rows = result.rows
        if flooded and over is not None:
            rows = rows.filter(pa.array(~(over[result.turns] | over[result.turns - 1])))
        if rows.num_rows:
            if self.pairs is None:
                self.pairs = PartWriter(self.stage.folder / f"pairs-{len(self.stage.state.parts):05}.parquet")
            self.pairs.add(rows)

    def _add_messages(self, index: int, unit: Unit, result: BlockResult, over: Any) -> None:
        """A flooded message loses its text and stays a node: what others answered to it still has its tree."""
        rows, state = result.rows, self.stage.state
        if not rows.num_rows:
            return
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        if over is not None:
            columns["text"] = pa.compute.if_else(pa.array(over), pa.scalar(None, pa.string()), columns["text"])
        columns["seq"] = pa.array(np.arange(state.messages, state.messages + rows.num_rows))
        columns["source"] = pa.array(np.full(rows.num_rows, index, dtype=np.int32))
        columns["context"] = pa.array(np.full(rows.num_rows, unit.context))
        if self.messages is None:
            path = self.stage.folder / f"messages-{len(state.message_parts):05}.parquet"
            self.messages = PartWriter(path, _STAGED_MESSAGE_SCHEMA)
        self.messages.add(pa.record_batch(list(columns.values()), schema=_STAGED_MESSAGE_SCHEMA))
        state.messages += rows.num_rows

    def is_full(self) -> bool:
        """Whether enough was written for a part."""
        return sum(writer.bytes for writer in (self.pairs, self.messages) if writer is not None) >= PART_BYTES

    def close(self, *, done_units: int, done_blocks: int) -> None:
        """Finish the files, then write the state that names them."""
        state, old = self.stage.state, self._flood_path(self.stage.state)
        if self.pairs is not None:
            state.parts.append(asdict(self.pairs.close()))
        if self.messages is not None:
            state.message_parts.append(asdict(self.messages.close()))
        self.pairs = self.messages = None
        if self.rejects:
            self.stage.write_rejects(self.rejects)
            self.rejects = []
        if done_units < len(self.stage.units) and self._flood_path(state) != old:
            self.flood.save(self._flood_path(state))
        state.unit, state.blocks = done_units, done_blocks
        self.stage.save()
        if old != self._flood_path(state):
            old.unlink(missing_ok=True)


class Stage:
    """The folder in which an ingest is prepared, and the steps that work in it."""

    def __init__(self, log: Path, order: IngestOrder, units: Sequence[Unit], manifest: LogManifest) -> None:
        self.log, self.order, self.units, self.manifest = log, order, units, manifest
        self.key = _key(order, units, manifest)
        self.folder = log / f".staging-{self.key}"
        for other in log.glob(".staging-*"):
            if other != self.folder:
                remove_tree(other)  # of a run with other sources or settings
        self.folder.mkdir(exist_ok=True)
        state = self.folder / _STATE
        self.resumed = state.exists()
        self.state = StageState.read(state) if self.resumed else StageState()
        self._warned = 0

    def save(self) -> None:
        """From here on this much is done."""
        write_json(self.folder / _STATE, asdict(self.state))

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, progress: Progress) -> None:
        """Stream every source through the workers into staged parts."""
        state, order = self.state, self.order
        if state.phase != "read":
            return
        progress.stage("reading", sum(source.size for unit in self.units for source in unit.sources[:1]), "B")
        progress.advance(sum(unit.sources[0].size for unit in self.units[: state.unit]))
        size = sum(source.size for unit in self.units[state.unit :] for source in unit.sources)
        count = 0 if size < _SMALL_BYTES else (order.worker_count)
        with Workers(block_worker, count) as workers:
            output = _Output(self)
            for index in range(state.unit, len(self.units)):
                self._read_unit(index, workers, output, progress)
            output.close(done_units=len(self.units), done_blocks=0)
        state.phase = "joined" if not state.message_parts else "messages"
        self.save()

    def _read_unit(
        self, index: int, workers: Workers[Reading, Block, BlockResult], output: _Output, progress: Progress
    ) -> None:
        unit, state = self.units[index], self.state
        if len(state.counts) == index:
            state.counts.append({})
        counts = Counter(state.counts[index])
        position, blocks = unit.reader(self.order.encoding, self.order.block_bytes)
        done = state.blocks if index == state.unit else 0
        before = 0
        for number, result in enumerate(workers.map(self._reading(unit), islice(blocks, done, None)), done + 1):
            counts.update(result.counts)
            self._report_bad(unit, result.bad, counts, progress)
            output.add(index, unit, result, counts)
            state.counts[index] = dict(counts)
            if output.is_full():
                output.close(done_units=index, done_blocks=number)
            progress.advance(position() - before)
            before = position()
        self._require_few_bad(unit, counts)

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
            erasure_salt=order.log,
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
            elif self._warned == 0:
                self._warned = 1
                progress.warn("further bad rows are only counted; --rejects FILE lists them all")
        if bad and counts["rows"] >= 10 * _ROWS_BEFORE_SHARE:
            self._require_few_bad(unit, counts)

    def _require_few_bad(self, unit: Unit, counts: Counter[str]) -> None:
        bad = sum(count for name, count in counts.items() if name.startswith("bad:"))
        if counts["rows"] >= _ROWS_BEFORE_SHARE and bad > self.order.max_bad_share * counts["rows"]:
            reasons = ", ".join(f"{name[4:]} {count:,}" for name, count in counts.items() if name.startswith("bad:"))
            raise TooManyBadRows(
                f"{unit.name}: {bad:,} of {counts['rows']:,} rows are bad ({reasons}), more than "
                f"{self.order.max_bad_share:.0%}; the first: {self.state.problems[0] if self.state.problems else '?'}",
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
                self.write_rejects(self._tree_rejects(trees.left_out()))
            self._stage_pairs(trees.pairs(), progress)
        self._report_trees(counts, progress)
        state.phase = "joined"
        self.save()

    def _stage_pairs(self, batches: Iterable[pa.RecordBatch], progress: Progress) -> None:
        """Write joined pairs as further parts; nothing of this is in the state until all of it is."""
        writer: PartWriter | None = None
        for batch in batches:
            writer = writer or PartWriter(self.folder / self._next_file("pairs", self.state.parts))
            writer.add(batch)
            progress.advance(batch.num_rows)
            if writer.bytes >= PART_BYTES:
                self.state.parts.append(asdict(writer.close()))
                writer = None
        if writer is not None:
            self.state.parts.append(asdict(writer.close()))

    def _tree_rejects(self, left_out: Iterable[LeftOut]) -> Iterator[tuple[str, Reject]]:
        for message in left_out:
            yield self.units[message.source].name, Reject(line=message.line, reason=message.reason, position=message.id)

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

    @staticmethod
    def _next_file(kind: str, parts: Sequence[Mapping[str, Any]]) -> str:
        return f"{kind}-{len(parts):05}.parquet"

    # ── duplicates of whole pairs ids ────────────────────────────────────────────────────────────────────────────

    def drop_known_pairs(self, progress: Progress) -> None:
        """A pair id names one pair for ever: of several with one id the first stays."""
        state = self.state
        if state.phase == "distinct" or not state.parts:
            return
        progress.stage("checking ids")
        staged = [self.folder / part["file"] for part in state.parts]
        with Engine(self.folder / "engine", memory=self.order.memory) as engine:
            dropped = known_pairs(engine, [self.log / part.file for part in self.manifest.parts], staged)
            for index, rows in dropped:
                state.parts[index] = self._rewritten(index, rows)
        again = sum(len(rows) for _, rows in dropped)
        if again:
            state.counts[-1]["dropped:duplicate-id"] = state.counts[-1].get("dropped:duplicate-id", 0) + again
            self._note(
                f"{again:,} pairs have the id of an earlier pair (same dialogue and position) and were left out; where "
                "a source's ids are not unique, --no-ids numbers its dialogues by line",
                progress,
            )
        state.phase = "distinct"
        self.save()

    def _rewritten(self, index: int, rows: Sequence[int]) -> dict[str, Any]:
        """A staged part without some of its rows."""
        old = self.folder / str(self.state.parts[index]["file"])
        writer = PartWriter(old.with_name(f"distinct-{index:05}.parquet"))
        gone, start = np.array(rows), 0
        rejected: list[tuple[str, Reject]] = []
        with pq.ParquetFile(old) as file:
            for batch in file.iter_batches(batch_size=20_000, use_threads=False):
                inside = gone[(gone >= start) & (gone < start + batch.num_rows)] - start
                keep = np.ones(batch.num_rows, dtype=bool)
                keep[inside] = False
                writer.add(batch.filter(pa.array(keep)))
                if self.order.rejects is not None:
                    rejected += _duplicate_rejects(batch.take(pa.array(inside)))
                start += batch.num_rows
        if rejected:
            self.write_rejects(rejected)
        return asdict(writer.close())

    # ── rejects ──────────────────────────────────────────────────────────────────────────────────────────────────

    def write_rejects(self, rejects: Iterable[tuple[str, Reject]]) -> None:
        """One more file of rejects; they are put together when the ingest is published."""
        with write_aside(self.folder / f"rejects-{self.state.rejects:05}.jsonl") as file:
            for source, reject in rejects:
                found = {name: value for name, value in asdict(reject).items() if value is not None}
                if "text" in found:
                    found["text"] = found["text"][:500].encode("utf-8", "replace").decode()
                file.write(orjson.dumps({"source": source, **found}) + b"\n")
        self.state.rejects += 1

    def _gather_rejects(self) -> None:
        path = self.order.rejects
        if path is None:
            return
        with write_aside(path) as file:
            for number in range(self.state.rejects):
                with (self.folder / f"rejects-{number:05}.jsonl").open("rb") as rejects:
                    shutil.copyfileobj(rejects, file)

    # ── publishing ───────────────────────────────────────────────────────────────────────────────────────────────

    def publish(self, there: tuple[str, ...], progress: Progress) -> IngestReport:
        """Move the parts beside the others, then let the manifest name them: at that moment the log changes."""
        state = self.state
        pairs = sum(part["pairs"] for part in state.parts)
        counts = self._counts()
        if not pairs and not self.manifest.parts:
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
            key=self.key, at=now(), settings=self.order.settings(), sources=tuple(self._sources()), counts=counts
        )
        manifest = replace(
            self.manifest,
            updated=now(),
            parts=(*self.manifest.parts, *parts),
            ingests=(*self.manifest.ingests, run),
            totals=totals,
            software=software(),
        )
        self._gather_rejects()
        manifest.write(self.log)
        remove_unnamed(self.log, manifest)
        remove_tree(self.folder)
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
        first = 1 + max((int(part.file[5:10]) for part in self.manifest.parts), default=0)
        moved = []
        with storage_errors(self.log):
            for number, part in enumerate((p for p in self.state.parts if p["pairs"]), first):
                source, target = self.folder / part["file"], self.log / f"part-{number:05}.parquet"
                if source.exists():
                    source.replace(target)
                moved.append(LogPart(**{**part, "file": target.name}))
            sync_folder(self.log)
        return moved

    def _counts(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for unit in self.state.counts:
            counts.update(unit)
        counts.update({f"trees:{name}": count for name, count in self.state.tree_counts.items()})
        return {name: count for name, count in sorted(counts.items()) if count}

    def _sources(self) -> Iterator[LogSource]:
        for unit, counts in zip(self.units, self.state.counts, strict=True):
            for source in unit.sources:
                if not unit.context:
                    yield LogSource(
                        name=str(source.path),
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


def _duplicate_rejects(rows: pa.RecordBatch) -> list[tuple[str, Reject]]:
    return [
        (
            "",
            Reject(
                line=0, reason="duplicate-id", dialogue=row["dialogue"], position=row["position"], text=row["response"]
            ),
        )
        for row in rows.to_pylist()
    ]
