"""`refaug log ingest`: sources → a log. The steps are in `ingest`, in order.

Everything is staged beside the log, under a key made of the sources' contents and the settings. An interrupted run
continues from the last finished part; a run with any change starts afresh. The log itself changes by one rename at the
end.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from refaug.core.clusters import ConnectedCluster
from refaug.core.errors import BadInput, NoSource, Usage
from refaug.core.files import LOCK, exclusive, remove_tree, storage_errors, sync_folder, write_aside
from refaug.core.installation import EXECUTORS, find
from refaug.core.progress import Progress
from refaug.core.query_engine import QueryEngine
from refaug.logs.ingest.cleaning import CleaningSettings
from refaug.logs.ingest.order import IngestOrder, IngestReport, Stage, pair_up, units_of
from refaug.logs.ingest.pairing import reject_pair, reject_unplaced
from refaug.logs.ingest.reply_trees import TreeCounts, Trees
from refaug.logs.ingest.source_reading import IngestMachines, SourceReader
from refaug.logs.manifest import (
    MANIFEST,
    LogIngest,
    LogManifest,
    LogPart,
    LogSource,
    now,
    require_same_settings,
    software,
)
from refaug.logs.pairs import PAIR_SCHEMA, erasure_key
from refaug.logs.part_files import ROWS_A_GROUP, PartWriter
from refaug.logs.reading.sources import LineReader, Source, find_files
from refaug.logs.store import known_pairs, new_totals, remove_leftovers


def publish(stage: Stage, known_names: tuple[str, ...], progress: Progress) -> IngestReport:
    """Move the parts beside the others, then name them in the manifest, which changes the log."""
    state = stage.state
    pairs = sum(part["pairs"] for part in state.parts)
    counts = _counts(stage)
    if not pairs and not stage.manifest.ingests:
        _gather_rejects(stage)
        raise BadInput(
            f"no pair came out of {counts['rows']:,} rows: {_drop_reasons(counts)}",
            remedy="--rejects FILE shows what was left out and why",
        )
    progress.stage("publishing")
    parts = _move_parts(stage)
    with QueryEngine(stage.folder / "engine", memory=stage.order.memory) as engine:
        stored = [stage.log / part.file for part in stage.manifest.parts]
        added = new_totals(engine, stored, [stage.log / part.file for part in parts])
    totals = {name: stage.manifest.totals.get(name, 0) + added[name] for name in added}
    run = LogIngest(
        key=stage.key,
        at=now(),
        settings={**stage.order.settings(), "context": _context(stage)},
        sources=tuple(_sources(stage)),
        counts=counts,
    )
    manifest = replace(
        stage.manifest,
        updated=now(),
        parts=(*stage.manifest.parts, *parts),
        ingests=(*stage.manifest.ingests, run),
        totals=totals,
        software=software(),
        next_part=stage.manifest.first_free_part() + len(parts),
    )
    _gather_rejects(stage)
    manifest.write(stage.log)
    remove_leftovers(stage.log, manifest, stages=True)
    return IngestReport(
        log=stage.order.log,
        pairs_added=pairs,
        totals=totals,
        counts=counts,
        sources=run.sources,
        already_there=known_names,
        problems=tuple(state.problems),
        resumed=stage.resumed,
    )


def _move_parts(stage: Stage) -> list[LogPart]:
    """Move staged files to their final names; an interrupted run has moved some already."""
    moved = []
    with storage_errors(stage.log):
        for part, staged, final in stage.part_paths():
            if staged.exists():
                staged.replace(final)
            moved.append(LogPart(**{**part, "file": final.name}))
        sync_folder(stage.log)
    return moved


def _counts(stage: Stage) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for unit in stage.state.counts:
        counts.update(unit)
    counts.update({f"trees:{name}": count for name, count in stage.state.tree_counts.items()})
    return {name: count for name, count in sorted(counts.items()) if count}


def _context(stage: Stage) -> list[dict[str, str]]:
    """Return the sources read only for their messages: without them the same pairs do not come out."""
    context_sources = [source for unit in stage.units if unit.context for source in unit.sources]
    return [{"name": source.name, "sha256": source.sha256} for source in context_sources]


def _sources(stage: Stage) -> Iterator[LogSource]:
    for unit, counts in zip(stage.units, stage.state.counts, strict=True):
        for source in unit.sources:
            if not unit.context:
                yield LogSource(
                    name=source.name,
                    size=source.size,
                    sha256=source.sha256,
                    format=unit.format.name,
                    counts={name: count for name, count in sorted(counts.items()) if count},
                )


def _gather_rejects(stage: Stage) -> None:
    path = stage.order.rejects
    if path is None:
        return
    with write_aside(path.resolve()) as file:  # through a link, not in place of it
        for number in range(stage.state.rejects):
            with (stage.folder / f"rejects-{number:05}.jsonl").open("rb") as rejects:
                shutil.copyfileobj(rejects, file)


def _drop_reasons(counts: Mapping[str, int]) -> str:
    reasons = {name: count for name, count in counts.items() if name.startswith(("bad:", "dropped:"))}
    reasons |= {name: counts[name] for name in ("one-turn dialogues", "trees:orphans") if counts.get(name)}
    return (
        ", ".join(f"{name.split(':')[-1]} {count:,}" for name, count in reasons.items()) or "nothing was said in them"
    )


def join_trees(stage: Stage, progress: Progress, cluster: IngestMachines | None = None) -> None:
    """Turn staged messages into staged pairs; on a cluster, texts are sorted and joined by tasks."""
    state = stage.state
    if state.phase != "messages":
        return
    progress.stage("joining message trees" if cluster is None else "linking messages", state.messages, "messages")
    staged = [stage.folder / part["file"] for part in state.message_parts]
    with QueryEngine(stage.folder / "engine", memory=stage.order.memory) as engine:
        trees = Trees(engine, staged, stage.folder)
        counts = trees.link()
        state.tree_counts = asdict(counts)
        if stage.order.rejects is not None:
            stage.write_rejects((stage.units[m.source].name, reject_unplaced(m)) for m in trees.unplaced())
        pairs = trees.pairs() if cluster is None else cluster.tree_pairs(stage, trees)
        _stage_pairs(stage, pairs, progress)
    _report_trees(stage, counts, progress)
    state.phase = "joined"
    stage.save()


def _stage_pairs(stage: Stage, batches: Iterable[pa.RecordBatch], progress: Progress) -> None:
    """Write joined pairs as further parts; the state names none of them before all are written."""
    parts = stage.parts_writer("pairs")
    try:
        for batch in batches:
            parts.add(_drop_erased(stage, batch).select(PAIR_SCHEMA.names))
            progress.advance(batch.num_rows)
        stage.state.parts += map(asdict, parts.close())
    except BaseException:
        parts.abandon()
        raise


def _drop_erased(stage: Stage, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Drop messages of erased dialogues, since the dialogue of a message is known only here."""
    erased = frozenset(stage.manifest.erased.dialogues)
    if not erased:
        return batch
    is_erased = {
        name: erasure_key(name, stage.manifest.name) in erased for name in batch["dialogue"].unique().to_pylist()
    }
    hits = pa.array([is_erased[name] for name in batch["dialogue"].to_pylist()], pa.bool_())
    if hits.true_count:
        stage.state.tree_counts["erased"] = stage.state.tree_counts.get("erased", 0) + hits.true_count
        if stage.order.rejects is not None:
            rows = batch.filter(hits).to_pylist()
            stage.write_rejects(
                (stage.units[row["source"]].name, reject_pair(row, "erased", row["line"])) for row in rows
            )
    return batch.filter(pa.compute.invert(hits))


def _report_trees(stage: Stage, counts: TreeCounts, progress: Progress) -> None:
    if counts.in_cycles:
        stage.warn(f"{counts.in_cycles:,} messages answer each other in a circle and were left out", progress)
    if counts.duplicate_ids:
        stage.warn(f"{counts.duplicate_ids:,} messages have the id of an earlier one and were left out", progress)
    if counts.orphans > counts.messages // 2:
        stage.warn(
            f"{counts.orphans:,} of {counts.messages:,} messages answer one that no source holds; name the files "
            "that hold them too, or give them with --context",
            progress,
        )


# ── The step of an ingest that drops pairs whose id exists already ────────────────────────────────────────────────────

_DUPLICATE_IDS: Final = "duplicate pair ids"


def drop_known_pairs(stage: Stage, progress: Progress) -> None:
    """Drop pairs whose id exists already, and other versions of dialogues: the first one stays."""
    state = stage.state
    if state.phase == "distinct" or not state.parts:
        return
    progress.stage("checking ids")
    staged = [stage.folder / part["file"] for part in state.parts]
    starts = np.cumsum([0, *(part["pairs"] for part in state.parts)])
    duplicates = 0
    with QueryEngine(stage.folder / "engine", memory=stage.order.memory) as engine:
        stored = [stage.log / part.file for part in stage.manifest.parts]
        dialogue_parts = int(np.searchsorted(starts[:-1], sum(state.pairs)))
        for index, rows in known_pairs(engine, stored, staged, dialogue_parts=dialogue_parts):
            units = [state.unit_of(int(starts[index]) + row) for row in rows]
            _count_duplicates(stage, units)
            state.parts[index] = _rewrite_part(stage, index, rows, units)
            duplicates += len(rows)
    if duplicates:
        stage.warn(
            f"{duplicates:,} pairs have the id (dialogue and position) of an earlier pair, or their dialogue has an "
            "earlier version, and were left out, as they should be when an export repeats dialogues; only where ids "
            "are not unique, --no-ids numbers by line",
            progress,
        )
    state.phase = "distinct"
    stage.save()


def _count_duplicates(stage: Stage, units: Iterable[int | None]) -> None:
    for unit, count in Counter(units).items():
        counts = stage.state.tree_counts if unit is None else stage.state.counts[unit]
        counts[_DUPLICATE_IDS] = counts.get(_DUPLICATE_IDS, 0) + count


def _rewrite_part(stage: Stage, index: int, rows: Sequence[int], units: Sequence[int | None]) -> dict[str, object]:
    """Write a staged part without some of its rows."""
    old = stage.folder / str(stage.state.parts[index]["file"])
    writer = PartWriter(old.with_name(f"distinct-{index:05}.parquet"))
    dropped, start = np.array(rows), 0
    rejected: list[dict[str, object]] = []
    with pq.ParquetFile(old) as file:
        for batch in file.iter_batches(batch_size=ROWS_A_GROUP, use_threads=False):
            inside = dropped[(dropped >= start) & (dropped < start + batch.num_rows)] - start
            is_kept = np.ones(batch.num_rows, dtype=bool)
            is_kept[inside] = False
            writer.add(batch.filter(pa.array(is_kept)))
            if stage.order.rejects is not None:
                rejected += batch.take(pa.array(inside)).to_pylist()
            start += batch.num_rows
    if rejected:
        names = ("" if unit is None else stage.units[unit].name for unit in units)
        reasons = (reject_pair(row, "duplicate-id") for row in rejected)
        stage.write_rejects(zip(names, reasons, strict=True))
    return asdict(writer.close())


# ── `refaug log ingest` ───────────────────────────────────────────────────────────────────────────────────────────────

_SMALL_BYTES = 1_000  # smaller files may be empty


def ingest(
    order: IngestOrder, logs: Path, progress: Progress, *, cluster: ConnectedCluster | None = None
) -> IngestReport:
    """Read the sources, clean and pair them, and add the result to the log as new parts.

    On a cluster this is done by tasks on its machines; the log is the same.
    """
    files, context = find_files(order.sources), find_files(order.context)
    _require_place_for_rejects(order.rejects, [*files, *context])
    folder = logs / order.log
    with exclusive(folder, f"ingesting into log {order.log}"), _no_empty_folder(folder):
        manifest = LogManifest.read(folder) if (folder / MANIFEST).exists() else LogManifest.new(order.log)
        remove_leftovers(folder, manifest, stages=False)
        order = _with_cleaning_of_the_log(order, manifest, progress)
        machines = None if cluster is None else _machines(cluster, order, folder, [*files, *context], progress)
        fingerprinted = (
            _fingerprints([*files, *context], progress)
            if machines is None
            else machines.fingerprints([*files, *context])
        )
        sources = _drop_empty(fingerprinted[: len(files)], order, progress)
        context_sources = _drop_empty(fingerprinted[len(files) :], order, progress)
        new, known_names = _new_sources(manifest, sources, order)
        if not new:
            return _unchanged_report(order, manifest, known_names)
        hashes = {source.sha256 for source in new}
        context_sources = [source for source in context_sources if source.sha256 not in hashes]
        units = [*units_of(order, new, context=False), *units_of(order, context_sources, context=True)]
        stage = Stage(folder, order, units, manifest)
        _warn_of_repeated_rows(stage, progress)
        try:
            SourceReader(stage, progress, machines).read()
            join_trees(stage, progress, machines)
            drop_known_pairs(stage, progress)
            for unit in units:
                unit.require_unchanged()
            return publish(stage, known_names, progress)
        except BadInput:
            remove_tree(stage.folder)  # the same command would be refused again: there is nothing to resume
            raise


@contextmanager
def _no_empty_folder(folder: Path) -> Iterator[None]:
    """Remove the folder of a log after an error, where nothing is in it but the lock, which the caller holds."""
    try:
        yield
    except BaseException:
        if [path.name for path in folder.iterdir()] == [LOCK]:
            remove_tree(folder)
        raise


def _machines(
    cluster: ConnectedCluster, order: IngestOrder, folder: Path, files: Sequence[Path], progress: Progress
) -> IngestMachines:
    """Return the cluster as the steps use it, if all of its machines see the log and the sources."""
    machines: IngestMachines = find(EXECUTORS, "ingest")(cluster, order, progress)
    machines.require_alike(folder, files)
    return machines


def _with_cleaning_of_the_log(order: IngestOrder, manifest: LogManifest, progress: Progress) -> IngestOrder:
    """Return the order with the cleaning of the log's first ingest; a warning names what the order has otherwise."""
    if not manifest.ingests:
        return order
    stored, default = manifest.ingests[0].settings.get("cleaning"), CleaningSettings()
    if not isinstance(stored, Mapping):
        return order
    names = [name.name for name in fields(CleaningSettings) if name.name in stored]
    cleaning = replace(default, **{name: _as_setting(stored[name]) for name in names})
    for name in names:
        of_order, of_log = getattr(order.cleaning, name), getattr(cleaning, name)
        if of_order not in (of_log, getattr(default, name)):
            progress.warn(
                f"log {order.log} is cleaned with {_shown(name, of_log)} since its first ingest; "
                f"{_shown(name, of_order)} is not used: cleaning belongs to the log"
            )
    return replace(order, cleaning=cleaning)


def _as_setting(stored: Any) -> Any:
    return tuple(stored) if isinstance(stored, list) else stored


def _shown(name: str, setting: Any) -> str:
    """Return a setting in words; rules by those that are switched off, which are fewer."""
    if name != "rules":
        return f"{name} {setting}"
    idle = [rule for rule in CleaningSettings().rules if rule not in setting]
    return f"all rules but {', '.join(idle)}" if idle else "all rules"


def _require_place_for_rejects(rejects: Path | None, files: Iterable[Path]) -> None:
    """Refuse a bad path for rejects before the work, not after it."""
    if rejects is None:
        return
    if not rejects.parent.is_dir() or rejects.is_dir():
        raise Usage(f"--rejects {rejects}: no file can be written there", remedy="name a file in a folder that exists")
    if rejects.exists() and not rejects.is_file():
        raise Usage(f"--rejects {rejects} is not a regular file", remedy="leave --rejects out, or name a file")
    if rejects.exists() and any(rejects.samefile(file) for file in files):
        raise Usage(f"--rejects {rejects} is one of the sources", remedy="name another file")


def _fingerprints(files: Sequence[Path], progress: Progress) -> list[Source]:
    progress.stage("fingerprints", sum(file.stat().st_size for file in files), "B")
    sources = []
    for file in files:
        sources.append(Source.of(file))
        progress.advance(sources[-1].size)
    return sources


def _warn_of_repeated_rows(stage: Stage, progress: Progress) -> None:
    """Name changed files of the log without ids: their rows have other names than before, and are all added again."""
    earlier_names = {source.name for run in stage.manifest.ingests for source in run.sources}
    for unit in stage.units:
        has_ids = unit.kind != "pairs" or (stage.order.use_ids and "id" in unit.format.fields.names)
        if not stage.resumed and not has_ids and any(source.name in earlier_names for source in unit.sources):
            stage.warn(
                f"{unit.name}: changed since it was added, and has no ids: all of its pairs are added again; with an "
                "id in every row (--map id=FIELD) only new ones are",
                progress,
            )


def _drop_empty(sources: Sequence[Source], order: IngestOrder, progress: Progress) -> list[Source]:
    """Return the sources with content; raise NoSource only if all are empty."""
    empty = [source for source in sources if _is_empty(source, order.encoding)]
    if empty and len(empty) == len(sources):
        raise NoSource(f"{', '.join(source.name for source in empty)}: empty")
    if order.format == "aligned":
        return list(sources)  # an empty line answers an empty line
    for source in empty:
        progress.warn(f"{source.name}: empty, passed over")
    return [source for source in sources if source not in empty]


def _is_empty(source: Source, encoding: str) -> bool:
    """Return whether a source holds nothing, or blank lines only."""
    if source.size >= _SMALL_BYTES:
        return False
    return all(block.bad is None and not block.data.strip() for block in LineReader(source, encoding=encoding))


def _new_sources(
    manifest: LogManifest, sources: Sequence[Source], order: IngestOrder
) -> tuple[list[Source], tuple[str, ...]]:
    """Return the sources whose content is not in the log, each content once, and the names of the others."""
    known_ingests = manifest.source_fingerprints()
    default = IngestOrder(sources=(), log=order.log).settings()
    new, known_names = dict[tuple[str, ...], Sequence[Source]](), list[str]()
    for group in pair_up(sources) if order.format == "aligned" else [(source,) for source in sources]:
        content = tuple(source.sha256 for source in group)
        if content in known_ingests:
            require_same_settings(known_ingests[content], order.settings(), default, str(group[0].path))
        if content in known_ingests or content in new:
            known_names += (source.name for source in group)
        else:
            new[content] = group
    return [source for group in new.values() for source in group], tuple(known_names)


def _unchanged_report(order: IngestOrder, manifest: LogManifest, known_names: tuple[str, ...]) -> IngestReport:
    return IngestReport(
        log=order.log,
        pairs_added=0,
        totals=manifest.totals,
        counts={},
        sources=(),
        already_there=known_names,
        problems=(),
        resumed=False,
    )
