"""Jobs that add dialogues to logs, from files or from the inbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from refaug.core.processes.worker_processes import MOST_WORKERS
from refaug.logs.ingest.ingest import ingest
from refaug.logs.ingest.order import IngestReport
from refaug.logs.manifest import MANIFEST, LogManifest
from refaug.logs.reading.sources import Source
from refaug.operations.logs import CleaningOptions, IngestLog, RunNight
from refaug.service.jobs.clusters import connected
from refaug.service.jobs.inbox import FIELDS, Inbox, InboxBatch
from refaug.service.jobs.kinds.job_context import JobContext
from refaug.service.jobs.kinds.sources import require_source


def ingest_job(order: IngestLog, context: JobContext) -> Mapping[str, Any]:
    """Ingest files or posted dialogues; files that the log has already are skipped."""
    workers = workers_of(order, context)
    if order.posted:
        return ingest_posted(order.log, order, order.memory, workers, context)
    ingest_order = order.order(
        sources=_paths(order.sources, context), context=_paths(order.context, context), workers=workers
    )
    with connected(order.on, context.serve) as cluster:
        return _report_as_json(ingest(ingest_order, context.home.logs, context.progress, cluster=cluster))


def ingest_files(
    log: str, sources: Sequence[str], cleaning: CleaningOptions, memory: int, workers: int, context: JobContext
) -> Mapping[str, Any]:
    """Ingest files in a recognised format."""
    ingest_order = cleaning.ingest_order(log, _paths(sources, context), memory=memory, workers=workers)
    return _report_as_json(ingest(ingest_order, context.home.logs, context.progress))


def ingest_posted(
    log: str, cleaning: CleaningOptions, memory: int, workers: int, context: JobContext
) -> Mapping[str, Any]:
    """Ingest all posted dialogues of a log as one source; dialogues posted in the meantime wait for the next job."""
    with Inbox(context.home, context.serve).take_batch(log) as batch:
        if batch is None:
            return {"log": log, "pairs_added": 0, "posted": {"requests": 0, "dialogues": 0}}
        ingest_order = replace(
            cleaning.ingest_order(log, [str(batch.path)], memory=memory, workers=workers),
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


def workers_of(order: IngestLog | RunNight, context: JobContext) -> int:
    """Return how many processes read sources: those of the order, else as many as the job has threads."""
    if order.workers is not None:
        return order.workers
    threads = order.threads if isinstance(order, RunNight) else None
    return min(MOST_WORKERS, context.threads(threads))


def _is_in_log(batch: InboxBatch, log: str, context: JobContext) -> bool:
    folder = context.home.logs / log
    if not (folder / MANIFEST).exists():
        return False
    return (Source.of(batch.path).sha256,) in LogManifest.read(folder).source_fingerprints()


def _paths(names: Sequence[str], context: JobContext) -> tuple[str, ...]:
    return tuple(str(require_source(name, context.home, context.serve)) for name in names)


def _report_as_json(report: IngestReport) -> dict[str, object]:
    """Return the report with the names of files and without their paths."""
    content = asdict(report)
    content["sources"] = [{**one, "name": _file_name(one["name"])} for one in content["sources"]]
    content["already_there"] = [_file_name(name) for name in report.already_there]
    return content


def _file_name(name: str) -> str:
    return name.rpartition("/")[2]
