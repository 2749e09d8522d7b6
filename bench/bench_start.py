"""How long a command takes that does next to nothing, beside a Python that does nothing.

    python bench/bench_start.py [--rounds 15]
    python bench/bench_start.py --ready HOME [--rounds 7]  until the service answers with its index and rater
    python bench/bench_start.py --first HOME [--rounds 7]  the first scores of a process: in Python, by command
    python bench/bench_start.py --wheel HOME [--rounds 7]  the first υBLEU with no loop compiled, and with a wheel's

Medians of processes that are begun in turn, so that a machine that becomes busy is so for all of them. The bars:
`refaug --version` at most three times `python -c pass`, `--help` 300 ms, `score metrics list` 400 ms; 12 s until the
service is ready with the index and rater of `make demo`, beside a Python that imports torch, FAISS and numba. Of first
scores, with loops compiled at installation: `import refaug` 60 ms, BLEU 0.35 s and υBLEU with the index and rater of
`make demo` 3.5 s in Python, 60 lines of BLEU by command 0.5 s, beside sacrebleu on the same lines; υBLEU with the loops
that come compiled in a wheel 3 s, of which numba's import and torch's are most. Processor time
stands beside each: on a busy machine it says more than the clock.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common import ROOT, median, write_result
from service_load import server

from refaug.core.kernels.compiler import COMMON

REFAUG = str(Path(sys.executable).with_name("refaug"))
COMMANDS = {
    "python -c pass": (sys.executable, "-c", "pass"),
    "refaug --version": (REFAUG, "--version"),
    "refaug --help": (REFAUG, "--help"),
    "refaug score metrics list": (REFAUG, "score", "metrics", "list"),
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
    timings = {"ready": list[float](), "imports": list[float]()}
    for _ in range(rounds):
        timings["ready"].append(ready_seconds(home))
        timings["imports"].append(seconds(imports))
    figures = {name: {"median_s": median(values), "most_s": round(max(values), 2)} for name, values in timings.items()}
    figures["ready"]["times_imports"] = round(figures["ready"]["median_s"] / figures["imports"]["median_s"], 2)
    print(figures)
    print(write_result("start_ready", {"rounds": rounds, "starts": figures}, ["torch", "faiss-cpu", "numba"]))


_IN_PYTHON = {  # what a program does; the clock begins before `import refaug`
    "import refaug": "",
    "first BLEU in Python": "refaug.score(predictions=replies, references=golds, metric='bleu')",
    "first upsilon-BLEU in Python": "refaug.score(predictions=replies[:1], utterances=['Where can I buy a ticket?'], "
    "references=golds[:1], metric='upsilon-bleu', index='demo', rater='demo', home=sys.argv[1])",
}
_PROGRAM = """
import sys, time
replies = [f"you can buy it at counter {number} ." for number in range(60)]
golds = [[f"ask at counter {number} , please ."] for number in range(60)]
begun, used = time.perf_counter(), time.process_time()
import refaug
CALL
print(time.perf_counter() - begun, time.process_time() - used)
"""
_LOCAL = """
import sys, time
from refaug_client import Client
begun = time.perf_counter()
with Client.local(home=sys.argv[1], options=["--no-job-worker"]) as client:
    item = {"utterance": "Where can I buy a ticket?", "references": ["At counter 3."], "replies": {"a": "No."}}
    client.score([item], metric="upsilon-bleu")
    print(time.perf_counter() - begun, 0)
"""


def printed_seconds(
    program: str, home: Path, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> tuple[float, float]:
    """Run a program that prints its seconds, by the clock and of the processor."""
    command = [sys.executable, "-c", program, str(home.resolve())]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd=folder)
    clock, processor = answer.stdout.split()
    return float(clock), float(processor)


def command_seconds(command: tuple[str, ...]) -> tuple[float, float]:
    """Run a command, and return its seconds, by the clock and of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    clock = seconds(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def first_scores(home: Path, commands: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[float, float]]:
    """Measure every first score once."""
    timings = {name: printed_seconds(_PROGRAM.replace("CALL", call), home) for name, call in _IN_PYTHON.items()}
    timings |= {name: command_seconds(command) for name, command in commands.items()}
    return {**timings, "Client.local, first upsilon-BLEU": printed_seconds(_LOCAL, home)}


def measure_first(home: Path, rounds: int) -> None:
    """Run everything in turn."""
    with tempfile.TemporaryDirectory() as folder:
        replies, golds = Path(folder, "replies"), Path(folder, "golds")
        replies.write_text("".join(f"you can buy it at counter {number} .\n" for number in range(60)))
        golds.write_text("".join(f"ask at counter {number} , please .\n" for number in range(60)))
        commands = {
            "60 lines by refaug score": (
                *(REFAUG, "--quiet", "score", "--replies", f"a={replies}", "--references", str(golds)),
                *("--metric", "bleu"),
            ),
            "60 lines by sacrebleu": (
                str(Path(sys.executable).with_name("sacrebleu")),
                *(str(golds), "--input", str(replies), "--metrics", "bleu"),
            ),
        }
        first_scores(home, commands)  # what the system reads from disk once, and what is not compiled yet
        load = os.getloadavg()[0]
        rows: list[dict[str, tuple[float, float]]] = [first_scores(home, commands) for _ in range(rounds)]
    figures: dict[str, Any] = {
        name: {
            "median_s": round(median([row[name][0] for row in rows]), 3),
            "least_s": round(min(row[name][0] for row in rows), 3),
            "processor_s": round(median([row[name][1] for row in rows]), 3),
        }
        for name in rows[0]
    }
    for name, row in figures.items():
        print(f"{name:<34} {row['median_s']:>8.3f} s, least {row['least_s']:.3f}, processor {row['processor_s']:.3f}")
    loads = {"load_before": round(load, 1), "load_after": round(os.getloadavg()[0], 1)}
    print(loads)
    document = {"rounds": rounds, **loads, "first": figures}
    print(write_result("start_first", document, ["torch", "faiss-cpu", "numba", "sacrebleu"]))


def measure_wheel(home: Path, rounds: int) -> None:
    """Score in a copy of the package without compiled loops, for common processors; then with what that left."""
    call = _IN_PYTHON["first upsilon-BLEU in Python"]
    common = {"NUMBA_CPU_NAME": COMMON[0], "NUMBA_CPU_FEATURES": COMMON[1]}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "refaug", Path(folder, "refaug"), ignore=shutil.ignore_patterns("__pycache__"))
        environment = {**os.environ, "PYTHONPATH": folder, "NUMBA_CACHE_DIR": ""}

        def score(more: Mapping[str, str]) -> tuple[float, float]:
            return printed_seconds(_PROGRAM.replace("CALL", call), home, environment | more, Path(folder))

        compiling = score(common)
        score({})  # what the system reads from disk once
        rows = [score({}) for _ in range(rounds)]
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.nb[ic]"))
    clock, processor = (median(column) for column in zip(*rows, strict=True))
    figures = {
        "nothing compiled": {"clock_s": round(compiling[0], 2), "processor_s": round(compiling[1], 2)},
        "the loops of a wheel": {"clock_s": round(clock, 2), "processor_s": round(processor, 2)},
        "ratio": round(compiling[1] / processor, 2),
        "loops_mb": round(size / 1e6, 2),
    }
    print(figures)
    print(write_result("start_wheel", {"rounds": rounds, **figures}, ["torch", "faiss-cpu", "numba"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--ready", type=Path, metavar="HOME", help="start the service on this home instead")
    parser.add_argument("--first", type=Path, metavar="HOME", help="measure first scores with this home instead")
    parser.add_argument("--wheel", type=Path, metavar="HOME", help="measure what compiled loops save instead")
    options = parser.parse_args()
    if options.wheel is not None:
        measure_wheel(options.wheel, options.rounds or 7)
        return
    if options.first is not None:
        measure_first(options.first, options.rounds or 7)
        return
    if options.ready is not None:
        measure_ready(options.ready, options.rounds or 7)
        return
    rounds = options.rounds or 15
    for command in COMMANDS.values():
        seconds(command)  # what the system reads from disk once
    timings = {name: list[float]() for name in COMMANDS}
    for _ in range(rounds):
        for name, command in COMMANDS.items():
            timings[name].append(seconds(command))
    nothing = median([1_000 * value for value in timings["python -c pass"]])
    figures = {
        name: {
            "median_ms": median([1_000 * value for value in values]),
            "least_ms": round(1_000 * min(values), 1),
            "times_python": round(median([1_000 * value for value in values]) / nothing, 2),
        }
        for name, values in timings.items()
    }
    print(f"{'command':<22} {'median ms':>10} {'least ms':>9} {'times python':>13}")
    for name, row in figures.items():
        print(f"{name:<22} {row['median_ms']:>10.0f} {row['least_ms']:>9.0f} {row['times_python']:>13}")
    print(write_result("start", {"rounds": rounds, "commands": figures}, ["typer", "rich", "numpy"]))


if __name__ == "__main__":
    main()
