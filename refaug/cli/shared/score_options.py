"""How scores are printed by `score` and `sets score`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from refaug.cli.shared.output import JsonFlag, count_of, print_json_pieces, print_line, print_table, print_text
from refaug.core.errors import BadInput, Usage
from refaug.core.files import require_folder
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.operations.scoring_options import ScoringOptions
from refaug.scoring.items import BadItem
from refaug.scoring.settings import MAX_SEED

if TYPE_CHECKING:
    from refaug.scoring.scores import Evaluation, MetricScores, SystemScore

# ── The models that the metrics of a command need, checked before any work ────────────────────────────────────────────


def require_models(
    home: Settings, specifications: Sequence[str], *, rater: str | None, index: str | None = None
) -> bool:
    """Say whether --rater is asked by a metric; raise Usage where a metric needs a model that nothing names."""
    from refaug.scoring.metric_setup import metric_requests  # noqa: PLC0415  compiles

    requests = [metric_requests.MetricRequest.of(text, home) for text in specifications]
    metric_requests.require_models(requests, rater=rater, index=index)
    return any(request.rates_by_default for request in requests)


# ── How scores are printed by `score` and `sets score` ────────────────────────────────────────────────────────────────

_SHOWN_PROBLEMS = 5


class LevelChoice(StrEnum):
    """What the table and the TSV have a row for."""

    REPLY = "reply"
    SYSTEM = "system"
    CORPUS = "corpus"


SeedOption = Annotated[int, typer.Option(help="Seed of the resampling.", min=0, max=MAX_SEED)]
StrictFlag = Annotated[bool, typer.Option("--strict", help="End with exit code 3 when any item cannot be used.")]


@dataclass(frozen=True, kw_only=True)
class ScoreOutput:
    """How scores are printed; a group of options that checks itself."""

    level: Annotated[
        LevelChoice | None,
        typer.Option(
            help="A row for each reply; for each system the mean of its replies; or, without it, its corpus score. "
            "With --json: the figures of that level alone, else of all."
        ),
    ] = None
    details: Annotated[
        bool,
        typer.Option(
            "--details",
            help="With --json: the items and the sums behind the scores, too, for `refaug compare` of their texts.",
            hidden=True,
        ),
    ] = False
    report: Annotated[
        str | None,
        typer.Option(help="Write a page to share into this folder, with the scores as JSON and CSV.", metavar="FOLDER"),
    ] = None
    strict: StrictFlag = False
    as_tsv: Annotated[bool, typer.Option("--tsv", help="Print rows separated by tabs.")] = False
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the same rows as CSV.")] = False
    as_latex: Annotated[bool, typer.Option("--latex", help="Print a table for LaTeX.")] = False
    as_json: JsonFlag = False

    def __post_init__(self) -> None:
        forms = {"--json": self.as_json, "--tsv": self.as_tsv, "--csv": self.as_csv, "--latex": self.as_latex}
        if len(chosen := [form for form, is_chosen in forms.items() if is_chosen]) > 1:
            raise Usage(f"{' and '.join(chosen)} at once", remedy="one of the two")
        if self.details and not self.as_json and self.report is None:
            raise Usage("--details without --json", remedy="add --json: items do not fit into a table")

    def require_shown(self, scoring: ScoringOptions) -> None:
        """Raise Usage where explanations would not be printed, or a report has no place."""
        if self.report == "":  # of a variable of the shell that is not set: Path has it be the working folder
            raise Usage("--report is empty", remedy="name a folder, or leave it out")
        if self.report is not None:
            require_folder(Path(self.report))
        if scoring.explain and self.level not in (None, LevelChoice.REPLY):
            raise Usage(f"--explain with --level {self.level}", remedy="--level reply: replies are what is explained")
        if scoring.explain and (self.as_tsv or self.as_csv or self.as_latex):
            raise Usage("--explain with rows for programs", remedy="--json, or neither: then it is printed to be read")

    @property
    def shows_items(self) -> bool:
        """Whether the items are shown with their references."""
        return self.details or self.report is not None

    def show(
        self,
        scoring: ScoringOptions,
        evaluation: Evaluation,
        test_items: Iterable[Item | BadItem] = (),
        inputs: Mapping[str, object] | None = None,
        **beside: object,
    ) -> None:
        """Print scores, with `beside` before them in the JSON, and in the last line of tables.

        The JSON is sealed, names the `inputs` that the scores were made of, and has the items with --details. With
        --strict, bad items are an error.
        """
        from refaug.scoring.score_files.score_document import (  # noqa: PLC0415
            details_of,
            indented_pieces,
            passing_details,
        )
        from refaug.scoring.score_files.score_file import sealed  # noqa: PLC0415
        from refaug.scoring.scores import percent  # noqa: PLC0415  compiles

        evaluation = percent(evaluation) if scoring.percent else evaluation
        named = {"inputs": dict(inputs)} if inputs else {}
        if self.as_json:
            details = {"details": passing_details(evaluation, test_items)} if self.details else {}
            scores = _of_level(evaluation.as_json(passing=True), self.level)
            print_json_pieces(indented_pieces(sealed({**beside, **scores, **details, **named})))
        elif self.as_tsv or self.as_csv or self.as_latex:
            _print_for_programs(evaluation, self)
        else:
            _print_tables(
                evaluation,
                self.level or (LevelChoice.REPLY if scoring.explain else LevelChoice.CORPUS),
                "".join(f", {k} {v}" for k, v in beside.items()),
            )
        if self.report is not None:  # last: what was scored is not lost where it cannot be written
            from refaug.scoring.score_report.report import write_report  # noqa: PLC0415  jinja2

            with_details = {**beside, **evaluation.as_json(), "details": details_of(evaluation, test_items), **named}
            write_report(Path(self.report), with_details, evaluation.settings, with_details=self.details)
        require_all(evaluation.bad_items, strict=self.strict)


# ── Output ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def report_problems(
    bad: Sequence[BadItem], warnings: Sequence[str], progress: Progress, *, rest: str = "; --json lists all"
) -> None:
    """Warn about the first bad items, the number of others, and what to know about the rest."""
    for bad_item in bad[:_SHOWN_PROBLEMS]:
        progress.warn(str(bad_item))
    if len(bad) > _SHOWN_PROBLEMS:
        progress.warn(f"and {count_of(len(bad) - _SHOWN_PROBLEMS, 'more bad item')}{rest}")
    for warning in warnings:
        progress.warn(warning)


def require_all(bad: Sequence[BadItem], *, strict: bool) -> None:
    """With --strict, raise an error for bad items, after the scores of the others are printed."""
    if strict and bad:
        raise BadInput(
            f"{count_of(len(bad), 'item')} could not be used: {bad[0]}",
            remedy="correct or remove it; without --strict the others are done all the same",
        )


def number(score: float | None, scale: float = 1.0) -> str:
    """Format a score for people, with its significant digits."""
    return "-" if score is None else f"{score:.2f}" if scale > 1 else f"{score:.4f}"


def _span(bounds: Sequence[float] | None, scale: float = 1.0) -> str:
    """Format an interval for people."""
    return "-" if bounds is None else f"[{number(bounds[0], scale)}, {number(bounds[1], scale)}]"


def _print_tables(evaluation: Evaluation, level: LevelChoice, beside: str = "") -> None:
    """Print a table for each metric, and how the intervals were drawn; `beside` follows the name of the data.

    Of several metrics a table with the scores of all comes first.
    """
    if len(evaluation.scores) > 1 and level is not LevelChoice.REPLY:
        print_table(f"all metrics: {level.value} scores", *_metrics_table(evaluation, level))
    for metric_scores in evaluation.scores:
        if level is LevelChoice.REPLY:
            rows = [
                (system, reply["id"], number(reply["score"], metric_scores.scale), reply.get("problem", ""))
                for system, scores in metric_scores.systems.items()
                for reply in scores.each_reply()
            ]
            print_table(metric_scores.signature.short, ("system", "item", "score", "problem"), rows)
            _print_explanations(metric_scores)
        else:
            print_table(metric_scores.signature.short, *_systems_table(metric_scores, level))
        if metric_scores.comparisons:
            print_table(f"against {evaluation.settings.baseline}", *_comparison_table(metric_scores))
    drawn = evaluation.settings
    how = f"; intervals: {drawn.confidence:.4g} of {drawn.draws:,} draws, seed {drawn.seed}" if drawn.draws else ""
    print_line(f"data {evaluation.data}{beside}: {count_of(evaluation.items, 'item')}{how}")
    for system, line in evaluation.reply_provenance.items():
        print_line(f"replies of {system}: {line}")


def _print_explanations(metric_scores: MetricScores) -> None:
    """Print what each reply that is explained gets from each reference, and what none of them credits."""
    from refaug.scoring.score_tables import explained_references  # noqa: PLC0415  compiles

    for system, scores in metric_scores.systems.items():
        for reply in scores.each_reply():
            if "without_reference" not in reply:
                continue
            rows, uncredited = explained_references(reply, metric_scores.scale)
            title = f"{system}, {reply['id']}: {number(reply['score'], metric_scores.scale)}"
            print_table(title, ("weight", "reference", "credits", "change without it"), rows)
            if uncredited:
                print_line(f"in no reference: {', '.join(uncredited)}")
            for reason in reply.get("reasons", ()):
                print_line(f"{reason.get('member', metric_scores.metric.name)}: {reason['reason']}")


_OTHER_LEVELS: Final[Mapping[LevelChoice, frozenset[str]]] = {
    LevelChoice.REPLY: frozenset({"corpus", "interval", "interval_note", "mean", "mean_interval", "parts"}),
    LevelChoice.SYSTEM: frozenset({"corpus", "interval", "parts", "replies"}),
    LevelChoice.CORPUS: frozenset({"mean", "mean_interval", "replies"}),
}


def _of_level(document: Mapping[str, Any], level: LevelChoice | None) -> dict[str, object]:
    """Return scores as JSON with the figures of one level, or of all; evidence and explanations are of replies."""
    if level is None:
        return dict(document)
    of_document = () if level is LevelChoice.REPLY else ("evidence",)
    of_metric = ("comparisons",) if level is LevelChoice.REPLY else ()
    scores = [
        {
            **_without(metric_scores, of_metric),
            "systems": {
                name: _without(system, _OTHER_LEVELS[level]) for name, system in metric_scores["systems"].items()
            },
        }
        for metric_scores in document["scores"]
    ]
    return {"level": level.value, **_without(document, of_document), "scores": scores}


def _without(fields: Mapping[str, Any], names: Collection[str]) -> dict[str, object]:
    return {name: content for name, content in fields.items() if name not in names}


def _metrics_table(evaluation: Evaluation, level: LevelChoice) -> tuple[tuple[str, ...], list[Sequence[object]]]:
    """Return a row for each system and a column for each metric."""
    from refaug.scoring.score_tables import metric_names  # noqa: PLC0415  compiles

    named = metric_names(evaluation)
    return ("system", *(f"{_scale(scores)}{name}" for name, scores in named)), [
        (name, *(_shown(scores, scores.systems[name], level) for _, scores in named))
        for name in evaluation.scores[0].systems
    ]


def _shown(metric_scores: MetricScores, of_system: SystemScore, level: LevelChoice) -> str:
    return number(of_system.corpus if level is LevelChoice.CORPUS else of_system.mean, metric_scores.scale)


def _scale(metric_scores: MetricScores) -> str:
    return f"{metric_scores.scale:g}×" if metric_scores.scale > 1 else ""


def _systems_table(metric_scores: MetricScores, level: LevelChoice) -> tuple[tuple[str, ...], list[Sequence[object]]]:
    """Return the columns and rows with the chosen level first, its interval, and the other level."""
    percent = _scale(metric_scores)
    systems = [(name, scores, scores.as_intervals()) for name, scores in metric_scores.systems.items()]
    (first, interval, second) = ("corpus", 0, "mean") if level is LevelChoice.CORPUS else ("mean", 1, "corpus")
    return ("system", f"{percent}{first}", "interval", second, "scored", "unscored"), [
        (
            name,
            number(getattr(scores, first), metric_scores.scale),
            _span(intervals[interval], metric_scores.scale),
            number(getattr(scores, second), metric_scores.scale),
            *_counts(scores),
        )
        for name, scores, intervals in systems
    ]


def _counts(scores: SystemScore) -> tuple[int, object]:
    """Return how many replies have a score, and for which reasons others have none."""
    scored, unscored = scores.counts()
    reasons = ", ".join(f"{count:,} {code}" for code, count in scores.unscored.items())
    return scored, reasons if unscored else 0


def _comparison_table(metric_scores: MetricScores) -> tuple[tuple[str, ...], list[Sequence[object]]]:
    rows: list[Sequence[object]] = [
        (
            name,
            number(figures["difference"], metric_scores.scale),
            _span(figures["interval"], metric_scores.scale),
            number(figures["p_bootstrap"]),
            number(figures["p_randomisation"]),
            figures["replies"],
        )
        for name, figures in ((name, comparison.as_json()) for name, comparison in metric_scores.comparisons.items())
    ]
    return ("system", "difference", "interval", "p bootstrap", "p randomisation", "replies"), rows


def _print_for_programs(evaluation: Evaluation, options: ScoreOutput) -> None:
    """Print rows separated by tabs or commas, or a table for LaTeX."""
    from refaug.scoring.score_tables import latex_table, score_rows  # noqa: PLC0415  compiles

    level = (options.level or LevelChoice.CORPUS).value
    if options.as_latex:
        print_text(latex_table(evaluation, level))
    else:
        table = score_rows(evaluation, level)
        print_text(table.as_tsv() if options.as_tsv else table.as_csv())
