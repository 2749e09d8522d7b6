"""Figures of hours add up over processes, count nothing twice, and stay bounded, on both databases."""

from __future__ import annotations

import random
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from refaug.core.errors import Unavailable
from refaug.service.database.tables import HOURLY_FIGURES
from refaug.service.figures import FigureTable
from refaug.service.history.figure_recorder import FigureRecorder, request_counts
from refaug.service.history.hourly_figures import (
    FAILURES,
    HOURS_KEPT,
    REQUESTS,
    HourlyFigures,
    hour_of,
    latency_name,
    latency_quantile,
)
from refaug.service.prometheus_figures import LATENCY

pytest_plugins = ("databases",)

NOON = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)


class Process:
    """A web process: its counters, and the thread that stores them, played by hand."""

    def __init__(self, figures: HourlyFigures, clock: list[datetime], sizes: dict | None = None) -> None:
        self.table = FigureTable.empty(memoryview(bytearray(1 << 16)))
        self.recorder = FigureRecorder(
            figures, lambda: sizes or {}, read=lambda: dict(self.table.read()), clock=lambda: clock[0]
        )

    def answer(self, status: int = 200, seconds: float = 0.02, route: str = "/v1/scores") -> None:
        self.table.add(("refaug_requests", route, "POST", str(status)), 1, ((0, 1.0),))
        bucket = sum(bound < seconds for bound in LATENCY.bounds)
        self.table.add(("refaug_request_seconds", route), len(LATENCY.bounds) + 2, ((bucket, 1.0),))


def test_processes_add_up_to_what_a_plain_count_says(database):
    figures, clock, drawn = HourlyFigures(database), [NOON], random.Random(7)
    processes, counted, failed = [Process(figures, clock) for _ in range(4)], Counter(), Counter()
    for _ in range(400):
        process, status = drawn.choice(processes), drawn.choice([200, 200, 422, 503])
        process.answer(status)
        counted[hour_of(clock[0])] += 1
        failed[hour_of(clock[0])] += status == 503
        if drawn.random() < 0.1:
            process.recorder.record()
        if drawn.random() < 0.02:  # counts of an hour are noted when it ends
            for each in processes:
                each.recorder.record()
            clock[0] += timedelta(minutes=drawn.choice([20, 60, 180]))
    for each in processes:
        each.recorder.record()
    length, steps = figures.last(168, clock[0])
    assert length == 1
    assert {hour_of(step.begin): step.count(REQUESTS) for step in steps if step.counts.get(REQUESTS)} == counted
    assert {hour_of(step.begin): step.count(FAILURES) for step in steps if step.counts.get(FAILURES)} == +failed
    assert sum(step.count(REQUESTS) for step in figures.last(HOURS_KEPT, clock[0])[1]) == 400


def test_processes_that_store_at_once_lose_nothing(database):
    figures = HourlyFigures(database)
    hours = ["2026-11-20T01", "2026-11-20T02"]

    def store(writer: str) -> None:
        for number in range(1, 11):
            figures.add(writer, number, {hour: {REQUESTS: 1} for hour in hours})

    threads = [threading.Thread(target=store, args=(f"w{place}",)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    steps = figures.last(24, NOON)[1]
    assert {hour_of(step.begin): step.count(REQUESTS) for step in steps if step.counts} == dict.fromkeys(hours, 40)


class LosingAnswers(HourlyFigures):
    """The database takes what it is given, and its first answer is lost."""

    calls = 0

    def add(self, *addition):
        super().add(*addition)
        self.calls += 1
        if self.calls == 1:
            raise Unavailable("the connection broke off", remedy="")


def test_an_addition_whose_answer_was_lost_counts_once(database):
    figures, clock = LosingAnswers(database), [NOON]
    process = Process(figures, clock)
    process.answer()
    with pytest.raises(Unavailable):
        process.recorder.record()
    process.answer()
    process.recorder.record()
    assert figures.calls == 3  # the lost one again, then the new one
    assert figures.last(1, clock[0])[1][0].count(REQUESTS) == 2


def test_counts_wait_with_their_hour_while_the_database_is_away(database):
    class Away(HourlyFigures):
        is_away = True

        def add(self, *addition):
            if self.is_away:
                raise Unavailable("it is away", remedy="")
            super().add(*addition)

    figures, clock = Away(database), [NOON]
    process = Process(figures, clock)
    for _ in range(3):
        process.answer()
        with pytest.raises(Unavailable):
            process.recorder.record()
        clock[0] += timedelta(hours=1)
    figures.is_away = False
    process.recorder.record()
    assert [step.count(REQUESTS) for step in figures.last(4, clock[0])[1]] == [1, 1, 1, 0]


def test_a_process_that_goes_on_with_a_dead_ones_counters_counts_only_its_own(database):
    figures, clock = HourlyFigures(database), [NOON]
    first = Process(figures, clock)
    first.answer()
    first.recorder.record()
    first.answer()  # killed before it could store this one
    second = Process(figures, clock)
    second.table = first.table
    second.recorder = FigureRecorder(figures, dict, read=lambda: dict(second.table.read()), clock=lambda: clock[0])
    second.answer()
    second.recorder.record()
    assert figures.last(1, clock[0])[1][0].count(REQUESTS) == 2


def test_a_longer_time_comes_in_longer_steps(database):
    figures = HourlyFigures(database)
    for back in range(HOURS_KEPT + 48):
        if back % 24 == 0 or back > HOURS_KEPT - 3:
            figures.add("w", back + 1, {hour_of(NOON - timedelta(hours=back)): {REQUESTS: 1, latency_name(0.05): 1}})
    figures.set_sizes(hour_of(NOON), {"disk": 7})
    length, steps = figures.last(HOURS_KEPT, NOON)
    assert (length, len(steps)) == (24, 90)
    assert [step.begin.hour for step in steps] == [0] * 90
    assert [step.count(REQUESTS) for step in steps[1:]] == [1] * 89
    assert (steps[-1].sizes, steps[0].sizes) == ({"disk": 7}, {})
    assert [figures.last(hours, NOON)[0] for hours in (1, 168, 169, 504, 505, 1008, 2016)] == [1, 1, 3, 3, 6, 6, 12]


def test_as_many_rows_are_kept_as_ninety_days_have_hours(database, monkeypatch):
    monkeypatch.setattr("refaug.service.history.hourly_figures.HOURS_KEPT", 3)
    figures = HourlyFigures(database)
    for hour in range(5):
        figures.set_sizes(hour_of(NOON + timedelta(hours=hour)), {"disk": hour})
    with database.reading() as connection:
        rows, oldest = connection.execute(select(func.count(), func.min(HOURLY_FIGURES.c.hour))).one()
    assert (rows, oldest) == (3, hour_of(NOON + timedelta(hours=2)))


def test_sizes_are_measured_once_an_hour(database):
    figures, clock, sizes = HourlyFigures(database), [NOON], {"disk_free": 5}
    process = Process(figures, clock, sizes)
    process.recorder.record()
    sizes["disk_free"] = 4
    process.recorder.record()
    clock[0] += timedelta(hours=1)
    process.recorder.record()
    assert [step.sizes for step in figures.last(3, clock[0])[1]] == [{}, {"disk_free": 5}, {"disk_free": 4}]


def test_pages_probes_and_streams_are_not_counted(database):
    process = Process(HourlyFigures(database), [NOON])
    for route in ("/service", "/metrics", "/v1/jobs/{id}/events", "/v1/jobs"):
        process.answer(route=route)
    assert request_counts(dict(process.table.read()))[REQUESTS] == 1


def test_quantiles_are_those_of_ranges_that_hold_their_requests_evenly():
    counts = {latency_name(0.01): 50.0, latency_name(0.1): 50.0}  # up to 10 ms from 5 ms, up to 100 ms from 50 ms
    assert latency_quantile(counts, 0.5) == pytest.approx(0.01)
    assert latency_quantile(counts, 0.25) == pytest.approx(0.0075)
    assert latency_quantile(counts, 0.95) == pytest.approx(0.095)
    assert latency_quantile({latency_name(float("inf")): 3.0}, 0.5) == 60.0
    assert latency_quantile({}, 0.5) is None


def test_a_clock_that_jumps_ahead_removes_no_history(database):
    figures = HourlyFigures(database)
    for back in range(3):
        figures.set_sizes(hour_of(NOON - timedelta(hours=back)), {"disk": 7})
    figures.set_sizes(hour_of(NOON + timedelta(days=3_650)), {"disk": 8})
    assert [step.sizes for step in figures.last(3, NOON)[1]] == [{"disk": 7}] * 3
