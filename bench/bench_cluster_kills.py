"""How long a cluster needs to answer again after kills at random, and whether an answer or a build is wrong or lost.

    python bench/bench_cluster_kills.py [--seeds 10] [--lines FILE]

The scenes are those of test_cluster_kills.py, which `make faults` runs: five kills each of tasks, of the
command of a build, of processes of shards, of web processes, of machines and of the head, of a local cluster with two
worker nodes, while requests come without a pause. Half of the scenes have two replicas of each shard and two web
processes. A scene ends with an error at a wrong answer, and where a build is lost or seen before it is whole. --lines
reads what scenes have written before, and runs none.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from common import ROOT, median, write_result

TEST = "tests/extras/cluster/integration/test_cluster_kills.py::test_nothing_is_wrong_or_lost_after_five_kills"


def main() -> None:
    """Run the scenes, or read their lines, and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--lines", type=Path)
    settings = parser.parse_args()
    scenes = read(settings.lines or run(settings.seeds))
    kills = [{**kill, "replicas": scene["replicas"]} for scene in scenes for kill in scene["kills"]]
    figures = {
        "load_average": round(os.getloadavg()[0], 1),
        "scenes": len(scenes),
        "kills": len(kills),
        "asked": sum(scene["asked"] for scene in scenes),
        "answered": sum(scene["answered"] for scene in scenes),
        "wrong": sum(scene["wrong"] for scene in scenes),
        "builds": sum(scene["builds"] for scene in scenes),
        "with_replica": by_victim([kill for kill in kills if kill["replicas"] > 1]),
        "without_replica": by_victim([kill for kill in kills if kill["replicas"] == 1]),
        "of_scenes": scenes,
    }
    write_result("cluster_kills", figures, ("ray", "faiss-cpu", "numpy"))


def run(seeds: int) -> Path:
    """Run the scenes, and return the file that each adds its line to; where one fails, it stays for --lines."""
    lines = Path(tempfile.mkdtemp(prefix="cluster-kills-")) / "kills.jsonl"
    names = [f"{TEST}[{kind}-{seed}]" for kind in ("replicas", "alone") for seed in range(seeds)]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:schemathesis", "-m", "cluster and slow", *names]
    done = subprocess.run(command, check=False, cwd=ROOT, env={**os.environ, "CLUSTER_KILLS_TO": str(lines)})
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}; {lines} has the scenes that ended")
    return lines


def read(lines: Path) -> list[dict[str, Any]]:
    """Return the scenes of a file."""
    return [orjson.loads(line) for line in lines.read_bytes().splitlines()]


def by_victim(kills: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return how long the first answer took after the kills of each kind, and after all of them."""
    kinds = {
        victim: [kill for kill in kills if kill["killed"] == victim] for victim in sorted({k["killed"] for k in kills})
    }
    return {kind: summary(of_kind) for kind, of_kind in [("all", list(kills)), *kinds.items()] if of_kind}


def summary(kills: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return figures of these kills."""
    again = [kill["again_s"] for kill in kills]
    return {
        "kills": len(kills),
        "again_s_median": median(again),
        "again_s_most": max(again),
        "within_1_s": sum(seconds <= 1 for seconds in again),
        "within_30_s": sum(seconds <= 30 for seconds in again),
        "refused": sum(kill["refused"] for kill in kills),
    }


if __name__ == "__main__":
    main()
