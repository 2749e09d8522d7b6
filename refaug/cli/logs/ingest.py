"""`refaug log ingest`: reading dialogue logs into a log."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import connected
from refaug.cli.shared.output import JsonFlag, count_of, print_facts, print_json, print_line
from refaug.cli.shared.progress import display_progress
from refaug.core.home import Settings
from refaug.logs.ingest.ingest import IngestReport, ingest
from refaug.operations.logs import IngestLog


@with_options
def ingest_command(
    context: typer.Context,
    *,
    options: IngestLog,
    rejects: Annotated[
        Path | None, typer.Option(help="Write all that was left out, and why, to this JSONL file.", metavar="FILE")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Read dialogue logs in any common format, clean them, and add their pairs to a log.

    Files that are in the log already are passed over, and a run that was stopped goes on where it was.
    """
    settings: Settings = context.obj
    order = replace(options.order(context=options.context, workers=options.workers), rejects=rejects)
    with connected(options.on) as cluster, display_progress(quiet=settings.quiet) as progress:
        report = ingest(order, settings.logs, progress, cluster=cluster)
    if as_json:
        print_json(asdict(report))
    else:
        _print_report(report)


def _print_report(report: IngestReport) -> None:
    for name in report.already_there:
        print_line(f"already in the log: {name}")
    if not report.sources:
        print_line(f"nothing new for log {report.log}")
        return
    resumed = " (resumed)" if report.resumed else ""
    added, files = count_of(report.pairs_added, "pair"), count_of(len(report.sources), "file")
    print_line(f"log {report.log}: {added} added from {files}{resumed}")
    print_facts("what was read", {name: count for name, count in report.counts.items() if ":" not in name})
    for prefix, title in (
        ("changed:", "repaired, messages by rule"),
        ("dropped:", "left out, messages by reason"),
        ("bad:", "unreadable rows by reason"),
        ("trees:", "message trees"),
    ):
        group = {name.removeprefix(prefix): count for name, count in report.counts.items() if name.startswith(prefix)}
        if group:
            print_facts(title, group)
    print_facts("the log now", report.totals)
