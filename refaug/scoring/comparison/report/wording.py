"""Figures and sentences that all forms of a comparison share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from refaug.scoring.comparison.comparison import PairComparison, RunComparison
from refaug.scoring.comparison.reply_changes import Direction
from refaug.scoring.comparison.scored_system import SystemTest

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
