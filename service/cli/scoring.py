"""What is asked of scores and how they are printed, as options: what `score` and `sets score` share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import BadInput, Usage
from core.items import BadItem
from core.progress import Progress
from core.records import Item
from service.cli.common import JsonFlag, counted, print_cells, print_json, print_line, print_table

if TYPE_CHECKING:
    from metrics.base import Metric
    from service.scores import Evaluation, MetricScores, ScoreSettings, SystemScore

_SHOWN_PROBLEMS = 5


class LevelChoice(StrEnum):
    """What the table and the TSV have a row for."""

    REPLY = "reply"
    SYSTEM = "system"
    CORPUS = "corpus"


MetricOption = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        "-m",
        help="What to score with: NAME or NAME:key=value,…; repeat it for several. Without it: upsilon-bleu for items "
        "with retrieved references, delta-bleu for weighted ones, else multi-bleu.",
        metavar="SPEC",
    ),
]
LanguageOption = Annotated[
    str | None,
    typer.Option(help="Language of the texts (en, ja, …): decides the tokenizer where a SPEC has none.", metavar="TAG"),
]
SeedOption = Annotated[int, typer.Option(help="Seed of the resampling.", min=0, max=2**32 - 1)]
StrictFlag = Annotated[bool, typer.Option("--strict", help="End with exit code 3 when any item cannot be used.")]


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """What the command line says of metrics, intervals and output; a group of options that checks itself."""

    metric: MetricOption = None
    level: Annotated[
        LevelChoice | None,
        typer.Option(
            help="A row for each reply; for each system the mean of its replies; or, without it, its corpus score."
        ),
    ] = None
    baseline: Annotated[
        str | None, typer.Option(help="Compare every other system with this one.", metavar="SYSTEM")
    ] = None
    draws: Annotated[int, typer.Option(help="Draws of the bootstrap; 0: no intervals.", min=0, max=1_000_000)] = 1_000
    confidence: Annotated[float, typer.Option(help="Of the intervals.", min=0.5, max=0.9999)] = 0.95
    seed: SeedOption = 1
    language: LanguageOption = None
    explain: Annotated[
        bool,
        typer.Option("--explain", help="With --json: n-grams credited to which reference; scores without each one."),
    ] = False
    percent: Annotated[bool, typer.Option("--percent", help="Scores in [0, 1] times 100.")] = False
    strict: StrictFlag = False
    as_tsv: Annotated[bool, typer.Option("--tsv", help="Print rows separated by tabs.")] = False
    as_json: JsonFlag = False

    def __post_init__(self) -> None:
        if self.as_json and self.as_tsv:
            raise Usage("--json and --tsv at once", remedy="one of the two")
        if self.as_json and self.level is not None:
            raise Usage("--level with --json", remedy="leave --level out: the JSON has all of them")
        if self.explain and not self.as_json:
            raise Usage("--explain without --json", remedy="add --json: an explanation does not fit into a table")

    def settings(self) -> ScoreSettings:
        """How scores are to be computed."""
        from service.scores import ScoreSettings  # noqa: PLC0415  compiles

        return ScoreSettings(
            draws=self.draws,
            confidence=self.confidence,
            seed=self.seed,
            baseline=self.baseline,
            explain=self.explain,
            parts=self.as_json,
        )

    def metrics(
        self,
        items: Sequence[Item | BadItem],
        by_default: Mapping[str, str] | None = None,
        based: Callable[[Metric], Metric] | None = None,
    ) -> list[Metric]:
        """The metrics that were named, as `metrics_of` makes them, or else the one that these items call for."""
        from service.asked_metrics import default_metric, metrics_of  # noqa: PLC0415  compiles
        from service.scores import require_share  # noqa: PLC0415

        found = metrics_of(self.metric or [default_metric(items)], self.language, by_default, based)
        for one in found if self.percent else []:
            require_share(one)
        return found

    def show(self, found: Evaluation, **beside: object) -> None:
        """Print scores as was asked; `beside` stands before them in the JSON. With --strict, bad items are an error."""
        from service.scores import percent  # noqa: PLC0415  compiles

        found = percent(found) if self.percent else found
        if self.as_json:
            print_json({**beside, **found.as_json()})
        elif self.as_tsv:
            _print_tsv(found, self.level or LevelChoice.CORPUS)
        else:
            _print_tables(found, self.level or LevelChoice.CORPUS)
        require_all(found.bad_items, strict=self.strict)


# ── output ────────────────────────────────────────────────────────────────────────────────────────────────────────


def report_problems(
    bad: Sequence[BadItem], warnings: Sequence[str], progress: Progress, *, rest: str = "; --json lists all"
) -> None:
    """The first bad items, how many more, and what one should know about the rest."""
    for one in bad[:_SHOWN_PROBLEMS]:
        progress.warn(str(one))
    if len(bad) > _SHOWN_PROBLEMS:
        progress.warn(f"and {counted(len(bad) - _SHOWN_PROBLEMS, 'more bad item')}{rest}")
    for warning in warnings:
        progress.warn(warning)


def require_all(bad: Sequence[BadItem], *, strict: bool) -> None:
    """With --strict, bad items are an error; the scores of the others have been printed."""
    if strict and bad:
        raise BadInput(
            f"{counted(len(bad), 'item')} could not be used: {bad[0]}",
            remedy="mend or remove it; without --strict the others are done all the same",
        )


def number(value: float | None, scale: float = 1.0) -> str:
    """A score for people: as many digits as mean something."""
    return "-" if value is None else f"{value:.2f}" if scale > 1 else f"{value:.4f}"


def _span(bounds: Sequence[float] | None, scale: float = 1.0) -> str:
    """An interval for people."""
    return "-" if bounds is None else f"[{number(bounds[0], scale)}, {number(bounds[1], scale)}]"


def _print_tables(found: Evaluation, level: LevelChoice) -> None:
    """A table for each metric, and how the intervals were drawn."""
    for one in found.scores:
        if level is LevelChoice.REPLY:
            rows = [
                (system, reply.id, number(reply.score, one.scale), reply.problem.code if reply.problem else "")
                for system, scores in one.systems.items()
                for reply in scores.replies
            ]
            print_table(one.signature.short, ("system", "item", "score", "problem"), rows)
        else:
            print_table(one.signature.short, *_systems_table(one, level))
        if one.comparisons:
            print_table(f"against {found.settings.baseline}", *_comparison_table(one))
    drawn = found.settings
    how = f"; intervals: {drawn.confidence:.4g} of {drawn.draws:,} draws, seed {drawn.seed}" if drawn.draws else ""
    print_line(f"data {found.data}: {counted(found.items, 'item')}{how}")


def _systems_table(one: MetricScores, level: LevelChoice) -> tuple[tuple[str, ...], list[Sequence[object]]]:
    """The level that was asked for first, with its interval, and the other one beside it."""
    percent = f"{one.scale:g}×" if one.scale > 1 else ""
    systems = [(name, scores, scores.as_intervals()) for name, scores in one.systems.items()]
    if level is LevelChoice.CORPUS:
        return (
            ("system", f"{percent}corpus", "interval", "mean", "scored", "unscored"),
            [
                (name, number(s.corpus, one.scale), _span(of[0], one.scale), number(s.mean, one.scale), *_counts(s))
                for name, s, of in systems
            ],
        )
    return (
        ("system", f"{percent}mean", "interval", "corpus", "scored", "unscored"),
        [
            (name, number(s.mean, one.scale), _span(of[1], one.scale), number(s.corpus, one.scale), *_counts(s))
            for name, s, of in systems
        ],
    )


def _counts(scores: SystemScore) -> tuple[int, object]:
    """How many replies have a score, and how many have none for which reasons."""
    scored, unscored = scores.counts()
    reasons = ", ".join(f"{count:,} {code}" for code, count in scores.unscored.items())
    return scored, reasons if unscored else 0


def _comparison_table(one: MetricScores) -> tuple[tuple[str, ...], list[Sequence[object]]]:
    rows: list[Sequence[object]] = [
        (
            name,
            number(found["difference"], one.scale),
            _span(found["interval"], one.scale),
            number(found["p_bootstrap"]),
            number(found["p_randomisation"]),
            found["replies"],
        )
        for name, found in ((name, comparison.as_json()) for name, comparison in one.comparisons.items())
    ]
    return ("system", "difference", "interval", "p bootstrap", "p randomisation", "replies"), rows


def _print_tsv(found: Evaluation, level: LevelChoice) -> None:
    """Rows for other programs, with the signature in each."""
    if level is LevelChoice.REPLY:
        print_cells("metric", "system", "item", "score", "problem", "signature")
    else:
        print_cells(
            "metric",
            "system",
            "corpus" if level is LevelChoice.CORPUS else "mean",
            "low",
            "high",
            "scored",
            "unscored",
            "signature",
        )
    for one in found.scores:
        for name, scores in one.systems.items():
            if level is LevelChoice.REPLY:
                for reply in scores.replies:
                    problem = reply.problem.code if reply.problem else ""
                    print_cells(one.metric.name, name, reply.id, reply.score, problem, one.signature.short)
                continue
            corpus = level is LevelChoice.CORPUS
            low, high = scores.as_intervals()[0 if corpus else 1] or (None, None)
            value = scores.corpus if corpus else scores.mean
            print_cells(one.metric.name, name, value, low, high, *scores.counts(), one.signature.short)
