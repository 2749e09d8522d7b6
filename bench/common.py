"""What the benchmarks share: whole processes watched from outside, and results written with what made them."""

from __future__ import annotations

import os
import platform
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"


@dataclass(frozen=True, kw_only=True)
class Run:
    """One process from start to end, its children included."""

    seconds: float
    peak_bytes: int  # largest sum of proportional set sizes over the process and its children, sampled
    output: str


def watched(command: Sequence[str], *, every_s: float = 0.05) -> Run:
    """Run a command; sample the memory of its process tree while it runs."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    peak = [0]
    done = threading.Event()

    def sample() -> None:
        while not done.wait(every_s):
            peak[0] = max(peak[0], sum(pss_of(pid) for pid in tree_of(process.pid)))

    sampler = threading.Thread(target=sample)
    sampler.start()
    output, errors = process.communicate()
    seconds = time.perf_counter() - began
    done.set()
    sampler.join()
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{errors}")
    return Run(seconds=seconds, peak_bytes=peak[0], output=output)


def tree_of(pid: int) -> list[int]:
    """A process and all below it."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(inner for child in children for inner in tree_of(int(child)))]


def pss_of(pid: int) -> int:
    """Proportional set size: memory that two processes share counts once."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), 0)


def median(values: Sequence[float]) -> float:
    """The middle one, rounded for reading."""
    return round(statistics.median(values), 3)


def write_result(name: str, figures: dict[str, Any], packages: Sequence[str]) -> Path:
    """The figures as JSON, with commit, machine and versions beside them."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=False)
    result = {
        "benchmark": name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "processor": platform.processor() or platform.machine(),
            "python": platform.python_version(),
        },
        "versions": {package: version(package) for package in packages},
        **figures,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return path


def free_port() -> int:
    """A port of this machine's loopback address that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port
