"""How many cores this process may use, and how many of them have nothing to do.

A container's limit counts: threads beyond it are stopped until its next period, all at once. What is free is measured
over a moment, as the system counts the idle time of each core, so that web processes and everything else count as busy.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_WATCH_S: Final = 0.2  # twenty of the system's ticks
_IDLE_FIELDS: Final = slice(3, 5)  # of a line of /proc/stat: idle, and waiting for a disk


def available_cores(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int:
    """Return the number of cores that this process may use, by its affinity and by the limits of its control groups."""
    affinity = len(os.sched_getaffinity(0))
    limits = [limit for limit in _cgroup_limits(proc, cgroups) if limit is not None]
    return max(1, min([affinity, *map(int, limits)]))


def free_cores(
    *,
    watch_s: float = _WATCH_S,
    proc: Path = _PROC,
    cgroups: Path = _CGROUPS,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Return the number of cores that were idle for most of a moment, at least 1 and at most the available ones."""
    before = _core_times(proc)
    sleep(watch_s)
    idle = idle_cores(before, _core_times(proc), os.sched_getaffinity(0))
    return max(1, min(available_cores(proc, cgroups), round(idle)))


def idle_cores(
    before: Mapping[int, tuple[int, int]], after: Mapping[int, tuple[int, int]], cores: Collection[int]
) -> float:
    """Return the sum of the idle shares of some cores between two looks at their ticks, each (idle, all).

    A core that the system does not count is taken for idle, as where nothing is known.
    """
    total = 0.0
    for core in cores:
        idle_before, all_before = before.get(core, (0, 0))
        idle_after, all_after = after.get(core, (0, 0))
        passed = all_after - all_before
        total += (idle_after - idle_before) / passed if passed > 0 else 1.0
    return total


def _core_times(proc: Path) -> dict[int, tuple[int, int]]:
    """Return the idle ticks and all ticks of each core; {} where the system does not say."""
    times = dict[int, tuple[int, int]]()
    try:
        lines = (proc / "stat").read_text().splitlines()
    except OSError:
        return times
    for line in lines:
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdecimal():
            ticks = [int(field) for field in fields[:8]]  # the rest is counted twice
            times[int(name[3:])] = (sum(ticks[_IDLE_FIELDS]), sum(ticks))
    return times


def _cgroup_limits(proc: Path, cgroups: Path) -> list[float | None]:
    """Return the limit of each control group that this process is in, those above included."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return []
    limits = list[float | None]()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            limits += [_limit_v2(folder / "cpu.max") for folder in _with_parents(cgroups, path)]
        elif "cpu" in controllers.split(","):
            roots = [root for name in (controllers, "cpu") if (root := cgroups / name).is_dir()]
            limits += [_limit_v1(folder) for root in roots[:1] for folder in _with_parents(root, path)]
    return limits


def _with_parents(root: Path, path: str) -> list[Path]:
    """Return the folder of a group and those above it; inside a container the path may not exist, and its root does."""
    folder = root / path.lstrip("/")
    return [one for one in (folder, *folder.parents) if one == root or root in one.parents]


def _limit_v2(path: Path) -> float | None:
    numbers = _read_words(path)
    return int(numbers[0]) / int(numbers[1]) if len(numbers) == 2 and numbers[0].isdecimal() else None


def _limit_v1(folder: Path) -> float | None:
    quota, period = _read_words(folder / "cpu.cfs_quota_us"), _read_words(folder / "cpu.cfs_period_us")
    return int(quota[0]) / int(period[0]) if quota and period and quota[0].isdecimal() else None  # -1: none


def _read_words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
