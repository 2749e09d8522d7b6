from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from refaug.service.figures import TABLE_BYTES, FigureMemory, FigureTable, sum_up


def table(size: int = 1 << 12) -> FigureTable:
    return FigureTable.empty(memoryview(bytearray(size)))


def test_amounts_are_added_to_the_numbers_of_their_series() -> None:
    counted = table()
    counted.add(("seconds", "/a"), 3, ((0, 1.0), (2, 0.25)))
    counted.add(("seconds", "/a"), 3, ((1, 1.0), (2, 0.5)))
    counted.add(("seconds", "/ü"), 3, ((2, 4.0),))
    counted.set(("queue",), 7)
    assert list(counted.read()) == [
        (("seconds", "/a"), [1.0, 1.0, 0.75]),
        (("seconds", "/ü"), [0.0, 0.0, 4.0]),
        (("queue",), [7.0]),
    ]


def test_a_table_is_continued_where_its_process_died() -> None:
    memory = memoryview(bytearray(1 << 12))
    FigureTable.empty(memory).add(("requests", "/a"), 1, ((0, 2.0),))
    again = FigureTable(memory)
    again.add(("requests", "/a"), 1, ((0, 1.0),))
    again.add(("requests", "/b"), 1, ((0, 1.0),))
    assert dict(FigureTable(memory).read()) == {("requests", "/a"): [3.0], ("requests", "/b"): [1.0]}


def test_what_a_killed_process_had_not_finished_is_written_over() -> None:
    memory = memoryview(bytearray(1 << 12))
    counted = FigureTable.empty(memory)
    counted.add(("requests", "/a"), 1, ((0, 2.0),))
    used = memory.cast("q")[0]
    counted.add(("requests", "/a much longer label"), 1, ((0, 5.0),))
    memory.cast("q")[0] = used  # the moment before the series becomes visible
    again = FigureTable(memory)
    again.add(("requests", "/b"), 1, ((0, 1.0),))
    assert list(again.read()) == [(("requests", "/a"), [2.0]), (("requests", "/b"), [1.0])]


def test_a_full_table_counts_what_it_has_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    counted = table(256)
    with caplog.at_level(logging.WARNING):
        for number in range(20):
            counted.add(("requests", f"/{number}"), 1, ((0, 1.0),))
    counted.add(("requests", "/0"), 1, ((0, 1.0),))
    numbers = dict(counted.read())
    assert numbers[("requests", "/0")] == [2.0]
    assert len(numbers) == (256 - 16) // 48  # length, count, a key of 17 bytes padded to 24, a number
    assert [line.message for line in caplog.records] == ["no room for more figures"]


def test_all_its_room_is_allocated_when_it_is_made() -> None:
    with FigureMemory.create(2) as memory:
        assert Path(memory.path).stat().st_blocks * 512 == 2 * TABLE_BYTES


_CLAIMS = """
import os, sys
from refaug.service.figures import FigureMemory
memory = FigureMemory.open(sys.argv[1])
table = memory.claim(("queue",))
table.add(("requests", "/a"), 1, ((0, 1.0),))
table.set(("queue",), 5)
print("claimed", flush=True)
sys.stdin.read()
os.kill(os.getpid(), 9)
"""


def claiming(memory: FigureMemory) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", _CLAIMS, memory.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout
    assert process.stdout.readline() == b"claimed\n"
    return process


def test_living_processes_have_a_table_each_and_a_dead_one_leaves_its_own() -> None:
    with FigureMemory.create(2) as memory:
        first, second = claiming(memory), claiming(memory)
        with pytest.raises(OSError, match="every table of figures is in use"):
            memory.claim(("queue",))
        assert memory.totals() == {("requests", "/a"): [2.0], ("queue",): [10.0]}
        first.communicate()
        assert memory.totals() == {("requests", "/a"): [2.0], ("queue",): [10.0]}
        memory.forget(first.pid, ("queue",))
        assert memory.totals() == {("requests", "/a"): [2.0], ("queue",): [5.0]}
        second.communicate()
        table = memory.claim(("queue",))
        table.add(("requests", "/a"), 1, ((0, 1.0),))
        assert table.process == os.getpid()
        assert memory.totals()[("requests", "/a")] == [3.0]


def test_tables_are_added_up_series_by_series() -> None:
    first, second = table(), table()
    first.add(("seconds", "/a"), 2, ((0, 1.0),))
    second.add(("seconds", "/a"), 2, ((0, 1.0), (1, 2.5)))
    second.add(("seconds", "/b"), 2, ((1, 4.0),))
    assert sum_up([first, second]) == {("seconds", "/a"): [2.0, 2.5], ("seconds", "/b"): [0.0, 4.0]}
