"""Load for a server on this machine, in a process of its own: many connections, each with one request at a time.

A plan comes as JSON on stdin, what happened goes as JSON to stdout. Requests are made beforehand, and answers are read
with as little work as may be, since generator and server share the cores. It ends by itself, by time or by count, and
talks to 127.0.0.1 alone.
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
    """What is sent: the requests in turn, over so many connections."""

    port: int
    path: str
    bodies: list[str]
    connections: int = 32
    seconds: float = 10.0
    requests: int | None = None  # at most so many
    rate: float | None = None  # requests a second to begin, whether others have ended or not
    keep: bool = False  # the answers, for whoever wants to check them
    keep_values: bool = False  # of them what has to be checked of scores: the versions and the values


@dataclass
class Sent:
    """One request: when it began, how long it took, what came, and which of the bodies it was."""

    began: float
    seconds: float
    status: int
    body: int
    answer: Any = None
    retry_after: str | None = None


@dataclass
class Tally:
    """All of them."""

    sent: list[Sent] = field(default_factory=list)
    broken: int = 0  # connections that ended without an answer


def head_of(plan: Plan, body: bytes) -> bytes:
    """A request's first lines."""
    return (
        f"POST {plan.path} HTTP/1.1\r\nHost: 127.0.0.1:{plan.port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bool, str | None]:
    """Status, body, whether the connection stays, and when to come again."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    status, length, stays, retry_after = int(lines[0].split()[1]), 0, True, None
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        lowered = name.lower()
        if lowered == b"content-length":
            length = int(value)
        elif lowered == b"connection" and value.strip().lower() == b"close":
            stays = False
        elif lowered == b"retry-after":
            retry_after = value.strip().decode()
    return status, await reader.readexactly(length), stays, retry_after


def kept_of(answer: Any) -> Any:
    """Versions and values of the first metric and system: whole answers of ten minutes would fill the memory."""
    first = next(iter(answer["scores"][0]["systems"].values()))
    return {"versions": answer["versions"], "values": [reply["score"] for reply in first["replies"]]}


async def one_connection(plan: Plan, ready: list[bytes], tally: Tally, turn: list[int], until: float) -> None:
    """Send until the time is over."""
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
            answer = kept_of(answer)
        tally.sent.append(Sent(began, seconds, status, number, answer, retry_after))
        if not stays:
            writer.close()
            writer = None
        if pause > seconds:
            await asyncio.sleep(pause - seconds)
    if writer is not None:
        writer.close()


async def run(plan: Plan) -> Tally:
    """All connections at once."""
    bodies = [body.encode() for body in plan.bodies]
    ready = [head_of(plan, body) + body for body in bodies]
    tally, turn = Tally(), [0]
    until = time.time() + min(plan.seconds, MOST_SECONDS)
    connections = min(plan.connections, MOST_CONNECTIONS)
    await asyncio.gather(*(one_connection(plan, ready, tally, turn, until) for _ in range(connections)))
    return tally


def main() -> None:
    """Plan in, tally out."""
    plan = Plan(**orjson.loads(sys.stdin.buffer.read()))
    tally = asyncio.run(run(plan))
    sys.stdout.buffer.write(orjson.dumps({"sent": tally.sent, "broken": tally.broken}))


if __name__ == "__main__":
    main()
