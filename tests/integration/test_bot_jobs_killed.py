"""A worker that is killed in the middle of replies or self-play: the next goes on, and asks no bot twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from endpoints import Received, Sent, endpoint, vllm
from integration.conftest import ROOT
from serving import client_of, migrated, small_home
from starlette.testclient import TestClient

from refaug.core.home import Settings
from refaug.service.evaluations.uploads import UploadStore
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings

pytestmark = pytest.mark.slow

SERVE = ServeSettings(bot_hosts="127.0.0.1")
BYTES = {"Content-Type": "application/octet-stream"}
WORKER = """
import sys
from pathlib import Path

if __name__ == "__main__":
    from refaug.core.home import Settings
    from refaug.service.jobs.worker import run_worker
    from refaug.service.server_settings import ServeSettings

    sys.exit(run_worker(Settings(home=Path(sys.argv[1])), ServeSettings(bot_hosts="127.0.0.1"), once=True))
"""
HANGS_AT = 25  # the request in which the worker is killed


class Bot:
    """A bot behind an address: it says a bit more than what was said, and lets one request hang."""

    def __init__(self) -> None:
        self.reached = threading.Event()

    def __call__(self, received: Received) -> Any:
        if received.number == HANGS_AT:
            self.reached.set()
            return Sent(hangs=True)
        return vllm(f"{received.prompt}!")


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    small = migrated(small_home(tmp_path / "small"))
    shutil.copytree(small.home, tmp_path / "home")
    return Settings(home=tmp_path / "home")


@pytest.fixture
def client(home: Settings) -> Iterator[TestClient]:
    with client_of(home, ready=False, bot_hosts="127.0.0.1") as opened:
        yield opened


def killed_and_finished(home: Settings, client: TestClient, order: Mapping[str, Any]) -> tuple[Any, Counter[str], str]:
    """Queue an order, kill its worker in the middle, let the next finish; return the job, and how often was asked what.

    The last of these is the request in which the worker was killed.
    """
    bot = Bot()
    with endpoint(bot) as fake:
        fields = {"kind": "openai", "url": fake.url, "model": "small", "concurrency": 1}
        assert client.put("/v1/bots/far", json={"specification": fields}).status_code == 201
        queued = client.post("/v1/jobs", json=order)
        assert queued.status_code == 202, queued.text
        arguments = [sys.executable, "-c", WORKER, str(home.home)]
        process = subprocess.Popen(arguments, env={**os.environ, "PYTHONPATH": str(ROOT)})
        assert bot.reached.wait(300)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert client.get(queued.headers["location"]).json()["state"] == "running"
        assert run_worker(home, SERVE, once=True) == 0
        asked = [json.dumps(received.body["messages"]) for received in fake.received]
    job = client.get(queued.headers["location"]).json()
    assert (job["state"], job["tries"]) == ("done", 2), job["error"]
    return job, Counter(asked), asked[HANGS_AT]


def test_replies_go_on_after_a_kill_and_ask_for_no_reply_twice(home: Settings, client: TestClient) -> None:
    items = b"".join(orjson.dumps({"id": f"i{n}", "utterance": f"This is number {n}."}) + b"\n" for n in range(40))
    sent = client.post("/v1/uploads?name=items.jsonl", content=items, headers=BYTES).json()
    order = {"kind": "replies", "items": f"upload:{sent['id']}", "bots": {"far": "far"}}
    job, asked, hung = killed_and_finished(home, client, order)
    assert len(asked) == 40
    assert {message: times for message, times in asked.items() if times > 1} == {hung: 2}
    lines = list(map(orjson.loads, UploadStore(home, SERVE).path(job["id"]).read_bytes().splitlines()))
    assert [(line["id"], line["replies"]["far"]) for line in lines] == [
        (f"i{n}", f"This is number {n}.!") for n in range(40)
    ]


def test_self_play_goes_on_after_a_kill_and_asks_for_no_turn_twice(home: Settings, client: TestClient) -> None:
    starts = b"".join(f"This is number {n}.\n".encode() for n in range(12))
    sent = client.post("/v1/uploads?name=starts.txt", content=starts, headers=BYTES).json()
    order = {"kind": "self-play", "bots": ["far"], "name": "alone", "conversations": 12, "turns": 4, "batch": 3}
    job, asked, hung = killed_and_finished(home, client, {**order, "start": f"file:upload:{sent['id']}"})
    assert len(asked) == 48
    assert {message: times for message, times in asked.items() if times > 1} == {hung: 2}
    path = home.home / "self-plays" / "alone" / job["result"]["version"] / "conversations.jsonl"
    for line in map(orjson.loads, path.read_bytes().splitlines()):
        said = line["start"][0]
        assert [turn["text"] for turn in line["turns"]] == [said + "!" * (turn + 1) for turn in range(4)]
    assert job["result"]["resumed_at"] == 6  # two whole batches of three, four turns each
