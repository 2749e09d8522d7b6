"""`refaug ingest`: sources → a log. The steps are in `ingest`, in order.

Everything is staged beside the log, under a key made of the sources' contents and the settings. A run that was
stopped, however it was stopped, goes on from the last part it finished; a run that changes anything starts afresh. The
log itself changes by one rename at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from core.errors import NoSource, Usage
from core.files import exclusive
from core.ingest_order import IngestOrder, IngestReport, two_by_two, units_of
from core.log_store import MANIFEST, LogManifest, remove_leftovers, require_same_settings
from core.logs.sources import LineReader, Source, find_files
from core.progress import Progress
from core.staging import Stage

__all__ = ["IngestOrder", "IngestReport", "ingest"]

_SMALL_BYTES = 1_000  # no larger file, compressed or not, holds nothing


def ingest(order: IngestOrder, logs: Path, progress: Progress) -> IngestReport:
    """Read the sources, clean and pair them, and add the result to the log as new parts."""
    files, context = find_files(order.sources), find_files(order.context)
    _require_place_for_rejects(order.rejects, [*files, *context])
    folder = logs / order.log
    with exclusive(folder, f"ingesting into log {order.log}"):
        manifest = LogManifest.read(folder) if (folder / MANIFEST).exists() else LogManifest.new(order.log)
        remove_leftovers(folder, manifest, stages=False)
        found = _fingerprints([*files, *context], progress)
        sources = _filled(found[: len(files)], order, progress)
        beside = _filled(found[len(files) :], order, progress)
        new, there = _not_yet_in(manifest, sources, order)
        if not new:
            return _nothing_new(order, manifest, there)
        hashes = {source.sha256 for source in new}
        beside = [source for source in beside if source.sha256 not in hashes]
        units = [*units_of(order, new, context=False), *units_of(order, beside, context=True)]
        stage = Stage(folder, order, units, manifest)
        stage.read(progress)
        stage.join_trees(progress)
        stage.drop_known_pairs(progress)
        for unit in units:
            unit.require_unchanged()
        return stage.publish(there, progress)


def _require_place_for_rejects(rejects: Path | None, files: Iterable[Path]) -> None:
    """Find out before the work, not after it."""
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


def _filled(sources: Sequence[Source], order: IngestOrder, progress: Progress) -> list[Source]:
    """Sources that hold something; empty ones are refused only when nothing else is there."""
    empty = [source for source in sources if _is_empty(source, order.encoding)]
    if empty and len(empty) == len(sources):
        raise NoSource(f"{', '.join(source.name for source in empty)}: empty")
    if order.format == "aligned":
        return list(sources)  # line i of nothing answers line i of nothing
    for source in empty:
        progress.warn(f"{source.name}: empty, passed over")
    return [source for source in sources if source not in empty]


def _is_empty(source: Source, encoding: str) -> bool:
    """Whether it holds nothing, or blank lines only."""
    if source.size >= _SMALL_BYTES:
        return False
    return all(block.bad is None and not block.data.strip() for block in LineReader(source, encoding=encoding))


def _not_yet_in(
    manifest: LogManifest, sources: Sequence[Source], order: IngestOrder
) -> tuple[list[Source], tuple[str, ...]]:
    """Sources whose content the log has not seen, each content once; and the names of the others."""
    known = manifest.source_fingerprints()
    new, there = dict[tuple[str, ...], Sequence[Source]](), list[str]()
    for together in two_by_two(sources) if order.format == "aligned" else [(source,) for source in sources]:
        content = tuple(source.sha256 for source in together)
        if content in known:
            require_same_settings(known[content], order.settings(), str(together[0].path))
        if content in known or content in new:
            there += (source.name for source in together)
        else:
            new[content] = together
    return [source for together in new.values() for source in together], tuple(there)


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
