"""`refaug index …`: planning, building, searching and updating indexes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import CheckFailed, Corrupt, Usage
from service.cli.common import (
    JsonFlag,
    MemoryOption,
    counted,
    file_or_stdin,
    names_in,
    parse_size,
    print_facts,
    print_json,
    print_json_line,
    print_line,
    print_table,
)
from service.cli.progress import shown_progress

if TYPE_CHECKING:
    from indexer.build import Built
    from indexer.manifest import IndexManifest
    from indexer.plan import Limits
    from indexer.search import Retrieved

app = typer.Typer(help="Plan, build, search and update indexes of logs.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="Name of the index.", metavar="INDEX")]
SpecArgument = Annotated[
    str, typer.Argument(help="Name of the index, or name@version for one that is not published.", metavar="INDEX")
]
LogsArgument = Annotated[list[str], typer.Argument(help="Logs whose pairs are indexed.", metavar="LOG…")]
VectorsOption = Annotated[
    str | None, typer.Option(help="Word vectors by name; by default those named as the first log.", metavar="NAME")
]
EncoderOption = Annotated[
    Path | None,
    typer.Option(help="Folder with a sentence encoder (ONNX), instead of word vectors.", metavar="FOLDER"),
]
FitOption = Annotated[
    str | None, typer.Option("--fit", help="Memory that the serving process may use for the index.", metavar="SIZE")
]
RecallOption = Annotated[
    float, typer.Option(help="The share of exact search's 15 best that must be found.", min=0.0, max=1.0)
]
LatencyOption = Annotated[
    float | None, typer.Option(help="Milliseconds that a single search may take.", metavar="MS", min=0.0)
]
FactoryOption = Annotated[
    str | None, typer.Option("--index", help="A kind of index by FAISS's name, e.g. IVF4096,SQ8.", metavar="FACTORY")
]
ThreadsOption = Annotated[
    int | None, typer.Option(help="Threads; by default one for each core.", metavar="N", min=1, max=1024)
]
ModeOption = Annotated[str, typer.Option(help="embedding-utterance, embedding-dialog, bm25-utterance or bm25-dialog.")]


def _limits(fit: str | None, recall: float, latency: float | None, factory: str | None) -> Limits:
    from indexer.plan import Limits  # noqa: PLC0415  compiles

    return Limits(memory=None if fit is None else parse_size(fit), recall=recall, latency_ms=latency, factory=factory)


# ── planning and building ─────────────────────────────────────────────────────────────────────────────────────────


@app.command("plan")
def plan_command(
    context: typer.Context,
    logs: LogsArgument,
    vectors: VectorsOption = None,
    encoder: EncoderOption = None,
    fit: FitOption = None,
    recall: RecallOption = 0.95,
    latency: LatencyOption = None,
    factory: FactoryOption = None,
    threads: ThreadsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """What each kind of index of these logs would cost, and which one a build would take."""
    from indexer.estimate import demand_of  # noqa: PLC0415  compiles
    from indexer.plan import choose, options  # noqa: PLC0415
    from service.retrieval import cores, places_of  # noqa: PLC0415

    limits = _limits(fit, recall, latency, factory)
    demand = demand_of(places_of(context.obj), logs, vectors=_vectors(logs, vectors, encoder), encoder=encoder)
    offered = options(demand, limits, threads=threads or cores())
    chosen = choose(offered, limits)
    if as_json:
        rows = [{**asdict(option), "chosen": option == chosen} for option in offered]
        print_json({"demand": asdict(demand), "limits": asdict(limits), "options": rows})
        return
    print_line(
        f"{demand.rows:,} utterances of {demand.dimensions} dimensions, {demand.pairs:,} pairs; "
        "recall and times are expectations, measured when the index is built"
    )
    columns = ("kind", "memory MB", "disk MB", "build MB", "build s", "search ms", "recall@15", "")
    print_table(
        "",
        columns,
        [
            (
                option.factory,
                round(option.memory / 1e6),
                round(option.disk / 1e6),
                round(option.build_memory / 1e6),
                round(option.build_seconds),
                option.latency_ms,
                option.expected_recall,
                "← chosen" if option == chosen else "",
            )
            for option in offered
        ],
    )
    print_line(f"{chosen.factory}: {chosen.why}")


def _vectors(logs: list[str], vectors: str | None, encoder: Path | None) -> str | None:
    """Word vectors are called as the log that they were trained on, unless it is said otherwise."""
    return vectors or (logs[0] if encoder is None else None)


@app.command("build")
def build_command(
    context: typer.Context,
    logs: LogsArgument,
    name: Annotated[str | None, typer.Option(help="Name of the index; by default that of the first log.")] = None,
    vectors: VectorsOption = None,
    encoder: EncoderOption = None,
    fit: FitOption = None,
    recall: RecallOption = 0.95,
    latency: LatencyOption = None,
    factory: FactoryOption = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="Tokenizer; by default the one that the vectors were trained with.")
    ] = None,
    weighting: Annotated[str, typer.Option(help="How words weigh in a sentence: mean or sif.")] = "mean",
    norm_words: Annotated[bool, typer.Option(help="Scale each word's vector to unit length first.")] = True,
    oov: Annotated[str, typer.Option(help="What words without a vector count as: skip or unk.")] = "skip",
    bm25: Annotated[bool, typer.Option(help="Make the modes of BM25 possible as well.")] = True,
    check_queries: Annotated[
        int, typer.Option(help="Utterances on which recall is measured; 0 measures nothing.", min=0, max=100_000)
    ] = 1_000,
    least_coverage: Annotated[
        float, typer.Option(help="The share of the log's words that the vectors must know.", min=0.0, max=1.0)
    ] = 0.3,
    publish: Annotated[bool, typer.Option(help="Let the new version serve.")] = True,
    again: Annotated[
        bool, typer.Option("--again", help="Build even if the published version was made of exactly this.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the sampling for training and for the check.")] = 1,
    threads: ThreadsOption = None,
    memory: MemoryOption = "2GiB",
    as_json: JsonFlag = False,
) -> None:
    """Build an index of some logs, measure its recall, and publish it; an interrupted build goes on where it was."""
    from indexer.bm25 import Bm25Settings  # noqa: PLC0415
    from indexer.build import build_index  # noqa: PLC0415  compiles
    from indexer.order import IndexOrder  # noqa: PLC0415
    from indexer.sentence_vectors import SentenceSettings  # noqa: PLC0415
    from service.retrieval import cores, places_of  # noqa: PLC0415

    order = IndexOrder(
        name=name or logs[0],
        logs=tuple(logs),
        vectors=_vectors(logs, vectors, encoder),
        encoder=encoder,
        tokenizer=tokenizer,
        sentence=SentenceSettings(norm_words=norm_words, oov=oov, weighting=weighting),  # type: ignore[arg-type]
        bm25=Bm25Settings() if bm25 else None,
        limits=_limits(fit, recall, latency, factory),
        check_queries=check_queries,
        least_coverage=least_coverage,
        seed=seed,
        threads=threads or cores(),
        memory=parse_size(memory),
        publish=publish,
    )
    with shown_progress(quiet=context.obj.quiet) as progress:
        built = build_index(places_of(context.obj), order, progress, again=again)
    _print_built(built, as_json=as_json)


def _print_built(built: Built, *, as_json: bool, **more: Any) -> None:
    facts = {
        "index": f"{built.name}@{built.version}",
        "id": built.manifest.id[:12],
        "published": built.published,
        **({} if built.is_new else {"note": "made of exactly this before: nothing to do; --again builds it anew"}),
        **more,
        **_facts(built.manifest),
    }
    if as_json:
        print_json(facts)
    else:
        print_facts(f"index {facts.pop('index')}", _readable(facts))


def _readable(facts: dict[str, Any]) -> dict[str, Any]:
    """Recall with the digits that matter, and nothing that a flat index has no use for."""
    shown = {name: value for name, value in facts.items() if not (facts["kind"] == "Flat" and name == "search_depth")}
    for name in ("recall_at_15", "lost_similarity"):
        if shown.get(name) is not None:
            shown[name] = f"{shown[name]:.4f}"
    if shown.get("recall_interval"):
        shown["recall_interval"] = "[" + ", ".join(f"{end:.4f}" for end in shown["recall_interval"]) + "]"
    return shown


def _facts(manifest: IndexManifest) -> dict[str, Any]:
    check = manifest.check
    main = manifest.segments[0]
    return {
        "logs": [log.name for log in manifest.logs],
        "vectors": manifest.vectors.name,
        "dimensions": manifest.vectors.dimensions,
        "tokenizer": manifest.tokenizer,
        "kind": main.factory,
        "search_depth": [segment.effort for segment in manifest.segments],
        "utterances": manifest.utterances,
        "without_vector": sum(segment.utterances - segment.with_vector for segment in manifest.segments),
        "pairs": manifest.pairs,
        "segments": len(manifest.segments),
        "superseded": sum(segment.superseded for segment in manifest.segments),
        "recall_at_15": None if check is None else check.recall,
        "recall_interval": None if check is None else [check.low, check.high],
        "lost_similarity": None if check is None else check.lost_similarity,
        "recall_target": None if check is None else check.target,
        "recall_queries": None if check is None else check.queries,
        "bytes": sum(facts["size"] for facts in manifest.files.values()),
        "build_seconds": round(sum(manifest.seconds.values()), 1),
    }


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────────


@app.command("list")
def list_command(context: typer.Context, as_json: JsonFlag = False) -> None:
    """All indexes with their versions; the published one is marked."""
    from service.retrieval import places_of  # noqa: PLC0415  compiles

    indexes = places_of(context.obj).indexes
    rows = [
        _listed(indexes.folder(name, version), name, version, current=version == indexes.current(name))
        for name in indexes.names()
        for version in indexes.versions(name)
    ]
    if as_json:
        print_json({"indexes": rows})
    elif rows:
        print_table(f"indexes in {indexes.root}", list(rows[0]), [list(row.values()) for row in rows])
    else:
        print_line(f"no indexes in {indexes.root} yet: refaug index build LOG")


def _listed(folder: Path, name: str, version: str, *, current: bool) -> dict[str, Any]:
    """A version in one row; a damaged one must not hide the others."""
    from indexer.manifest import IndexManifest  # noqa: PLC0415  compiles

    row: dict[str, Any] = {"name": name, "version": version, "published": current}
    try:
        facts = _facts(IndexManifest.read(folder))
    except Corrupt as error:
        return {**row, **dict.fromkeys(_LISTED), "problem": error.message}
    return {**row, **{fact: facts[fact] for fact in _LISTED}, "problem": None}


_LISTED = ("kind", "utterances", "pairs", "segments", "recall_at_15", "bytes")


@app.command("show")
def show_command(context: typer.Context, index: SpecArgument, as_json: JsonFlag = False) -> None:
    """What an index version holds, how it was made, and how much of exact search it finds."""
    from indexer.manifest import IndexManifest  # noqa: PLC0415  compiles
    from service.retrieval import places_of  # noqa: PLC0415

    indexes = places_of(context.obj).indexes
    name, version = indexes.resolve(index)
    manifest = IndexManifest.read(indexes.folder(name, version))
    if as_json:
        print_json({"version": version, "id": manifest.id, **asdict(manifest)})
        return
    facts = {"id": manifest.id[:12], "created": manifest.created, **_facts(manifest)}
    print_facts(f"index {name}@{version}", _readable(facts))
    print_table(
        "segments",
        ("folder", "kind", "search depth", "utterances", "superseded", "pairs"),
        [(one.folder, one.factory, one.effort, one.utterances, one.superseded, one.pairs) for one in manifest.segments],
    )
    print_facts("seconds", manifest.seconds)


@app.command("search")
def search_command(
    context: typer.Context,
    index: SpecArgument,
    texts: Annotated[list[str] | None, typer.Argument(help="Utterances to find references for.")] = None,
    items: Annotated[Path | None, typer.Option(help="A test file; each item's references are found.")] = None,
    gold: Annotated[str | None, typer.Option(help="The response of the test pair: excluded, and compared.")] = None,
    k: Annotated[int, typer.Option("-k", help="How many references.", min=1, max=1_000)] = 15,
    mode: ModeOption = "embedding-utterance",
    depth: Annotated[int | None, typer.Option(help="Candidate utterances that are looked at.", min=1)] = None,
    exclude_dialogue: Annotated[
        list[str] | None, typer.Option(help="A dialogue to take nothing from; may be repeated.", metavar="ID")
    ] = None,
    exclude_log: Annotated[
        list[str] | None, typer.Option(help="A log to take nothing from; may be repeated.", metavar="LOG")
    ] = None,
    after: Annotated[str | None, typer.Option(help="Only pairs at or after this time.", metavar="TIME")] = None,
    before: Annotated[str | None, typer.Option(help="Only pairs before this time.", metavar="TIME")] = None,
    threads: ThreadsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Find references for utterances, most similar first; with --items or --json as JSON, one line a test pair."""
    from core.items import read_items  # noqa: PLC0415  only here
    from core.records import Item, Reference, TestPair  # noqa: PLC0415
    from indexer.queries import SearchSettings  # noqa: PLC0415  compiles
    from service.retrieval import open_index  # noqa: PLC0415

    if bool(texts) == (items is not None):
        raise Usage("give either utterances or --items FILE")
    settings = SearchSettings(
        k=k,
        mode=mode,  # type: ignore[arg-type]
        depth=depth,
        after=_moment("--after", after),
        before=_moment("--before", before),
        exclude_logs=tuple(exclude_log or ()),
    )
    blocked = tuple(exclude_dialogue or ())
    with open_index(context.obj, index, threads=threads) as opened:
        if items is not None:
            with file_or_stdin(items) as path:
                for batch in _batches(one for one in read_items(path)):
                    pairs = [one.pair for one in batch if isinstance(one, Item)]
                    found = iter(opened.search(pairs, settings))
                    for one in batch:
                        print_json_line(_found(one.id, next(found)) if isinstance(one, Item) else {"error": str(one)})
            return
        golds = (Reference(text=gold),) if gold else ()
        asked = [TestPair(id=text, turns=(text,), references=golds, exclude=blocked) for text in texts or ()]
        for pair, retrieved in zip(asked, opened.search(asked, settings), strict=True):
            if as_json:
                print_json_line(_found(pair.id, retrieved))
            else:
                _print_found(pair.id, retrieved)


def _batches(items: Any, size: int = 1_000) -> Any:
    batch = list[Any]()
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _moment(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Usage(f"{option} {text!r} is no time", remedy="for example 2026-11-20 or 2026-11-20T08:30:00Z") from error
    return moment if moment.tzinfo else datetime.fromisoformat(f"{moment.isoformat()}+00:00")


def _found(name: str, retrieved: Retrieved) -> dict[str, Any]:
    return {
        "id": name,
        "references": [
            {"text": one.text, "source": one.source, "similarity": one.similarity, **one.more}
            for one in retrieved.references
        ],
        "excluded": retrieved.excluded,
        **({"note": retrieved.note} if retrieved.note else {}),
    }


_NOTES: Mapping[str, str] = {
    "no_utterance": "there is no utterance to look for",
    "no_known_word": "the index knows none of its words",
    "no_gold": "this mode compares responses too: give the test pair's with --gold",
}


def _print_found(name: str, retrieved: Retrieved) -> None:
    rows = [
        (one.more["rank"], f"{one.similarity:.4f}", one.text, one.more["utterance"], one.more["pair"])
        for one in retrieved.references
    ]
    if rows:
        print_table(name, ("", "similarity", "response", "to", "pair"), rows)
    else:
        print_line(name)
        print_line(f"  nothing: {_NOTES.get(retrieved.note, 'all that is similar was excluded')}")
    if retrieved.excluded:
        listed = ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in retrieved.excluded.items())
        print_line(f"  excluded: {listed}")


# ── keeping it current ────────────────────────────────────────────────────────────────────────────────────────────


@app.command("update")
def update_command(
    context: typer.Context,
    name: NameArgument,
    publish: Annotated[bool, typer.Option(help="Let the new version serve.")] = True,
    threads: ThreadsOption = None,
    memory: MemoryOption = "2GiB",
    as_json: JsonFlag = False,
) -> None:
    """Bring an index up to its logs as they are now: what is new is added, what was deleted is masked."""
    _update(context, name, {}, publish=publish, threads=threads, memory=memory, as_json=as_json)


@app.command("delete")
def delete_command(
    context: typer.Context,
    name: NameArgument,
    pair: Annotated[list[str] | None, typer.Option(help="A pair: log/dialogue#position.", metavar="ID")] = None,
    dialogue: Annotated[list[str] | None, typer.Option(help="A dialogue; may be repeated.", metavar="ID")] = None,
    speaker: Annotated[list[str] | None, typer.Option(help="A speaker; may be repeated.", metavar="NAME")] = None,
    dialogues_from: Annotated[
        Path | None, typer.Option(help="A file with dialogues, one a line.", metavar="FILE")
    ] = None,
    speakers_from: Annotated[
        Path | None, typer.Option(help="A file with speakers, one a line.", metavar="FILE")
    ] = None,
    threads: ThreadsOption = None,
    memory: MemoryOption = "2GiB",
    as_json: JsonFlag = False,
) -> None:
    """Take pairs, dialogues or speakers out of an index for good; they stay out when it is updated or built anew."""
    wanted = {
        "pairs": pair or [],
        "dialogues": [*(dialogue or []), *names_in(dialogues_from)],
        "speakers": [*(speaker or []), *names_in(speakers_from)],
    }
    if not any(wanted.values()):
        raise Usage("nothing is named that should go", remedy="--pair, --dialogue or --speaker")
    _update(context, name, wanted, publish=True, threads=threads, memory=memory, as_json=as_json)


def _update(
    context: typer.Context,
    name: str,
    erase: Mapping[str, list[str]],
    *,
    publish: bool,
    threads: int | None,
    memory: str,
    as_json: bool,
) -> None:
    from indexer.update import erased_keys, update_index  # noqa: PLC0415  compiles
    from service.retrieval import cores, places_of  # noqa: PLC0415

    with shown_progress(quiet=context.obj.quiet) as progress:
        updated = update_index(
            places_of(context.obj),
            name,
            progress,
            erase=erased_keys(**erase) if erase else None,
            threads=threads or cores(),
            memory=parse_size(memory),
            publish=publish,
        )
    if updated.built is None:
        if as_json:
            print_json({"index": name, "changed": 0, "gone": 0, "published": False})
        else:
            print_line(
                f"nothing of what was named is in index {name}"
                if erase
                else f"index {name} is as its logs are: nothing to do"
            )
        return
    if erase and not updated.changed and not updated.gone and not as_json:
        print_line(f"nothing of what was named is in index {name}; it will stay out from now on")
        return
    _print_built(updated.built, as_json=as_json, changed=updated.changed, gone=updated.gone)
    if updated.worth_compacting and not as_json:
        print_line(f"much of it lies in later segments: refaug index compact {name} makes searching quicker")


@app.command("compact")
def compact_command(
    context: typer.Context,
    name: NameArgument,
    publish: Annotated[bool, typer.Option(help="Let the new version serve.")] = True,
    threads: ThreadsOption = None,
    memory: MemoryOption = "2GiB",
    as_json: JsonFlag = False,
) -> None:
    """Build an index anew with its own settings: one segment, with nothing in it of what was deleted."""
    from indexer.update import compact_index  # noqa: PLC0415  compiles
    from service.retrieval import cores, places_of  # noqa: PLC0415

    with shown_progress(quiet=context.obj.quiet) as progress:
        built = compact_index(
            places_of(context.obj),
            name,
            progress,
            threads=threads or cores(),
            memory=parse_size(memory),
            publish=publish,
        )
    _print_built(built, as_json=as_json)


@app.command("publish")
def publish_command(context: typer.Context, index: SpecArgument) -> None:
    """Let a version serve: one that was built without publishing, or an older one."""
    from indexer.update import publish_version  # noqa: PLC0415  compiles
    from service.retrieval import places_of  # noqa: PLC0415

    name, at, version = index.partition("@")
    if not at:
        raise Usage(f"{index!r} names no version", remedy="give NAME@VERSION: refaug index list")
    publish_version(places_of(context.obj), name, version)
    print_line(f"index {name}@{version} is published")


@app.command("rollback")
def rollback_command(
    context: typer.Context,
    name: NameArgument,
    to: Annotated[str | None, typer.Option(help="The version to go back to.", metavar="VERSION")] = None,
) -> None:
    """Let the version before the published one serve again."""
    from indexer.update import rollback  # noqa: PLC0415  compiles
    from service.retrieval import places_of  # noqa: PLC0415

    version = rollback(places_of(context.obj), name, to)
    print_line(f"index {name}@{version} is published")


@app.command("gc")
def gc_command(
    context: typer.Context,
    name: NameArgument,
    keep: Annotated[int, typer.Option(help="So many of the newest versions stay.", min=0)] = 3,
    as_json: JsonFlag = False,
) -> None:
    """Remove old versions; the published one stays, and any that is being read."""
    from service.retrieval import places_of  # noqa: PLC0415  compiles

    removed = places_of(context.obj).indexes.gc(name, keep)
    if as_json:
        print_json({"index": name, "removed": removed})
    else:
        print_line(
            f"index {name}: {counted(len(removed), 'version')} removed{': ' if removed else ''}{', '.join(removed)}"
        )


@app.command("check")
def check_command(
    context: typer.Context,
    index: SpecArgument,
    mode: ModeOption = "embedding-utterance",
    queries: Annotated[int, typer.Option(help="Utterances drawn from the index.", min=1, max=100_000)] = 200,
    depth: Annotated[int | None, typer.Option(help="Candidate utterances that are looked at.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Another seed, other utterances.")] = 1,
    least: Annotated[float | None, typer.Option(help="With less recall, end with exit code 6.", min=0, max=1)] = None,
    threads: ThreadsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare what an index finds, in any mode, with a search through all of it."""
    from indexer.check import check_index  # noqa: PLC0415  compiles
    from indexer.queries import SearchSettings  # noqa: PLC0415
    from service.retrieval import open_index  # noqa: PLC0415

    settings = SearchSettings(mode=mode, depth=depth)  # type: ignore[arg-type]
    with open_index(context.obj, index, threads=threads) as opened, shown_progress(quiet=context.obj.quiet) as progress:
        measured = check_index(opened, settings, queries=queries, seed=seed, progress=progress)
    facts = {"index": index, "mode": mode, **asdict(measured)}
    if as_json:
        print_json(facts)
    else:
        shown = {name: f"{value:.4f}" if isinstance(value, float) else value for name, value in facts.items()}
        print_facts(f"recall of {index}, {mode}", {name: value for name, value in shown.items() if name != "index"})
    if least is not None and measured.recall < least:
        raise CheckFailed(f"recall@15 is {measured.recall:.3f}, {least:.3f} were asked for")
