"""Jobs that add dialogues to logs, from files or from the inbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from refaug.core.errors import BadInput
from refaug.core.processes.worker_processes import MOST_WORKERS
from refaug.logs.ingest.cleaning import FILTERS, REPAIRS, CleaningSettings
from refaug.logs.ingest.ingest import IngestOrder, IngestReport, ingest
from refaug.logs.manifest import MANIFEST, LogManifest
from refaug.logs.reading.shapes import KNOWN_NAMES
from refaug.logs.reading.sources import Source
from refaug.service.jobs.clusters import connected
from refaug.service.jobs.inbox import FIELDS, Inbox, InboxBatch
from refaug.service.jobs.kinds.job_context import JobContext
from refaug.service.jobs.kinds.sources import require_source
from refaug.service.jobs.orders.log_orders import Cleaning, IngestJob
from refaug.service.jobs.orders.nightly_order import NightlyJob

_RULES: Final = (*REPAIRS, *FILTERS)


def ingest_job(order: IngestJob, context: JobContext) -> Mapping[str, Any]:
    """Ingest files or posted dialogues; files that the log has already are skipped."""
    if order.posted:
        return ingest_posted(order.log, order, order.memory_mib << 20, workers_of(order, context), context)
    if unknown := sorted(set(order.map) - set(KNOWN_NAMES)):
        raise BadInput(f"map.{unknown[0]}: no such field", remedy=f"fields are: {', '.join(KNOWN_NAMES)}")
    sources, context_sources = _paths(order.sources or [], context), _paths(order.context, context)
    ingest_order = replace(
        _order_of(order.log, sources, order, order.memory_mib << 20, workers_of(order, context)),
        format=order.format,
        mapping=order.map,
        use_ids=order.ids,
        context=context_sources,
        encoding=order.encoding,
        markup=order.markup,
        stop_on_error=order.on_error == "stop",
        max_bad_share=order.max_bad_share,
    )
    with connected(order.on, context.serve) as cluster:
        return _report_as_json(ingest(ingest_order, context.home.logs, context.progress, cluster=cluster))


def ingest_files(
    log: str, sources: Sequence[str], cleaning: Cleaning, memory: int, workers: int, context: JobContext
) -> Mapping[str, Any]:
    """Ingest files in a recognised format."""
    ingest_order = _order_of(log, _paths(sources, context), cleaning, memory, workers)
    return _report_as_json(ingest(ingest_order, context.home.logs, context.progress))


def ingest_posted(log: str, cleaning: Cleaning, memory: int, workers: int, context: JobContext) -> Mapping[str, Any]:
    """Ingest all posted dialogues of a log as one source; dialogues posted in the meantime wait for the next job."""
    with Inbox(context.home, context.serve).take_batch(log) as batch:
        if batch is None:
            return {"log": log, "pairs_added": 0, "posted": {"requests": 0, "dialogues": 0}}
        ingest_order = replace(
            _order_of(log, (str(batch.path),), cleaning, memory, workers),
            format="jsonl",
            mapping=dict(FIELDS),
            encoding="utf-8",
            markup="none",
        )
        posted = {"requests": batch.requests, "dialogues": batch.dialogues}
        if batch.is_empty or _is_in_log(batch, log, context):  # a kill came between ingesting the batch and removing it
            report: Mapping[str, Any] = {"log": log, "pairs_added": 0}
        else:
            report = _report_as_json(ingest(ingest_order, context.home.logs, context.progress))
        batch.mark_ingested()
    return {**report, "posted": posted}


def workers_of(order: IngestJob | NightlyJob, context: JobContext) -> int:
    """Return how many processes read sources: those of the order, else as many as the job has threads."""
    if order.workers is not None:
        return order.workers
    threads = order.threads if isinstance(order, NightlyJob) else None
    return min(MOST_WORKERS, context.threads(threads))


def _is_in_log(batch: InboxBatch, log: str, context: JobContext) -> bool:
    folder = context.home.logs / log
    if not (folder / MANIFEST).exists():
        return False
    return (Source.of(batch.path).sha256,) in LogManifest.read(folder).source_fingerprints()


def _order_of(log: str, sources: tuple[str, ...], cleaning: Cleaning, memory: int, workers: int) -> IngestOrder:
    """Return the order of an ingest of sources in a recognised format."""
    return IngestOrder(
        sources=sources,
        log=log,
        cleaning=cleaning_of(cleaning),
        blocked_speakers=frozenset(cleaning.block_speakers),
        memory=memory,
        workers=workers,
    )


def cleaning_of(options: Cleaning) -> CleaningSettings:
    """Return cleaning settings as the command makes them of its options."""
    for rule in [*options.no_rules, *(options.only_rules or ())]:
        if rule not in _RULES:
            raise BadInput(f"{rule!r} is no cleaning rule", remedy=f"rules: {', '.join(_RULES)}")
    every = tuple(rule for rule in _RULES if rule not in options.no_rules)
    return CleaningSettings(
        rules=every if options.only_rules is None else tuple(options.only_rules),
        language=options.language,
        min_chars=options.min_chars,
        max_chars=options.max_chars,
        flood_cap=options.flood_cap,
    )


def _paths(names: Sequence[str], context: JobContext) -> tuple[str, ...]:
    return tuple(str(require_source(name, context.home, context.serve)) for name in names)


def _report_as_json(report: IngestReport) -> dict[str, Any]:
    """Return the report with the names of files and without their paths."""
    content = asdict(report)
    content["sources"] = [{**one, "name": _file_name(one["name"])} for one in content["sources"]]
    content["already_there"] = [_file_name(name) for name in report.already_there]
    return content


def _file_name(name: str) -> str:
    return name.rpartition("/")[2]


JOB_FUNCTIONS: Final = {"ingest": ingest_job}
