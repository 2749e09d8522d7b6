"""Load for a server on this machine, from a separate process: many connections, each with one request at a time.

A plan comes as JSON on stdin, the tally goes as JSON to stdout. Requests are built beforehand, and answers are read
with as little work as possible, since generator and server share the cores. It ends by itself, by time or by count,
and talks to 127.0.0.1 only.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import orjson

MOST_CONNECTIONS = 512
MOST_SECONDS = 900.0


@dataclass(kw_only=True)
class Plan:
    """What to send: the requests in turn, over so many connections."""

    port: int
    path: str
    bodies: list[str]
    connections: int = 32
    seconds: float = 10.0
    requests: int | None = None  # at most so many
    rate: float | None = None  # requests to begin a second, whether earlier ones have ended or not
    keep: bool = False  # return the answers, to be checked
    keep_values: bool = False  # return only versions and values of the answers


@dataclass
class TimedRequest:
    """One request: when it began, how long it took, its answer, and which of the bodies it was."""

    began: float
    seconds: float
    status: int
    body: int
    answer: Any = None
    retry_after: str | None = None


@dataclass
class Tally:
    """All requests of a load."""

    sent: list[TimedRequest] = field(default_factory=list)
    broken: int = 0  # connections that ended without an answer


def head_of(plan: Plan, body: bytes) -> bytes:
    """Return the first lines of a request."""
    return (
        f"POST {plan.path} HTTP/1.1\r\nHost: 127.0.0.1:{plan.port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bool, str | None]:
    """Return status, body, whether the connection stays open, and Retry-After."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    status, length, stays_open, retry_after = int(lines[0].split()[1]), 0, True, None
    for line in lines[1:]:
        name, _, content = line.partition(b":")
        lowered = name.lower()
        if lowered == b"content-length":
            length = int(content)
        elif lowered == b"connection" and content.strip().lower() == b"close":
            stays_open = False
        elif lowered == b"retry-after":
            retry_after = content.strip().decode()
    return status, await reader.readexactly(length), stays_open, retry_after


def versions_and_values(answer: Any) -> Any:
    """Return versions and values of the first metric and system: whole answers of ten minutes would fill the memory."""
    first = next(iter(answer["scores"][0]["systems"].values()))
    return {"versions": answer["versions"], "values": [reply["score"] for reply in first["replies"]]}


async def send_over_connection(plan: Plan, ready: list[bytes], tally: Tally, turn: list[int], until: float) -> None:
    """Send requests over one connection until the time is over."""
    reader = writer = None
    pause = plan.connections / plan.rate if plan.rate else 0.0
    while time.time() < until and (plan.requests is None or turn[0] < plan.requests):
        number = turn[0] % len(ready)
        turn[0] += 1
        began = time.time()
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", plan.port, limit=1 << 24)
            writer.write(ready[number])
            status, body, stays, retry_after = await _answer(reader)
        except (OSError, asyncio.IncompleteReadError):
            tally.broken += 1
            writer = None
            await asyncio.sleep(0.01)
            continue
        seconds = time.time() - began
        answer = orjson.loads(body) if plan.keep or plan.keep_values else None
        if plan.keep_values and status == 200:
            answer = versions_and_values(answer)
        tally.sent.append(TimedRequest(began, seconds, status, number, answer, retry_after))
        if not stays:
            writer.close()
            writer = None
        if pause > seconds:
            await asyncio.sleep(pause - seconds)
    if writer is not None:
        writer.close()


async def run(plan: Plan) -> Tally:
    """Send over all connections at once, and return the tally."""
    bodies = [body.encode() for body in plan.bodies]
    ready = [head_of(plan, body) + body for body in bodies]
    tally, turn = Tally(), [0]
    until = time.time() + min(plan.seconds, MOST_SECONDS)
    connections = min(plan.connections, MOST_CONNECTIONS)
    await asyncio.gather(*(send_over_connection(plan, ready, tally, turn, until) for _ in range(connections)))
    return tally


def main() -> None:
    """Read the plan from stdin and write the tally to stdout."""
    plan = Plan(**orjson.loads(sys.stdin.buffer.read()))
    tally = asyncio.run(run(plan))
    sys.stdout.buffer.write(orjson.dumps({"sent": tally.sent, "broken": tally.broken}))


if __name__ == "__main__":
    main()
