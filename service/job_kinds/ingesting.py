"""Jobs that add to logs: files, and what was posted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from core.cleaning import FILTERS, REPAIRS, CleaningSettings
from core.errors import BadInput
from core.ingest import IngestOrder, IngestReport, ingest
from core.log_store import MANIFEST, LogManifest
from core.logs.shapes import KNOWN_NAMES
from core.logs.sources import Source
from service.job_kinds.orders import Cleaning, IngestJob
from service.job_kinds.sources import require_source
from service.job_kinds.work import Work
from service.posted import FIELDS, Batch, Posted

_RULES: Final = (*REPAIRS, *FILTERS)


def ingest_job(order: IngestJob, work: Work) -> Mapping[str, Any]:
    """Files, or what was posted; files that are in the log already are passed over."""
    if order.posted:
        return ingest_posted(order.log, order, order.memory_mib << 20, order.workers, work)
    if unknown := sorted(set(order.map) - set(KNOWN_NAMES)):
        raise BadInput(f"map.{unknown[0]}: no such field", remedy=f"fields are: {', '.join(KNOWN_NAMES)}")
    asked = IngestOrder(
        sources=_paths(order.sources or [], work),
        log=order.log,
        format=order.format,
        mapping=order.map,
        use_ids=order.ids,
        context=_paths(order.context, work),
        encoding=order.encoding,
        markup=order.markup,
        cleaning=cleaning_of(order),
        blocked_speakers=frozenset(order.block_speakers),
        stop_on_error=order.on_error == "stop",
        max_bad_share=order.max_bad_share,
        memory=order.memory_mib << 20,
        workers=order.workers,
    )
    return _reported(ingest(asked, work.home.logs, work.progress))


def ingest_files(
    log: str, sources: Sequence[str], cleaning: Cleaning, memory: int, workers: int | None, work: Work
) -> Mapping[str, Any]:
    """Files in a form that is recognised."""
    asked = IngestOrder(
        sources=_paths(sources, work),
        log=log,
        cleaning=cleaning_of(cleaning),
        blocked_speakers=frozenset(cleaning.block_speakers),
        memory=memory,
        workers=workers,
    )
    return _reported(ingest(asked, work.home.logs, work.progress))


def ingest_posted(log: str, cleaning: Cleaning, memory: int, workers: int | None, work: Work) -> Mapping[str, Any]:
    """All that was posted to a log and waits, as one source; what is posted meanwhile waits for the next time."""
    with Posted(work.home, work.serve).taking(log) as batch:
        if batch is None:
            return {"log": log, "pairs_added": 0, "posted": {"requests": 0, "dialogues": 0}}
        asked = IngestOrder(
            sources=(str(batch.path),),
            log=log,
            format="jsonl",
            mapping=dict(FIELDS),
            encoding="utf-8",
            markup="none",
            cleaning=cleaning_of(cleaning),
            blocked_speakers=frozenset(cleaning.block_speakers),
            memory=memory,
            workers=workers,
        )
        taken = {"requests": batch.requests, "dialogues": batch.dialogues}
        if batch.is_empty or _is_in_log(batch, log, work):  # a kill came between ingesting and letting go of it
            report: Mapping[str, Any] = {"log": log, "pairs_added": 0}
        else:
            report = _reported(ingest(asked, work.home.logs, work.progress))
        batch.ingested()
    return {**report, "posted": taken}


def _is_in_log(batch: Batch, log: str, work: Work) -> bool:
    folder = work.home.logs / log
    if not (folder / MANIFEST).exists():
        return False
    return (Source.of(batch.path).sha256,) in LogManifest.read(folder).source_fingerprints()


def cleaning_of(asked: Cleaning) -> CleaningSettings:
    """As the command makes them of its options."""
    for rule in [*asked.no_rules, *(asked.only_rules or ())]:
        if rule not in _RULES:
            raise BadInput(f"{rule!r} is no cleaning rule", remedy=f"rules: {', '.join(_RULES)}")
    every = tuple(rule for rule in _RULES if rule not in asked.no_rules)
    return CleaningSettings(
        rules=every if asked.only_rules is None else tuple(asked.only_rules),
        language=asked.language,
        min_chars=asked.min_chars,
        max_chars=asked.max_chars,
        flood_cap=asked.flood_cap,
    )


def _paths(names: Sequence[str], work: Work) -> tuple[str, ...]:
    return tuple(str(require_source(name, work.home, work.serve)) for name in names)


def _reported(report: IngestReport) -> dict[str, Any]:
    """What came of it; what files are called, and not where they lie."""
    found = asdict(report)
    found["sources"] = [{**one, "name": _called(one["name"])} for one in found["sources"]]
    found["already_there"] = [_called(name) for name in report.already_there]
    return found


def _called(name: str) -> str:
    return name.rpartition("/")[2]


WORK: Final = {"ingest": ingest_job}
