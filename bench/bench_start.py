"""How long a command takes that does next to nothing, beside a Python that does nothing.

    python bench/bench_start.py [--rounds 15]

Medians of processes that are begun in turn, so that a machine that becomes busy is so for all of them. The bars:
`refaug --version` at most three times `python -c pass`, `--help` 300 ms, `metrics list` 400 ms.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from common import median, write_result

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
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
