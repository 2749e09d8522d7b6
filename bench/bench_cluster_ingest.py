"""What reading raw files on a cluster costs beside reading them in a single process: processor time, time, memory.

    python bench/bench_cluster_ingest.py [--dialogues 150000] [--messages 600000] [--rounds 3] [--scratch FOLDER]

The cluster is one of Ray on this machine: a head that takes no tasks, and two worker nodes of one core each. Every
ingest is the command `refaug log ingest` on the same files: in one process (`--workers 0`), on this machine as it is by
default, and on the cluster, by turns. There are two sets of files: dialogues of the demo log in four JSONL files, and
message trees in two, whose replies lie in either. The logs must be the same, part by part. Processor time, time and
memory are measured as in bench_cluster_build.py.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench_cluster_build import NODES, REFAUG, run, start_cluster
from bench_ingest import messages
from common import median, run_and_watch, write_result

from refaug.logs.manifest import LogManifest

MEMORY = "1GiB"


def main() -> None:
    """Ingest by turns, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dialogues", type=int, default=150_000)
    parser.add_argument("--messages", type=int, default=600_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=Path, help="where files and homes go; default: a temporary folder")
    settings = parser.parse_args()
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    with tempfile.TemporaryDirectory(dir=settings.scratch) as folder:
        scratch = Path(folder)
        sources = {
            "dialogues": dialogue_files(scratch, settings.dialogues),
            "messages": split(scratch, "messages", messages(settings.messages), settings.messages, 2),
        }
        began = time.perf_counter()
        cluster = start_cluster()
        start_s = time.perf_counter() - began
        try:
            figures: dict[str, Any] = {
                name: measure(name, files, scratch, cluster, settings.rounds) for name, files in sources.items()
            }
        finally:
            cluster.shutdown()
    whole = {"nodes": NODES, "load": os.getloadavg(), "start_seconds": round(start_s, 1), **figures}
    print(write_result("cluster_ingest", whole, ("refaug", "duckdb", "pyarrow", "orjson", "ray")))


def dialogue_files(scratch: Path, count: int) -> list[Path]:
    """Write a demo log, and split it."""
    whole = scratch / "demo.jsonl"
    output = ["--output", str(whole), "--items-output", f"{whole}.items"]
    run_and_watch([*REFAUG, "--home", str(scratch), "log", "demo", "--dialogues", str(count), *output])
    with whole.open("rb") as lines:
        files = split(scratch, "dialogues", lines, count, 4)
    whole.unlink()
    return files


def split(scratch: Path, name: str, lines: Iterable[bytes], count: int, parts: int) -> list[Path]:
    """Write lines into files of about as many each."""
    paths = [scratch / f"{name}-{part}.jsonl" for part in range(parts)]
    files = [path.open("wb") for path in paths]
    for number, line in enumerate(lines):
        files[min(parts - 1, number * parts // count)].write(line)
    for file in files:
        file.close()
    return paths


def measure(name: str, files: Sequence[Path], scratch: Path, cluster: Any, rounds: int) -> dict[str, Any]:
    """Ingest the same files in all ways so many times."""
    ways = {"single": ["--workers", "0"], "default": [], "cluster": ["--on", cluster.address]}
    measured, pairs = list[dict[str, Any]](), 0
    for number in range(rounds):
        of_round, parts = dict[str, Any](), dict[str, list[str]]()
        for way, arguments in ways.items():
            home = scratch / f"home-{way}"
            command = [
                *REFAUG,
                "--home",
                str(home),
                "log",
                "ingest",
                *map(str, files),
                "--log",
                "bench",
                "--memory",
                MEMORY,
            ]
            of_round[way] = run([*command, *arguments], cluster if way == "cluster" else None)
            manifest = LogManifest.read(home / "logs" / "bench")
            parts[way], pairs = [part.sha256 for part in manifest.parts], manifest.totals["pairs"]
            shutil.rmtree(home)
            print(name, number + 1, way, of_round[way]["seconds"], of_round[way]["cpu_by_process"], flush=True)
        if not parts["single"] == parts["default"] == parts["cluster"]:
            sys.exit("the cluster has made another log")
        measured.append(of_round)
    return {
        "bytes": sum(file.stat().st_size for file in files),
        "files": len(files),
        "pairs": pairs,
        "rounds": measured,
        "cpu_ratio": ratio(measured, "cpu_seconds", "single"),
        "cpu_ratio_to_default": ratio(measured, "cpu_seconds", "default"),
        "wall_ratio": ratio(measured, "seconds", "single"),
        "wall_ratio_to_default": ratio(measured, "seconds", "default"),
        "command_share": round(
            median([of["cluster"]["cpu_by_process"]["command"] / of["cluster"]["cpu_seconds"] for of in measured]),
            3,
        ),
        "node_peak_bytes": max(peak for of in measured for peak in of["cluster"]["node_peak_bytes"]),
    }


def ratio(measured: Sequence[dict[str, Any]], figure: str, way: str) -> float:
    """Return the median of the cluster's figure over that of another way."""
    return round(median([of["cluster"][figure] / of[way][figure] for of in measured]), 3)


if __name__ == "__main__":
    main()
