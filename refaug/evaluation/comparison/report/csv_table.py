"""A comparison as one long table for spreadsheets, pandas and R: a line for each test, then one for each reply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from refaug.evaluation.comparison.comparison import PairComparison, RunComparison
from refaug.evaluation.reports.csv_text import csv_text

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
