"""The leaderboard of a frozen set: the latest run of each name and system, best first, against the first one.

Runs stand in one table only if they are comparable: by the same metric with the same settings, against the same
references. A difference from the first is shown where Holm's p over all rows of the table is below 1 − confidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from refaug.metrics.statistics.resampling import holm
from refaug.scoring.comparison.scored_system import SystemRun, system_tests
from refaug.scoring.reference_sets.set_history import score_document
from refaug.scoring.score_files.score_file import ScoreFile, sealed
from refaug.scoring.settings import ScoreSettings


@dataclass(frozen=True, kw_only=True)
class LeaderboardRow:
    """One system of one run; the difference is from the first row."""

    rank: int
    run: str
    system: str
    at: str
    corpus: float | None
    interval: tuple[float, float] | None
    scored: int
    unscored: int
    difference: float | None = None
    difference_interval: tuple[float, float] | None = None
    p_randomisation: float | None = None
    holm_p: float | None = None
    is_shown: bool = False


@dataclass(frozen=True, kw_only=True)
class Leaderboard:
    """The rows that one metric with one set of settings can rank."""

    metric: str
    signature: str
    higher_is_better: bool
    rows: tuple[LeaderboardRow, ...]

    def as_json(self) -> dict[str, object]:
        """Return the table as JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class _RankedRun:
    """A system of a run by one metric, with the entry that it was recorded in."""

    entry: Mapping[str, Any]
    system: SystemRun

    @property
    def corpus(self) -> float | None:
        """The corpus score in the entry."""
        corpus: float | None = self.system.stored.systems[self.system.name].get("corpus")
        return corpus


def leaderboards(
    entries: Iterable[Mapping[str, Any]], settings: ScoreSettings, metrics: Sequence[str] = ()
) -> tuple[Leaderboard, ...]:
    """Return a table for each metric with its settings and references, in the order of the first recording."""
    latest = dict[tuple[str, str, str, str], _RankedRun]()
    for entry in entries:
        file = ScoreFile.of(sealed(score_document(entry)), str(entry["name"]))
        for place, stored in enumerate(file.scores):
            if metrics and stored.name not in metrics:
                continue
            key = (str(stored.signature.specification()), str(stored.document.get("references")))
            for name in stored.systems:
                run = _RankedRun(entry=entry, system=SystemRun(file=file, place=place, name=name))
                latest[(*key, str(entry["name"]), name)] = run
    groups = dict[tuple[str, str], list[_RankedRun]]()
    for (specification, references, _, _), run in latest.items():
        groups.setdefault((specification, references), []).append(run)
    return tuple(_leaderboard(runs, settings) for runs in groups.values())


def _leaderboard(runs: Sequence[_RankedRun], settings: ScoreSettings) -> Leaderboard:
    stored = runs[0].system.stored
    higher_is_better = stored.document.get("higher_is_better") is not False
    sign = -1.0 if higher_is_better else 1.0
    ranked = sorted(runs, key=lambda run: (run.corpus is None, sign * (run.corpus or 0.0)))
    first = ranked[0].system
    tests = [
        next(
            (each for each in system_tests(first, run.system, list(first.rows), settings, 1.0) if each.p_randomisation),
            None,
        )
        for run in ranked[1:]
    ]
    adjusted = holm([None if test is None else test.p_randomisation for test in tests])
    rows = [_row(1, ranked[0])]
    for rank, (run, test, p) in enumerate(zip(ranked[1:], tests, adjusted, strict=True), start=2):
        compared = (
            {}
            if test is None
            else {
                "difference": test.difference,
                "difference_interval": test.interval,
                "p_randomisation": test.p_randomisation,
                "holm_p": p,
                "is_shown": p is not None and p < 1 - settings.confidence,
            }
        )
        rows.append(_row(rank, run, **compared))
    return Leaderboard(
        metric=stored.name,
        signature=stored.short_signature or stored.signature.short,
        higher_is_better=higher_is_better,
        rows=tuple(rows),
    )


def _row(rank: int, run: _RankedRun, **compared: Any) -> LeaderboardRow:
    scores = run.system.stored.systems[run.system.name]
    interval = scores.get("interval")
    return LeaderboardRow(
        rank=rank,
        run=str(run.entry["name"]),
        system=run.system.name,
        at=str(run.entry["at"]),
        corpus=run.corpus,
        interval=None if interval is None else (interval[0], interval[1]),
        scored=scores.get("scored", 0),
        unscored=scores.get("unscored", 0),
        **compared,
    )
