"""`refaug compare`: two score files side by side, or two systems of one."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared.output import JsonFlag, file_or_stdin, print_json, print_line, print_table, print_text
from refaug.cli.shared.progress import display_progress
from refaug.core.errors import Usage
from refaug.scoring.settings import MAX_CONFIDENCE, MAX_DRAWS, MAX_SEED, MIN_CONFIDENCE, ScoreSettings

if TYPE_CHECKING:
    from refaug.scoring.comparison.comparison import PairComparison, RunComparison

_SHOWN_IN_TABLE = 10
_SHOWN_ON_PAGE = 30
_SHOWN_OF_TEXT = 48  # characters of each text in a table


class OnlyChoice(StrEnum):
    """The replies to list."""

    IMPROVED = "improved"
    REGRESSED = "regressed"


def compare_command(
    context: typer.Context,
    first: Annotated[str, typer.Argument(help="Output of refaug score --json; - for stdin.", metavar="FIRST")],
    second: Annotated[
        str | None,
        typer.Argument(help="The same of another run; without it, two systems of FIRST.", metavar="[SECOND]"),
    ] = None,
    signatures: Annotated[
        bool, typer.Option("--signatures", help="FIRST and SECOND are signatures: say in what they differ.")
    ] = False,
    systems: Annotated[
        str | None,
        typer.Option(help="Compare the first system (of FIRST) with the second (of SECOND).", metavar="NAME,NAME"),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", "-m", help="Only this metric; repeat it.", metavar="NAME")
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="Only this one of the systems that both have.", metavar="NAME")
    ] = None,
    only: Annotated[OnlyChoice | None, typer.Option(help="List only improved or only regressed replies.")] = None,
    min_change: Annotated[float, typer.Option(help="List replies whose score changed by this at least.", min=0)] = 0.0,
    grep: Annotated[
        str | None,
        typer.Option(help="List replies where id, utterance or a reply has a match, in any case.", metavar="REGEX"),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(help="List this many of each direction; else 10, in JSON and HTML 30, in CSV all.", min=1),
    ] = None,
    draws: Annotated[int, typer.Option(help="Draws of the tests.", min=1, max=MAX_DRAWS)] = ScoreSettings.draws,
    confidence: Annotated[
        float,
        typer.Option(
            help="Of the intervals; a difference is shown at p below the rest.", min=MIN_CONFIDENCE, max=MAX_CONFIDENCE
        ),
    ] = ScoreSettings.confidence,
    seed: Annotated[int, typer.Option(help="Seed of the tests.", min=0, max=MAX_SEED)] = ScoreSettings.seed,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Compare also what is not comparable; the output says so.")
    ] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to share, too.", metavar="FILE")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print tests and replies as CSV.")] = False,
    as_latex: Annotated[bool, typer.Option("--latex", help="Print the tests as a LaTeX table.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Compare two score files, or two systems of one: paired tests, and the replies that changed.

    The tests are those of score --baseline, with Holm's correction over all metrics and systems. Files whose scores
    are not comparable are refused, with what would be right. Files written with --details have texts, credited
    references and tests of the corpus score.
    """
    from refaug.scoring.comparison.comparison import ComparisonRequest, compare  # noqa: PLC0415  compiles
    from refaug.scoring.comparison.reply_changes import ChangeFilter, Direction  # noqa: PLC0415
    from refaug.scoring.score_files.score_file import ScoreFile  # noqa: PLC0415

    if signatures:
        _compare_signatures(first, second, as_json=as_json)
        return
    if as_csv + as_latex + as_json > 1:
        raise Usage("several of --json, --csv and --latex at once", remedy="one of them")
    if first == second == "-":
        raise Usage("- twice", remedy="stdin can be one of the files only")
    is_long = as_json or html is not None
    request = ComparisonRequest(
        systems=None if systems is None else _two_systems(systems),
        system=system,
        metrics=tuple(metric or ()),
        settings=ScoreSettings(draws=draws, confidence=confidence, seed=seed),
        changes=ChangeFilter(
            only=None if only is None else Direction(only.value),
            min_change=min_change,
            grep=grep,
            limit=limit or (None if as_csv and html is None else _SHOWN_ON_PAGE if is_long else _SHOWN_IN_TABLE),
            has_references=is_long,
        ),
        is_forced=anyway,
    )
    with ExitStack() as stack, display_progress(quiet=context.obj.quiet) as progress:
        progress.stage("read")
        files = [
            ScoreFile.read(stack.enter_context(file_or_stdin(Path(name))), "stdin" if name == "-" else name)
            for name in (first, second)
            if name is not None
        ]
        progress.stage("compare")
        comparison = compare(files[0], files[-1], request)
        for warning in comparison.warnings:
            progress.warn(warning)
    _print(comparison, as_json=as_json, as_csv=as_csv, as_latex=as_latex)
    if html is not None:
        from refaug.scoring.comparison.page import page  # noqa: PLC0415  jinja2
        from refaug.tables.reports.html_page import write_file  # noqa: PLC0415

        write_file(html, page(comparison).encode())


def _compare_signatures(first: str, second: str | None, *, as_json: bool) -> None:
    """Say in what two signatures differ; details are compared where both are full."""
    from refaug.metrics.signature import Signature  # noqa: PLC0415
    from refaug.scoring.metric_setup.signature_requests import signature_differences  # noqa: PLC0415  numpy

    if second is None:
        raise Usage("--signatures with one signature", remedy="give two")
    differences = signature_differences(Signature.parse(first), Signature.parse(second))
    if as_json:
        print_json({"same": not differences, "differences": [asdict(difference) for difference in differences]})
    elif differences:
        rows = [(difference.key, difference.first, difference.second) for difference in differences]
        print_table("what differs", ("key", "first", "second"), rows)
    else:
        print_line("the same metric, settings and versions")


def _two_systems(text: str) -> tuple[str, str]:
    names = text.split(",")
    if len(names) != 2 or not all(names):
        raise Usage(f"--systems {text!r}", remedy="two names with a comma between: --systems old,new")
    return names[0], names[1]


def _print(comparison: RunComparison, *, as_json: bool, as_csv: bool, as_latex: bool) -> None:
    if as_json:
        print_json(comparison.as_json())
    elif as_csv or as_latex:
        from refaug.scoring.comparison import wording  # noqa: PLC0415

        print_text((wording.as_csv if as_csv else wording.as_latex)(comparison))
    else:
        _print_tables(comparison)


def _print_tables(comparison: RunComparison) -> None:
    from refaug.scoring.comparison.wording import (  # noqa: PLC0415
        TEST_COLUMNS,
        draws_text,
        names_text,
        test_cells,
        verdict_text,
    )

    if comparison.overridden:
        print_line(f"NOT COMPARABLE: {comparison.overridden}")
    rows = [test_cells(pair, test) for pair in comparison.pairs for test in pair.tests]
    print_table(f"{names_text(comparison)}: second minus first", TEST_COLUMNS, rows)
    for pair in comparison.pairs:
        print_line(verdict_text(pair))
    for pair in comparison.pairs:
        _print_changes(pair)
    print_line(draws_text(comparison))


def _print_changes(pair: PairComparison) -> None:
    from refaug.scoring.comparison.wording import counts_text, score_text, systems_text  # noqa: PLC0415

    print_line()
    columns = ["item", "first", "second", "change"]
    has_texts = any(side.text is not None for change in pair.changes for side in (change.first, change.second))
    rows = [
        [
            change.id,
            score_text(change.first.score, pair.scale),
            score_text(change.second.score, pair.scale),
            score_text(change.change, pair.scale, signed=True),
            *(map(_shorten, (change.utterance, change.first.text, change.second.text)) if has_texts else ()),
        ]
        for change in pair.changes
    ]
    texts = ["utterance", "first reply", "second reply"] if has_texts else []
    print_table(f"{pair.metric}, {systems_text(pair)}: {counts_text(pair)}", [*columns, *texts], rows)


def _shorten(text: str | None) -> str:
    """Return as much of a text as a column shows."""
    return "" if text is None else text if len(text) <= _SHOWN_OF_TEXT else f"{text[: _SHOWN_OF_TEXT - 1]}…"
