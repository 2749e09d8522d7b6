"""`refaug index …`: planning, building and checking indexes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared import index_options, output
from refaug.cli.shared.database import record_act, telling_refusals
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import connected
from refaug.cli.shared.progress import display_progress
from refaug.core.errors import CheckFailed
from refaug.operations.indexes import BuildIndex, EncodeIndex, named_encoder

if TYPE_CHECKING:
    from refaug.indexer.building.plan import Limits


def _limits(fit: str | None, recall: float, latency: float | None, factory: str | None) -> Limits:
    from refaug.indexer.building.plan import Limits  # noqa: PLC0415  compiles

    return Limits(
        memory=None if fit is None else output.parse_size(fit), recall=recall, latency_ms=latency, factory=factory
    )


# ── Planning and building ─────────────────────────────────────────────────────────────────────────────────────────────


def plan_command(
    context: typer.Context,
    logs: Annotated[list[str], typer.Argument(help="Logs whose pairs are indexed.", metavar="LOG…")],
    vectors: index_options.VectorsOption = None,
    encoder: index_options.EncoderOption = None,
    fit: index_options.FitOption = None,
    recall: index_options.RecallOption = 0.95,
    latency: index_options.LatencyOption = None,
    factory: index_options.FactoryOption = None,
    threads: index_options.ThreadsOption = None,
    as_json: output.JsonFlag = False,
) -> None:
    """What each kind of index of these logs would cost, and which one a build would take."""
    from refaug.indexer.building.plan import (  # noqa: PLC0415
        choose,
        demand_of,
        options,
    )
    from refaug.scoring.home.indexes import cores, places_of  # noqa: PLC0415

    vectors = _default_vectors(logs, vectors, encoder)
    limits = _limits(fit, recall, latency, factory)
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


@with_options
def build_command(context: typer.Context, *, order: BuildIndex, as_json: output.JsonFlag = False) -> None:
    """Build an index of some logs, measure its recall, and publish it; an interrupted build goes on where it was."""
    from refaug.indexer.building.build import build_index  # noqa: PLC0415  compiles
    from refaug.scoring.home.indexes import cores, places_of  # noqa: PLC0415

    index_order = order.order(
        threads=order.threads or (cores() if order.on is None else 1),  # a cluster has many tasks side by side
        encoder=named_encoder(order.encoder),
        tokenizer=order.tokenizer,
    )
    with (
        telling_refusals(context.obj),
        connected(order.on) as cluster,
        display_progress(quiet=context.obj.quiet) as progress,
    ):
        built = build_index(places_of(context.obj), index_order, progress, again=order.again, cluster=cluster)
    if built.published and built.is_new:
        record_act(context.obj, "publish", f"index {built.name}@{built.version}")
    index_options.print_built(built, as_json=as_json)


@with_options
def encode_command(context: typer.Context, *, order: EncodeIndex, as_json: output.JsonFlag = False) -> None:
    """Encode all utterances and responses of an index, and keep their vectors; kept ones stay."""
    from refaug.scoring.home.indexes import cores  # noqa: PLC0415  compiles
    from refaug.scoring.home.kept_states import keep_vectors  # noqa: PLC0415

    threads = order.threads or cores()
    with display_progress(quiet=context.obj.quiet) as progress:
        kept = asdict(keep_vectors(context.obj, order.index, order.encoder, order.rater, progress, threads=threads))
    if as_json:
        output.print_json(kept)
    else:
        output.print_facts(f"index {kept['index']}", kept)


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
    from refaug.indexer.search.exact_check import check_index  # noqa: PLC0415  compiles
    from refaug.indexer.search.search_settings import SearchSettings  # noqa: PLC0415
    from refaug.scoring.home.indexes import open_index  # noqa: PLC0415

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
        raise CheckFailed(f"recall@15 is {measured.recall:.3f}, at least {least:.3f} is required")
