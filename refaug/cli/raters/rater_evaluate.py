"""`refaug rater evaluate`: agreement of a rater's ratings with people's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.scores.meta import named_sets, read_set
from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.item_inputs import ItemInputs
from refaug.cli.shared.output import JsonFlag, count_of, print_json, print_line, print_table
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.score_options import SeedOption, StrictFlag, report_problems, require_all
from refaug.evaluation.scoring.score_settings import MAX_CONFIDENCE, MAX_DRAWS, MIN_CONFIDENCE

if TYPE_CHECKING:
    from refaug.evaluation.agreement.rater_agreement import RaterEvaluation, ReferenceRow
    from refaug.evaluation.agreement.records import AgreementRow, MeanRow
    from refaug.metrics.statistics.resampling import Estimate

_SPEARMAN = "spearman"


def evaluate_command(
    context: typer.Context,
    rater: Annotated[str, typer.Argument(help="Name of the rater, or name@version.", metavar="RATER")],
    items: Annotated[
        list[Path], typer.Argument(help="Test sets: JSONL with one item a line; - for stdin.", metavar="ITEMS…")
    ],
    combine: Annotated[
        list[str] | None,
        typer.Option(
            help="first, first-literal, max, confident or mean: see the page on raters; repeat it. Without it, all of "
            "them. The others are compared with the first.",
            metavar="NAME",
        ),
    ] = None,
    calibrated: Annotated[bool, typer.Option("--calibrated", help="Rate with the rater's temperature.")] = False,
    draws: Annotated[int, typer.Option(help="Draws of the bootstrap over items.", min=1, max=MAX_DRAWS)] = 10_000,
    confidence: Annotated[float, typer.Option(help="Of the intervals.", min=MIN_CONFIDENCE, max=MAX_CONFIDENCE)] = 0.95,
    seed: SeedOption = 1,
    threads: ThreadsOption = None,
    strict: StrictFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Say how far a rater's ratings agree with people's, of replies and of references that people rated.

    Replies need "ratings", references a weight or "ratings" by people; both are rated beside the golds of their item.
    """
    files = named_sets(items, remedy="refaug rater evaluate RATER ITEMS.jsonl")
    from refaug.evaluation.agreement.rater_agreement import RaterEvaluationSettings, evaluate_rater  # noqa: PLC0415  torch
    from refaug.evaluation.agreement.records import RatedItems  # noqa: PLC0415  compiles
    from refaug.evaluation.home.raters import open_rater  # noqa: PLC0415

    chosen = {"combines": tuple(combine)} if combine else {}
    settings = RaterEvaluationSettings(
        **chosen, calibration="cal" if calibrated else "raw", draws=draws, confidence=confidence, seed=seed
    )
    network = open_rater(context.obj, rater, threads=threads)
    with display_progress(quiet=context.obj.quiet) as progress:
        sets = [RatedItems(name=name, items=read_set(ItemInputs(items=path), progress)) for name, path in files.items()]
        evaluation = evaluate_rater(network, sets, settings, progress)
        report_problems(evaluation.bad_items, evaluation.warnings, progress)
    if as_json:
        print_json(evaluation.as_json())
    else:
        _print_tables(evaluation)
    require_all(evaluation.bad_items, strict=strict)


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _print_tables(evaluation: RaterEvaluation) -> None:
    from refaug.evaluation.agreement.report.wording import draws_in_words  # noqa: PLC0415  compiles

    if evaluation.replies is not None:
        for set_result in evaluation.replies.sets:
            counts = set_result.counts
            what = f"{count_of(counts.used, 'fair row')} of {count_of(counts.contexts, 'item')}, data {set_result.data}"
            _print_replies(f"{set_result.name}, rated replies: {what}", set_result.rows, evaluation)
        if evaluation.replies.mean is not None:
            _print_replies("mean of the sets, rated replies", evaluation.replies.mean.rows, evaluation)
    for references in evaluation.references:
        what = f"{references.used:,} of {count_of(references.items, 'item')}, data {references.data}"
        same = f"; {references.golds_themselves:,} more are a gold" if references.golds_themselves else ""
        _print_references(f"{references.name}, rated references: {what}{same}", references.rows, evaluation)
    if evaluation.mean:
        _print_references("mean of the sets, rated references", evaluation.mean, evaluation)
    print_line(f"intervals: bootstrap, {draws_in_words(evaluation.settings.meta)}")
    print_line(f"rater {evaluation.rater}, cal {evaluation.settings.calibration}")


def _print_replies(title: str, rows: Sequence[AgreementRow | MeanRow], evaluation: RaterEvaluation) -> None:
    interval, labels = (
        _interval(evaluation),
        dict(zip(evaluation.settings.metrics, evaluation.settings.combines, strict=True)),
    )
    print_table(
        title,
        (
            "combine",
            "Spearman",
            interval,
            f"less {evaluation.settings.combines[0]}",
            interval,
            "Holm p",
            "Pearson",
            "partial Spearman",
            "n",
        ),
        [
            (
                labels.get(row.name, row.name),
                *_with_span(row.spearman),
                *_with_span(row.differences.get(_SPEARMAN)),
                _p_value(row.holm.get(_SPEARMAN)),
                _correlation(row.pearson.value),
                _correlation(row.partial_spearman.value),
                row.n,
            )
            for row in rows
        ],
    )
    _print_reasons((labels.get(row.name, row.name), row.spearman) for row in rows)


def _print_references(title: str, rows: Sequence[ReferenceRow], evaluation: RaterEvaluation) -> None:
    interval = _interval(evaluation)
    print_table(
        title,
        ("combine", "Spearman", interval, f"less {evaluation.settings.combines[0]}", interval, "Pearson", interval),
        [
            (row.name, *_with_span(row.spearman), *_with_span(row.differences.get(_SPEARMAN)), *_with_span(row.pearson))
            for row in rows
        ],
    )
    _print_reasons((row.name, row.spearman) for row in rows)


def _print_reasons(figures: Iterable[tuple[str, Estimate]]) -> None:
    for line in dict.fromkeys(_reasons(figures)):
        print_line(f"  {line}")
    print_line()


def _reasons(figures: Iterable[tuple[str, Estimate]]) -> Iterator[str]:
    """Yield the reason for each dash."""
    for name, estimate in figures:
        if estimate.why is not None:
            yield f"{name}: {estimate.why}"


def _interval(evaluation: RaterEvaluation) -> str:
    from refaug.evaluation.agreement.report.wording import per_cent  # noqa: PLC0415  compiles

    return per_cent(evaluation.settings.meta)


def _with_span(estimate: Estimate | None) -> tuple[str, str]:
    if estimate is None:
        return "-", "-"
    return (
        _correlation(estimate.value),
        "-"
        if estimate.low is None or estimate.high is None
        else f"[{_correlation(estimate.low)}, {_correlation(estimate.high)}]",
    )


def _correlation(coefficient: float | None) -> str:
    """Format a correlation for people; a value that rounds to 0 has no sign."""
    return "-" if coefficient is None else f"{round(coefficient, 3) + 0.0:.3f}"


def _p_value(p: float | None) -> str:
    return "-" if p is None else f"{p:.0e}" if p < 0.0001 else f"{p:.4f}"
