"""How long a command takes that does next to nothing, beside a Python that does nothing.

    python bench/bench_start.py [--rounds 15]
    python bench/bench_start.py --ready HOME [--rounds 7]  until the service answers with its index and rater

Medians of processes that are begun in turn, so that a machine that becomes busy is so for all of them. The bars:
`refaug --version` at most three times `python -c pass`, `--help` 300 ms, `metrics list` 400 ms; 12 s until the service
is ready with the index and rater of `make demo`, beside a Python that imports torch, FAISS and numba.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from common import median, write_result
from service_load import server

REFAUG = str(Path(sys.executable).with_name("refaug"))
COMMANDS = {
    "python -c pass": (sys.executable, "-c", "pass"),
    "refaug --version": (REFAUG, "--version"),
    "refaug --help": (REFAUG, "--help"),
    "refaug metrics list": (REFAUG, "metrics", "list"),
    "refaug score --help": (REFAUG, "score", "--help"),
    "refaug log list": (REFAUG, "--home", "no-such-folder", "log", "list"),
}


def seconds(command: tuple[str, ...]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def ready_seconds(home: Path) -> float:
    """Start the service, and return the time until /readyz answers 200 with index and rater loaded."""
    begun = time.perf_counter()
    with server(home, "--no-job-worker"):
        return time.perf_counter() - begun


def measure_ready(home: Path, rounds: int) -> None:
    """Start servers and bare imports in turn."""
    imports = (sys.executable, "-c", "import torch, faiss, numba")
    ready_seconds(home), seconds(imports)  # what the system reads from disk once
    taken = {"ready": list[float](), "imports": list[float]()}
    for _ in range(rounds):
        taken["ready"].append(ready_seconds(home))
        taken["imports"].append(seconds(imports))
    figures = {name: {"median_s": median(values), "most_s": round(max(values), 2)} for name, values in taken.items()}
    figures["ready"]["times_imports"] = round(figures["ready"]["median_s"] / figures["imports"]["median_s"], 2)
    print(figures)
    print(write_result("start_ready", {"rounds": rounds, "starts": figures}, ["torch", "faiss-cpu", "numba"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--ready", type=Path, metavar="HOME", help="start the service on this home instead")
    options = parser.parse_args()
    if options.ready is not None:
        measure_ready(options.ready, options.rounds or 7)
        return
    rounds = options.rounds or 15
    for command in COMMANDS.values():
        seconds(command)  # what the system reads from disk once
    taken = {name: list[float]() for name in COMMANDS}
    for _ in range(rounds):
        for name, command in COMMANDS.items():
            taken[name].append(seconds(command))
    nothing = median([1_000 * value for value in taken["python -c pass"]])
    figures = {
        name: {
            "median_ms": median([1_000 * value for value in values]),
            "least_ms": round(1_000 * min(values), 1),
            "times_python": round(median([1_000 * value for value in values]) / nothing, 2),
        }
        for name, values in taken.items()
    }
    print(f"{'command':<22} {'median ms':>10} {'least ms':>9} {'times python':>13}")
    for name, row in figures.items():
        print(f"{name:<22} {row['median_ms']:>10.0f} {row['least_ms']:>9.0f} {row['times_python']:>13}")
    print(write_result("start", {"rounds": rounds, "commands": figures}, ["typer", "rich", "numpy"]))


if __name__ == "__main__":
    main()
