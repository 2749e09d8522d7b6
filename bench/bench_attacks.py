"""What hostile requests cost honest clients, beside what as much honest work costs them.

    python bench/bench_attacks.py [--seconds 40] [--rounds 4]

The server is the whole service as `refaug serve` starts it, with one web process or two, with keys or without. One
client sends the cases of tests/integration/attacks one after the other, as fast as they are answered; another asks for
scores twenty times a second, over a new connection each time. The seconds of processor that the server takes meanwhile
are counted. Then honest batches that take as much of the server stand in place of the attack; both come in turn, in
rounds, so that what else the machine does meets both. The attack must be answered as its files say, and not one of the
honest requests may fail. Results go to bench/results/service_attacks.json.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from common import ROOT, free_port, tree_of, write_result

sys.path.append(str(ROOT / "tests"))

from attack_cases import BODIES, REQUESTS, answers_to, joined, request_of

from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope

PAUSE_S = 0.05  # between two honest requests
BATCH = 1_000  # items of an honest batch: as many as a request may have
REFERENCES = 20  # of each of these items, so that the body is as large as the hostile ones
TICKS = os.sysconf("SC_CLK_TCK")
_WORDS = ["the", "tea", "of", "that", "market", "is", "not", "as", "good", "as", "bread", "from", "our", "mill", "here"]


@dataclass
class AttackedServer:
    """A running service."""

    process: subprocess.Popen[bytes]
    port: int
    line: str  # the header with the key, or nothing

    def scores(self, items: int, references: int = 1) -> bytes:
        """Return a request for scores of so many items."""
        order = {
            "metrics": ["bleu"],
            "items": [
                {
                    "id": f"d{place}",
                    "utterance": "where is it",
                    "references": [" ".join(_WORDS[(place + other) % 9 :]) for other in range(references)],
                    "replies": {"a": " ".join(_WORDS[place % 7 :])},
                }
                for place in range(items)
            ],
        }
        case = {"path": "/v1/scores", "body": [json.dumps(order)]}
        content: bytes = request_of(case, *([self.line] if self.line else []))
        return content

    def processor_s(self) -> float:
        """Return the seconds of processor that the server has taken."""
        ticks = 0
        for pid in tree_of(self.process.pid):
            with suppress(OSError):
                ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
        return ticks / TICKS


@dataclass
class HonestTally:
    """What the honest client got, and what the server took meanwhile."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0
    processor_share: float = 0.0  # of one core, in the latest round

    def figures(self) -> dict[str, Any]:
        """Return the figures for the result."""
        ordered = sorted(self.seconds)
        return {
            "requests": len(ordered),
            "failed": self.failed,
            "p50_ms": round(1_000 * ordered[len(ordered) // 2], 1),
            "p99_ms": round(1_000 * ordered[int(0.99 * (len(ordered) - 1))], 1),
            "server_cores": round(self.processor_share, 2),
        }


@contextmanager
def server(workers: int, *, has_keys: bool) -> Iterator[AttackedServer]:
    """Start a service over a home with nothing but a key."""
    port = free_port()
    with tempfile.TemporaryDirectory() as home:
        database = Database.open(Settings(home=Path(home)))
        database.migrate()
        token, _ = KeyStore(database).create("all", scopes=[Scope.ADMIN])
        database.close()
        options = ["--port", str(port), "--workers", str(workers), "--allowed-hosts", "*", "--no-job-worker"]
        command = [str(Path(sys.executable).with_name("refaug")), "--home", home, "serve", *options]
        with subprocess.Popen(
            [*command, *(["--keys"] if has_keys else [])], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                running = AttackedServer(process, port, f"Authorization: Bearer {token}" if has_keys else "")
                while not is_answered(running, running.scores(1)):
                    time.sleep(0.2)
                yield running
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)


def is_answered(running: AttackedServer, request_bytes: bytes) -> bool:
    """Send a request, and return whether its answer is a good one."""
    with suppress(OSError, IndexError, ValueError, KeyError):
        return [status for status, _ in answers_to(running.port, request_bytes)] == [200]
    return False


def attack(running: AttackedServer, is_over: Callable[[], bool]) -> int:
    """Send every case again and again, and return how many were not answered as the files say."""
    line, wrong = running.line.encode(), 0
    while not is_over():
        for case in REQUESTS.values():
            content = joined(case["send"])
            if line and content.startswith(b"POST "):
                content = content.replace(b"\r\n", b"\r\n" + line + b"\r\n", 1)
            wrong += [status for status, _ in answers_to(running.port, content)] != case["answers"]
        for case in BODIES.values():
            lines = [running.line] if running.line else []
            wrong += answers_to(running.port, request_of(case, *lines))[0][0] not in case["statuses"]
    return wrong


def work(running: AttackedServer, is_over: Callable[[], bool], *, share: float) -> int:
    """Send honest batches that take this share of a core, and return how many failed."""
    batch, wrong = running.scores(BATCH, REFERENCES), 0
    began, before = time.monotonic(), running.processor_s()
    while not is_over():
        wrong += not is_answered(running, batch)
        ahead_s = (running.processor_s() - before) / share - (time.monotonic() - began)
        time.sleep(min(1.0, max(0.0, ahead_s)))
    return wrong


def ask_beside(
    running: AttackedServer, seconds: float, tally: HonestTally, other: Callable[[Callable[[], bool]], int] | None
) -> int:
    """Ask for scores while another client does something, and return how much went wrong with that client."""
    wrong, over = list[int](), threading.Event()
    beside = threading.Thread(target=lambda: wrong.append(other(over.is_set) if other is not None else 0))
    began, before = time.monotonic(), running.processor_s()
    beside.start()
    request_bytes = running.scores(1)
    while time.monotonic() < began + seconds or (beside.is_alive() and not over.is_set()):
        start = time.monotonic()
        tally.failed += not is_answered(running, request_bytes)
        tally.seconds.append(time.monotonic() - start)
        if time.monotonic() >= began + seconds:
            over.set()
        time.sleep(PAUSE_S)
    tally.processor_share = (running.processor_s() - before) / (time.monotonic() - began)
    beside.join()
    return wrong[0]


def measure(workers: int, seconds: float, rounds: int, *, has_keys: bool) -> dict[str, Any]:
    """Return the figures of one way to run the server."""
    alone, attacked, honest, wrong, failed = HonestTally(), HonestTally(), HonestTally(), 0, 0
    with server(workers, has_keys=has_keys) as running:
        ask_beside(running, 3.0, HonestTally(), None)  # caches
        for _ in range(rounds):
            ask_beside(running, seconds / rounds / 2, alone, None)
            wrong += ask_beside(running, seconds / rounds, attacked, partial(attack, running))
            share = max(0.01, attacked.processor_share)
            failed += ask_beside(running, seconds / rounds, honest, partial(work, running, share=share))
    figures = {"alone": alone, "beside_attacks": attacked, "beside_as_costly_batches": honest}
    p99_of = {name: tally.figures()["p99_ms"] for name, tally in figures.items()}
    return {
        "web_processes": workers,
        "keys": has_keys,
        "load": round(os.getloadavg()[0], 1),
        "attacks_answered_otherwise": wrong,
        "batches_failed": failed,
        "p99_ratio": round(p99_of["beside_attacks"] / p99_of["beside_as_costly_batches"], 2),
        **{name: tally.figures() for name, tally in figures.items()},
    }


def main() -> int:
    """Measure all four ways, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    runs = [
        measure(workers, options.seconds, options.rounds, has_keys=has_keys)
        for workers in (1, 2)
        for has_keys in (False, True)
    ]
    cases = {"requests": len(REQUESTS), "bodies": len(BODIES)}
    figures = {"cases": cases, "seconds": options.seconds, "rounds": options.rounds, "runs": runs}
    path = write_result("service_attacks", figures, ("uvicorn", "uvloop", "pydantic"))
    sys.stdout.write(f"{path}\n{json.dumps(runs, indent=2)}\n")
    return int(any(run["attacks_answered_otherwise"] or run["beside_attacks"]["failed"] for run in runs))


if __name__ == "__main__":
    sys.exit(main())
