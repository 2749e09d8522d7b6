"""How a study report writes figures, rules and reasons; the page, Markdown and the terminal have the same words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from refaug.extras.studies.exclusions import BY_HAND
from refaug.extras.studies.report.numbers import MEAN_OF_ALL
from refaug.metrics.statistics.resampling import FEWEST_UNITS
from refaug.tables.reports.table import Table

Json = Mapping[str, Any]

NONE: Final = "–"
_WHY: Final[Mapping[str, str]] = {
    "few": f"No interval and no p stand where fewer than {FEWEST_UNITS} people gave the answers: too few to say.",
    "routed": "Votes chose the pairs (active routing): only strengths have intervals, once the order is decided.",
    "same": "No interval and no p stand where all said the same: that does not show how others would vary.",
}
_RULES: Final[Mapping[str, str]] = {
    "failed_attention": "failed checks of attention: {0:g} or more",
    "degraded_not_lower": "did not rate the degraded bot lower",
    "same_answer_everywhere": "gave the same answer everywhere",
    "seconds_per_turn_below": "took less than {0:g} seconds a turn",
    "seconds_per_task_below": "took less than {0:g} seconds a task",
    "repeat_differs_by": "answered a repeated task differently, by more than {0:g}",
    "copied_messages": "copied more than {0:.0%} of their messages",
    BY_HAND: "excluded by hand",
}


def number_text(figure: float | None) -> str:
    """Return a figure with three decimals."""
    return NONE if figure is None else f"{figure:.3f}"


def range_text(low: float | None, high: float | None) -> str:
    """Return an interval."""
    return NONE if low is None or high is None else f"[{low:.3f}, {high:.3f}]"


def p_text(figure: float | None) -> str:
    """Return a p; a small one by its bound."""
    if figure is None:
        return NONE
    return "< .001" if figure < 0.001 else f"{figure:.3f}"


def count_text(number: int, noun: str) -> str:
    """Return a count with its noun: `1 participant`, `2 participants`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def rule_text(rule: str, setting: object) -> str:
    """Return what a rule of exclusion says of those whom it leaves out."""
    return _RULES.get(rule, rule).format(setting)


def question_title(question: str) -> str:
    """Return the heading of a question."""
    return "Mean of all questions" if question == MEAN_OF_ALL else question


def missing_intervals(figures: Iterable[Json]) -> list[str]:
    """Return why figures have no interval, as notes; reports that were made before do not say it."""
    reasons = {figure.get("why") for figure in figures}
    return [text for reason, text in _WHY.items() if reason in reasons]


def without_empty_columns(table: Table) -> Table:
    """Return a table without the columns that have nothing but dashes."""
    shown = [
        place for place in range(len(table.columns)) if place == 0 or any(row[place] != NONE for row in table.rows)
    ]
    return replace(
        table,
        columns=[table.columns[place] for place in shown],
        rows=[[row[place] for place in shown] for row in table.rows],
    )
