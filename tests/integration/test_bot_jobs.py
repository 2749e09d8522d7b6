"""Jobs in which bots reply to a file or play: what commands do, stopped and gone on with, asked by whom may."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from endpoints import Received, Sent, endpoint, vllm
from engines import TEXTS
from refusals import refusing
from safeguards import needs_extra
from serving import client_of, migrated, small_home
from starlette.testclient import TestClient

from refaug.core.errors import BadInput, Conflict, Interrupted, NotFound
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.service.bots.bot_store import BotStore
from refaug.service.database.database import Database
from refaug.service.database.row_ids import new_row_id
from refaug.service.evaluations.uploads import UploadStore
from refaug.service.jobs import kinds
from refaug.service.jobs.worker import run_worker
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope
from refaug.service.server_settings import ServeSettings

BYTES = {"Content-Type": "application/octet-stream"}
SERVE = ServeSettings(bot_hosts="127.0.0.1")
ITEMS = b"".join(
    orjson.dumps(
        {"id": f"i{place}", "utterance": f"{TEXTS[place]} {place}", "references": [f"{TEXTS[place]} {place}".upper()]}
    )
    + b"\n"
    for place in range(60)
)
C_BM25 = "retrieval:chat,mode=bm25-utterance"


class Stopping(Silent):
    """Progress that presses Ctrl-C when so much was done."""

    def __init__(self, after: int | None = None, *, on_tick: bool = False) -> None:
        self.done, self.warnings = 0, list[str]()
        self._after, self._on_tick = after, on_tick

    def advance(self, amount: int) -> None:
        self.done += amount
        if (self._on_tick and not amount) or (self._after is not None and amount and self.done >= self._after):
            raise KeyboardInterrupt

    def warn(self, message: str) -> None:
        self.warnings.append(message)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return migrated(small_home(tmp_path_factory.mktemp("small")))


@pytest.fixture
def home(template: Settings, tmp_path: Path) -> Settings:
    shutil.copytree(template.home, tmp_path / "home")
    return Settings(home=tmp_path / "home")


@pytest.fixture
def client(home: Settings) -> Iterator[TestClient]:
    with client_of(home, ready=False, bot_hosts="127.0.0.1") as opened:
        yield opened


def shouting(received: Received) -> Any:
    return vllm(received.prompt.upper())


def put(home: Settings, name: str, fields: Mapping[str, Any]) -> None:
    database = Database.open(home)
    BotStore(database, home).put(name, fields)
    database.close()


def source(home: Settings, content: bytes = ITEMS, name: str = "items.jsonl") -> str:
    path = home.home / "inbox" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return name


def run(home: Settings, progress: Any, job: str, **order: Any) -> Mapping[str, Any]:
    return kinds.run(order, home, SERVE, progress, job=job)


def content_of(home: Settings, job: str) -> list[Mapping[str, Any]]:
    return list(map(orjson.loads, UploadStore(home, SERVE).path(job).read_bytes().splitlines()))


# ── replies to a file ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_replies_of_a_job_are_those_of_the_command_and_are_scored(
    home: Settings, client: TestClient, home_at: Any
) -> None:
    sent = client.post("/v1/uploads?name=my%20items.jsonl", content=ITEMS, headers=BYTES).json()
    with endpoint(shouting) as fake:
        specification = {"kind": "openai", "url": fake.url, "model": "small", "price": {"input": 1.0, "output": 10.0}}
        assert client.put("/v1/bots/loud", json={"specification": specification}).status_code == 201
        order = {"kind": "replies", "items": f"upload:{sent['id']}", "bots": {"loud": "loud", "c-bm25": C_BM25}}
        queued = client.post("/v1/jobs", json=order)
        assert queued.status_code == 202, queued.text
        assert run_worker(home, SERVE, once=True) == 0
        job = client.get(queued.headers["location"]).json()
        assert job["state"] == "done", job["error"]
        assert len(fake.received) == 60
        arguments = ("--bot", "loud=bot:loud", "--bot", f"c-bm25={C_BM25}")
        (home.home / "own.jsonl").write_bytes(ITEMS)
        printed = home_at(home.home)("bots", "reply", home.home / "own.jsonl", *arguments, "--threads", "1")
        assert printed.code == 0, printed.err
        assert len(fake.received) == 60  # the command finds all answers stored
    result = job["result"]
    assert (result["file"], result["items"], result["bad"]) == ("my items-replies.jsonl", 60, 0)
    assert result["upload"] == f"upload:{job['id']}"
    loud, retrieving = result["bots"]["loud"], result["bots"]["c-bm25"]
    assert (loud["replies"], loud["stored"], loud["problems"]) == (60, 0, {})
    assert (loud["prompt_tokens"], loud["answer_tokens"]) == (60 * 90, 60 * 7)
    assert loud["cost"] == {"money": pytest.approx(60 * (90 + 70) / 1e6), "currency": "USD"}
    assert loud["latency"]["replies"] == 60
    assert 0 < loud["latency"]["median_ms"] <= loud["latency"]["p95_ms"]
    assert loud["specification"].startswith("bot:loud#")
    assert retrieving["specification"].startswith("retrieval:chat@20")
    assert retrieving["cost"] is None
    downloaded = client.get(f"/v1/uploads/{job['id']}/content")
    assert downloaded.headers["content-disposition"] == f'attachment; filename="upload-{job["id"]}"'
    assert downloaded.text == printed.out
    scores = {"kind": "score", "items": result["upload"], "metrics": ["chrf"], "draws": 0}
    evaluated = client.post("/v1/evaluations", json=scores)
    assert run_worker(home, SERVE, once=True) == 0
    summary = client.get(evaluated.headers["location"]).json()["summary"]
    assert summary["systems"] == ["loud", "c-bm25"]
    assert summary["metrics"][0]["systems"][0]["corpus"] == pytest.approx(1.0)
    assert summary["reply_provenance"]["loud"].startswith("kind:openai|bot:loud#")


def test_a_stopped_job_asks_for_nothing_twice(home: Settings) -> None:
    order = {"kind": "replies", "items": source(home), "bots": {"loud": "bot:loud"}, "timing": True}
    first, second = new_row_id(), new_row_id()
    with endpoint(shouting) as fake:
        put(home, "loud", {"kind": "openai", "url": fake.url, "model": "small"})
        with pytest.raises(KeyboardInterrupt):
            run(home, Stopping(after=50), first, **order)
        assert len(fake.received) == 50
        answers = list(home.home.rglob("answers*"))
        assert answers
        for path in answers:
            path.unlink()  # the journal alone knows what was answered
        resumed = run(home, Stopping(), first, **order)
        assert len(fake.received) == 60
        assert len({received.prompt for received in fake.received}) == 60
        assert (resumed["resumed_at"], resumed["bots"]["loud"]["prompt_tokens"]) == (50, 60 * 90)
        run(home, Stopping(), second, **order)
    lines, others = content_of(home, first), content_of(home, second)
    assert [set(line["reply_ms"]) for line in lines] == [{"loud"}] * 60
    assert [{**line, "reply_ms": 0} for line in lines] == [{**line, "reply_ms": 0} for line in others]
    assert run(home, Stopping(), first, **order) == resumed


def test_a_cancelled_job_stops_waiting_for_an_endpoint_that_never_answers(home: Settings) -> None:
    with endpoint(lambda _: Sent(hangs=True)) as fake:
        put(home, "mute", {"kind": "http", "url": fake.url, "timeout_s": 600})
        order = {"kind": "replies", "items": source(home), "bots": {"mute": "mute"}}
        with pytest.raises(Interrupted):
            run(home, Stopping(on_tick=True), new_row_id(), **order)
    assert not (home.home / "uploads").exists()


def test_a_bot_that_was_changed_meanwhile_is_refused(home: Settings) -> None:
    put(home, "fixed", {"kind": "replay", "replies": ["Hello."]})
    order, job = {"kind": "replies", "items": source(home), "bots": {"it": "fixed"}}, new_row_id()
    with pytest.raises(KeyboardInterrupt):
        run(home, Stopping(after=50), job, **order)
    put(home, "fixed", {"kind": "replay", "replies": ["Goodbye."]})
    with refusing(Conflict):
        run(home, Stopping(), job, **order)


def test_items_without_a_reply_are_reported_skipped_or_refused(home: Settings) -> None:
    def without_sevens(received: Received) -> Any:
        return Sent(status=400) if received.prompt.endswith("7") else shouting(received)

    with endpoint(without_sevens) as fake:
        put(home, "shy", {"kind": "openai", "url": fake.url, "model": "small"})
        order = {"kind": "replies", "items": source(home, ITEMS + b"{\n"), "bots": {"shy": "shy"}}
        job, progress = new_row_id(), Stopping()
        reported = run(home, progress, job, **order)
        assert (reported["items"], reported["bad"], reported["skipped"]) == (60, 1, 0)
        assert reported["bots"]["shy"]["problems"] == {"rejected": 6}
        assert sum("replies" not in line for line in content_of(home, job)) == 6
        assert any("shy has no reply to 6 items" in warning for warning in progress.warnings)
        assert any("items.jsonl, line 61" in warning for warning in progress.warnings)
        skipping = new_row_id()
        assert run(home, Stopping(), skipping, **order, without_reply="skip")["skipped"] == 6
        assert len(content_of(home, skipping)) == 54
        with refusing(BadInput):
            run(home, Stopping(), new_row_id(), **order, without_reply="refuse")
    put(home, "fixed", {"kind": "replay", "replies": ["Hello."]})
    for content, place in ((b"{\n", "items.jsonl, line 1"), (b"\n", "items.jsonl")):
        with refusing(BadInput, place):
            run(home, Stopping(), new_row_id(), kind="replies", items=source(home, content), bots={"it": "fixed"})


# ── self-play ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def played(home: Settings, name: str, version: str) -> bytes:
    return (home.home / "self-plays" / name / version / "conversations.jsonl").read_bytes()


@needs_extra("conversations")
def test_self_play_of_a_job_is_that_of_the_command_also_after_a_stop(home: Settings, home_at: Any) -> None:
    order = {"kind": "self-play", "bots": [C_BM25, "retrieval:chat,k=5"], "start": "log:chat", "seed": 3}
    order |= {"conversations": 12, "turns": 4, "batch": 4, "check_log": "chat"}
    job = new_row_id()
    with pytest.raises(KeyboardInterrupt):
        run(home, Stopping(after=16), job, **order, name="stopped")
    result = run(home, Stopping(), job, **order, name="stopped")
    assert (result["conversations"], result["resumed_at"], result["self_play"]) == (24, 16, "stopped")
    assert run(home, Stopping(), job, **order, name="stopped") == result
    text = "--conversations 12 --turns 4 --start log:chat --seed 3 --name whole --check-log chat --threads 1"
    by_command = home_at(home.home)("bots", "play", *order["bots"], *text.split(), "--json").json
    assert played(home, "stopped", result["version"]) == played(home, "whole", by_command["version"])
    checked = home_at(home.home)("bots", "check", "whole", "--log", "chat", "--json").json["bots"]
    assert checked == by_command["checks"]
    without_times = [{key: figure for key, figure in bot.items() if key != "latency"} for bot in result["checks"]]
    assert without_times == [{key: figure for key, figure in bot.items() if key != "latency"} for bot in checked]
    assert [figures["replies"] for figures in result["latency"].values()] == [48, 48]


@needs_extra("conversations")
def test_old_self_plays_are_removed_but_none_that_is_published_or_held(home: Settings, client: TestClient) -> None:
    from refaug.extras.conversations.selfplay.stored import open_self_play, self_play_versions  # noqa: PLC0415

    put(home, "fixed", {"kind": "replay", "replies": ["Hello.", "So?"]})
    order = {"kind": "self-play", "bots": ["fixed"], "name": "alone", "conversations": 2, "turns": 2}
    versions = [run(home, Stopping(), new_row_id(), **order, seed=seed)["version"] for seed in range(4)]
    collect = {"kind": "gc", "artefact": "self-play", "name": "alone", "keep": 0}
    with open_self_play(home, f"alone@{versions[1]}"):
        queued = client.post("/v1/jobs", json=collect)
        assert (queued.status_code, queued.json()["resources"]) == (202, ["self-play/alone"])
        assert run_worker(home, SERVE, once=True) == 0
        job = client.get(queued.headers["location"]).json()
    assert job["state"] == "done", job["error"]
    assert job["result"]["removed"] == [versions[0], versions[2]]
    assert self_play_versions(home).versions("alone") == [versions[1], versions[3]]
    again = run(home, Stopping(), new_row_id(), **collect)
    assert (again["removed"], self_play_versions(home).versions("alone")) == ([versions[1]], [versions[3]])
    for artefact in ("hybrid", "judge-fit"):
        with refusing(NotFound, artefact):
            run(home, Stopping(), new_row_id(), **{**collect, "artefact": artefact, "name": "absent"})


@needs_extra("conversations")
def test_self_play_starts_from_an_upload(home: Settings, client: TestClient) -> None:
    sent = client.post("/v1/uploads?name=starts.txt", content=b"one\ntwo\nthree\n", headers=BYTES).json()
    put(home, "fixed", {"kind": "replay", "replies": ["Hello.", "So?"], "cycle": True})
    order = {"kind": "self-play", "bots": ["fixed"], "name": "alone", "conversations": 3, "turns": 2}
    queued = client.post("/v1/jobs", json={**order, "start": f"file:upload:{sent['id']}"})
    assert (queued.status_code, queued.json()["resources"]) == (202, ["self-play/alone"])
    assert client.post("/v1/jobs", json=order).status_code == 409
    assert run_worker(home, SERVE, once=True) == 0
    job = client.get(queued.headers["location"]).json()
    assert job["state"] == "done", job["error"]
    lines = list(map(orjson.loads, played(home, "alone", job["result"]["version"]).splitlines()))
    assert sorted(line["start"] for line in lines) == [["one"], ["three"], ["two"]]
    acts = client.get("/v1/audit").json()["entries"]
    assert f"self-play alone@{job['result']['version']}" in [entry["subject"] for entry in acts]


@needs_extra("conversations")
def test_what_an_order_names_is_looked_up_before_it_waits_and_only_admin_may_order(home: Settings) -> None:
    put(home, "fixed", {"kind": "replay", "replies": ["Hello."]})
    database = Database.open(home)
    tokens = {scope: KeyStore(database).create(scope.value, [scope])[0] for scope in Scope}
    database.close()
    orders: list[tuple[dict[str, Any], int]] = [
        ({"kind": "replies", "items": source(home), "bots": {"it": "nobody"}}, 404),
        ({"kind": "replies", "items": source(home), "bots": {"it": "retrieval:chat,wings=2"}}, 400),
        ({"kind": "replies", "items": "/etc/passwd", "bots": {"it": "fixed"}}, 403),
        ({"kind": "self-play", "bots": ["fixed", "nobody"], "name": "a"}, 404),
        ({"kind": "self-play", "bots": ["fixed"], "name": "a", "start": "file:/etc/passwd"}, 403),
        ({"kind": "self-play", "bots": ["fixed"], "name": "../a"}, 422),
        ({"kind": "self-play", "bots": ["fixed"], "name": "a"}, 202),
        ({"kind": "replies", "items": source(home), "bots": {"it": "fixed"}}, 202),
    ]
    with client_of(home, ready=False, keys=True) as client:
        for order, status in orders:
            for scope, token in tokens.items():
                answer = client.post("/v1/jobs", json=order, headers={"Authorization": f"Bearer {token}"})
                assert answer.status_code == (status if scope is Scope.ADMIN else 403), (order, answer.text)
