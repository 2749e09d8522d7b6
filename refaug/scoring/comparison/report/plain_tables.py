"""A comparison as tables for other programs: one long CSV of its tests and replies, and LaTeX of its tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from refaug.core.text.normalisation import make_printable
from refaug.scoring.comparison.comparison import PairComparison, RunComparison
from refaug.scoring.comparison.report.wording import names_text, p_text, score_text, systems_text
from refaug.tables.reports.table import Table, csv_text, escape_latex

_COLUMNS: Final = (
    "kind",
    "metric",
    "first_system",
    "second_system",
    "level",
    "id",
    "direction",
    "first",
    "second",
    "difference",
    "low",
    "high",
    "p_bootstrap",
    "p_randomisation",
    "holm_p",
    "replies",
    "utterance",
    "first_reply",
    "second_reply",
    "note",
)


def as_csv(comparison: RunComparison) -> str:
    """Return the table; `kind` is test, reply or warning, and numbers have full precision."""
    return csv_text(_COLUMNS, _lines(comparison))


def _lines(comparison: RunComparison) -> Iterator[tuple[object, ...]]:
    for warning in comparison.warnings:
        yield _line(kind="warning", note=warning)
    for pair in comparison.pairs:
        yield from _tests(pair)
    for pair in comparison.pairs:
        yield from _replies(pair)


def _tests(pair: PairComparison) -> Iterator[tuple[object, ...]]:
    for test in pair.tests:
        low, high = test.interval or (None, None)
        yield _line(
            kind="test",
            metric=pair.metric,
            first_system=pair.first_system,
            second_system=pair.second_system,
            level=test.level.value,
            first=test.first,
            second=test.second,
            difference=test.difference,
            low=low,
            high=high,
            p_bootstrap=test.p_bootstrap,
            p_randomisation=test.p_randomisation,
            holm_p=test.holm_p,
            replies=test.replies,
            note=test.note,
        )


def _replies(pair: PairComparison) -> Iterator[tuple[object, ...]]:
    for change in pair.changes:
        yield _line(
            kind="reply",
            metric=pair.metric,
            first_system=pair.first_system,
            second_system=pair.second_system,
            id=change.id,
            direction=change.direction.value,
            first=change.first.score,
            second=change.second.score,
            difference=change.change,
            utterance=change.utterance,
            first_reply=change.first.text,
            second_reply=change.second.text,
        )


def _line(**cells: object) -> tuple[object, ...]:
    return tuple(cells.get(column) for column in _COLUMNS)


# ── The tests of a comparison as a LaTeX table for a paper, which needs only booktabs ─────────────────────────────────

_HEAD: Final = ("Metric", "Systems", "Level", "First", "Second", r"$\Delta$", r"$p_{\mathrm{Holm}}$")


def as_latex(comparison: RunComparison) -> str:
    """Return the table: a row for each metric and pair of systems; a difference that is shown is bold."""
    drawn = comparison.settings
    caption = (
        f"Differences of {escape_latex(names_text(comparison))}: second minus first, with intervals of "
        f"{drawn.confidence * 100:g}\\,\\% by the paired bootstrap ({drawn.draws:,} draws, seed {drawn.seed}); "
        "$p$ by approximate randomisation, adjusted by Holm over all rows. Bold: shown."
    )
    remarks = [] if comparison.is_comparable else [f"% {make_printable(line)}" for line in comparison.warnings]
    if not comparison.is_comparable:
        caption += " \\textbf{The scores are not comparable.}"
    signatures = dict.fromkeys(
        line for pair in comparison.pairs for line in (pair.first_signature, pair.second_signature)
    )
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            *remarks,
            *(f"% {make_printable(line)}" for line in signatures),
            Table(caption, _HEAD, list(map(_row, comparison.pairs))).as_latex("lllrrrr", "comparison"),
        ]
    )


def _row(pair: PairComparison) -> list[str]:
    test = pair.main
    difference = score_text(test.difference, pair.scale, signed=True)
    if test.interval is not None:
        low, high = (score_text(bound, pair.scale) for bound in test.interval)
        difference = f"{difference}\\ [{low}, {high}]"
    shown = rf"\mathbf{{{difference}}}" if pair.verdict != "not shown" else difference
    names = escape_latex(systems_text(pair).replace(" → ", " / "))
    return [
        escape_latex(pair.metric),
        names,
        test.level.value,
        f"${score_text(test.first, pair.scale)}$" if test.first is not None else "--",
        f"${score_text(test.second, pair.scale)}$" if test.second is not None else "--",
        f"${shown}$" if test.difference is not None else "--",
        f"${p_text(test.holm_p)}$" if test.holm_p is not None else "--",
    ]
