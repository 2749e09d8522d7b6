"""`refaug ingest`: sources → a log. The steps are in `ingest`, in order.

Everything is staged beside the log, under a key made of the sources' contents and the settings. An interrupted run
continues from the last finished part; a run with any change starts afresh. The log itself changes by one rename at the
end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from refaug.core.errors import NoSource, Usage
from refaug.core.files import exclusive
from refaug.core.progress import Progress
from refaug.core.query_engine import QueryEngine
from refaug.logs.ingest.cleaning import CleaningSettings
from refaug.logs.ingest.order import IngestOrder, IngestReport, pair_up, units_of
from refaug.logs.ingest.publishing import publish
from refaug.logs.ingest.rejects import reject_pair
from refaug.logs.ingest.source_reading import SourceReader
from refaug.logs.ingest.stage import Stage
from refaug.logs.ingest.tree_joining import join_trees
from refaug.logs.manifest import MANIFEST, LogManifest, require_same_settings
from refaug.logs.part_files import ROWS_A_GROUP, PartWriter
from refaug.logs.reading.sources import LineReader, Source, find_files
from refaug.logs.statistics import known_pairs
from refaug.logs.store import remove_leftovers

if TYPE_CHECKING:
    from refaug.core.cluster.connection import Cluster
    from refaug.logs.ingest.on_cluster.ingest_cluster import IngestCluster

# ── the step of an ingest that drops pairs whose id exists already ────────────────────────────────────────────────────

_DUPLICATE_IDS: Final = "duplicate pair ids"


def drop_known_pairs(stage: Stage, progress: Progress) -> None:
    """Drop pairs whose id exists already: an id names one pair for ever, and the first one stays."""
    state = stage.state
    if state.phase == "distinct" or not state.parts:
        return
    progress.stage("checking ids")
    staged = [stage.folder / part["file"] for part in state.parts]
    starts = np.cumsum([0, *(part["pairs"] for part in state.parts)])
    duplicates = 0
    with QueryEngine(stage.folder / "engine", memory=stage.order.memory) as engine:
        stored = [stage.log / part.file for part in stage.manifest.parts]
        for index, rows in known_pairs(engine, stored, staged):
            units = [state.unit_of(int(starts[index]) + row) for row in rows]
            _count_duplicates(stage, units)
            state.parts[index] = _rewrite_part(stage, index, rows, units)
            duplicates += len(rows)
    if duplicates:
        stage.warn(
            f"{duplicates:,} pairs have the id (dialogue and position) of an earlier pair and were left out, as "
            "they should be when an export repeats dialogues; only where ids are not unique, --no-ids numbers by "
            "line",
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


# ── `refaug ingest` ───────────────────────────────────────────────────────────────────────────────────────────────────

__all__ = ["IngestOrder", "IngestReport", "ingest"]

_SMALL_BYTES = 1_000  # smaller files may be empty


def ingest(order: IngestOrder, logs: Path, progress: Progress, *, cluster: Cluster | None = None) -> IngestReport:
    """Read the sources, clean and pair them, and add the result to the log as new parts.

    On a cluster this is done by tasks on its machines; the log is the same.
    """
    files, context = find_files(order.sources), find_files(order.context)
    _require_place_for_rejects(order.rejects, [*files, *context])
    folder = logs / order.log
    with exclusive(folder, f"ingesting into log {order.log}"):
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
        SourceReader(stage, progress, machines).read()
        join_trees(stage, progress, machines)
        drop_known_pairs(stage, progress)
        for unit in units:
            unit.require_unchanged()
        return publish(stage, known_names, progress)


def _machines(
    cluster: Cluster, order: IngestOrder, folder: Path, files: Sequence[Path], progress: Progress
) -> IngestCluster:
    """Return the cluster as the steps use it, if all of its machines see the log and the sources."""
    from refaug.logs.ingest.on_cluster.ingest_cluster import IngestCluster  # noqa: PLC0415  only on clusters

    machines = IngestCluster(cluster, order, progress)
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
        raise Usage(f"--rejects {rejects} is no regular file", remedy="leave --rejects out, or name a file")
    if rejects.exists() and any(rejects.samefile(file) for file in files):
        raise Usage(f"--rejects {rejects} is one of the sources", remedy="name another file")


def _fingerprints(files: Sequence[Path], progress: Progress) -> list[Source]:
    progress.stage("fingerprints", sum(file.stat().st_size for file in files), "B")
    sources = []
    for file in files:
        sources.append(Source.of(file))
        progress.advance(sources[-1].size)
    return sources


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
