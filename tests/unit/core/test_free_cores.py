"""Cores that are there and free: affinity, limits of control groups, and the idle time that the system counts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from refaug.core.processes.free_cores import available_cores, free_cores, idle_cores

OWN = sorted(os.sched_getaffinity(0))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def stat(proc: Path, ticks: dict[int, tuple[int, int]]) -> None:
    """Write /proc/stat with (busy, idle) ticks of each core; half of the idle ones wait for a disk."""
    lines = [f"cpu{core} {busy} 0 0 {idle - idle // 2} {idle // 2} 0 0 0 7 7" for core, (busy, idle) in ticks.items()]
    write(proc / "stat", "\n".join(["cpu  1 2 3 4 5 6 7 8 9 10", *lines, "intr 1 2 3", "btime 5"]) + "\n")


@pytest.mark.parametrize(
    ("lines", "files", "limit"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/a/b\n", {"a/b/cpu.max": "150000 100000\n"}, 1),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "100000 100000"}, 1),
        ("0::/elsewhere/deep\n", {"cpu.max": "50000 100000"}, 1),
        ("3:cpu,cpuacct:/x\n2:memory:/x\n", {"cpu,cpuacct/x/cpu.cfs_quota_us": "100000"}, None),
        (
            "3:cpu,cpuacct:/x\n",
            {"cpu,cpuacct/x/cpu.cfs_quota_us": "100000", "cpu,cpuacct/x/cpu.cfs_period_us": "100000"},
            1,
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("1:cpuset:/\n", {"cpuset/cpu.max": "100000 100000"}, None),
    ],
)
def test_the_limit_of_a_container_counts(tmp_path: Path, lines: str, files: dict[str, str], limit: int | None) -> None:
    write(tmp_path / "proc" / "self" / "cgroup", lines)
    for name, text in files.items():
        write(tmp_path / "cgroup" / name, text)
    assert available_cores(tmp_path / "proc", tmp_path / "cgroup") == (len(OWN) if limit is None else limit)


def test_without_control_groups_the_affinity_counts(tmp_path: Path) -> None:
    assert available_cores(tmp_path, tmp_path) == len(OWN)


def test_idle_shares_add_up_over_the_cores_of_the_process() -> None:
    before = {0: (100, 200), 1: (0, 50), 2: (0, 0)}
    after = {0: (115, 220), 1: (5, 70), 2: (20, 20)}
    assert idle_cores(before, after, {0, 1}) == pytest.approx(15 / 20 + 5 / 20)
    assert idle_cores(before, after, {2}) == pytest.approx(1.0)
    assert idle_cores(before, before, {0, 7}) == pytest.approx(2.0)  # nothing is known


def second_look(proc: Path, ticks: dict[int, tuple[int, int]], waits: list[float]) -> Callable[[float], None]:
    def sleep(seconds: float) -> None:
        waits.append(seconds)
        stat(proc, ticks)

    return sleep


@pytest.mark.parametrize(
    ("busy", "idle", "expected"),
    [(0, 20, len(OWN)), (20, 0, 1), (2, 18, len(OWN)), (11, 9, max(1, round(len(OWN) * 0.45)))],
)
def test_free_cores_are_those_that_idle_meanwhile(tmp_path: Path, busy: int, idle: int, expected: int) -> None:
    waits = list[float]()
    stat(tmp_path, dict.fromkeys(OWN, (500, 500)))
    sleep = second_look(tmp_path, dict.fromkeys(OWN, (500 + busy, 500 + idle)), waits)
    assert free_cores(watch_s=0.2, proc=tmp_path, cgroups=tmp_path, sleep=sleep) == expected
    assert waits == [0.2]


def test_a_limit_bounds_the_free_cores(tmp_path: Path) -> None:
    stat(tmp_path, dict.fromkeys(OWN, (0, 0)))
    write(tmp_path / "self" / "cgroup", "0::/\n")
    write(tmp_path / "cpu.max", "100000 100000")
    sleep = second_look(tmp_path, dict.fromkeys(OWN, (0, 20)), [])
    assert free_cores(proc=tmp_path, cgroups=tmp_path, sleep=sleep) == 1


@pytest.mark.parametrize(
    ("lines", "limits", "usage", "text"),
    [
        ("0::/a/b\n", {"a/cpu.max": "{quota} 100000"}, "a/cpu.stat", "usage_usec {us}\nuser_usec 7\n"),
        (
            "3:cpu,cpuacct:/x\n",
            {"cpu,cpuacct/x/cpu.cfs_quota_us": "{quota}", "cpu,cpuacct/x/cpu.cfs_period_us": "100000"},
            "cpu,cpuacct/x/cpuacct.usage",
            "{us}000\n",
        ),
        (
            "2:cpuacct:/x\n3:cpu:/x\n",
            {"cpu/x/cpu.cfs_quota_us": "{quota}", "cpu/x/cpu.cfs_period_us": "100000"},
            "cpuacct/x/cpuacct.usage",
            "{us}000\n",
        ),
    ],
)
@pytest.mark.parametrize(("limit", "used", "expected"), [(4, 0, 4), (4, 3, 1), (4, 1.4, 3), (2, 2, 1)])
def test_what_a_limited_group_uses_is_not_free(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lines: str,
    limits: dict[str, str],
    usage: str,
    text: str,
    limit: int,
    used: float,
    expected: int,
) -> None:
    """A machine of eight cores that all idle, and a container that may use some of them."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(8)))
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroup"
    stat(proc, dict.fromkeys(range(8), (0, 0)))
    write(proc / "self" / "cgroup", lines)
    for name, words in limits.items():
        write(cgroups / name, words.format(quota=limit * 100_000))
    write(cgroups / usage, text.format(us=5_000_000))

    def sleep(seconds: float) -> None:
        stat(proc, dict.fromkeys(range(8), (0, 1_000)))
        write(cgroups / usage, text.format(us=5_000_000 + round(used * seconds * 1e6)))

    assert free_cores(watch_s=100.0, proc=proc, cgroups=cgroups, sleep=sleep) == expected


def test_a_system_that_says_nothing_leaves_the_available_cores(tmp_path: Path) -> None:
    assert free_cores(proc=tmp_path, cgroups=tmp_path, sleep=lambda _: None) == len(OWN)
