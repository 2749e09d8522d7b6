"""`refaug rater evaluate`: how far the ratings of a rater agree with people's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.common import JsonFlag, counted, print_json, print_line, print_table
from service.cli.index_common import ThreadsOption
from service.cli.meta import named_sets, read_set
from service.cli.progress import shown_progress
from service.cli.scoring import SeedOption, StrictFlag, report_problems, require_all

if TYPE_CHECKING:
    from metrics.resampling import Estimate
    from service.meta_records import AgreementRow, MeanRow
    from service.rater_evaluation import RaterEvaluation, ReferenceRow

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
    draws: Annotated[int, typer.Option(help="Draws of the bootstrap over items.", min=1, max=1_000_000)] = 10_000,
    confidence: Annotated[float, typer.Option(help="Of the intervals.", min=0.5, max=0.9999)] = 0.95,
    seed: SeedOption = 1,
    threads: ThreadsOption = None,
    strict: StrictFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Say how far a rater's ratings agree with people's, of replies and of references that people rated.

    Replies need "ratings", references a weight or "ratings" by people; both are rated beside the golds of their item.
    """
    files = named_sets(items, remedy="refaug rater evaluate RATER ITEMS.jsonl")
    from service.meta_records import RatedItems  # noqa: PLC0415  compiles
    from service.rater_evaluation import RaterEvaluationSettings, evaluate_rater  # noqa: PLC0415  torch
    from service.rating import open_rater  # noqa: PLC0415

    asked = {"combines": tuple(combine)} if combine else {}
    settings = RaterEvaluationSettings(
        **asked, calibration="cal" if calibrated else "raw", draws=draws, confidence=confidence, seed=seed
    )
    opened = open_rater(context.obj, rater, threads=threads)
    with shown_progress(quiet=context.obj.quiet) as progress:
        sets = [RatedItems(name=name, items=read_set(path, progress)) for name, path in files.items()]
        found = evaluate_rater(opened, sets, settings, progress)
        report_problems(found.bad_items, found.warnings, progress)
    if as_json:
        print_json(found.as_json())
    else:
        _print_tables(found)
    require_all(found.bad_items, strict=strict)


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _print_tables(found: RaterEvaluation) -> None:
    from service.meta_text import draws_in_words  # noqa: PLC0415  compiles

    if found.replies is not None:
        for one in found.replies.sets:
            counts = one.counts
            what = f"{counted(counts.used, 'fair row')} of {counted(counts.contexts, 'item')}, data {one.data}"
            _print_replies(f"{one.name}, rated replies: {what}", one.rows, found)
        if found.replies.mean is not None:
            _print_replies("mean of the sets, rated replies", found.replies.mean.rows, found)
    for references in found.references:
        what = f"{references.used:,} of {counted(references.items, 'item')}, data {references.data}"
        same = f"; {references.golds_themselves:,} more are a gold" if references.golds_themselves else ""
        _print_references(f"{references.name}, rated references: {what}{same}", references.rows, found)
    if found.mean:
        _print_references("mean of the sets, rated references", found.mean, found)
    print_line(f"intervals: bootstrap, {draws_in_words(found.settings.meta)}")
    print_line(f"rater {found.rater}, cal {found.settings.calibration}")


def _print_replies(title: str, rows: Sequence[AgreementRow | MeanRow], found: RaterEvaluation) -> None:
    interval, labels = _interval(found), dict(zip(found.settings.metrics, found.settings.combines, strict=True))
    print_table(
        title,
        (
            "combine",
            "Spearman",
            interval,
            f"less {found.settings.combines[0]}",
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
                _p(row.holm.get(_SPEARMAN)),
                _r(row.pearson.value),
                _r(row.partial_spearman.value),
                row.n,
            )
            for row in rows
        ],
    )
    _print_reasons((labels.get(row.name, row.name), row.spearman) for row in rows)


def _print_references(title: str, rows: Sequence[ReferenceRow], found: RaterEvaluation) -> None:
    interval = _interval(found)
    print_table(
        title,
        ("combine", "Spearman", interval, f"less {found.settings.combines[0]}", interval, "Pearson", interval),
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
    """Why there is a dash."""
    for name, one in figures:
        if one.why is not None:
            yield f"{name}: {one.why}"


def _interval(found: RaterEvaluation) -> str:
    from service.meta_text import per_cent  # noqa: PLC0415  compiles

    return per_cent(found.settings.meta)


def _with_span(one: Estimate | None) -> tuple[str, str]:
    if one is None:
        return "-", "-"
    return _r(one.value), "-" if one.low is None or one.high is None else f"[{_r(one.low)}, {_r(one.high)}]"


def _r(value: float | None) -> str:
    """A correlation for people; what rounds to nothing has no sign."""
    return "-" if value is None else f"{round(value, 3) + 0.0:.3f}"


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.0e}" if value < 0.0001 else f"{value:.4f}"
