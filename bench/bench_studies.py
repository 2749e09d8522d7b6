"""What a study costs the server: scripted participants who chat at once, each with a message every few seconds.

    python bench/bench_studies.py [--participants 50] [--every 5] [--seconds 60] [--workers 1] [--name studies]

The server is the whole service as `refaug serve` starts it, over an empty home with SQLite, which waits for the disk at
every commit. Bots replay fixed texts, so that the time from a message to its reply is the server's own, with that of
the client on the same cores. Participants begin within one interval. A message is sent, and its reply waited for with
`GET /v1/take/state?wait=20`, as the page does.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from common import ROOT, free_port, pss_of, tree_of, write_result

BOTS = ("one", "two", "three", "four")
MEMORY_EVERY_S = 2.0
PATIENCE_S = 30.0  # after the end, for what was begun before it
READY_WITHIN_S = 60.0


@dataclass
class StudyTally:
    """What the participants got."""

    seconds: list[float] = field(default_factory=list)  # from a message to its reply
    ended: list[float] = field(default_factory=list)  # when each of these replies was there
    stored: list[float] = field(default_factory=list)  # from a message to its acknowledgement
    answers: Counter[str] = field(default_factory=Counter)
    gone: Counter[str] = field(default_factory=Counter)  # participants who left without an answer
    memory_mib: list[float] = field(default_factory=list)


def prepare(base: str) -> str:
    """Make bots and an open study, and return the token of its invitation."""
    with httpx2.Client(base_url=base, timeout=60) as client:
        for name in BOTS:
            texts = [f"Answer {number} of the voice {name}." for number in range(40)]
            body = {"specification": {"kind": "replay", "replies": texts, "cycle": True}}
            client.put(f"/v1/bots/{name}", json=body).raise_for_status()
        protocol = {
            "kind": "chat",
            "bots": list(BOTS),
            "per_participant": 200,
            "target": 1_000_000,
            "min_turns": 1,
            "max_turns": 10,
            "consent": "What you write is stored.",
            "form": {"name": "f", "questions": [{"id": "quality", "type": "likert", "text": "How good was it?"}]},
        }
        client.post("/v1/studies", json={"name": "bench", "protocol": protocol}).raise_for_status()
        client.post("/v1/studies/bench/open").raise_for_status()
        return str(client.post("/v1/studies/bench/invites", json={}).raise_for_status().json()["invites"][0]["token"])


class BenchPerson:
    """A participant who sends messages at an even pace."""

    def __init__(self, client: httpx2.AsyncClient, tally: StudyTally, until: float) -> None:
        self._client, self._tally, self._until, self._cookie = client, tally, until, ""
        self.state: dict[str, Any] = {}

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return an answer, asked for again with the same id where the server has no room."""
        headers = {"X-Action": secrets.token_urlsafe(18), "Cookie": f"refaug_take={self._cookie}"}
        while time.monotonic() < self._until + PATIENCE_S:
            try:
                answer = await self._client.request(method, f"/v1/take/{path}", json=body, headers=headers)
            except httpx2.TransportError as error:
                self._tally.answers[type(error).__name__] += 1
                await asyncio.sleep(0.5)
                continue
            self._tally.answers[str(answer.status_code)] += 1
            if answer.status_code in (429, 503):
                await asyncio.sleep(0.5)
                continue
            answer.raise_for_status()
            content = answer.json()
            self.state = content.get("state", content) if isinstance(content.get("state", content), dict) else content
            return answer
        raise TimeoutError(f"{method} {path}: no answer but refusals")

    async def take_part(self, token: str, begin: float, every_s: float) -> None:
        """Enter, and chat until the time is over; who gets no answer any more goes away, and is counted."""
        try:
            await self._chat(token, begin, every_s)
        except httpx2.HTTPStatusError as error:
            self._tally.gone[f"{error.request.url.path}: {error.response.text}"] += 1
        except TimeoutError as error:
            self._tally.gone[str(error)] += 1

    async def _chat(self, token: str, begin: float, every_s: float) -> None:
        await asyncio.sleep(max(0.0, begin - time.monotonic()))
        opened = await self.ask("POST", "session", {"token": token})
        self._cookie = opened.headers["set-cookie"].partition("refaug_take=")[2].partition(";")[0]
        await self.ask("POST", "consent", {"sha256": self.state["consent"]["sha256"], "agree": True})
        due = time.monotonic()
        while (due := due + every_s) < self._until:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self._say()

    async def _say(self) -> None:
        if self.state["step"] == "ready":
            await self.ask("POST", "tasks/next", {})
        task = self.state["task"]["id"]
        messages = self.state["task"]["sides"][0]["messages"]
        if len(messages) >= 20:
            await self.ask("POST", f"tasks/{task}/answers", {"answers": {"quality": 4}})
            await self.ask("POST", f"tasks/{task}/finish", {})
            await self.ask("POST", "tasks/next", {})
            task, messages = self.state["task"]["id"], []
        began = time.perf_counter()
        await self.ask("POST", f"tasks/{task}/messages", {"n": len(messages) + 1, "text": "And what do you think?"})
        self._tally.stored.append(time.perf_counter() - began)
        while self.state["task"]["sides"][0]["messages"][-1]["state"] == "asked":
            await self.ask("GET", "state?wait=20")
        self._tally.seconds.append(time.perf_counter() - began)
        self._tally.ended.append(time.monotonic())


async def play(base: str, token: str, server: int, options: argparse.Namespace) -> StudyTally:
    """Let all take part at once."""
    tally, begin = StudyTally(), time.monotonic()
    until = begin + options.seconds
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx2.AsyncClient(base_url=base, timeout=60, limits=limits) as client:

        async def watch() -> None:
            while time.monotonic() < until:
                tally.memory_mib.append(round(sum(map(pss_of, tree_of(server))) / 2**20, 1))
                await asyncio.sleep(MEMORY_EVERY_S)

        people = [
            BenchPerson(client, tally, until).take_part(
                token, begin + options.every * number / options.participants, options.every
            )
            for number in range(options.participants)
        ]
        await asyncio.gather(watch(), *people)
    return tally


def quantile(values: list[float], share: float) -> float:
    """Return a quantile in milliseconds."""
    return round(1_000 * sorted(values)[min(len(values) - 1, int(share * len(values)))], 1)


def tenths(tally: StudyTally, seconds: float) -> list[dict[str, float]]:
    """Return the times of replies in each tenth of the run: where all change their task at once, they take longest."""
    began, parts = min(tally.ended), list[dict[str, float]]()
    for tenth in range(10):
        low, high = tenth * seconds / 10, (tenth + 1) * seconds / 10
        times = [took for took, at in zip(tally.seconds, tally.ended, strict=True) if low <= at - began < high]
        if times:
            parts.append({"from_s": low, "p50": quantile(times, 0.5), "p95": quantile(times, 0.95)})
    return parts


def lost_messages(home: Path, tally: StudyTally) -> int:
    """Return how many acknowledged messages are not in the database."""
    with closing(sqlite3.connect(f"file:{home}/refaug.db?mode=ro", uri=True)) as database:
        (stored,) = database.execute("SELECT count(*) FROM study_messages WHERE role = 'participant'").fetchone()
    return len(tally.stored) - int(stored)


def main() -> None:
    """Measure, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--participants", type=int, default=50)
    parser.add_argument("--every", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--name", default="studies")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home, port = Path(folder) / "home", free_port()
        base = f"http://127.0.0.1:{port}"
        command = [
            str(Path(sys.executable).with_name("refaug")), "--home", str(home), "serve", "--port", str(port),
            "--no-job-worker", "--workers", str(options.workers), "--newcomers", str(max(120, options.participants)),
        ]  # fmt: skip
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                wait_until_ready(base, server)
                token = prepare(base)
                tally = asyncio.run(play(base, token, server.pid, options))
                lost = lost_messages(home, tally)
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait(60)
    figures = {
        "participants": options.participants,
        "every_s": options.every,
        "seconds": options.seconds,
        "workers": options.workers,
        "load": round(os.getloadavg()[0], 1),
        "messages": len(tally.seconds),
        "lost": lost,
        "reply_ms": {
            "p50": quantile(tally.seconds, 0.5),
            "p95": quantile(tally.seconds, 0.95),
            "max": quantile(tally.seconds, 1.0),
        },
        "tenths_ms": tenths(tally, options.seconds),
        "stored_ms": {"p50": quantile(tally.stored, 0.5), "p95": quantile(tally.stored, 0.95)},
        "expected": round(options.participants * (options.seconds / options.every - 1)),
        "gone": sum(tally.gone.values()),
        "answers": dict(sorted(tally.answers.items())),
        "memory_mib": {
            "first": tally.memory_mib[0],
            "half": tally.memory_mib[len(tally.memory_mib) // 2],
            "last": tally.memory_mib[-1],
        },
    }
    print(write_result(options.name, figures, ["sqlalchemy", "uvicorn"]))
    print(figures)
    for why, count in tally.gone.items():
        print(count, why)


def wait_until_ready(base: str, server: subprocess.Popen[bytes]) -> None:
    """Return when the server answers; SystemExit where it has ended, or has not begun after a minute."""
    until = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < until and server.poll() is None:
        try:
            if httpx2.get(f"{base}/healthz", timeout=5).status_code == 200:
                return
        except httpx2.TransportError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"the server did not begin (exit code {server.poll()})")


if __name__ == "__main__":
    main()
