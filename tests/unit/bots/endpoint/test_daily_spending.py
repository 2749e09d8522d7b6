"""Tokens of a day: counted on disk, by several users of one file, never above the limit."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from refaug.bots.endpoint.chat import ChatAnswer, ChatMessage, ChatRequest
from refaug.bots.endpoint.spending import DailySpending, DailyTokens

REQUEST = ChatRequest(messages=(ChatMessage("user", "x" * 30),), max_tokens=12)  # 8 + 10 tokens in, 12 out


def spent(folder: Path, day: str | None = None) -> int:
    """The tokens of a day; by default of the only one."""
    with closing(sqlite3.connect(folder / "spent.db")) as connection:
        rows = dict(connection.execute("select day, tokens from days"))
    return rows.get(day, 0) if day else sum(rows.values())


def test_a_day_ends_at_its_limit_and_the_next_begins_anew(tmp_path: Path) -> None:
    today = ["2026-01-01"]
    days = DailyTokens(tmp_path / "spent.db", 100, day=lambda: today[0])
    assert [days.add(tokens) for tokens in (60, 41, 40, 1)] == [today[0], None, today[0], None]
    assert days.correct(today[0], -30)
    assert (spent(tmp_path), days.add(30), days.add(101)) == (70, today[0], None)
    today[0] = "2026-01-02"
    assert (spent(tmp_path, today[0]), days.add(100)) == (0, today[0])


def test_threads_with_one_file_stay_below_the_limit(tmp_path: Path) -> None:
    counters = [DailyTokens(tmp_path / "spent.db", 50, day=lambda: "2026-01-01") for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        allowed = list(threads.map(lambda place: counters[place % 4].add(3), range(40)))
    assert (len([day for day in allowed if day]), spent(tmp_path)) == (16, 48)


def test_an_answer_replaces_its_reservation_and_a_fault_costs_nothing(tmp_path: Path) -> None:
    days = DailyTokens(tmp_path / "spent.db", 59)
    spending = DailySpending(days)
    first, second = spending.reserve(REQUEST), spending.reserve(REQUEST)
    assert (first is not None, second, spent(tmp_path)) == (True, None, 30)
    assert first is not None
    spending.settle(first, ChatAnswer(text="4", finish="stop", prompt_tokens=9, answer_tokens=2))
    assert (spent(tmp_path), spending.tokens) == (11, 11)
    third = spending.reserve(REQUEST)
    assert third is not None
    spending.settle(third, None)
    assert (spent(tmp_path), spending.tokens) == (11, 11)


def test_a_day_counts_what_was_lost_and_what_answers_cost_beyond_their_reservation(tmp_path: Path) -> None:
    today = ["2026-01-01"]
    days = DailyTokens(tmp_path / "spent.db", 95, day=lambda: today[0])
    spending = DailySpending(days)
    first = spending.reserve(REQUEST)
    assert first is not None
    assert [spending.lose(first), spent(tmp_path), spending.lose(first), spent(tmp_path)] == [True, 60, True, 90]
    assert [spending.lose(first), spent(tmp_path)] == [False, 120]
    spending.settle(first, None)
    assert spent(tmp_path) == 90
    today[0] = "2026-01-02"
    second = spending.reserve(REQUEST)
    assert second is not None
    today[0] = "2026-01-03"
    third = spending.reserve(REQUEST)
    spending.settle(second, ChatAnswer(text="4", finish="stop", prompt_tokens=10, answer_tokens=600))
    assert third is not None
    assert [spent(tmp_path, f"2026-01-0{day}") for day in (1, 2, 3)] == [90, 610, 30]
