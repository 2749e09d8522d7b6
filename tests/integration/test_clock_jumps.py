"""The clock of a running server goes a day forward and back again: what counts on time of day, and what must not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from clocks import Clock, jump, served_with_clock
from endpoints import Received, endpoint, vllm
from goldens.golden_home import run_command
from servers import Served
from serving import migrated

from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope

pytestmark = [pytest.mark.machine, pytest.mark.slow, pytest.mark.faults]

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
INGEST = {"kind": "ingest", "log": "chat", "posted": True, "workers": 0}
BYTES = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return migrated(Settings(home=tmp_path / "home")).home


@pytest.fixture
def running(home: Path) -> Iterator[tuple[Served, Clock]]:
    with served_with_clock(home, "--bot-hosts", "127.0.0.1", "--workers", "2", "--job-nice", "0") as both:
        yield both


def put(service: Served, name: str, cron: str, order: dict[str, Any]) -> None:
    answer = service.ask("PUT", f"/v1/schedules/{name}", json={"cron": cron, "order": order})
    assert answer.status_code in (200, 201), answer.text


def fired(service: Served, name: str) -> list[tuple[datetime, str]]:
    """The due times that became jobs, newest first."""
    firings = service.ask("GET", f"/v1/schedules/{name}").json()["firings"]
    return [(datetime.fromisoformat(one["due"]), one["job"]) for one in firings if one["job"]]


def jobs_of(service: Served, schedule: str) -> list[str]:
    """The jobs that a schedule has begun, newest first."""
    jobs = service.ask("GET", "/v1/jobs").json()["jobs"]
    return [job["id"] for job in jobs if job["schedule"] == schedule]


def post(service: Served, name: str) -> None:
    dialogue = {"id": name, "turns": [{"text": f"where is {name}"}, {"text": f"{name} is here"}]}
    assert service.ask("POST", "/v1/logs/chat/dialogues", json={"dialogues": [dialogue]}).status_code == 202


def test_schedules_run_neither_twice_nor_never(running: tuple[Served, Clock]) -> None:
    service, clock = running
    hour = clock.now().replace(minute=0, second=0, microsecond=0)
    put(service, "hourly", "0 * * * *", INGEST)

    def runs(count: int, what: str) -> list[tuple[datetime, str]]:
        service.until(lambda: len(fired(service, "hourly")) >= count, what)
        found = fired(service, "hourly")
        assert len(found) == count
        ended = service.ended(found[0][1])
        assert ended["state"] == "done", ended["error"]
        return found

    post(service, "tea")
    jump(service, clock, hour + DAY + HOUR / 6)
    assert [due for due, _ in runs(1, "the newest of 24 missed times to begin")] == [hour + DAY]

    post(service, "bus")
    jump(service, clock, hour + DAY - HOUR / 2)  # the hour that was has to come again
    put(service, "other", "45 * * * *", {"kind": "gc", "artefact": "index", "name": "none", "keep": 1})
    jump(service, clock, hour + DAY + HOUR / 6)
    service.until(lambda: fired(service, "other"), "another schedule to show that times were looked at")
    assert [due for due, _ in runs(1, "no run for the same time")] == [hour + DAY]

    jump(service, clock, hour + DAY + HOUR + HOUR / 6)
    assert [due for due, _ in runs(2, "the next time to begin")] == [hour + DAY + HOUR, hour + DAY]
    assert service.ask("GET", "/v1/logs/chat").json()["pairs"] == 2
    assert jobs_of(service, "hourly") == [job for _, job in fired(service, "hourly")]

    jump(service, clock, hour + HOUR / 6)  # it is today after all: nothing is due for a day, unless it is put again
    put(service, "hourly", "0 * * * *", INGEST)
    post(service, "dog")
    jump(service, clock, hour + HOUR + HOUR / 6)
    service.until(lambda: len(jobs_of(service, "hourly")) == 3, "a time before those that began")
    assert service.ended(jobs_of(service, "hourly")[0])["state"] == "done"
    assert service.ask("GET", "/v1/logs/chat").json()["pairs"] == 3


def test_a_job_that_runs_keeps_its_worker_and_is_listed_in_the_order_in_which_it_came(
    running: tuple[Served, Clock], tmp_path: Path
) -> None:
    service, clock = running
    begun, going_on = threading.Event(), threading.Event()

    def held(received: Received) -> Any:
        begun.set()
        going_on.wait(600)
        return vllm(received.prompt.upper())

    now, waits = clock.now(), {"kind": "gc", "artefact": "index", "keep": 1}
    with endpoint(held) as fake:
        try:
            specification = {"kind": "openai", "url": fake.url, "model": "small"}
            assert service.ask("PUT", "/v1/bots/slow", json={"specification": specification}).status_code == 201
            items = orjson.dumps({"id": "one", "utterance": "where is my tea", "references": ["here"]})
            sent = service.ask("POST", "/v1/uploads?name=items.jsonl", content=items, headers=BYTES).json()
            order = {"kind": "replies", "items": f"upload:{sent['id']}", "bots": {"slow": "slow"}}
            jobs = [service.ask("POST", "/v1/jobs", json=order).json()["id"]]
            service.until(begun.is_set, "the job to ask its bot")
            for n, moment in enumerate((now + DAY, now - HOUR, now + DAY, now)):
                jump(service, clock, moment)
                answer = service.ask("POST", "/v1/jobs", json={**waits, "name": f"none{n}"})
                jobs.append(answer.json()["id"])
                assert abs(datetime.fromisoformat(answer.json()["created"]) - moment) < timedelta(seconds=60)
                job = service.ask("GET", f"/v1/jobs/{jobs[0]}").json()
                assert (job["state"], job["tries"]) == ("running", 1)
                assert listed(service) == jobs[::-1]
            jobs.append(start_by_command(service.home, tmp_path / "order.json", waits))
            assert listed(service) == jobs[::-1]
        finally:
            going_on.set()
        ended = [service.ended(job) for job in jobs]
    assert (ended[0]["state"], ended[0]["tries"]) == ("done", 1)
    assert len(fake.received) == 1
    states = [event["data"]["state"] for event in events_of(service, jobs[0]) if event["type"] == "state"]
    assert states == ["queued", "running", "done"]


def listed(service: Served) -> list[str]:
    """All jobs, newest first."""
    return [job["id"] for job in service.ask("GET", "/v1/jobs").json()["jobs"]]


def start_by_command(home: Path, file: Path, order: dict[str, Any]) -> str:
    """A job that another process has queued, whose clock was never ahead."""
    facts = {name: fact for name, fact in order.items() if name != "kind"}
    file.write_bytes(orjson.dumps({**facts, "name": "another"}))
    arguments = ["admin", "jobs", "start", order["kind"], "--json-order", str(file), "--json"]
    return str(orjson.loads(run_command(["--home", str(home), *arguments]).out)["id"])


def events_of(service: Served, job: str) -> list[dict[str, Any]]:
    """The events of a job that has ended, as they are sent."""
    text = service.ask("GET", f"/v1/jobs/{job}/events").text
    lines = [dict(line.partition(": ")[::2] for line in block.splitlines()) for block in text.split("\n\n") if block]
    return [{"type": one["event"], "data": orjson.loads(one["data"])} for one in lines if "event" in one]


def test_keys_are_valid_by_the_clock_and_limited_by_time_that_passes(home: Path) -> None:
    with closing(Database.open(Settings(home=home))) as database:
        keys = KeyStore(database)
        now = datetime.now().astimezone()
        tokens = {
            "week": keys.create("week", [Scope.READ], expires=now + 7 * DAY)[0],
            "hours": keys.create("hours", [Scope.READ], expires=now + 12 * HOUR)[0],
            "rare": keys.create("rare", [Scope.READ], rate_per_s=0.0001)[0],
            "daily": keys.create("daily", [Scope.READ], quota_per_day=2)[0],
        }
    with served_with_clock(home, "--keys") as (service, clock):

        def status(name: str) -> int:
            headers = {"Authorization": f"Bearer {tokens[name]}"}
            return int(service.client.get("/v1/metrics", headers=headers).status_code)

        begin = clock.now()
        assert [status(name) for name in tokens] == [200] * 4
        assert [status("rare"), status("daily"), status("daily")] == [429, 200, 429]
        jump(service, clock, begin + DAY)
        assert [status(name) for name in tokens] == [200, 401, 429, 200]
        assert [status("daily"), status("daily")] == [200, 429]
        jump(service, clock, begin + DAY - HOUR)
        assert [status(name) for name in tokens] == [200, 401, 429, 429]
        jump(service, clock, begin - HOUR)
        assert [status(name) for name in tokens] == [200, 200, 429, 429]


def test_a_request_ends_by_its_deadline_and_not_by_the_clock(running: tuple[Served, Clock]) -> None:
    service, clock = running
    begin = clock.now()
    item = {"id": "d1", "utterance": "where is my tea", "references": ["it is here"], "replies": {"a": "it is here"}}
    answered = list[int]()
    stop = threading.Event()

    def score() -> None:
        with httpx2.Client(base_url=service.client.base_url, timeout=60) as client:
            while not stop.is_set():
                answer = client.post("/v1/scores", json={"items": [item], "metrics": ["bleu", "chrf"]})
                answered.append(answer.status_code)

    thread = threading.Thread(target=score)
    thread.start()
    try:
        for moment in (begin + DAY, begin - HOUR, begin + DAY, begin):
            count = len(answered)
            jump(service, clock, moment)
            service.until(lambda count=count: len(answered) > count + 20, "answers at this time")
    finally:
        stop.set()
        thread.join()
    assert set(answered) == {200}
