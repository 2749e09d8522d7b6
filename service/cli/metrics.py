"""`refaug metrics …`: the catalogue."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from core.engine import Engine
from core.errors import Usage
from core.files import unique
from core.log_store import StoredLog
from metrics.catalogue import METRICS, MetricInfo, find
from service.cli.common import (
    JsonFlag,
    MemoryOption,
    parse_size,
    print_facts,
    print_json,
    print_line,
    print_table,
)
from service.cli.progress import shown_progress

app = typer.Typer(help="The metrics by name: what each needs, its range, its parameters.", no_args_is_help=True)


@app.command("list")
def list_command(as_json: JsonFlag = False) -> None:
    """All metrics."""
    if as_json:
        print_json({"metrics": [described(info) for info in METRICS.values()]})
        return
    print_table(
        "metrics (refaug metrics describe NAME tells more)",
        ("name", "references", "range", "direction", "needs", "what it is"),
        [
            (info.name, info.uses.value, info.range, info.direction, ", ".join(info.needs), info.summary)
            for info in METRICS.values()
        ],
    )


@app.command("describe")
def describe_command(
    name: Annotated[str, typer.Argument(help="Name of the metric.", metavar="METRIC")], as_json: JsonFlag = False
) -> None:
    """One metric: its parameters with their defaults, and where it comes from."""
    info = find(name)
    if as_json:
        print_json(described(info))
        return
    print_facts(
        name,
        {
            "what": info.summary,
            "references": REFERENCES[info.uses.value],
            "range": f"{info.range}, {info.direction}",
            "corpus": CORPUS[info.corpus.value],
            "needs": ", ".join(info.needs) or "nothing beside the texts",
            "paper": info.paper,
        },
    )
    print_table(
        "parameters",
        ("key", "default", "values", "what it does"),
        [(one.name, one.default or "(none: give one)", one.allowed, one.help) for one in info.parameters],
    )
    print_line(f"for example: {example(info)}")


@app.command("baseline")
def baseline_command(
    context: typer.Context,
    specification: Annotated[str, typer.Argument(help="A metric with an upsilon- form.", metavar="SPEC")],
    log: Annotated[str | None, typer.Option(help="The log to draw from.", metavar="LOG")] = None,
    index: Annotated[
        str | None,
        typer.Option(help="The index to draw from, instead of a log: name or name@version.", metavar="NAME"),
    ] = None,
    pairs: Annotated[int, typer.Option(help="How many random pairs.", min=2, max=1_000_000)] = 10_000,
    seed: Annotated[int, typer.Option(help="Another seed, other pairs.", min=0, max=2**32 - 1)] = 1,
    memory: MemoryOption = "2GiB",
    as_json: JsonFlag = False,
) -> None:
    """What a metric gives to replies that have nothing to do with their reference: the b of its upsilon form.

    That of an index is kept beside it. refaug score --index takes it by itself.
    """
    from metrics.specification import Specification  # noqa: PLC0415  compiles
    from service.baseline import baseline_in, baseline_of  # noqa: PLC0415
    from service.retrieval import places_of  # noqa: PLC0415

    if (log is None) == (index is None):
        given = "--log and --index at once" if log is not None else "nothing to draw from"
        raise Usage(given, remedy="one of the two: --log LOG, or --index NAME")
    asked = Specification.parse(specification)
    if index is not None:
        with shown_progress(quiet=context.obj.quiet) as progress:
            indexes = places_of(context.obj).indexes
            found = baseline_in(asked, indexes, index, pairs=pairs, seed=seed, progress=progress)
    else:
        stored = StoredLog.open(context.obj.logs, log or "")
        with Engine(context.obj.cache / f"engine-{unique()}", memory=parse_size(memory)) as engine:
            found = baseline_of(asked, stored, engine, pairs=pairs, seed=seed)
    if as_json:
        print_json(found.as_json())
    else:
        where = f"{found.kind} {found.source}"
        print_line(f"{found.metric}: mean {found.b:.7f} over {found.pairs:,} random pairs of {where} (seed {seed})")
        print_line(f"give it to the weighted form: --metric {found.specification}")


REFERENCES = {
    "gold": "the first gold alone",
    "golds": "all golds, each at weight 1, with the utterance; nothing that people gave a weight",
    "own": "all that came with the item (golds and supplied ones), every weight 1",
    "rated": "golds at weight 1, and those that people gave a weight",
    "weighted": "all, with their weights: golds, parrot, retrieved, supplied",
    "utterance": "none: the utterance alone",
}
CORPUS = {
    "sums": "from the statistics of all replies, added: not the mean of the reply scores",
    "mean": "the mean of the reply scores",
}


def example(info: MetricInfo) -> str:
    """A specification with one parameter changed."""
    first = info.parameters[0]
    others = [value for value in getattr(first, "choices", ()) if value != first.default]
    return f"{info.name}:{first.name}={others[0] if others else '4' if first.name == 'n' else first.default or 'FILE'}"


def described(info: MetricInfo) -> dict[str, Any]:
    """One entry for machines."""
    return {
        "name": info.name,
        "summary": info.summary,
        "references": info.uses.value,
        "range": [info.low, info.high],
        "higher_is_better": info.higher_is_better,
        "corpus_from": info.corpus.value,
        "needs": list(info.needs),
        "paper": info.paper,
        "parameters": [
            {"name": one.name, "default": one.default, "values": one.allowed, "help": one.help}
            for one in info.parameters
        ],
    }
