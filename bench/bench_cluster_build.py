"""What a build on a cluster costs beside the same build in a single process: processor time, time, memory.

    python bench/bench_cluster_build.py --home FOLDER [--pairs 300000] [--shards 4] [--rounds 3]

The cluster is one of Ray on this machine: a head that takes no tasks, and two worker nodes of one core each. Every
build is the command `refaug index build`: in a single process as it is by default, with all cores and no shards; in a
single process shard by shard; and on the cluster. The kinds alternate. The log is that of bench_cluster.py.

Processor time is that of all processes from the command's start to its end, as the kernel counts it (user and system,
read from /proc every 50 ms): the command itself, the workers with their start and the reading of their modules, the
raylets, their agents, and the head's server, whatever they do meanwhile. A process that ends between two readings
loses at most what it did since the first. Starting the cluster is apart. A node's memory is the largest sum of the
proportional set sizes of its raylet and of all processes below it.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench_cluster import RECALL, prepare
from common import ROOT, median, pss_of, run_and_watch, tree_of, write_result

from refaug.extras.cluster.building.shards import PROCESS
from refaug.indexer.building.plan import Limits, choose, demand_of, options, shard_memory
from refaug.indexer.index_folders import Places
from refaug.indexer.manifest import IndexManifest

TICKS = os.sysconf("SC_CLK_TCK")
OBJECT_STORE = 200 << 20
NODES = 2
NODE_PROCESSES = 130_000_000  # bytes of Ray's own processes on a node that takes tasks, as measured


def main() -> None:
    """Build by turns, and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=300_000)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", type=int, default=256, help="MiB for writing a table")
    settings = parser.parse_args()
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    prepare(settings.home, settings.pairs)
    began = time.perf_counter()
    cluster = start_cluster()
    start_s = time.perf_counter() - began
    try:
        rounds = [measure(settings, cluster) for _ in range(settings.rounds)]
    finally:
        cluster.shutdown()
    figures = {
        "pairs_read": settings.pairs,
        "shards": settings.shards,
        "nodes": NODES,
        "load": os.getloadavg(),
        "start_seconds": round(start_s, 1),
        "rounds": rounds,
        "cpu_ratio": median([of["cluster"]["cpu_seconds"] / of["single"]["cpu_seconds"] for of in rounds]),
        "cpu_ratio_to_shards": median([of["cluster"]["cpu_seconds"] / of["shards"]["cpu_seconds"] for of in rounds]),
        "wall_ratio": median([of["cluster"]["seconds"] / of["single"]["seconds"] for of in rounds]),
        "wall_ratio_to_shards": median([of["cluster"]["seconds"] / of["shards"]["seconds"] for of in rounds]),
        "planned_node_bytes": planned_bytes(settings),
        "node_peak_bytes": max(peak for of in rounds for peak in of["cluster"]["node_peak_bytes"]),
    }
    figures["memory_ratio"] = round(figures["node_peak_bytes"] / figures["planned_node_bytes"], 3)
    packages = ("faiss-cpu", "numpy", "numba", "pyarrow", "duckdb", "ray")
    write_result(f"cluster_build_{settings.shards}_shards", figures, packages)


def start_cluster() -> Any:
    """Start a head that takes no tasks, and the worker nodes."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415  it reads the token when it is imported

    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": OBJECT_STORE}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(NODES):
        cluster.add_node(num_cpus=1, object_store_memory=OBJECT_STORE)
    return cluster


def planned_bytes(settings: argparse.Namespace) -> int:
    """Return what the plan says of a worker node, which has one task at once."""
    demand = demand_of(Places.under(settings.home), [f"synthetic-{settings.pairs}"], vectors="synthetic", encoder=None)
    limits = Limits(recall=RECALL)
    vectors = shard_memory(demand, choose(options(demand, limits), limits).factory, settings.shards)
    return NODE_PROCESSES + PROCESS + max(settings.memory << 20, vectors)


def measure(settings: argparse.Namespace, cluster: Any) -> dict[str, Any]:
    """Build once in each way; all three must have the same utterances, and the last two the same files."""
    shards = ["--shards", str(settings.shards)]
    ways = {"single": [], "shards": shards, "cluster": [*shards, "--on", cluster.address]}
    measured, manifests = dict[str, Any](), dict[str, IndexManifest]()
    for way, arguments in ways.items():
        name = f"build-{way}"
        measured[way] = run(command_of(settings, name, arguments), cluster if way == "cluster" else None)
        places = Places.under(settings.home)
        manifests[way] = IndexManifest.read(places.indexes.folder(*places.indexes.resolve(name)))
        measured[way]["stages"] = dict(manifests[way].seconds)
        run_and_watch([*REFAUG, "--home", str(settings.home), "artefacts", "gc", "index", name, "--keep", "1"])
    if manifests["shards"].id != manifests["cluster"].id:
        sys.exit("the cluster has built another index")
    return measured


REFAUG = [sys.executable, "-m", "refaug", "-q"]


def command_of(settings: argparse.Namespace, name: str, arguments: Sequence[str]) -> list[str]:
    log = f"synthetic-{settings.pairs}"
    build = ["--home", str(settings.home), "index", "build", log, "--name", name, "--vectors", "synthetic"]
    limits = ["--tokenizer", "word", "--recall", str(RECALL), "--memory", f"{settings.memory}MiB", "--again"]
    return [*REFAUG, *build, *limits, *arguments]


@dataclass
class Watch:
    """Processor seconds of processes by what they are, and the peak memory of nodes, while a command runs."""

    roots: Sequence[int]  # process ids; all below them count
    nodes: Sequence[int] = ()  # raylets
    before: dict[int, float] = field(default_factory=dict)
    last: dict[int, float] = field(default_factory=dict)
    kinds: dict[int, str] = field(default_factory=dict)
    peaks: list[int] = field(default_factory=list)
    at_peak: list[dict[str, int]] = field(default_factory=list)  # megabytes of each process of a node

    def begin(self) -> None:
        """Note what has been used before."""
        self.read()
        self.before, self.peaks, self.at_peak = dict(self.last), [0 for _ in self.nodes], [{} for _ in self.nodes]

    def read(self) -> None:
        """Read the counters of all processes."""
        for process in {process for root in self.roots for process in tree_of(root)}:
            if (seconds := processor_seconds(process)) is not None:
                self.last[process] = seconds
                self.kinds[process] = kind_of(process) or self.kinds.get(process, "other")

    def read_memory(self) -> None:
        """Read the memory of every node."""
        for place, node in enumerate(self.nodes):
            sizes = {process: pss_of(process) for process in tree_of(node)}
            if (size := sum(sizes.values())) > self.peaks[place]:
                self.peaks[place] = size
                self.at_peak[place] = {title_of(process): round(of / 1e6) for process, of in sizes.items()}

    def seconds(self) -> dict[str, float]:
        """Return the seconds since the beginning by kind of process."""
        sums = dict[str, float]()
        for process, seconds in self.last.items():
            kind = self.kinds[process]
            sums[kind] = sums.get(kind, 0.0) + seconds - self.before.get(process, 0.0)
        return {kind: round(spent, 2) for kind, spent in sorted(sums.items())}


def run(command: Sequence[str], cluster: Any) -> dict[str, Any]:
    """Run a build, and return its seconds, its processor seconds by kind of process, and the peak memory of nodes."""
    raylets = [] if cluster is None else [node.all_processes["raylet"][0].process.pid for node in cluster.worker_nodes]
    ray = [] if cluster is None else tree_of(os.getpid())[1:]
    began = time.perf_counter()
    watch, ended = Watch(roots=[*ray], nodes=raylets), threading.Event()
    watch.begin()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    watch.roots = [*ray, process.pid]

    def sample() -> None:
        readings = 0
        while not ended.wait(0.05):
            watch.read()
            if (readings := readings + 1) % 6 == 0:
                watch.read_memory()

    sampler = threading.Thread(target=sample)
    sampler.start()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    ended.set()
    sampler.join()
    watch.read()
    if status:
        sys.exit(f"{' '.join(command)} ended with {status}")
    watch.last.pop(process.pid, None)
    by_kind = {"command": round(usage.ru_utime + usage.ru_stime, 2), **watch.seconds()}
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(sum(by_kind.values()), 2),
        "cpu_by_process": by_kind,
        "peak_bytes": usage.ru_maxrss << 10,
        "node_peak_bytes": watch.peaks,
        "node_peak_mb": watch.at_peak,
    }


def processor_seconds(process: int) -> float | None:
    """Return user and system time of a process without its children; None where it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / TICKS


def kind_of(process: int) -> str:
    """Return what a process of Ray is; nothing where it has just ended."""
    line = title_of(process)
    kinds: Mapping[str, str] = {
        "ray::": "workers",
        "default_worker": "workers",
        "gcs_server": "head's server",
        "raylet": "raylets",
        "dashboard": "agents",
        "runtime_env": "agents",
        "log_monitor": "agents",
        "monitor.py": "agents",
    }
    return next((kind for word, kind in kinds.items() if word in line), "other" if line else "")


def title_of(process: int) -> str:
    """Return the beginning of the command line of a process, without folders; nothing where it has just ended."""
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().rstrip(b"\0").decode(errors="replace").split("\0")
    except OSError:
        return ""
    return " ".join(word.rpartition("/")[2] for word in words[:3])


if __name__ == "__main__":
    main()
