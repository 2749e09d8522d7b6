"""Options of the commands about indexes, and the printed form of a version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from refaug.cli.shared.output import print_facts, print_json

if TYPE_CHECKING:
    from refaug.indexer.building.build import IndexBuild
    from refaug.indexer.manifest import IndexManifest

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
    float | None,
    typer.Option("--latency-ms", help="Milliseconds that a single search may take.", metavar="MS", min=0.0),
]
FactoryOption = Annotated[
    str | None, typer.Option("--factory", help="A kind of index by FAISS's name, e.g. IVF4096,SQ8.", metavar="FACTORY")
]
ThreadsOption = Annotated[
    int | None, typer.Option(help="Threads; by default one for each core.", metavar="N", min=1, max=1024)
]
ModeOption = Annotated[str, typer.Option(help="embedding-utterance, embedding-dialog, bm25-utterance or bm25-dialog.")]


def print_built(built: IndexBuild, *, as_json: bool, **more: Any) -> None:
    """Print a new version, or the existing one that makes a build unnecessary."""
    facts = {
        "index": f"{built.name}@{built.version}",
        "id": built.manifest.id[:12],
        "published": built.published,
        **({} if built.is_new else {"note": "made of exactly this before: nothing to do; --again builds it anew"}),
        **more,
        **facts_of(built.manifest),
    }
    if as_json:
        print_json(facts)
    else:
        print_facts(f"index {facts.pop('index')}", readable_facts(facts))


def readable_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Round recall to its significant digits, and leave out the search depth of a flat index."""
    shown = {name: fact for name, fact in facts.items() if not (facts["kind"] == "Flat" and name == "search_depth")}
    for name in ("recall_at_15", "lost_similarity"):
        if shown.get(name) is not None:
            shown[name] = f"{shown[name]:.4f}"
    if shown.get("recall_interval"):
        shown["recall_interval"] = "[" + ", ".join(f"{end:.4f}" for end in shown["recall_interval"]) + "]"
    return shown


def facts_of(manifest: IndexManifest) -> dict[str, Any]:
    """Return the main facts of a version."""
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
        **({"shards": manifest.shards} if manifest.shards > 1 else {}),
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
