"""The options and the output of `refaug index plan --pairs`: an index that is planned for a number of pairs."""

from __future__ import annotations

import re
from math import nan
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared.output import count_of, parse_size, print_facts, print_json, print_line
from refaug.core.errors import Usage

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
