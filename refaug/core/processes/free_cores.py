"""How many cores this process may use, and how many of them have nothing to do.

A container's limit counts: threads beyond it are stopped until its next period, all at once. What is free is measured
over a moment, as the system counts the idle time of each core, so that web processes and everything else count as busy.
Of a limit, what its group used in the same moment is not free: idle cores of the machine may be of no use to it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_WATCH_S: Final = 0.2  # twenty of the system's ticks
_IDLE_FIELDS: Final = slice(3, 5)  # of a line of /proc/stat: idle, and waiting for a disk


def available_cores(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int:
    """Return the number of cores that this process may use, by its affinity and by the limits of its control groups."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limits = [limit for group in _cpu_groups(proc, cgroups) if (limit := group.limit()) is not None]
    return max(1, min([affinity, *map(int, limits)]))


def free_cores(
    *,
    watch_s: float = _WATCH_S,
    proc: Path = _PROC,
    cgroups: Path = _CGROUPS,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Return the number of cores that were idle for most of a moment, at least 1 and at most the available ones."""
    groups, began = _cpu_groups(proc, cgroups), time.monotonic()
    before, used_before = _core_times(proc), [group.used_s() for group in groups]
    sleep(watch_s)
    passed_s = max(watch_s, time.monotonic() - began)
    free = [idle_cores(before, _core_times(proc), os.sched_getaffinity(0))]
    for group, used_s in zip(groups, used_before, strict=True):
        limit = group.limit()
        if limit is not None:
            free.append(limit - (group.used_s() - used_s) / passed_s)
    return max(1, min(available_cores(proc, cgroups), round(min(free))))


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


@dataclass(frozen=True, kw_only=True)
class _CpuGroup:
    """A control group of either version, by its folder; in version 1 usage may be counted in another one."""

    folder: Path
    usage_folder: Path | None = None  # of version 1

    def limit(self) -> float | None:
        """Return how many cores the group may use; None if it has no limit."""
        if self.usage_folder is None:
            numbers = _read_words(self.folder / "cpu.max")
            return int(numbers[0]) / int(numbers[1]) if len(numbers) == 2 and numbers[0].isdecimal() else None
        quota, period = _read_words(self.folder / "cpu.cfs_quota_us"), _read_words(self.folder / "cpu.cfs_period_us")
        return int(quota[0]) / int(period[0]) if quota and period and quota[0].isdecimal() else None  # -1: none

    def used_s(self) -> float:
        """Return the seconds of cores that the group has used; 0 where the system does not say."""
        if self.usage_folder is None:
            words = _read_words(self.folder / "cpu.stat")
            return int(words[words.index("usage_usec") + 1]) / 1e6 if "usage_usec" in words else 0.0
        nanoseconds = _read_words(self.usage_folder / "cpuacct.usage")
        return int(nanoseconds[0]) / 1e9 if nanoseconds else 0.0


def _cpu_groups(proc: Path, cgroups: Path) -> list[_CpuGroup]:
    """Return each control group that this process is in, those above included."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return []
    groups = list[_CpuGroup]()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            groups += [_CpuGroup(folder=folder) for folder in _with_parents(cgroups, path)]
        elif "cpu" in controllers.split(","):
            roots = [root for name in (controllers, "cpu") if (root := cgroups / name).is_dir()]
            usage = roots[0] if "cpuacct" in controllers.split(",") and roots else cgroups / "cpuacct"
            groups += [
                _CpuGroup(folder=folder, usage_folder=usage / folder.relative_to(root))
                for root in roots[:1]
                for folder in _with_parents(root, path)
            ]
    return groups


def _with_parents(root: Path, path: str) -> list[Path]:
    """Return the folder of a group and those above it; inside a container the path may not exist, and its root does."""
    folder = root / path.lstrip("/")
    return [one for one in (folder, *folder.parents) if one == root or root in one.parents]


def _read_words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
