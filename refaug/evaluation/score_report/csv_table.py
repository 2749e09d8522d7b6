"""A score file as one long table for spreadsheets, pandas and R: a line for each system, then one for each reply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final

from refaug.evaluation.comparison.scored_system import SystemRun
from refaug.evaluation.reports.csv_text import csv_text
from refaug.evaluation.score_files.score_file import ScoreFile

_COLUMNS: Final = (
    "kind", "metric", "system", "id", "score", "low", "high", "mean", "mean_low", "mean_high", "scored", "unscored",
    "problem", "utterance", "reply", "signature",
)  # fmt: skip
_LINES_AT_ONCE: Final = 2_000


def as_csv(file: ScoreFile) -> str:
    """Return the table; `kind` is system or reply, the score of a system is its corpus score."""
    return "".join(csv_pieces(file))


def csv_pieces(file: ScoreFile) -> Iterator[str]:
    """Yield the table in pieces of some thousand lines."""
    lines, columns = chain(_systems(file), _replies(file)), _COLUMNS
    yield csv_text(columns, islice(lines, _LINES_AT_ONCE))
    while piece := list(islice(lines, _LINES_AT_ONCE)):
        yield csv_text(None, piece)


def _systems(file: ScoreFile) -> Iterator[tuple[object, ...]]:
    for stored in file.scores:
        for name, system in stored.systems.items():
            low, high = system.get("interval") or (None, None)
            mean_low, mean_high = system.get("mean_interval") or (None, None)
            yield _line(
                kind="system",
                metric=stored.name,
                system=name,
                score=system.get("corpus"),
                low=low,
                high=high,
                mean=system.get("mean"),
                mean_low=mean_low,
                mean_high=mean_high,
                scored=system.get("scored"),
                unscored=system.get("unscored"),
                signature=stored.short_signature,
            )


def _replies(file: ScoreFile) -> Iterator[tuple[object, ...]]:
    for place, stored in enumerate(file.scores):
        for name in stored.systems:
            scored = SystemRun(file=file, place=place, name=name)
            for item_id, row in scored.rows.items():
                written = {} if file.details is None else file.details.row(item_id)
                yield _line(
                    kind="reply",
                    metric=stored.name,
                    system=name,
                    id=item_id,
                    score=row.get("score"),
                    problem=row.get("problem"),
                    utterance=_utterance_in(written),
                    reply=(written.get("replies") or {}).get(name),
                )


def _utterance_in(written: Mapping[str, Any]) -> str | None:
    """Return what is replied to in an item as it is written; None where that is not known."""
    turns = written.get("turns") or [written.get("utterance")]
    return None if turns[-1] is None else str(turns[-1])


def _line(**cells: object) -> tuple[object, ...]:
    return tuple(cells.get(column) for column in _COLUMNS)
