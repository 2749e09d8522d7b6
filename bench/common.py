"""What the benchmarks share: processes measured from outside, and results written beside what made them."""

from __future__ import annotations

import argparse
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
from random import Random
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
    anonymous_bytes: int = 0  # the same of memory that no file backs
    resident_bytes: int = 0  # the same of everything resident, with pages of mapped files, shared ones counted twice


def run_and_watch(command: Sequence[str], *, every_s: float = 0.05) -> Run:
    """Run a command, and sample the memory of its process tree while it runs."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    kinds = ("Pss", "Anonymous", "Rss")
    peaks = dict.fromkeys(kinds, 0)
    done = threading.Event()

    def sample() -> None:
        while not done.wait(every_s):
            sizes = [sizes_of(pid) for pid in tree_of(process.pid)]
            for kind in kinds:
                peaks[kind] = max(peaks[kind], sum(size.get(kind, 0) for size in sizes))

    sampler = threading.Thread(target=sample)
    sampler.start()
    output, errors = process.communicate()
    seconds = time.perf_counter() - began
    done.set()
    sampler.join()
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{errors}")
    return Run(
        seconds=seconds,
        peak_bytes=peaks["Pss"],
        output=output,
        anonymous_bytes=peaks["Anonymous"],
        resident_bytes=peaks["Rss"],
    )


def tree_of(pid: int) -> list[int]:
    """Return a process and all below it."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(inner for child in children for inner in tree_of(int(child)))]


def pss_of(pid: int) -> int:
    """Return the proportional set size of a process: memory that two processes share counts once."""
    return sizes_of(pid).get("Pss", 0)


def sizes_of(pid: int) -> dict[str, int]:
    """Return the sizes of a process's memory as Linux names them, in bytes; none where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return {}
    return {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines if line.endswith(" kB")}


def median(values: Sequence[float]) -> float:
    """Return the median, rounded for reading."""
    return round(statistics.median(values), 3)


def commit_of(tree: Path) -> str:
    """Return the commit that is checked out."""
    command = ["git", "-C", str(tree), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def write_result(name: str, figures: dict[str, Any], packages: Sequence[str]) -> Path:
    """Write the figures as JSON, with commit, machine and versions beside them."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=False)
    document = {
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
    path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return path


def write_rated_items(path: Path, texts: Sequence[str], count: int) -> Path:
    """Write so many items of texts drawn with the count as a seed, with the ratings of two replies each."""
    random = Random(count)
    with path.open("wb") as file:
        for number in range(count):
            utterance, gold, reply, other = random.choices(texts, k=4)
            row = {
                "id": str(number),
                "utterance": utterance,
                "references": [gold],
                "replies": {"first": reply, "second": other},
                "ratings": {"first": [random.randint(1, 5)], "second": [random.randint(1, 5)]},
            }
            file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return path


def add_data_option(parser: argparse.ArgumentParser) -> None:
    """Add `--data`, the folder of the texts to measure on."""
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="folder of the texts, as docs/internals/benchmarks.md has it"
    )


def require_data(parser: argparse.ArgumentParser, data_folder: Path | None, alternative: str = "") -> Path:
    """Return the folder of the texts; end with a message where it was not given."""
    if data_folder is None:
        parser.error(
            f"--data FOLDER is missing: the folder with logs/*.jsonl.gz (docs/internals/benchmarks.md){alternative}"
        )
    return data_folder


def free_port() -> int:
    """Return a port of the loopback address that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
