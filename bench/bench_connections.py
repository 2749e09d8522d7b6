"""What slow clients cost the server: connections that drip one byte a second, beside clients that ask as usual.

    python bench/bench_connections.py [--connections 2000] [--seconds 40]

The server is the whole service as `refaug serve` starts it, over an empty home. A third of the connections drip the
head of a request, a third its body, and a third line ends. What is closed is opened again a second later. The honest
client asks `/v1/metrics` over a new connection each time, twenty times a second, and comes again after a 503, as
clients do.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from common import ROOT, free_port, pss_of, tree_of, write_result

HONEST: bytes = b"GET /v1/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
DRIPS: tuple[tuple[bytes, bytes], ...] = (
    (b"GET /v1/metrics HTTP/1.1\r\nName: ", b"a"),
    (
        b"POST /v1/scores HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n",
        b" ",
    ),
    (b"", b"\n"),
)


@dataclass
class HonestTally:
    """What the honest client got."""

    seconds: list[float] = field(default_factory=list)  # from the first try to the answer
    tries: Counter[str] = field(default_factory=Counter)


async def drip(port: int, number: int, until: float) -> None:
    """Send a byte a second until the time is over."""
    first, byte = DRIPS[number % len(DRIPS)]
    while time.monotonic() < until:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(first or b"\r")
            while time.monotonic() < until and not reader.at_eof():
                await asyncio.sleep(1.0)
                writer.write(byte if byte != b"\n" else b"\r\n"[:1])
                await writer.drain()
            writer.close()
        except OSError:
            pass
        await asyncio.sleep(1.0)


async def ask_once(port: int) -> str:
    """Ask, and return the status of the answer."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HONEST)
        answer = await reader.read()
        writer.close()
    except OSError:
        return "dropped"
    return answer.split(b" ", 2)[1].decode() if answer else "dropped"


async def ask_on(port: int, until: float, tally: HonestTally) -> None:
    """Ask again and again, each time until there is an answer."""
    while time.monotonic() < until:
        began = time.monotonic()
        while (status := await ask_once(port)) != "200" and time.monotonic() < until + 10:
            tally.tries[status] += 1
            await asyncio.sleep(0.05)
        tally.tries[status] += 1
        tally.seconds.append(time.monotonic() - began)
        await asyncio.sleep(0.05)


async def attack(port: int, connections: int, seconds: float) -> HonestTally:
    """Drip and ask at the same time."""
    until, tally = time.monotonic() + seconds, HonestTally()
    await asyncio.gather(ask_on(port, until, tally), *(drip(port, number, until) for number in range(connections)))
    return tally


def figures_of(tally: HonestTally) -> dict[str, object]:
    """Return the figures of the honest client."""
    ordered = sorted(tally.seconds)
    return {
        "requests": len(ordered),
        "tries_by_status": dict(tally.tries),
        "p50_ms": round(1_000 * ordered[len(ordered) // 2], 1),
        "p99_ms": round(1_000 * ordered[int(0.99 * (len(ordered) - 1))], 1),
    }


def main() -> int:
    """Measure, and write bench/results/service_slow_clients.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=40.0)
    options = parser.parse_args()
    port = free_port()
    with tempfile.TemporaryDirectory() as home:
        command = [
            str(Path(sys.executable).with_name("refaug")),
            "--home",
            home,
            "serve",
            "--port",
            str(port),
            "--no-job-worker",
        ]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                while asyncio.run(ask_once(port)) != "200":
                    time.sleep(0.2)
                alone = asyncio.run(attack(port, 0, 5.0))
                before = sum(map(pss_of, tree_of(server.pid)))
                peak, beside = watch(server.pid, port, options.connections, options.seconds)
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait(60)
    figures = {
        "connections": options.connections,
        "seconds": options.seconds,
        "load": round(os.getloadavg()[0], 1),
        "memory_before_mib": before >> 20,
        "memory_peak_mib": peak >> 20,
        "memory_added_mib": (peak - before) >> 20,
        "honest_alone": figures_of(alone),
        "honest_beside_slow_clients": figures_of(beside),
    }
    path = write_result("service_slow_clients", figures, ("uvicorn", "uvloop", "httptools"))
    sys.stdout.write(f"{path}\n{figures}\n")
    return 0


def watch(server: int, port: int, connections: int, seconds: float) -> tuple[int, HonestTally]:
    """Return the largest memory of the server during the attack, and what the honest client got."""

    async def sample() -> tuple[int, HonestTally]:
        running = asyncio.create_task(attack(port, connections, seconds))
        peak = 0
        while not running.done():
            peak = max(peak, sum(map(pss_of, tree_of(server))))
            await asyncio.sleep(0.5)
        return peak, await running

    return asyncio.run(sample())


if __name__ == "__main__":
    os.environ.setdefault("REFAUG_ALLOWED_HOSTS", "*")
    sys.exit(main())
