"""Calls of a loop in a program: the same items again, and the threads of a torch that was imported before refaug.

    python bench/bench_loop.py HOME --index NAME --rater NAME [--encoder-index NAME] [--busy 2]

A call is υBLEU of the items. In a process of its own, in turn: calls with new items, the baseline; calls with the same
items again; calls with new items where torch was imported first; and these with `OMP_WAIT_POLICY=ACTIVE`, in which
refaug leaves threads as they are. With `--encoder-index`, new and the same items by refaug-1, too. `--busy`
starts that many processes that compute meanwhile. Processor time stands beside wall time; `ratio` is the baseline's
over ours. The goal of items that come again is 15 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from common import ROOT, median, write_result

PROGRAM = """
import json, os, random, sys, time
home, index, rater, metric, items, rounds, order, again = json.loads(sys.argv[1])
if order == "torch first":
    import torch
import refaug
drawn, words = random.Random(os.getpid()), "where do you buy tea and bread in the old town near our house today".split()

def text():
    return " ".join(drawn.choices(words, k=drawn.randint(3, 12)))

def rows():
    return [{"utterance": text(), "references": [text()], "replies": {"a": text()}} for _ in range(items)]

def call(scored):
    wall, cpu = time.perf_counter(), time.process_time()
    refaug.score(scored, metric=metric, index=index, rater=rater, home=home)
    return time.perf_counter() - wall, time.process_time() - cpu

same = rows()
call(same)  # opens index and rater, and compiles
print(json.dumps([call(same if again else rows()) for _ in range(rounds)]))
"""
WAYS = {
    "new items": ("upsilon-bleu", "refaug first", False, {}),
    "the same items": ("upsilon-bleu", "refaug first", True, {}),
    "new items, torch first": ("upsilon-bleu", "torch first", False, {}),
    "new items, torch first, threads awake": ("upsilon-bleu", "torch first", False, {"OMP_WAIT_POLICY": "ACTIVE"}),
    "refaug-1, new items": ("refaug-1", "refaug first", False, {}),
    "refaug-1, the same items": ("refaug-1", "refaug first", True, {}),
}


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home", type=Path)
    parser.add_argument("--index", required=True)
    parser.add_argument("--rater", required=True)
    parser.add_argument("--encoder-index", help="index with encodings, for refaug-1")
    parser.add_argument("--items", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--busy", type=int, default=0)
    given = parser.parse_args()
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(given.busy)]
    try:
        ways = {way: plan for way, plan in WAYS.items() if plan[0] != "refaug-1" or given.encoder_index}
        figures = {way: _measure(given, *plan) for way, plan in ways.items()}
    finally:
        for process in busy:
            process.kill()
            process.wait()
    for way, figure in figures.items():
        baseline = figures["refaug-1, new items" if way.startswith("refaug-1") else "new items"]
        figure |= {f"ratio_{clock}": round(baseline[clock] / figure[clock], 2) for clock in ("wall_s", "cpu_s")}
    print(json.dumps(figures, indent=1))
    write_result("loop", {"items": given.items, "busy": given.busy, "ways": figures}, ["torch", "faiss-cpu", "numpy"])


def _measure(given: argparse.Namespace, metric: str, order: str, again: bool, more: dict[str, str]) -> dict[str, float]:
    found_by = [given.encoder_index, None] if metric == "refaug-1" else [given.index, given.rater]
    arguments = [str(given.home.absolute()), *found_by, metric, given.items, given.rounds, order, again]
    environment = {name: text for name, text in os.environ.items() if name != "OMP_WAIT_POLICY"} | more
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(arguments)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=ROOT,
    )
    calls = json.loads(answer.stdout)
    return {"wall_s": median([wall for wall, _ in calls]), "cpu_s": median([cpu for _, cpu in calls])}


if __name__ == "__main__":
    main()
