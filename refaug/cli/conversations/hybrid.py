"""`refaug hybrid evaluate`: the hybrid metric on bots that its fit has not seen."""

from __future__ import annotations

from typing import Any, Final

import typer

from refaug.cli.conversations.inputs import read_conversations
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.output import JsonFlag, print_facts, print_json, print_line, print_table
from refaug.cli.shared.progress import display_progress
from refaug.operations.bots.fit_hybrid import HybridOptions

app = typer.Typer(
    help="The hybrid metric of whole conversations, beside what it has to be better than.", no_args_is_help=True
)

_OTHER: Final = {"common": "published form", "fold": "icpt:common"}  # the column of the other intercept
_FORM_BESIDE: Final = {"common": "fold", "fold": "common"}


@app.command("evaluate")
@with_options
def evaluate_command(
    context: typer.Context,
    *,
    order: HybridOptions,
    as_json: JsonFlag = False,
) -> None:
    """Say how far the hybrid metric agrees with people on bots that its fit has not seen.

    One bot after the other is left out. Beside the figures stand the intercept alone, shuffled ratings, permuted bots,
    each column alone, and plain counts. With -m, the mean scores of the bots' replies are columns of the wider set.
    """
    from refaug.evaluation.conversations.hybrid_report import hybrid_report  # noqa: PLC0415  scipy
    from refaug.evaluation.conversations.measuring import measure  # noqa: PLC0415

    judges = order.judges_of(context.obj, order.threads)
    with display_progress(quiet=context.obj.quiet) as progress:
        talks = read_conversations(context.obj, order, progress)
        measured = measure(context.obj, talks, order, order, judges, progress)
        report = hybrid_report(measured.table, order, measured.details)
    report["turn_signatures"] = dict(measured.turn_signatures)
    if as_json:
        print_json(report)
        return
    print_report(report)


def print_report(report: dict[str, Any]) -> None:
    """Print the figures with all their controls."""
    intercept = report["intercept"]
    print_line(report["signature"])
    facts = {"conversations": report["conversations"], "unrated": report["unrated"], "bots": len(report["bots"])}
    if report["few_ratings"]:
        facts["of people with few ratings"] = report["few_ratings"]
    if missing := {name: count for name, count in report["missing"].items() if count}:
        facts["without"] = ", ".join(f"{name} {count:,}" for name, count in missing.items())
    facts["intercept alone"] = (
        f"{_digits(report['intercept_only']['pearson'])}: what the published form gives for nothing"
    )
    print_facts(f"{report['name']}, one bot left out at a time", facts)
    print_table(
        f"agreement over bots (Pearson, icpt:{intercept})",
        ("columns", "r", "95 %", "shuffled ratings", "in folds", "p", "shown", _OTHER[intercept], "within bots"),
        [_set_row(name, figures, intercept) for name, figures in report["sets"].items()],
    )
    reason = next(iter(report["sets"].values()))["agreement"]["common"]["reason"]
    if reason:
        print_line(reason)
    print_table(
        "each column alone: correlation of the bots' means, without a fit",
        ("column", "Pearson", "Spearman", "within bots"),
        [
            (
                name,
                _digits(figures["pearson"]),
                _digits(figures["spearman"]),
                _digits(report["within_alone"][name]),
            )
            for name, figures in report["alone"].items()
        ],
    )
    for name, comparison in report["against_counts"].items():
        if comparison["interval"] is not None:
            bounds = _range(comparison["interval"])
            shown = "better, shown" if comparison["is_shown"] else "not shown to be better"
            print_line(f"{name} - {comparison['count']}: {comparison['difference']:+.3f} {bounds}: {shown}")


def _set_row(name: str, figures: dict[str, Any], intercept: str) -> tuple[str, ...]:
    """Return the figures of one set; where there is no correlation, its interval and its controls say nothing."""
    pearson = figures["agreement"][intercept]["pearson"]
    return (
        name,
        _digits(pearson),
        *(_range(figures[key]) if pearson is not None else _digits(None) for key in ("interval", "shuffled_ratings")),
        _mean(figures["shuffled_in_folds"] if pearson is not None else None),
        _digits(figures["permuted_bots"]["p"] if pearson is not None else None),
        "yes" if figures["is_shown"] else "no",
        _digits(figures["agreement"][_FORM_BESIDE[intercept]]["pearson"]),
        _digits(figures["within_bots"]),
    )


def _range(interval: dict[str, Any]) -> str:
    return f"[{interval['low']:.2f}, {interval['high']:.2f}]"


def _mean(control: dict[str, Any] | None) -> str:
    """Return a mean with its standard error."""
    if control is None or control["mean"] is None:
        return "–"
    return f"{control['mean']:.2f} ± {control['error']:.2f}"


def _digits(figure: float | None) -> str:
    return "–" if figure is None else f"{figure:.3f}"
