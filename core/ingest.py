"""`refaug ingest`: sources → a log. The steps are in `ingest`, in order.

Everything is staged beside the log, under a key made of the sources' contents and the settings. A run that was
stopped, however it was stopped, goes on from the last part it finished; a run that changes anything starts afresh. The
log itself changes by one rename at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from core.files import exclusive
from core.ingest_order import IngestOrder, IngestReport, units_of
from core.log_store import LogManifest, list_logs, require_same_settings
from core.logs.sources import Source, find_files
from core.progress import Progress
from core.staging import Stage

__all__ = ["IngestOrder", "IngestReport", "ingest"]


def ingest(order: IngestOrder, logs: Path, progress: Progress) -> IngestReport:
    """Read the sources, clean and pair them, and add the result to the log as new parts."""
    files, context = find_files(order.sources), find_files(order.context)
    folder = logs / order.log
    with exclusive(folder, f"ingesting into log {order.log}"):
        sources = _fingerprints([*files, *context], progress)
        manifest = LogManifest.read(folder) if order.log in list_logs(logs) else LogManifest.new(order.log)
        new, there = _not_yet_in(manifest, sources[: len(files)], order)
        if not new:
            return _nothing_new(order, manifest, there)
        units = [*units_of(order, new, context=False), *units_of(order, sources[len(files) :], context=True)]
        stage = Stage(folder, order, units, manifest)
        stage.read(progress)
        stage.join_trees(progress)
        stage.drop_known_pairs(progress)
        for source in sources:
            source.require_unchanged()
        return stage.publish(there, progress)


def _fingerprints(files: Sequence[Path], progress: Progress) -> list[Source]:
    progress.stage("fingerprints", sum(file.stat().st_size for file in files), "B")
    sources = []
    for file in files:
        sources.append(Source.of(file))
        progress.advance(sources[-1].size)
    return sources


def _not_yet_in(
    manifest: LogManifest, sources: Sequence[Source], order: IngestOrder
) -> tuple[list[Source], tuple[str, ...]]:
    """Sources whose content the log has not seen, each content once; and the names of the others."""
    known, new, there = manifest.source_fingerprints(), dict[str, Source](), []
    for source in sources:
        if source.sha256 in known:
            require_same_settings(known[source.sha256], order.settings(), str(source.path))
            there.append(str(source.path))
        elif source.sha256 in new and order.format != "aligned":
            there.append(str(source.path))
        else:
            new[source.sha256 if order.format != "aligned" else str(source.path)] = source
    return list(new.values()), tuple(there)


def _nothing_new(order: IngestOrder, manifest: LogManifest, there: tuple[str, ...]) -> IngestReport:
    return IngestReport(
        log=order.log,
        pairs_added=0,
        totals=manifest.totals,
        counts={},
        sources=(),
        already_there=there,
        problems=(),
        resumed=False,
    )
