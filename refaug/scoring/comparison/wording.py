"""A comparison in words: figures and sentences that all its forms share, and tables for other programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from refaug.core.text.normalisation import make_printable
from refaug.scoring.comparison.comparison import PairComparison, RunComparison
from refaug.scoring.comparison.reply_changes import Direction
from refaug.scoring.comparison.scored_system import SystemTest
from refaug.tables.reports.table import Table, csv_text, escape_latex

TEST_COLUMNS: Final = (
    "metric",
    "systems",
    "level",
    "first",
    "second",
    "difference",
    "interval",
    "p bootstrap",
    "p randomisation",
    "Holm",
    "replies",
)


def score_text(score: float | None, scale: float = 1.0, *, signed: bool = False) -> str:
    """Return a score with its significant digits; a dash where there is none."""
    if score is None:
        return "-"
    sign = "+" if signed else ""
    return f"{score:{sign}.2f}" if scale > 1 else f"{score:{sign}.4f}"


def p_text(p: float | None) -> str:
    """Return a p value."""
    return "-" if p is None else f"{p:.4f}"


def systems_text(pair: PairComparison) -> str:
    """Return the names of the systems, once where both are the same."""
    if pair.first_system == pair.second_system:
        return pair.first_system
    return f"{pair.first_system} → {pair.second_system}"


def test_cells(pair: PairComparison, test: SystemTest) -> tuple[str, ...]:
    """Return a test as cells in the order of TEST_COLUMNS."""
    interval = test.interval
    low_high = "-" if interval is None else ", ".join(score_text(bound, pair.scale) for bound in interval)
    return (
        pair.metric,
        systems_text(pair),
        test.level.value,
        score_text(test.first, pair.scale),
        score_text(test.second, pair.scale),
        score_text(test.difference, pair.scale, signed=True),
        low_high if interval is None else f"[{low_high}]",
        p_text(test.p_bootstrap),
        p_text(test.p_randomisation),
        p_text(test.holm_p),
        f"{test.replies:,}" if test.p_randomisation is not None else "-",
    )


def verdict_text(pair: PairComparison) -> str:
    """Return in a sentence whether a difference is shown, and which way."""
    test, least = pair.main, 1 - pair.confidence
    systems = f"{pair.second_system} against {pair.first_system}"
    if pair.first_system == pair.second_system:
        systems = pair.first_system
    if test.holm_p is None:
        return f"{pair.metric}, {systems}: no test was possible"
    verb = {"better": "is better", "worse": "is worse", "not shown": "no difference is shown"}[pair.verdict]
    sign = "<" if test.holm_p < least else "≥"
    return f"{pair.metric}, {systems}: {verb} (Holm's p {test.holm_p:.4f} {sign} {least:.4g})"


def counts_text(pair: PairComparison) -> str:
    """Return how many replies went which way."""
    words = [
        f"{pair.counts[Direction.IMPROVED]:,} improved",
        f"{pair.counts[Direction.REGRESSED]:,} regressed",
        f"{pair.counts[Direction.UNCHANGED]:,} as before",
    ]
    for direction, what in (
        (Direction.SCORED_NOW, "only scored in the second"),
        (Direction.UNSCORED_NOW, "only scored in the first"),
        (Direction.UNSCORED, "without a score"),
    ):
        words += [f"{pair.counts[direction]:,} {what}"] if pair.counts[direction] else []
    return ", ".join(words)


def names_text(comparison: RunComparison) -> str:
    """Return what is compared with what."""
    if comparison.first_file == comparison.second_file:
        return comparison.first_file
    return f"{comparison.first_file} and {comparison.second_file}"


def draws_text(comparison: RunComparison) -> str:
    """Return how tests and intervals are made."""
    drawn = comparison.settings
    return f"intervals: {drawn.confidence:.4g} of {drawn.draws:,} draws, seed {drawn.seed}"


def metrics_of(pairs: Sequence[PairComparison]) -> list[str]:
    """Return the metrics, each once."""
    return list(dict.fromkeys(pair.metric for pair in pairs))


# ── A comparison as tables for other programs: one long CSV of its tests and replies, and LaTeX of its tests ──────────


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
        yield _line(kind="test", **{**vars(pair), **vars(test), "level": test.level.value, "low": low, "high": high})


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
