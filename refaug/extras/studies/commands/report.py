"""`refaug studies report`: what the people of a study said, and how far metrics agree with them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.output import JsonFlag, print_json, print_line, print_table, print_warning
from refaug.cli.shared.progress import display_progress
from refaug.core.errors import Usage
from refaug.core.files import require_folder
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.extras.conversations.commands import FittedFiles
from refaug.extras.conversations.operations import TurnMetrics
from refaug.extras.studies.commands.study_source import ProtocolOption, StudySourceArgument, read_study

if TYPE_CHECKING:
    from refaug.extras.conversations.judged import TurnJudges
    from refaug.extras.conversations.reading import Conversation
    from refaug.extras.studies.report.beside import ScoredHybrid


@dataclass(frozen=True, kw_only=True)
class ComparedHybrids(FittedFiles):
    """A hybrid metric that stands beside people, and the files that it was fitted with; a group of options."""

    hybrid: Annotated[
        list[str] | None,
        typer.Option(help="A fitted hybrid metric that scores whole dialogues; repeat it.", metavar="NAME"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class AnalysisOptions:
    """How the figures are computed, where it is not as the protocol says; a group of options."""

    level: Annotated[float | None, typer.Option(help="Level of intervals, such as 0.95.", min=0.01, max=0.999)] = None
    draws: Annotated[int | None, typer.Option(help="Draws of participants.", min=1, max=100_000)] = None
    seed: Annotated[int | None, typer.Option(help="Seed of the draws.", min=0)] = None
    pilot: Annotated[bool, typer.Option("--pilot", help="Count the tasks of the pilot, too.")] = False


@with_options
def report_command(
    context: typer.Context,
    study: StudySourceArgument,
    *,
    protocol: ProtocolOption = None,
    analysis: AnalysisOptions,
    turns: TurnMetrics,
    hybrids: ComparedHybrids,
    to: Annotated[
        Path | None,
        typer.Option(help="Folder for report.html, report.md and report.json; made if need be.", metavar="FOLDER"),
    ] = None,
    threads: ThreadsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Say what people think of each bot: means, pairs, strengths and agreement, with and without exclusions.

    A study of the home comes with its protocol. Intervals are over participants. With -m or --hybrid the same replies
    are scored, and how far each metric agrees with these people stands beside.
    """
    from refaug.extras.studies.report.numbers import StudyAnalysis, study_report  # noqa: PLC0415  scipy
    from refaug.extras.studies.report.pages import write_study_report  # noqa: PLC0415  jinja2

    if to is not None:
        require_folder(to)
    if not hybrids.hybrid and (hybrids.vectors or hybrids.sentiment or hybrids.meaning):
        raise Usage("--vectors, --sentiment or --meaning without --hybrid", remedy="--hybrid NAME, or leave them out")
    judges = turns.judges_of(context.obj, threads)
    source = read_study(context.obj, study, protocol)
    settings = StudyAnalysis.of_protocol(
        source.protocol,
        level=analysis.level,
        draws=analysis.draws,
        seed=analysis.seed,
        with_pilot=analysis.pilot or None,
    )
    with display_progress(quiet=context.obj.quiet) as progress:
        progress.stage("figures")
        report = study_report(source.tasks, source.protocol, settings)
        if judges is not None or hybrids.hybrid:
            counted = [task for task in source.tasks if settings.with_pilot or not task.pilot]
            judged = [task for task in counted if task.participant not in report["exclusions"]["reasons"]]
            report["metrics"] = _metrics(
                context.obj, judged, source.protocol, judges, hybrids, settings.level, progress, threads
            )
        written = write_study_report(report, to) if to is not None else []
    if as_json:
        print_json(report)
        return
    print_report(report)
    if written:
        print_line(f"written: {', '.join(map(str, written))}")


def _metrics(
    home: Settings,
    kept: list[Any],
    protocol: Any,
    judges: TurnJudges | None,
    hybrids: ComparedHybrids,
    level: float,
    progress: Progress,
    threads: int | None,
) -> dict[str, Any]:
    from refaug.extras.studies.questions import protocol_questions  # noqa: PLC0415
    from refaug.extras.studies.report.beside import dialogues_of, metrics_beside  # noqa: PLC0415  numpy

    questions = protocol_questions(protocol, kept)
    talks = dialogues_of(kept, questions) if hybrids.hybrid else []
    scored = [_hybrid(home, name, talks, hybrids, progress, threads) for name in hybrids.hybrid or []]
    return metrics_beside(home, kept, questions, judges, progress, hybrids=scored, level=level)


def _hybrid(
    home: Settings,
    name: str,
    talks: list[Conversation],
    options: ComparedHybrids,
    progress: Progress,
    threads: int | None,
) -> ScoredHybrid:
    from refaug.extras.conversations.hybrids import (  # noqa: PLC0415
        encoders_of,
        open_hybrid,
        score_conversations,
    )
    from refaug.extras.studies.report.beside import ScoredHybrid  # noqa: PLC0415

    stored = open_hybrid(home, name)
    encoders = encoders_of(stored, options.vectors, options.sentiment, options.meaning)
    scores = score_conversations(home, stored, talks, encoders, progress, threads=threads)
    of_talks = zip(scores.conversations, scores.scores.tolist(), strict=True)
    return ScoredHybrid(
        name=f"hybrid {name}", signature=scores.signature.full, scores={talk.id: score for talk, score in of_talks}
    )


def print_report(report: dict[str, Any]) -> None:
    """Print what the page shows, without the table of reasons by participant."""
    from refaug.extras.studies.report.pages import (  # noqa: PLC0415
        REASONS,
        study_sections,
        study_summary,
        study_warnings,
    )

    print_line(study_summary(report))
    for warning in study_warnings(report):
        print_warning(warning)
    for section in study_sections(report):
        print_line()
        print_line(f"── {section.title} ──")
        for sentence in section.text:
            print_line(sentence)
        for table in section.tables:
            if table.title != REASONS:
                print_table(table.title, table.columns, table.rows)
