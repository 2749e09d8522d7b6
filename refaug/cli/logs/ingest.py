"""`refaug ingest`: reading dialogue logs into a log."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from refaug.cli.shared.clusters import connected
from refaug.cli.shared.output import (
    JsonFlag,
    MemoryOption,
    count_of,
    names_in,
    parse_size,
    print_facts,
    print_json,
    print_line,
)
from refaug.cli.shared.progress import display_progress
from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.logs import ingest_options as options
from refaug.logs.ingest.cleaning import FILTERS, REPAIRS, CleaningSettings
from refaug.logs.ingest.ingest import IngestOrder, IngestReport, ingest
from refaug.logs.reading.formats import FORMATS
from refaug.logs.reading.shapes import parse_map

_RULES = (*REPAIRS, *FILTERS)


def ingest_command(
    context: typer.Context,
    sources: Annotated[
        list[str], typer.Argument(help="Files, folders or patterns; .gz, .zst, .bz2 and .xz are unpacked.")
    ],
    log: Annotated[str, typer.Option(help="Name of the log to add to; made when it is not there.")],
    format_: Annotated[str, typer.Option("--format", help=f"auto, {', '.join(FORMATS)}.")] = options.FORMAT.default,
    mapping: Annotated[
        list[str] | None,
        typer.Option(
            "--map", help="Where a field is in the source, e.g. text=body; repeatable.", metavar="FIELD=COLUMN"
        ),
    ] = None,
    ids: Annotated[
        bool,
        typer.Option("--ids/--no-ids", help=options.USE_IDS.help),
    ] = options.USE_IDS.default,
    context_sources: Annotated[
        list[str] | None,
        typer.Option(
            "--context", help="Message files read only for what others reply to; repeatable.", metavar="SOURCE"
        ),
    ] = None,
    encoding: Annotated[
        str, typer.Option(help="Text encoding; auto is UTF-8, or what a byte-order mark says.")
    ] = options.ENCODING.default,
    language: Annotated[str | None, typer.Option(help=options.LANGUAGE.help)] = options.LANGUAGE.default,
    markup: Annotated[
        str, typer.Option(help="Mark-up to take off: auto, none, reddit, slack, html, subtitles, twitter.")
    ] = options.MARKUP.default,
    no_rule: Annotated[
        list[str] | None,
        typer.Option(help=f"Switch a cleaning rule off; repeatable. Rules: {', '.join(_RULES)}.", metavar="RULE"),
    ] = None,
    only_rules: Annotated[
        str | None, typer.Option(help="Run these cleaning rules only, comma-separated; none for none.", metavar="RULES")
    ] = None,
    min_chars: Annotated[
        int, typer.Option(help=options.MIN_CHARS.help, min=options.MIN_CHARS.least, max=options.MIN_CHARS.most)
    ] = options.MIN_CHARS.default,
    max_chars: Annotated[
        int, typer.Option(help=options.MAX_CHARS.help, min=options.MAX_CHARS.least, max=options.MAX_CHARS.most)
    ] = options.MAX_CHARS.default,
    flood_cap: Annotated[int, typer.Option(help=options.FLOOD_CAP.help)] = options.FLOOD_CAP.default,
    block_speaker: Annotated[
        list[str] | None, typer.Option(help="Drop what this speaker said; repeatable.", metavar="NAME")
    ] = None,
    block_speakers: Annotated[
        Path | None, typer.Option(help="A file of speakers to drop, one a line.", metavar="FILE")
    ] = None,
    on_error: Annotated[str, typer.Option(help=f"{options.ON_ERROR.description}.")] = options.ON_ERROR.default,
    max_bad_share: Annotated[float, typer.Option(help=options.MAX_BAD_SHARE.help)] = options.MAX_BAD_SHARE.default,
    rejects: Annotated[
        Path | None, typer.Option(help="Write all that was left out, and why, to this JSONL file.", metavar="FILE")
    ] = None,
    memory: MemoryOption = "2GiB",
    workers: Annotated[int | None, typer.Option(help=options.WORKERS.help)] = options.WORKERS.default,
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            help="Read and clean the files on a cluster of Ray: HOST:PORT, auto on one of its machines, or local.",
            metavar="ADDRESS",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Read dialogue logs in any common format, clean them, and add their pairs to a log.

    Files that are in the log already are passed over, and a run that was stopped goes on where it was.
    """
    if on_error not in ("report", "stop"):
        raise Usage(f"--on-error {on_error!r} is neither report nor stop")
    if workers is not None and not 0 <= workers <= (options.WORKERS.most or 0):
        raise Usage(f"--workers {workers} is not between 0 and {options.WORKERS.most}")
    if on is not None and workers is not None:
        raise Usage("--workers are processes of this machine, --on reads on a cluster", remedy="use one of them")
    settings: Settings = context.obj
    order = IngestOrder(
        sources=tuple(sources),
        log=log,
        format=format_,
        mapping=parse_map(mapping or ()),
        use_ids=ids,
        context=tuple(context_sources or ()),
        encoding=encoding,
        markup=markup,
        cleaning=CleaningSettings(
            rules=_chosen_rules(no_rule or [], only_rules),
            language=language,
            min_chars=min_chars,
            max_chars=max_chars,
            flood_cap=flood_cap,
        ),
        blocked_speakers=frozenset([*(block_speaker or ()), *names_in(block_speakers)]),
        stop_on_error=on_error == "stop",
        max_bad_share=max_bad_share,
        rejects=rejects,
        memory=parse_size(memory),
        workers=workers,
    )
    with connected(on) as cluster, display_progress(quiet=settings.quiet) as progress:
        report = ingest(order, settings.logs, progress, cluster=cluster)
    if as_json:
        print_json(asdict(report))
    else:
        _print_report(report)


def _chosen_rules(off: list[str], only: str | None) -> tuple[str, ...]:
    for rule in off:
        if rule not in _RULES:
            raise Usage(f"--no-rule {rule!r}: no such rule", remedy=f"rules: {', '.join(_RULES)}")
    if only is None:
        return tuple(rule for rule in _RULES if rule not in off)
    if off:
        raise Usage("--only-rules and --no-rule contradict each other", remedy="use one of them")
    return () if only == "none" else tuple(rule.strip() for rule in only.split(","))


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
