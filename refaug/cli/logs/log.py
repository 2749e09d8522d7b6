"""`refaug log …`: reading dialogues into logs, showing and checking logs, deleting from them, and an invented one."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from refaug.cli.shared.database import record_act
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import connected
from refaug.cli.shared.output import (
    JsonFlag,
    MemoryOption,
    count_of,
    parse_size,
    print_facts,
    print_json,
    print_json_line,
    print_line,
    print_table,
)
from refaug.cli.shared.progress import display_progress
from refaug.core.artefacts.kinds import artefact_stores, encodings_in
from refaug.core.errors import Corrupt, Usage
from refaug.core.files import unique_suffix, write_aside
from refaug.core.home import Settings
from refaug.core.query_engine import QueryEngine
from refaug.core.records import Pair
from refaug.logs.deletion import delete, delete_log
from refaug.logs.demo.demo_items import DemoItemSettings, demo_item_lines
from refaug.logs.demo.generator import DemoSettings, demo_log_lines
from refaug.logs.ingest.ingest import ingest
from refaug.logs.ingest.order import IngestReport
from refaug.logs.pairs import SharedSettings, shared_utterances
from refaug.logs.store import StoredLog, list_logs, statistics
from refaug.operations.logs import DeletionOptions, IngestLog

# ── Reading dialogue logs into a log ──────────────────────────────────────────────────────────────────────────────────


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


# ── Showing stored logs, checking them, and deleting from them ────────────────────────────────────────────────────────

NameArgument = Annotated[str, typer.Argument(help="Name of the log.", metavar="LOG")]


def _engine(context: typer.Context, memory: str) -> QueryEngine:
    """Return an engine with scratch space of this process alone, so that readers do not meet."""
    settings: Settings = context.obj
    return QueryEngine(settings.cache / f"engine-{unique_suffix()}", memory=parse_size(memory))


def list_command(context: typer.Context, as_json: JsonFlag = False) -> None:
    """All logs, with their sizes."""
    settings: Settings = context.obj
    rows = [_log_row(settings.logs, name) for name in list_logs(settings.logs)]
    if as_json:
        print_json({"logs": rows})
    elif rows:
        print_table(f"logs in {settings.logs}", list(rows[0]), [list(row.values()) for row in rows])
    else:
        print_line(f"no logs in {settings.logs} yet: refaug log ingest SOURCE --log NAME")


def _log_row(logs: Path, name: str) -> dict[str, Any]:
    """Return a log as a row of the list; a damaged log must not hide the others."""
    try:
        manifest = StoredLog.open(logs, name).manifest
    except Corrupt as error:
        return {"name": name, **dict.fromkeys((*_ROW_TOTALS, "bytes", "updated")), "problem": error.message}
    return {
        "name": name,
        **{total: manifest.totals.get(total, 0) for total in _ROW_TOTALS},
        "bytes": sum(part.size for part in manifest.parts),
        "updated": manifest.updated,
        "problem": None,
    }


_ROW_TOTALS = ("pairs", "dialogues", "distinct_utterances")


def show_command(context: typer.Context, name: NameArgument, as_json: JsonFlag = False) -> None:
    """What a log holds and how it came about: its manifest."""
    manifest = StoredLog.open(context.obj.logs, name).manifest
    if as_json:
        print_json(asdict(manifest))
        return
    print_facts(f"log {name}", {**manifest.totals, "created": manifest.created, "updated": manifest.updated})
    print_table(
        "parts",
        ("file", "pairs", "bytes", "sha256"),
        [(p.file, p.pairs, p.size, p.sha256[:12]) for p in manifest.parts],
    )
    print_table(
        "sources",
        ("file", "format", "rows", "bytes", "ingested"),
        [
            (source.name, source.format, source.counts.get("rows", 0), source.size, run.at)
            for run in manifest.ingests
            for source in run.sources
        ],
    )
    erased = manifest.erased
    if erased.speakers or erased.dialogues:
        print_line(f"erased for good: {len(erased.dialogues):,} dialogues, {len(erased.speakers):,} speakers")


def sample_command(
    context: typer.Context,
    name: NameArgument,
    count: Annotated[int, typer.Option("-n", "--count", help="How many pairs.", min=1, max=100_000)] = 10,
    seed: Annotated[int, typer.Option(help="Another seed, another sample.")] = 1,
    memory: MemoryOption = "2GiB",
    as_json: JsonFlag = False,
) -> None:
    """Some pairs to read: the same ones for the same seed."""
    log = StoredLog.open(context.obj.logs, name)
    with _engine(context, memory) as engine:
        pairs = log.sample(count, seed, engine)
    if as_json:
        print_json({"pairs": [{"id": pair.id, **_fields(pair)} for pair in pairs]})
        return
    for pair in pairs:
        for line in (pair.id, f"  {pair.utterance}", f"  → {pair.response}"):
            print_line(line)


def _fields(pair: Pair) -> dict[str, Any]:
    return {name: content for name, content in asdict(pair).items() if name != "log" and content not in (None, ())}


def stats_command(
    context: typer.Context, name: NameArgument, memory: MemoryOption = "2GiB", as_json: JsonFlag = False
) -> None:
    """Figures of a log, counted again: sizes, duplicates, lengths, times, most common utterances."""
    log = StoredLog.open(context.obj.logs, name)
    with _engine(context, memory) as engine:
        figures = statistics(engine, log)
    if as_json:
        print_json({"log": name, **figures})
        return
    common, tags = figures.pop("common_utterances", []), figures.pop("tags", {})
    print_facts(f"log {name}", figures)
    if common:
        print_table(
            "most common utterances", ("pairs", "utterance"), [(c["pairs"], c["utterance"][:80]) for c in common]
        )
    if tags:
        print_facts("pairs by tag", tags)


def shared_command(
    context: typer.Context,
    name: NameArgument,
    count: Annotated[int, typer.Option("-n", "--count", help="How many utterances; 0 for all.", min=0)] = 10,
    language: Annotated[
        str, typer.Option(help="Decides the shortest utterance: 4 words, or 10 characters for ja, zh, th.")
    ] = "en",
    max_responses: Annotated[int, typer.Option(help="At most this many responses an utterance.", min=2)] = 5,
    seed: Annotated[int, typer.Option(help="Decides the order, and which responses are taken.")] = 1,
    memory: MemoryOption = "2GiB",
) -> None:
    """Utterances that got two or more different responses, one JSON object a line."""
    log = StoredLog.open(context.obj.logs, name)
    settings = SharedSettings.for_language(language, max_responses=max_responses, seed=seed)
    with _engine(context, memory) as engine:
        for number, shared in enumerate(shared_utterances(engine, log.paths, settings), 1):
            print_json_line({"utterance": shared.utterance, "responses": list(shared.responses)})
            if number == count:
                break


def verify_command(context: typer.Context, name: NameArgument, as_json: JsonFlag = False) -> None:
    """Read every byte and compare it with the manifest; exit code 3 when something is wrong."""
    log = StoredLog.open_unchecked(context.obj.logs, name)
    findings = [(part, trouble) for part, trouble in log.verify()]
    broken = [trouble for _, trouble in findings if trouble is not None]
    if as_json:
        print_json({"log": name, "parts": [{"file": part.file, "problem": trouble} for part, trouble in findings]})
    else:
        for part, trouble in findings:
            good = f"{count_of(part.pairs, 'pair')}, as the manifest says"
            print_line(f"{part.file}: {trouble or good}")
    if broken:
        raise Corrupt(f"{len(broken)} of {len(findings)} parts of log {name} are damaged: {broken[0]}")


@with_options
def delete_command(
    context: typer.Context,
    *,
    options: DeletionOptions,
    whole: Annotated[bool, typer.Option("--whole", help="Remove the log itself; needs --yes.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Yes, the whole log.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Remove dialogues or speakers, and say what was removed; ingesting them again does not bring them back."""
    name, dialogues, speakers = options.log, options.dialogues, options.speakers
    if whole:
        _delete_whole(context.obj, name, bool(dialogues or speakers), yes, as_json)
        _discard_stopped_trainings(context, name)
        return
    if not dialogues and not speakers:
        raise Usage("nothing to delete was named", remedy="give --dialogue ID, --speaker NAME, or --whole --yes")
    removed = delete(
        context.obj.logs,
        name,
        dialogues=dialogues,
        speakers=speakers,
        memory=options.memory,
        forget=encodings_in(context.obj.cache).forget,
    )
    record_act(
        context.obj,
        "delete",
        f"log {name}",
        dialogues=len(dialogues),
        speakers=len(speakers),
        pairs=removed.pairs,
    )
    _discard_stopped_trainings(context, name)
    if as_json:
        print_json({"log": name, **asdict(removed)})
        return
    print_line(f"log {name}: {count_of(removed.pairs, 'pair')} removed, {removed.pairs_left:,} left")
    for title, counts in (("dialogue", removed.dialogues), ("speaker", removed.speakers)):
        for target, count in counts.items():
            print_line(
                f"  {title} {target}: {f'{count:,} pairs' if count else 'nothing found; it is kept out from now on'}"
            )


def _discard_stopped_trainings(context: typer.Context, log: str) -> None:
    """Discard stopped trainings with texts of the log: they cannot resume without the deleted texts."""
    from refaug.rater.training.order import remove_interrupted  # noqa: PLC0415  only here

    kinds = artefact_stores(context.obj)
    with display_progress(quiet=context.obj.quiet) as progress:
        for kind in ("rater", "ruber", "vhred"):
            removed, running = remove_interrupted(kinds[kind], context.obj.cache, log)
            if removed:
                progress.say(f"stopped trainings that had texts of it were removed: {', '.join(removed)}")
            if running:
                progress.warn(f"trainings that run have texts of it until they end: {', '.join(running)}")


def _delete_whole(home: Settings, name: str, more: bool, yes: bool, as_json: bool) -> None:
    if more:
        raise Usage("--whole removes everything; it does not go with --dialogue or --speaker")
    if not yes:
        raise Usage(f"this removes log {name} with all its pairs", remedy="say --whole --yes")
    pairs = delete_log(home.logs, name, forget=encodings_in(home.cache).forget)
    record_act(home, "delete", f"log {name}", pairs=pairs)
    if as_json:
        print_json({"log": name, "pairs": pairs})
    else:
        print_line(f"log {name} removed: {count_of(pairs, 'pair')}")


# ── An invented log, to try the tool before real data is at hand ──────────────────────────────────────────────────────


def demo_log_command(
    dialogues: Annotated[int, typer.Option(help="How many dialogues.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Another seed, another log; the same seed gives the same bytes.")] = 1,
    noise: Annotated[float, typer.Option(help="Share of the replies that belong to another topic.")] = 0.08,
    output: Annotated[Path, typer.Option(help="Where the dialogues go, JSONL.", metavar="FILE")] = Path(
        "demo-log.jsonl"
    ),
    items: Annotated[int, typer.Option(help="How many test items.")] = 200,
    items_output: Annotated[
        Path,
        typer.Option(
            help="Where the test items go: replies of four imaginary systems, with simulated ratings.", metavar="FILE"
        ),
    ] = Path("demo-items.jsonl"),
    as_json: JsonFlag = False,
) -> None:
    """Write a demo log and a matching test file; everything in them is invented here."""
    log = demo_log_lines(DemoSettings(dialogues=dialogues, seed=seed, noise=noise))
    tests = demo_item_lines(DemoItemSettings(items=items, seed=seed))
    for path, lines in ((output, log), (items_output, tests)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with write_aside(path) as file:
            for line in lines:
                file.write(line)
    if as_json:
        print_json(
            {"log": str(output), "dialogues": dialogues, "items_file": str(items_output), "items": items, "seed": seed}
        )
    else:
        print_line(f"{output}: {dialogues:,} dialogues; {items_output}: {items:,} test items (seed {seed})")
        print_line(f"next: refaug log ingest {output} --log demo")
