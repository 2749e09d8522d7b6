"""`refaug meta probe`: what each metric gives to replies that deserve nothing, or no more than they had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.asking import Asking
from service.cli.common import JsonFlag, counted, print_json, print_line, print_table
from service.cli.index_common import ThreadsOption
from service.cli.meta import RaterOption, require_wanted
from service.cli.options import with_options
from service.cli.progress import shown_progress
from service.cli.score import ItemsArgument, items_from
from service.cli.scoring import (
    LanguageOption,
    MetricOption,
    StrictFlag,
    number,
    report_problems,
    require_all,
)

if TYPE_CHECKING:
    from service.probe import MetricProbes, ProbeReport, ProbeScore


@with_options
def probe_command(
    context: typer.Context,
    items: ItemsArgument = None,
    metric: MetricOption = None,
    rater: RaterOption = None,
    *,
    asking: Asking,
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
    language: LanguageOption = None,
    threads: ThreadsOption = None,
    strict: StrictFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Score artificial replies, to see by which tricks a metric can be gamed.

    The replies are made from ITEMS, and the systems of ITEMS are scored beside them (docs/gaming.md). Differences are
    to the replies that were tampered with, over the items where both have a score.
    """
    require_wanted(asking, metric or [], rater)
    from service.asked_metrics import default_metric, lacking_b, metrics_of  # noqa: PLC0415  compiles
    from service.cases import split  # noqa: PLC0415
    from service.probe import ProbeSettings, probe  # noqa: PLC0415

    settings = ProbeSettings(
        base=system, seed=seed, generic=generic, padding=padding, without_gold=without_gold, language=language
    )
    with shown_progress(quiet=context.obj.quiet) as progress:
        good, bad = split(items_from(items, [], [], [], progress))
        chosen = metrics_of(metric or [default_metric(good)], language)
        if (told := lacking_b(chosen, good)) is not None:
            progress.warn(told)
        chosen = asking.bound(context.obj, chosen, rater=rater, threads=threads, progress=progress)
        found = probe(good, chosen, settings, bad_items=bad, progress=progress)
        report_problems(bad, [], progress)
    if as_json:
        print_json(found.as_json())
    else:
        _print_tables(found)
    require_all(bad, strict=strict)


def _print_tables(found: ProbeReport) -> None:
    for one in found.metrics:
        print_table(_title(one), _COLUMNS, [_cells(row) for row in one.rows])
    base = f"the replies of {found.settings.base}" if found.settings.base is not None else "the gold"
    without = ", scored without the gold" if found.settings.without_gold else ""
    print_line(f"base: {base}{without}; seed {found.settings.seed}; data {found.data}: {counted(found.items, 'item')}")


_COLUMNS = ("kind", "name", "rank", "corpus", "± base", "mean", "± base", "in references", "scored", "unscored")


def _title(one: MetricProbes) -> str:
    return f"{one.signature.short}" + ("" if one.metric.info.higher_is_better else "   (lower is better)")


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
        row.in_references,
        row.scored,
        unscored,
    )


def _signed(value: float | None) -> str:
    """A difference with its sign; what would be −0.0000 is 0."""
    return "-" if value is None else f"{round(value, 4) + 0.0:+.4f}"
