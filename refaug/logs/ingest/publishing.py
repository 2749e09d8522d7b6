"""The last step of an ingest: it moves the staged parts into the log and names them in its manifest."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from refaug.core.errors import BadInput
from refaug.core.files import sync_folder, write_aside
from refaug.core.full_disk import storage_errors
from refaug.core.progress import Progress
from refaug.core.query_engine import QueryEngine
from refaug.logs.ingest.order import IngestReport
from refaug.logs.ingest.stage import Stage
from refaug.logs.manifest import LogIngest, LogPart, LogSource, now, software
from refaug.logs.statistics import new_totals
from refaug.logs.store import remove_leftovers


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
