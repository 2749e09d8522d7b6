"""`make demo-cluster`: a cluster on this machine that loses a machine while it builds and another while it serves.

    python examples/demo_cluster.py [--pairs 300000] [--shards 6]

Four nodes of Ray run on this machine: a head, which takes no tasks, and three others. A log is made up, an index of it
is built by one process and in shards on the cluster, and a server answers from the shards. One node is killed with all
its processes in the middle of the build, one in the middle of requests. The references at the end must be those of one
process: the same texts in the same order, with similarities that are equal to the last bit, in every mode. It ends with
1 and says so where anything differs. All processes end with it, and its folder is removed.
"""  # noqa: INP001  a script

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refaug_client import Client, RefaugError

import refaug
from refaug.indexer.search.search_settings import MODES

NODES = 3  # beside the head
OBJECT_STORE = 100 << 20  # bytes of shared memory for each node
PAIRS_A_DIALOGUE = 2.96  # of the log that is made up
PLAIN = {"weights": "one", "parrot": "off"}  # no rater is needed

KIND = "PCAR64,IVF128,PQ32x4fs"  # vectors are compressed, so that candidates are ranked anew
PATIENCE_S = 180.0
BEGAN = time.monotonic()


def tell(text: str) -> None:
    """Print a line with the time since the start."""
    seconds = round(time.monotonic() - BEGAN)
    print(f"{seconds // 60}:{seconds % 60:02}  {text}", flush=True)  # noqa: T201


def main() -> int:
    """Run all of it; return 1 where an answer differs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=300_000)
    parser.add_argument("--shards", type=int, default=6)
    settings = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(1))
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="refaug-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        _set_environment(folder)
        items = make_log(folder, settings.pairs)
        tell("building the index in one process")
        run("index", "build", "demo", "--name", "alone", *_kind())
        tell(f"starting a cluster of {1 + NODES} nodes on this machine")
        cluster = stack.enter_context(LocalCluster.started(folder))
        build_through_a_kill(cluster, settings.shards)
        alone = {mode: references_alone(items, mode) for mode in MODES}
        with serving(cluster, folder) as refaug_client:
            answer_through_a_kill(cluster, refaug_client, items, alone[MODES[0]])
            differing = [mode for mode in MODES if references_served(refaug_client, items, mode) != alone[mode]]
    if differing:
        tell(f"DIFFERENT references in {', '.join(differing)}: this should not be")
        return 1
    count = sum(len(references) for of_mode in alone.values() for references in of_mode)
    tell(f"{count:,} references of {len(items)} items in {len(MODES)} modes are those of one process, to the last bit")
    return 0


def _set_environment(folder: Path) -> None:
    """Set what all processes read: the home, the cluster's token, where nodes keep copies of shards."""
    os.environ |= {
        "REFAUG_HOME": str(folder / "home"),
        "REFAUG_NODE_CACHE": str(folder / "copies"),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    for name in ("RAY_ADDRESS", "RAY_AUTH_TOKEN_PATH"):
        os.environ.pop(name, None)


def command(*arguments: str) -> list[str]:
    """Return a command of refaug as this interpreter runs it."""
    return [sys.executable, "-m", "refaug", *arguments]


def run(*arguments: str) -> str:
    """Run a command of refaug and return what it prints; end with its message where it fails."""
    done = subprocess.run(command("-q", *arguments), check=False, capture_output=True, text=True)  # noqa: S603  ours
    if done.returncode:
        sys.exit(f"refaug {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


# The log


def make_log(folder: Path, pairs: int) -> list[dict[str, Any]]:
    """Make up a log of at least so many pairs and word vectors of it; return test items."""
    source, items = folder / "log.jsonl", folder / "items.jsonl"
    tell(f"making up a log of {pairs:,} pairs")
    dialogues = str(int(pairs * 1.02 / PAIRS_A_DIALOGUE))
    run("log", "demo", "--dialogues", dialogues, "--output", str(source), "--items-output", str(items))
    run("log", "ingest", str(source), "--log", "demo", "--language", "en")
    there = json.loads(run("log", "stats", "demo", "--json"))["pairs"]
    if there < pairs:
        sys.exit(f"the log has {there:,} pairs only")
    tell(f"the log has {there:,} pairs; training word vectors on it")
    run("train", "vectors", "demo", "--dimensions", "100", "--epochs", "3")
    return [json.loads(line) for line in items.read_text("utf-8").splitlines()]


# The cluster


@dataclass
class Node:
    """The processes of a node: those below `ray start --block`."""

    process: subprocess.Popen[bytes]

    def processes(self) -> list[int]:
        """Return the ids of all processes of the node."""
        return [self.process.pid, *_below(self.process.pid)]

    def works_on(self, task: str) -> bool:
        """Whether a process of the node works on such a task."""
        return any(_command_of(process).startswith(f"ray::{task}") for process in self.processes())

    def shard_count(self) -> int:
        """Return how many processes of the node search a shard."""
        return sum(_command_of(process).startswith("ray::ActorHost") for process in self.processes())

    def kill(self) -> None:
        """End all processes at once, as a power cut does."""
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """End the node in an orderly way, and what is left of it after that."""
        processes = self.processes()
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()


@dataclass
class LocalCluster:
    """A head, and nodes that take one task each."""

    folder: Path
    address: str
    head: Node
    nodes: list[Node] = field(default_factory=list)

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator[LocalCluster]:
        """Start the cluster; it is stopped at the end."""
        port = _free_port()
        head = ["--head", "--port", str(port), "--num-cpus", "0", "--include-dashboard=false", "--temp-dir"]
        cluster = cls(folder, f"127.0.0.1:{port}", _ray_start(folder, *head, str(folder / "ray")))
        try:
            for _ in range(NODES):
                cluster.add()
            yield cluster
        finally:
            for node in [*cluster.nodes, cluster.head]:
                node.stop()

    def add(self) -> None:
        """Start a further node and wait until it belongs to the cluster."""
        self.nodes.append(_ray_start(self.folder, "--address", self.address, "--num-cpus", "1"))

    def replace(self, node: Node) -> None:
        """Start a node in the place of one that was killed."""
        self.nodes.remove(node)
        self.add()


def _ray_start(folder: Path, *arguments: str) -> Node:
    log = folder / f"ray-{secrets.token_hex(4)}.log"
    ray = str(Path(sys.executable).with_name("ray"))
    # a port of the node for each of its processes, any that is free: several nodes are on this machine
    ports = ["--min-worker-port", "0", "--max-worker-port", "0", "--dashboard-agent-listen-port", "0"]
    line = [ray, "start", "--block", "--object-store-memory", str(OBJECT_STORE), *ports, *arguments]
    with log.open("wb") as file:
        node = Node(subprocess.Popen(line, stdout=file, stderr=file, start_new_session=True))  # noqa: S603  ours
    deadline = time.monotonic() + PATIENCE_S
    while "Ray runtime started" not in log.read_text("utf-8", "replace"):
        if node.process.poll() is not None or time.monotonic() > deadline:
            node.stop()
            sys.exit(f"a node of Ray did not start:\n{log.read_text('utf-8', 'replace')}")
        time.sleep(0.1)
    return node


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _below(process: int) -> Iterator[int]:
    """Yield all processes that a process and its threads have started, and those below."""
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, children.read_text().split()):
                yield child
                yield from _below(child)


def _command_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().rstrip(b"\0").decode("utf-8", "replace")
    except OSError:
        return ""


# The build


def _kind() -> tuple[str, ...]:
    return ("--index", KIND, "--check-queries", "200", "--recall", "0.5")


def build_through_a_kill(cluster: LocalCluster, shards: int) -> None:
    """Build the index on the cluster, and kill a node while it writes the table of a shard."""
    tell(f"building the index in {shards} shards on the cluster")
    line = command("index", "build", "demo", "--name", "shards", "--on", cluster.address, "--shards", str(shards))
    killed = None
    with subprocess.Popen([*line, *_kind()], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as build:  # noqa: S603  ours
        watch = threading.Thread(target=_forward, args=(build,), daemon=True)
        watch.start()
        while build.poll() is None and killed is None:
            killed = next((node for node in cluster.nodes if node.works_on("write_table")), None)
            time.sleep(0.01)
        if killed is not None:
            killed.kill()
            tell("killed a node while it was writing the table of a shard; the build goes on")
        watch.join()
    if build.returncode:
        sys.exit(f"the build ended with {build.returncode}")
    if killed is None:
        sys.exit("the build was over before a node was killed")
    tell("the build is done; a further node takes the place of the killed one")
    cluster.replace(killed)


def _forward(build: subprocess.Popen[str]) -> None:
    """Print the stages of the build as they end."""
    for line in build.stderr or ():
        if "done in" in line:
            tell(f"    {line.strip()}")


# Serving


@contextmanager
def serving(cluster: LocalCluster, folder: Path) -> Iterator[Client]:
    """Serve the shards, each from two replicas, until the block ends."""
    tell("starting the server, with two replicas of each shard")
    log = folder / "serve.log"
    options = ["--any-port", "--no-job-worker", "--default-index", "shards", "--shards", cluster.address]
    with log.open("w") as file:
        line = command("serve", "--port", str(_free_port()), *options, "--replicas", "2")
        server = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=file, text=True)  # noqa: S603  ours
    with server:
        try:
            address = (server.stdout.readline() if server.stdout else "").removeprefix("listening on ").strip()
            deadline = time.monotonic() + PATIENCE_S
            with Client(address, timeout_s=PATIENCE_S, retry=0) as client:
                while not client.ready():
                    if server.poll() is not None or time.monotonic() > deadline:
                        sys.exit(f"the server is not ready:\n{log.read_text('utf-8', 'replace')[-4000:]}")
                    time.sleep(0.1)
                yield client
        finally:
            server.terminate()


def answer_through_a_kill(
    cluster: LocalCluster, client: Client, items: Sequence[Mapping[str, Any]], expected: Sequence[Any]
) -> None:
    """Ask one request after the other, and kill a node that has shards; every answer must be right."""
    killed, answers, failures, slowest, since = None, 0, 0, 0.0, time.monotonic()
    while killed is None or time.monotonic() < since + 15:
        began = time.monotonic()
        try:
            references = references_served(client, items[:10], MODES[0])
        except RefaugError as error:
            failures += 1
            tell(f"    no answer: {error}")
            if failures > PATIENCE_S:
                sys.exit("the server answers no more")
            continue
        if references != expected[:10]:
            sys.exit("an answer while a node was killed is DIFFERENT: this should not be")
        answers, slowest = answers + 1, max(slowest, time.monotonic() - began)
        if answers == 5:
            killed, slowest, since = next(node for node in cluster.nodes if node.shard_count()), 0.0, time.monotonic()
            tell(f"killing a node with {killed.shard_count()} processes of shards, while requests come")
            threading.Thread(target=killed.kill).start()
    tell(f"{answers} answers, all right, {failures} refused; the slowest since the kill took {slowest:.2f} s")


# Comparing


def references_alone(items: Sequence[Mapping[str, Any]], mode: str) -> list[Any]:
    """Return the references of one process."""
    found = refaug.references(_questions(items), index="alone", settings={**PLAIN, "mode": mode})
    return [_plain(item["references"]) for item in found.to_dict()["items"]]


def references_served(client: Client, items: Sequence[Mapping[str, Any]], mode: str) -> list[Any]:
    """Return the references that come over HTTP."""
    found = client.references(_questions(items), index="shards", settings={**PLAIN, "mode": mode})
    return [_plain(item["references"]) for item in found.to_dict()["items"]]


def _questions(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: item[name] for name in ("id", "utterance", "references")} for item in items]


def _plain(references: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return everything about references but the name of their index, in their order."""
    return [{name: value for name, value in reference.items() if name != "index"} for reference in references]


if __name__ == "__main__":
    sys.exit(main())
