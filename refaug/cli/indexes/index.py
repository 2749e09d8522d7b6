"""`refaug index …`: planning, building and checking indexes."""

from __future__ import annotations

import re
from dataclasses import asdict
from math import nan
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared import index_options, output
from refaug.cli.shared.clusters import connected
from refaug.cli.shared.database import record_act
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.output import count_of, parse_size, print_facts, print_json, print_line
from refaug.cli.shared.progress import display_progress
from refaug.core.errors import CheckFailed, Usage
from refaug.operations.build_index import BuildIndex, named_encoder
from refaug.operations.encode_index import EncodeIndex

if TYPE_CHECKING:
    from refaug.core.home import Settings
    from refaug.indexer.building.cluster_plan import ClusterPlan
    from refaug.indexer.building.plan import Limits


PairsOption = Annotated[
    str | None,
    typer.Option(help="Plan for so many pairs instead, such as 1e9; LOG… then say how they grow.", metavar="NUMBER"),
]
NodesOption = Annotated[int | None, typer.Option(help="With --pairs: machines; 1 by default.", metavar="NUMBER")]
NodeMemoryOption = Annotated[
    str | None, typer.Option(help="With --pairs: memory of a machine; 64GiB by default.", metavar="SIZE")
]
CoresOption = Annotated[int | None, typer.Option("--cores", help="With --pairs: cores of a machine; 8 by default.")]
DimensionsOption = Annotated[
    int | None, typer.Option(help="With --pairs: of the word vectors; 200 by default.", min=8, max=4_096)
]
NetworkOption = Annotated[
    float | None, typer.Option(help="With --pairs: gigabits a second of a machine; 10 by default.", metavar="GBIT")
]
PriceOption = Annotated[
    float | None, typer.Option(help="With --pairs: what a machine costs an hour, in any currency.", metavar="PRICE")
]
MostCostOption = Annotated[
    float | None, typer.Option(help="With --pairs: refuse a plan whose build costs more.", metavar="COST")
]


def plan_for_pairs(
    settings: Settings,
    logs: list[str],
    pairs: str,
    limits: Limits,
    *,
    nodes: int | None,
    memory: str | None,
    cores: int | None,
    dimensions: int | None,
    network: float | None,
    price: float | None,
    most_cost: float | None,
    as_json: bool,
) -> None:
    """Plan an index of so many pairs on these machines, and print it."""
    from refaug.evaluation.home.indexes import places_of  # noqa: PLC0415
    from refaug.indexer.building.cluster_plan import SHAPE, Machines, plan_cluster  # noqa: PLC0415  compiles
    from refaug.indexer.building.size_estimate import shape_of  # noqa: PLC0415

    cluster = Machines(
        nodes=1 if nodes is None else nodes,
        memory=parse_size("64GiB" if memory is None else memory),
        cores=8 if cores is None else cores,
        gigabits=10.0 if network is None else network,
        price=price,
        most_cost=most_cost,
    )
    shape = shape_of(places_of(settings), logs) if logs else SHAPE
    plan = plan_cluster(
        _number(pairs), cluster, limits, shape=shape, dimensions=200 if dimensions is None else dimensions
    )
    if as_json:
        print_json(plan.as_json())
    else:
        _print_plan(plan, cluster.nodes)


def refuse_without_pairs(options: dict[str, object]) -> None:
    """Refuse options of machines where stored logs are planned for on this one."""
    for option, chosen in options.items():
        if chosen is not None:
            raise Usage(f"{option} belongs to a plan for a number of pairs", remedy="add --pairs, such as --pairs 1e9")


def refuse_with_pairs(vectors: str | None, encoder: str | None, fit: str | None, threads: int | None) -> None:
    """Refuse options that a plan for a number of pairs does not use."""
    options = {"--vectors": vectors, "--encoder": encoder, "--fit": fit, "--threads": threads}
    for option, chosen in options.items():
        if chosen is not None:
            raise Usage(
                f"{option} belongs to a plan of stored logs on this machine",
                remedy="leave out --pairs, or say it with --dimensions, --memory and --cores",
            )


def _number(text: str) -> int:
    plain = re.sub(r"(?<=\d)[,_](?=\d{3}(?!\d))", "", text)  # 250,000,000; a decimal comma is refused
    try:
        number = float(plain)
    except ValueError:
        number = nan
    if "_" in plain or not 1 <= number <= 1e13 or number != int(number):
        raise Usage(f"--pairs {text!r} is no number of pairs", remedy="such as 1e9 or 250,000,000, at most 1e13")
    return int(number)


def _print_plan(plan: ClusterPlan, nodes: int) -> None:
    demand, gib = plan.demand, 2**30
    core_hours = sum(plan.cpu_seconds.values()) / 3600
    facts = {
        "utterances": demand.rows,
        "kind": plan.option.factory,
        "expected recall@15": plan.option.expected_recall,
        "shards": f"{plan.shards}, {plan.shards // nodes} on each of {count_of(nodes, 'node')}",
        "memory, serving": f"{plan.serving_memory / gib:,.1f} GiB a node",
        "memory, building": f"{plan.build_memory / gib:,.1f} GiB a node, {count_of(plan.at_once, 'shard')} at once",
        "disk": f"{plan.disk / gib:,.1f} GiB",
        "disk, shared folder": f"{plan.shared_disk / gib:,.1f} GiB while a new version is built",
        "disk, a node": f"{plan.node_disk / gib:,.1f} GiB while a new version is taken over",
        "network, a query": f"{plan.query_bytes / 1e3:,.1f} kB to and from all shards",
        "network, a build": f"{plan.shuffled / gib:,.1f} GiB to and from the shared folder",
        "build, hours of a core": core_hours,
        "build, hours": plan.build_hours,
    }
    if plan.build_cost is not None:
        facts |= {"build, cost": plan.build_cost, "serving, cost of a month": plan.month_cost or 0.0}
    print_facts(f"an index of {demand.occurrences:,} pairs, with vectors of {demand.dimensions} dimensions", facts)
    print_line("hours hold where all cores are as fast as the bench's one, and busy throughout (docs/benchmarks.md)")


app = typer.Typer(help="Plan, build, search and update indexes of logs.", no_args_is_help=True)


def _limits(fit: str | None, recall: float, latency: float | None, factory: str | None) -> Limits:
    from refaug.indexer.building.plan import Limits  # noqa: PLC0415  compiles

    return Limits(
        memory=None if fit is None else output.parse_size(fit), recall=recall, latency_ms=latency, factory=factory
    )


# ── planning and building ─────────────────────────────────────────────────────────────────────────────────────────────


@app.command("plan")
def plan_command(
    context: typer.Context,
    logs: Annotated[list[str] | None, typer.Argument(help="Logs whose pairs are indexed.", metavar="LOG…")] = None,
    vectors: index_options.VectorsOption = None,
    encoder: index_options.EncoderOption = None,
    fit: index_options.FitOption = None,
    recall: index_options.RecallOption = 0.95,
    latency: index_options.LatencyOption = None,
    factory: index_options.FactoryOption = None,
    threads: index_options.ThreadsOption = None,
    pairs: PairsOption = None,
    nodes: NodesOption = None,
    memory: NodeMemoryOption = None,
    node_cores: CoresOption = None,
    dimensions: DimensionsOption = None,
    network: NetworkOption = None,
    price: PriceOption = None,
    most_cost: MostCostOption = None,
    as_json: output.JsonFlag = False,
) -> None:
    """What each kind of index of these logs would cost, and which one a build would take; or one of so many pairs."""
    if pairs is not None:
        refuse_with_pairs(vectors, encoder, fit, threads)
        limits = _limits(None, recall, latency, factory)
        plan_for_pairs(
            context.obj,
            logs or [],
            pairs,
            limits,
            nodes=nodes,
            memory=memory,
            cores=node_cores,
            dimensions=dimensions,
            network=network,
            price=price,
            most_cost=most_cost,
            as_json=as_json,
        )
        return
    refuse_without_pairs(
        {
            "--nodes": nodes,
            "--memory": memory,
            "--cores": node_cores,
            "--dimensions": dimensions,
            "--network": network,
            "--price": price,
            "--most-cost": most_cost,
        }
    )
    if not logs:
        raise Usage("a plan needs a log, or a number of pairs", remedy="name a log, or --pairs 1e9")
    _plan_logs(context, logs, vectors, encoder, _limits(fit, recall, latency, factory), threads, as_json=as_json)


def _plan_logs(
    context: typer.Context,
    logs: list[str],
    vectors: str | None,
    encoder: str | None,
    limits: Limits,
    threads: int | None,
    *,
    as_json: bool,
) -> None:
    """Print the kinds of index that these logs can have on this machine."""
    from refaug.evaluation.home.indexes import cores, places_of  # noqa: PLC0415
    from refaug.indexer.building.plan import choose, options  # noqa: PLC0415
    from refaug.indexer.building.size_estimate import demand_of  # noqa: PLC0415  compiles

    vectors = _default_vectors(logs, vectors, encoder)
    demand = demand_of(places_of(context.obj), logs, vectors=vectors, encoder=named_encoder(encoder))
    offered = options(demand, limits, threads=threads or cores())
    chosen = choose(offered, limits)
    if as_json:
        rows = [{**asdict(option), "chosen": option == chosen} for option in offered]
        output.print_json({"demand": asdict(demand), "limits": asdict(limits), "options": rows})
        return
    output.print_line(
        f"{demand.rows:,} utterances of {demand.dimensions} dimensions, {demand.pairs:,} pairs; "
        "recall and times are expectations, measured when the index is built"
    )
    columns = ("kind", "memory MB", "disk MB", "build MB", "build s", "search ms", "recall@15", "")
    output.print_table(
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
    output.print_line(f"{chosen.factory}: {chosen.why}")


def _default_vectors(logs: list[str], vectors: str | None, encoder: str | None) -> str | None:
    """Return the vectors named, or by default those named after the first log; none with an encoder."""
    return vectors or (logs[0] if encoder is None else None)


@app.command("build")
@with_options
def build_command(context: typer.Context, *, order: BuildIndex, as_json: output.JsonFlag = False) -> None:
    """Build an index of some logs, measure its recall, and publish it; an interrupted build goes on where it was."""
    from refaug.evaluation.home.indexes import cores, places_of  # noqa: PLC0415
    from refaug.indexer.building.build import build_index  # noqa: PLC0415  compiles

    index_order = order.order(
        threads=order.threads or (cores() if order.on is None else 1),  # a cluster has many tasks side by side
        encoder=named_encoder(order.encoder),
        tokenizer=order.tokenizer,
    )
    with connected(order.on) as cluster, display_progress(quiet=context.obj.quiet) as progress:
        built = build_index(places_of(context.obj), index_order, progress, again=order.again, cluster=cluster)
    if built.published and built.is_new:
        record_act(context.obj, "publish", f"index {built.name}@{built.version}")
    index_options.print_built(built, as_json=as_json)


@app.command("encode")
@with_options
def encode_command(context: typer.Context, *, order: EncodeIndex, as_json: output.JsonFlag = False) -> None:
    """Encode all utterances and responses of an index, and keep their sentence vectors; kept ones stay."""
    from refaug.evaluation.home.indexes import cores, places_of  # noqa: PLC0415
    from refaug.indexer.vectors.index_encodings import encode_index  # noqa: PLC0415  compiles

    with display_progress(quiet=context.obj.quiet) as progress:
        encoded = encode_index(
            places_of(context.obj), order.index, order.encoder, progress, threads=order.threads or cores()
        )
    if as_json:
        output.print_json(asdict(encoded))
    else:
        output.print_facts(f"index {encoded.index}, encoder {encoded.encoder}", asdict(encoded))


@app.command("check")
def check_command(
    context: typer.Context,
    index: index_options.SpecArgument,
    mode: index_options.ModeOption = "embedding-utterance",
    queries: Annotated[int, typer.Option(help="Utterances drawn from the index.", min=1, max=100_000)] = 200,
    depth: Annotated[int | None, typer.Option(help="Candidate utterances that are looked at.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Another seed, other utterances.")] = 1,
    least: Annotated[float | None, typer.Option(help="With less recall, end with exit code 6.", min=0, max=1)] = None,
    threads: index_options.ThreadsOption = None,
    as_json: output.JsonFlag = False,
) -> None:
    """Compare what an index finds, in any mode, with a search through all of it."""
    from refaug.evaluation.home.indexes import open_index  # noqa: PLC0415
    from refaug.indexer.search.exact_check import check_index  # noqa: PLC0415  compiles
    from refaug.indexer.search.search_settings import SearchSettings  # noqa: PLC0415

    settings = SearchSettings(mode=mode, depth=depth)  # type: ignore[arg-type]
    with (
        open_index(context.obj, index, threads=threads) as opened,
        display_progress(quiet=context.obj.quiet) as progress,
    ):
        measured = check_index(opened, settings, queries=queries, seed=seed, progress=progress)
    facts = {"index": index, "mode": mode, **asdict(measured)}
    if as_json:
        output.print_json(facts)
    else:
        shown = {name: f"{fact:.4f}" if isinstance(fact, float) else fact for name, fact in facts.items()}
        output.print_facts(
            f"recall of {index}, {mode}", {name: fact for name, fact in shown.items() if name != "index"}
        )
    if least is not None and measured.recall < least:
        raise CheckFailed(f"recall@15 is {measured.recall:.3f}, {least:.3f} were asked for")
