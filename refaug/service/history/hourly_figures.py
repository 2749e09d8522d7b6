"""Figures of each hour in the database: what all processes counted in it, and sizes that were measured in it once.

A process adds what it has counted since its last addition, with the number of the addition. The row of the hour keeps
the last number of each process, so that an addition whose answer was lost is not counted twice when it is repeated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, Final

import orjson
from sqlalchemy import Connection, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from refaug.service.database.database import Database
from refaug.service.database.tables import HOURLY_FIGURES
from refaug.service.prometheus_figures import LATENCY

HOURS_KEPT: Final = 90 * 24
_HOUR: Final = "%Y-%m-%dT%H"
_POINTS: Final = 168  # of a chart; more hours are joined to longer steps
_STEPS: Final = (1, 3, 6, 12, 24)

# the names of counts
REQUESTS: Final = "requests"
FAILURES: Final = "failures"  # requests that ended with 5xx
JOBS_DONE: Final = "jobs_done"
JOBS_FAILED: Final = "jobs_failed"
_LATENCY: Final = "latency/"  # and the upper bound of a range of seconds


@dataclass(frozen=True, kw_only=True)
class FigureStep:
    """The figures of an hour, or of several in a row."""

    begin: datetime
    counts: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, Any] = field(default_factory=dict)  # the newest ones; empty where none were measured

    def count(self, name: str) -> int:
        """Return a count; 0 where nothing was counted."""
        return int(self.counts.get(name, 0))

    def latency(self, share: float) -> float | None:
        """Return the seconds within which this share of the requests was answered; None without requests."""
        return latency_quantile(self.counts, share)


def hour_of(moment: datetime) -> str:
    """Return the hour of a time, as rows have it."""
    return moment.astimezone(UTC).strftime(_HOUR)


# ── Latencies, as counts of ranges ────────────────────────────────────────────────────────────────────────────────────


def latency_name(bound: float) -> str:
    """Return the name of the count of requests whose seconds lie below this bound, and not below a lower one."""
    return f"{_LATENCY}{bound:g}"


def latency_quantile(counts: Mapping[str, float], share: float) -> float | None:
    """Return the seconds below which a share of the requests lies, as if each range held its requests evenly.

    None without requests; requests above all bounds count as the last bound.
    """
    bounds = LATENCY.bounds
    numbers = [counts.get(latency_name(bound), 0.0) for bound in (*bounds, math.inf)]
    rank, passed = share * sum(numbers), 0.0
    if not rank:
        return None
    for lower, upper, number in zip((0.0, *bounds), bounds, numbers, strict=False):
        if passed + number >= rank:
            return lower + (upper - lower) * (rank - passed) / number
        passed += number
    return bounds[-1]


# ── Rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


class HourlyFigures:
    """The figures of the last 90 days."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, writer: str, number: int, by_hour: Mapping[str, Mapping[str, float]]) -> None:
        """Add what a process counted in some hours; the same number of a process again changes nothing."""
        with self._database.writing() as connection:
            for hour, counts in sorted(by_hour.items()):  # in order, so that two processes cannot deadlock
                row = _locked_row(connection, hour)
                writers = orjson.loads(row.writers)
                if writers.get(writer, 0) < number:
                    _write(connection, hour, _sum(orjson.loads(row.counts), counts), {**writers, writer: number})

    def has_sizes(self, hour: str) -> bool:
        """Return whether sizes of this hour are stored."""
        with self._database.reading() as connection:
            stored = select(HOURLY_FIGURES.c.sizes).where(HOURLY_FIGURES.c.hour == hour)
            return connection.execute(stored).scalar() is not None

    def set_sizes(self, hour: str, sizes: Mapping[str, Any]) -> None:
        """Store the sizes of an hour, and remove the oldest rows.

        As many rows are kept as 90 days have hours, whatever this hour is: a clock may be wrong.
        """
        newest = select(HOURLY_FIGURES.c.hour).order_by(HOURLY_FIGURES.c.hour.desc()).limit(HOURS_KEPT)
        with self._database.writing() as connection:
            _locked_row(connection, hour)
            text = orjson.dumps(sizes).decode()
            connection.execute(update(HOURLY_FIGURES).where(HOURLY_FIGURES.c.hour == hour).values(sizes=text))
            connection.execute(delete(HOURLY_FIGURES).where(HOURLY_FIGURES.c.hour.not_in(newest)))

    def last(self, hours: int, now: datetime | None = None) -> tuple[int, list[FigureStep]]:
        """Return the hours in a step, and the steps of the last hours, oldest first, the running hour among them."""
        end = (now or datetime.now(UTC)).astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        length = next((step for step in _STEPS if hours <= step * _POINTS), _STEPS[-1])
        count = -(-hours // length)
        newest = end - timedelta(hours=end.hour % length)
        begins = [newest - timedelta(hours=length * back) for back in reversed(range(count))]
        with self._database.reading() as connection:
            query = select(HOURLY_FIGURES).where(HOURLY_FIGURES.c.hour >= hour_of(begins[0]))
            rows = connection.execute(query.order_by(HOURLY_FIGURES.c.hour)).all()
        by_step = {key: [*group] for key, group in groupby(rows, lambda row: _step_of(row.hour, length))}
        return length, [_joined(begin, by_step.get(begin, [])) for begin in begins]


def count_in_this_hour(connection: Connection, **counts: float) -> None:
    """Add counts in a transaction of the caller, together with what they count."""
    hour = hour_of(datetime.now(UTC))
    row = _locked_row(connection, hour)
    _write(connection, hour, _sum(orjson.loads(row.counts), counts), orjson.loads(row.writers))


def _locked_row(connection: Connection, hour: str) -> Any:
    """Return the row of an hour, made where there is none, and locked until the transaction ends."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    new = dialect.insert(HOURLY_FIGURES).values(hour=hour, counts="{}", writers="{}")
    connection.execute(new.on_conflict_do_nothing())
    return connection.execute(select(HOURLY_FIGURES).where(HOURLY_FIGURES.c.hour == hour).with_for_update()).one()


def _write(connection: Connection, hour: str, counts: Mapping[str, float], writers: Mapping[str, int]) -> None:
    cells = {"counts": orjson.dumps(counts).decode(), "writers": orjson.dumps(writers).decode()}
    connection.execute(update(HOURLY_FIGURES).where(HOURLY_FIGURES.c.hour == hour).values(cells))


def _sum(counts: Mapping[str, float], more: Mapping[str, float]) -> dict[str, float]:
    return {name: counts.get(name, 0) + more.get(name, 0) for name in {**counts, **more}}


def _step_of(hour: str, length: int) -> datetime:
    moment = datetime.strptime(hour, _HOUR).replace(tzinfo=UTC)
    return moment - timedelta(hours=moment.hour % length)


def _joined(begin: datetime, rows: Iterable[Any]) -> FigureStep:
    counts, sizes = Counter[str](), dict[str, Any]()
    for row in rows:
        counts.update(orjson.loads(row.counts))
        sizes = orjson.loads(row.sizes) if row.sizes is not None else sizes
    return FigureStep(begin=begin, counts=counts, sizes=sizes)
