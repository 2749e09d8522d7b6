"""Options of the commands about indexes, and the printed form of a version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from refaug.cli.shared.output import print_facts, print_json
from refaug.core.clusters import ConnectedCluster
from refaug.core.installation import EXECUTORS, find
from refaug.indexer.search.search_settings import MODES

if TYPE_CHECKING:
    from refaug.indexer.building.build import IndexBuild

NameArgument = Annotated[str, typer.Argument(help="Name of the index.", metavar="INDEX")]
SpecArgument = Annotated[
    str, typer.Argument(help="Name of the index, or name@version for one that is not published.", metavar="INDEX")
]
VectorsOption = Annotated[
    str | None, typer.Option(help="Word vectors by name; by default those named as the first log.", metavar="NAME")
]
EncoderOption = Annotated[
    str | None,
    typer.Option(
        help="Sentence encoder instead of word vectors: NAME of the home, or a folder, whose path has a slash.",
        metavar="ENCODER",
    ),
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
ModeOption = Annotated[str, typer.Option(help=f"One of: {', '.join(MODES[:-1])}.")]


def print_built(built: IndexBuild, *, as_json: bool, **more: Any) -> None:
    """Print a new version, or the existing one that makes a build unnecessary."""
    from refaug.scoring.home.kinds import index_facts, readable_facts  # noqa: PLC0415  numpy

    facts = {
        "index": f"{built.name}@{built.version}",
        "id": built.manifest.id[:12],
        "published": built.published,
        **({} if built.is_new else {"note": "made of exactly this before: nothing to do; --again builds it anew"}),
        **more,
        **index_facts(built.manifest),
    }
    if as_json:
        print_json(facts)
    else:
        print_facts(f"index {facts.pop('index')}", readable_facts(facts))


# ── Clusters that a command's work is done on ─────────────────────────────────────────────────────────────────────────


@contextmanager
def connected(address: str | None) -> Iterator[ConnectedCluster | None]:
    """Connect to a cluster until the block ends, if one is asked for."""
    if address is None:
        yield None
        return
    with find(EXECUTORS, "cluster")(address) as cluster:
        yield cluster
