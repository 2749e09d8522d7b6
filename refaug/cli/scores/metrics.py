"""`refaug score metrics …`: the catalogue of metrics."""

from __future__ import annotations

from typing import Annotated

import typer

from refaug.cli.shared import output
from refaug.core.errors import Usage
from refaug.metrics.catalogue import METRICS, find
from refaug.metrics.metric_info import MetricInfo
from refaug.metrics.packages.package_metrics import metrics_of_packages


def list_command(as_json: output.JsonFlag = False) -> None:
    """All metrics, those of other packages last."""
    added, errors = metrics_of_packages()
    infos = [*METRICS.values(), *added]
    if as_json:
        problems = {"problems": [error.message for error in errors]} if errors else {}
        output.print_json({"metrics": [info.as_json() for info in infos], **problems})
        return
    output.print_table(
        "metrics (refaug score metrics describe NAME tells more)",
        ("name", "references", "range", "direction", "needs", "what it is"),
        [
            (info.name, info.uses.value, info.range, info.direction, ", ".join(info.needs), info.summary)
            for info in infos
        ],
    )
    for error in errors:
        output.print_line(f"{error.message} ({error.remedy})")


def describe_command(
    name: Annotated[str, typer.Argument(help="Name of the metric.", metavar="METRIC")], as_json: output.JsonFlag = False
) -> None:
    """One metric: its parameters with their defaults, and where it comes from."""
    info = find(name)
    if as_json:
        output.print_json(info.as_json())
        return
    output.print_facts(
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
    output.print_table(
        "parameters",
        ("key", "default", "values", "what it does"),
        [
            (parameter.name, parameter.default or "(none: give one)", parameter.allowed, parameter.help)
            for parameter in info.parameters
        ],
    )
    output.print_line(f"for example: {example(info)}")


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
    memory: output.MemoryOption = "2GiB",
    as_json: output.JsonFlag = False,
) -> None:
    """What a metric gives to replies that have nothing to do with their reference: the b of its upsilon form.

    That of an index is kept beside it. refaug score --index takes it by itself.
    """
    from refaug.cli.shared.progress import display_progress  # noqa: PLC0415
    from refaug.core.files import unique_suffix  # noqa: PLC0415
    from refaug.core.query_engine import QueryEngine  # noqa: PLC0415  DuckDB, Arrow
    from refaug.logs.store import StoredLog  # noqa: PLC0415
    from refaug.metrics.specification import Specification  # noqa: PLC0415  compiles
    from refaug.scoring.home.indexes import places_of  # noqa: PLC0415
    from refaug.scoring.metric_setup.baseline import baseline_in, baseline_of  # noqa: PLC0415

    if (log is None) == (index is None):
        problem = "--log and --index at once" if log is not None else "nothing to draw from"
        raise Usage(problem, remedy="one of the two: --log LOG, or --index NAME")
    parsed = Specification.parse(specification)
    if index is not None:
        with display_progress(quiet=context.obj.quiet) as progress:
            indexes = places_of(context.obj).indexes
            baseline = baseline_in(parsed, indexes, index, pairs=pairs, seed=seed, progress=progress)
    else:
        stored = StoredLog.open(context.obj.logs, log or "")
        with QueryEngine(context.obj.cache / f"engine-{unique_suffix()}", memory=output.parse_size(memory)) as engine:
            baseline = baseline_of(parsed, stored, engine, pairs=pairs, seed=seed)
    if as_json:
        output.print_json(baseline.as_json())
    else:
        where = f"{baseline.kind} {baseline.source}"
        output.print_line(
            f"{baseline.metric}: mean {baseline.b:.7f} over {baseline.pairs:,} random pairs of {where} (seed {seed})"
        )
        output.print_line(f"give it to the weighted form: --metric {baseline.specification}")


REFERENCES = {
    "gold": "the first gold alone",
    "golds": "all golds, each at weight 1, with the utterance; nothing that people gave a weight",
    "own": "all that came with the item (golds and supplied ones), every weight 1",
    "rated": "golds at weight 1, and those that people gave a weight",
    "weighted": "all, with their weights: golds, parrot, retrieved, supplied",
    "utterance": "none: the utterance alone",
    "dialogue": "none: the turns, where the item has some",
    "context": "the turns, and the golds if there are any",
}
CORPUS = {
    "sums": "from the statistics of all replies, added: not the mean of the reply scores",
    "mean": "the mean of the reply scores",
}


def example(info: MetricInfo) -> str:
    """Return a specification with one parameter changed."""
    first = info.parameters[0]
    other_choices = [choice for choice in getattr(first, "choices", ()) if choice != first.default]
    changed = other_choices[0] if other_choices else "4" if first.name == "n" else first.default or "FILE"
    return f"{info.name}:{first.name}={changed}"
