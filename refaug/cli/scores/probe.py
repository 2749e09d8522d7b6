"""`refaug agreement probe`: what metrics give to artificial replies that deserve no more than before, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.item_inputs import ItemInputs, ItemsArgument
from refaug.cli.shared.output import JsonFlag, count_of, print_json, print_line, print_table
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.score_options import StrictFlag, number, report_problems, require_all
from refaug.operations.item_sources import TableOptions
from refaug.operations.scoring_options import MetricOptions, ReferenceOptions

if TYPE_CHECKING:
    from refaug.agreement.probe import MetricProbes, ProbeReport, ProbeScore
    from refaug.agreement.stress import MetricStress


@with_options
def probe_command(
    context: typer.Context,
    items: ItemsArgument = None,
    *,
    scoring: MetricOptions,
    rater: Annotated[
        str | None, typer.Option(help="Rater of metrics that name none: name or name@version.", metavar="NAME")
    ] = None,
    table: TableOptions,
    system: Annotated[
        str | None,
        typer.Option(help="Whose replies are shuffled, padded, …; without it, the gold.", metavar="NAME"),
    ] = None,
    without_gold: Annotated[
        bool,
        typer.Option(
            "--without-gold", help="Take the gold out of the references, so that a copy of it has to earn its score."
        ),
    ] = False,
    generic: Annotated[
        str | None,
        typer.Option(help='The generic reply; without it "I don\'t know.", for ja "わかりません。".', metavar="TEXT"),
    ] = None,
    padding: Annotated[int, typer.Option(help="How many words pad a reply.", min=1, max=1_000)] = 5,
    seed: Annotated[int, typer.Option(help="Another seed, other orders and other golds.", min=0, max=2**32 - 1)] = 1,
    search: Annotated[
        bool, typer.Option("--search", help="Look for the cheapest reply by machine: echoes, salad, constants, copies.")
    ] = False,
    stress: Annotated[
        bool,
        typer.Option(
            "--stress",
            help="Also say how far scores move, in standard deviations, when words are reversed, left out, negated, "
            "replaced by synonyms or by letters that are no word.",
        ),
    ] = False,
    steps: Annotated[int, typer.Option(help="Of the search for a constant.", min=1, max=1_000_000)] = 2_000,
    threads: ThreadsOption = None,
    strict: StrictFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Score artificial replies, to see by which tricks a metric can be gamed.

    The replies are made from ITEMS, and the systems of ITEMS are scored beside them (docs/gaming.md). Differences are
    to the replies that were tampered with, over the items where both have a score.
    """
    ReferenceOptions(rater=rater).require_models(context.obj, scoring.metrics)
    from refaug.agreement.probe import ProbeSettings, probe  # noqa: PLC0415
    from refaug.agreement.stress import stress as stress_rows  # noqa: PLC0415
    from refaug.scoring.cases import split  # noqa: PLC0415
    from refaug.scoring.metric_setup.metric_requests import baseline_advice, default_metric, metrics_of  # noqa: PLC0415  compiles
    from refaug.scoring.metric_setup.model_registry import ModelRegistry  # noqa: PLC0415
    from refaug.scoring.metric_setup.scoring_steps import bound_metrics  # noqa: PLC0415

    settings = ProbeSettings(
        base=system,
        seed=seed,
        generic=generic,
        padding=padding,
        without_gold=without_gold,
        language=scoring.language,
        search_steps=steps if search else 0,
    )
    with display_progress(quiet=context.obj.quiet) as progress:
        good, bad = split(ItemInputs(items=items, table=table).read(progress))
        models = ModelRegistry(context.obj, threads, default_rater=rater)
        chosen = metrics_of(scoring.metrics or [default_metric(good)], scoring.language, source=models)
        if (advice := baseline_advice(chosen, good)) is not None:
            progress.warn(advice)
        chosen = bound_metrics(chosen, models, progress=progress)
        report = probe(good, chosen, settings, bad_items=bad, progress=progress)
        stresses = stress_rows(good, chosen, settings, progress) if stress else []
        report_problems(bad, [], progress)
    if as_json:
        more = {"stress": [of_metric.as_json() for of_metric in stresses]} if stress else {}
        print_json({**report.as_json(), **more})
    else:
        _print_tables(report)
        for of_metric in stresses:
            _print_stress(of_metric)
    require_all(bad, strict=strict)


def _print_tables(report: ProbeReport) -> None:
    for probes in report.metrics:
        print_table(_title(probes), _COLUMNS, [_cells(row) for row in probes.rows])
        if probes.searched is not None:
            print_line(f"searched constant: {probes.searched.reply!r}, {probes.searched.steps:,} steps")
    base = f"the replies of {report.settings.base}" if report.settings.base is not None else "the gold"
    without = ", scored without the gold" if report.settings.without_gold else ""
    print_line(
        f"base: {base}{without}; seed {report.settings.seed}; data {report.data}: {count_of(report.items, 'item')}"
    )


def _print_stress(of_metric: MetricStress) -> None:
    rows = [
        (
            row.name,
            row.expected,
            "–" if row.change is None else f"{row.change:+.2f} [{row.low:+.2f}, {row.high:+.2f}]",
            "–" if row.right is None else f"{row.right:.2f}",
            row.replies,
            row.why,
        )
        for row in of_metric.rows
    ]
    print_table(
        f"{of_metric.metric}: stress", ("altered", "should", "change, sd", "right", "replies", "why none"), rows
    )
    groups = [(group.name, number(group.score), _signed(group.mean), group.replies) for group in of_metric.groups]
    print_table(f"{of_metric.metric}: groups of replies", ("group", "mean", "from all, sd", "replies"), groups)


_COLUMNS = (
    "kind",
    "name",
    "rank",
    "corpus",
    "± base",
    "mean",
    "± base",
    "of base",
    "beats",
    "in references",
    "scored",
    "unscored",
)


def _title(probes: MetricProbes) -> str:
    return f"{probes.signature.short}" + ("" if probes.metric.info.higher_is_better else "   (lower is better)")


def _cells(row: ProbeScore) -> tuple[object, ...]:
    unscored = ", ".join(f"{code} {times:,}" for code, times in row.unscored.items())
    return (
        row.kind.value,
        row.name,
        row.rank,
        number(row.corpus),
        "base" if row.is_base else _signed(row.corpus_difference),
        number(row.mean),
        "base" if row.is_base else _signed(row.mean_difference),
        "–" if row.mean_share is None else f"{row.mean_share:.2f}",
        "–" if row.beats is None else f"{row.beats:.2f}",
        row.in_references,
        row.scored,
        unscored,
    )


def _signed(difference: float | None) -> str:
    """Format a difference with its sign; −0.0000 becomes 0."""
    return "-" if difference is None else f"{round(difference, 4) + 0.0:+.4f}"
