"""`refaug ingest`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from core.cleaning import FILTERS, REPAIRS, CleaningSettings
from core.errors import Usage
from core.ingest import IngestOrder, IngestReport, ingest
from core.logs.formats import FORMATS
from core.logs.shapes import parse_map
from service.cli.common import (
    JsonFlag,
    MemoryOption,
    counted,
    names_in,
    parse_size,
    print_facts,
    print_json,
    print_line,
)
from service.cli.progress import shown_progress
from service.settings import Settings

_RULES = (*REPAIRS, *FILTERS)
_MOST_CHARS = 10_000_000


def ingest_command(
    context: typer.Context,
    sources: Annotated[
        list[str], typer.Argument(help="Files, folders or patterns; .gz, .zst, .bz2 and .xz are unpacked.")
    ],
    log: Annotated[str, typer.Option(help="Name of the log to add to; made when it is not there.")],
    format_: Annotated[str, typer.Option("--format", help=f"auto, {', '.join(FORMATS)}.")] = "auto",
    mapping: Annotated[
        list[str] | None,
        typer.Option(
            "--map", help="Where a field is in the source, e.g. text=body; repeatable.", metavar="FIELD=COLUMN"
        ),
    ] = None,
    ids: Annotated[
        bool,
        typer.Option("--ids/--no-ids", help="Keep the source's dialogue ids, or number dialogues by file and line."),
    ] = True,
    context_sources: Annotated[
        list[str] | None,
        typer.Option(
            "--context", help="Message files read only for what others reply to; repeatable.", metavar="SOURCE"
        ),
    ] = None,
    encoding: Annotated[
        str, typer.Option(help="Text encoding; auto is UTF-8, or what a byte-order mark says.")
    ] = "auto",
    language: Annotated[
        str | None, typer.Option(help="Drop messages in another script than this language's, e.g. en, ja.")
    ] = None,
    markup: Annotated[
        str, typer.Option(help="Mark-up to take off: auto, none, reddit, slack, html, subtitles, twitter.")
    ] = "auto",
    no_rule: Annotated[
        list[str] | None,
        typer.Option(help=f"Switch a cleaning rule off; repeatable. Rules: {', '.join(_RULES)}.", metavar="RULE"),
    ] = None,
    only_rules: Annotated[
        str | None, typer.Option(help="Run these cleaning rules only, comma-separated; none for none.", metavar="RULES")
    ] = None,
    min_chars: Annotated[int, typer.Option(help="Shorter messages are dropped.", min=0, max=_MOST_CHARS)] = 1,
    max_chars: Annotated[int, typer.Option(help="Longer messages are dropped.", min=1, max=_MOST_CHARS)] = 2_000,
    flood_cap: Annotated[int, typer.Option(help="Of near-identical messages this many are kept.")] = 1_000,
    block_speaker: Annotated[
        list[str] | None, typer.Option(help="Drop what this speaker said; repeatable.", metavar="NAME")
    ] = None,
    block_speakers: Annotated[
        Path | None, typer.Option(help="A file of speakers to drop, one a line.", metavar="FILE")
    ] = None,
    on_error: Annotated[
        str, typer.Option(help="report: leave bad rows out and go on; stop: end at the first.")
    ] = "report",
    max_bad_share: Annotated[
        float, typer.Option(help="Give a source up when more of its rows than this are bad.")
    ] = 0.1,
    rejects: Annotated[
        Path | None, typer.Option(help="Write all that was left out, and why, to this JSONL file.", metavar="FILE")
    ] = None,
    memory: MemoryOption = "2GiB",
    workers: Annotated[
        int | None, typer.Option(help="Processes beside this one; default: one a core, at most 8; 0: none.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Read dialogue logs in any common format, clean them, and add their pairs to a log.

    Files that are in the log already are passed over, and a run that was stopped goes on where it was.
    """
    if on_error not in ("report", "stop"):
        raise Usage(f"--on-error {on_error!r} is neither report nor stop")
    if workers is not None and not 0 <= workers <= 64:
        raise Usage(f"--workers {workers} is not between 0 and 64")
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
    with shown_progress(quiet=settings.quiet) as progress:
        report = ingest(order, settings.logs, progress)
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
    added, files = counted(report.pairs_added, "pair"), counted(len(report.sources), "file")
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
