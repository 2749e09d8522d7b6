"""How fast this tree is beside an earlier one, in alternating pairs on one home.

    python bench/bench_before.py PART … --before TREE --data FOLDER --home HOME     parts: bleu search batch single sets

TREE is a checkout of an earlier commit with its `.venv`. HOME has an index and a rater that both can open, called
`medium`. Both trees do the same work on the same texts in turn, each first in half of the pairs; two pairs warm up. A
ratio above 1 says that this tree is faster. Results go to bench/results/before_<part>.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from common import ROOT, add_data_option, commit_of, free_port, median, require_data, write_result
from service_load import ask, items_of, load, processor_s, scores_body, stop, wait_until_ready

WARM_PAIRS = 2
ITEMS_OF_A_BATCH = 100
NEW_ITEMS_A_RUN = 3_000  # more than are asked for in a run of `single`
SET_ITEMS = 200
REPLIES_OF_A_BATCH = 64
PARTS = ("bleu", "search", "batch", "single", "sets")


@contextmanager
def worker(tree: Path, part: str, settings: argparse.Namespace) -> Iterator[Callable[[int], float]]:
    """Start a process of the tree that works, and yield the function that has it work and returns the seconds."""
    command = [str(tree / ".venv/bin/python"), str(ROOT / "bench/before_worker.py"), str(tree), part]
    process = subprocess.Popen(
        [*command, str(settings.data), str(settings.home)], cwd=tree, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )

    def work(run: int) -> float:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{run}\n".encode())
        process.stdin.flush()
        return float(process.stdout.readline())

    try:
        yield work
    finally:
        process.communicate()


@contextmanager
def service(tree: Path, part: str, settings: argparse.Namespace) -> Iterator[Callable[[int], float]]:
    """Start the service of the tree on a linked copy of the home, and yield the function that measures a run."""
    with tempfile.TemporaryDirectory(dir=settings.home.parent) as folder:
        home, port = Path(folder) / "home", free_port()
        home.mkdir()
        for artefacts in ("indexes", "raters", "vectors"):
            shutil.copytree(settings.home / artefacts, home / artefacts, copy_function=_link, symlinks=True)
        with (home / "serve.log").open("wb") as log:
            process = subprocess.Popen(
                [str(tree / ".venv/bin/refaug"), "--home", str(home), "serve", "--port", str(port)],
                cwd=tree,
                stdout=log,
                stderr=log,
            )
            try:
                wait_until_ready(process, port, home)
                way = {"batch": _batch, "single": _single, "sets": _sets}[part]
                yield lambda run: way(settings, process.pid, port, run)
            finally:
                stop(process)


def _link(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


def _batch(settings: argparse.Namespace, server: int, port: int, run: int) -> float:
    body = scores_body(items_of(settings.data, ITEMS_OF_A_BATCH, first=1_000 + 300 * run))
    used, began = processor_s(server), time.perf_counter()
    status, _ = ask("POST", port, "/v1/scores", body)
    if status != 200:
        sys.exit(f"POST /v1/scores answered {status}")
    return processor_s(server) - used if settings.processor else time.perf_counter() - began


def _single(settings: argparse.Namespace, server: int, port: int, run: int) -> float:
    """Return the seconds a request, over 32 connections."""
    items = items_of(settings.data, NEW_ITEMS_A_RUN, first=NEW_ITEMS_A_RUN * (run % 10))
    random.Random(run).shuffle(items)
    bodies = [scores_body([item]) for item in items]
    used = processor_s(server)
    sent = load(port, "/v1/scores", bodies, connections=32, seconds=settings.seconds)
    if set(sent.statuses()) != {"200"}:
        sys.exit(f"POST /v1/scores answered {sent.statuses()}")
    return (processor_s(server) - used) / len(sent.sent) if settings.processor else 1 / sent.per_second


def _sets(settings: argparse.Namespace, server: int, port: int, run: int) -> float:
    """Return the seconds a batch of replies to a frozen set, over four connections."""
    items = items_of(settings.data, SET_ITEMS)
    given = [{name: content for name, content in item.items() if name != "replies"} for item in items]
    order = {"items": given, "purpose": "validation", "references": "given"}
    status, frozen = ask("POST", port, "/v1/reference-sets", json.dumps(order).encode())
    if status not in (200, 201):  # 200: an earlier run has frozen it
        sys.exit(f"POST /v1/reference-sets answered {status}")
    replies = [item["replies"]["model"] for item in items_of(settings.data, NEW_ITEMS_A_RUN, first=2_000)]
    random.Random(run).shuffle(replies)
    ids, bodies = [item["id"] for item in items], []
    for first in range(0, len(replies) - REPLIES_OF_A_BATCH, REPLIES_OF_A_BATCH):
        chosen = [ids[(first + place) % SET_ITEMS] for place in range(REPLIES_OF_A_BATCH)]
        batch = {"model": replies[first : first + REPLIES_OF_A_BATCH]}
        bodies.append(json.dumps({"items": chosen, "replies": batch, "metrics": ["bleu"], "return": "values"}).encode())
    path = f"/v1/reference-sets/{frozen['id']}/scores"
    used = processor_s(server)
    sent = load(port, path, bodies, connections=4, seconds=settings.seconds)
    if set(sent.statuses()) != {"200"}:
        sys.exit(f"POST {path} answered {sent.statuses()}")
    return (processor_s(server) - used) / len(sent.sent) if settings.processor else 1 / sent.per_second


def compare(part: str, settings: argparse.Namespace) -> dict[str, Any]:
    """Have both trees work in turn, and return the ratios of their seconds."""
    start = worker if part in ("bleu", "search") else service
    seconds = {"before": list[float](), "this": list[float]()}
    with ExitStack() as stack:
        ways = {
            "before": stack.enter_context(start(settings.before, part, settings)),
            "this": stack.enter_context(start(ROOT, part, settings)),
        }
        for run in range(settings.pairs + WARM_PAIRS):
            for name in ("before", "this") if run % 2 else ("this", "before"):
                taken_s = ways[name](run)
                if run >= WARM_PAIRS:
                    seconds[name].append(taken_s)
    ratios = [earlier / later for earlier, later in zip(seconds["before"], seconds["this"], strict=True)]
    return {
        "before": commit_of(settings.before),
        "this": commit_of(ROOT),
        "pairs": settings.pairs,
        "measured": "processor time of the server a request" if settings.processor else "time by the clock",
        "load": [round(load_of, 1) for load_of in os.getloadavg()],
        "least_ratio": round(min(seconds["before"]) / min(seconds["this"]), 3),
        "before_s": round(statistics.median(seconds["before"]), 5),
        "this_s": round(statistics.median(seconds["this"]), 5),
        "ratio": median(ratios),
        "ratios": [round(ratio, 3) for ratio in ratios],
    }


def main() -> int:
    """Measure the parts, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--before", type=Path, required=True, help="a checkout of an earlier commit, with its .venv")
    parser.add_argument("--home", type=Path, required=True, help="home with an index and a rater called `medium`")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=4.0, help="of a run of `single`")
    parser.add_argument("--processor", action="store_true", help="the server's processor time instead of the clock")
    add_data_option(parser)
    settings = parser.parse_args()
    require_data(parser, settings.data)
    if unknown := sorted(set(settings.parts) - set(PARTS)):
        parser.error(f"unknown parts: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    parts = settings.parts or PARTS
    if settings.processor and set(parts) & {"bleu", "search"}:
        parser.error("--processor measures servers: batch, single, sets")
    for part in parts:
        name = f"before_{part}_processor" if settings.processor else f"before_{part}"
        write_result(name, compare(part, settings), ("refaug", "numpy", "numba"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
