"""Jobs over HTTP: asked for once, listed in pages, followed without gaps, and stopped."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from serving import client_of, small_home
from sse_starlette.sse import AppStatus
from starlette.testclient import TestClient

from refaug.core.artefacts.versions import Change
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.service.database.database import Database
from refaug.service.jobs.audited_jobs import JobActs
from refaug.service.jobs.store import JobState, JobStore, NewEvent
from refaug.service.jobs.worker import run_worker
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope
from refaug.service.server_settings import ServeSettings
from refaug.service.web.connection import event_stream
from refaug.service.web.routes import jobs as routes

UPDATE = {"kind": "index-update", "index": "chat"}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return small_home(tmp_path_factory.mktemp("jobs"), raters=0)


@pytest.fixture
def home(template: Settings, tmp_path: Path) -> Settings:
    shutil.copytree(template.home, tmp_path / "home")
    return Settings(home=tmp_path / "home")


@pytest.fixture
def client(home: Settings) -> Iterator[TestClient]:
    with client_of(home, ready=False) as found:
        yield found


def started(client: TestClient, **order: Any) -> str:
    answer = client.post("/v1/jobs", json=order)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def gc_of(name: str) -> dict[str, Any]:
    return {"kind": "gc", "artefact": "vectors", "name": name}


# ── asking ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_is_asked_for_run_and_looked_at(home: Settings, client: TestClient) -> None:
    asked = client.post("/v1/jobs", json=UPDATE)
    assert asked.status_code == 202
    job = asked.json()
    assert asked.headers["location"] == f"/v1/jobs/{job['id']}"
    assert (job["kind"], job["state"], job["resources"], job["tries"]) == ("index-update", "queued", ["index/chat"], 0)
    assert (job["order"]["index"], job["order"]["publish"], job["order"]["check_queries"]) == ("chat", True, 200)
    assert (job["requested_by"], job["schedule"], job["cancel_requested"]) == ("anonymous", None, False)
    assert "worker" not in job

    assert run_worker(home, ServeSettings(), once=True) == 0

    ended = client.get(asked.headers["location"]).json()
    assert (ended["state"], ended["tries"], ended["error"]) == ("done", 1, None)
    assert ended["result"]["index"] == "chat"
    assert ended["created"] <= ended["started"] <= ended["finished"]


def test_idempotency_key_gives_the_same_job_or_a_conflict(client: TestClient) -> None:
    key = {"Idempotency-Key": "monday"}
    first = client.post("/v1/jobs", json=UPDATE, headers=key)
    again = client.post("/v1/jobs", json=UPDATE, headers=key)
    for answer in (first, again):
        assert answer.status_code == 202
        assert answer.headers["location"] == f"/v1/jobs/{first.json()['id']}"
    same = {name: value for name, value in first.json().items() if name != "request_id"}
    assert {name: value for name, value in again.json().items() if name != "request_id"} == same
    assert first.json()["request_id"] != again.json()["request_id"]
    assert ("idempotent-replayed" in first.headers, again.headers["idempotent-replayed"]) == (False, "true")
    reused = client.post("/v1/jobs", json={**UPDATE, "publish": False}, headers=key)
    assert (reused.status_code, reused.json()["code"]) == (409, "idempotency_key_reused")
    assert len(client.get("/v1/jobs").json()["jobs"]) == 1


def test_sources_outside_the_inbox_are_refused_before_anything_is_queued(
    home: Settings, client: TestClient, tmp_path: Path
) -> None:
    (home.home / "inbox").mkdir()
    (home.home / "inbox" / "talk.jsonl").write_text('{"id": "t1", "turns": ["hello you", "hello me"]}\n')
    (tmp_path / "other.jsonl").write_text("{}\n")
    (home.home / "inbox" / "link.jsonl").symlink_to(tmp_path / "other.jsonl")
    for source in ("../refaug.db", str(tmp_path / "other.jsonl"), "link.jsonl", "/etc/passwd", ".posted"):
        answer = client.post("/v1/jobs", json={"kind": "ingest", "log": "talk", "sources": [source]})
        assert answer.status_code in (403, 422), source
        assert answer.json()["code"] in ("not_allowed", "no_source"), source
        assert str(home.home) not in answer.text
    assert client.get("/v1/jobs").json()["jobs"] == []
    assert client.post("/v1/jobs", json={"kind": "meta", "data": ["/etc/passwd"]}).status_code == 403
    model = f"sentencepiece:{tmp_path / 'other.jsonl'}"
    for order in (
        {"kind": "meta", "data": ["talk.jsonl"], "metrics": [f"bleu:tok={model}"]},
        {"kind": "meta", "data": ["talk.jsonl"], "metrics": ["bleu"], "baseline": f"ruber:referenced=bleu;tok={model}"},
        {"kind": "nightly", "log": "talk", "index": "talk", "metrics": [f"upsilon-bleu:tok={model}"]},
        {"kind": "vectors", "logs": ["talk"], "tokenizer": model},
        {"kind": "index-build", "logs": ["talk"], "tokenizer": model},
    ):
        assert client.post("/v1/jobs", json=order).json()["code"] == "not_allowed", order
        timed = {"cron": "0 0 * * *", "order": order}
        assert client.put("/v1/schedules/night", json=timed).json()["code"] == "not_allowed", order
    assert client.get("/v1/jobs").json()["jobs"] == []
    assert client.post("/v1/jobs", json={"kind": "ingest", "log": "talk", "sources": ["nope"]}).status_code == 422
    job = started(client, kind="ingest", log="talk", sources=["talk.jsonl"])
    assert run_worker(home, ServeSettings(), once=True) == 0
    assert client.get(f"/v1/jobs/{job}").json()["result"]["pairs_added"] == 1


_ORDERS_ON_CLUSTERS: Final[dict[str, dict[str, Any]]] = {
    "index-build": {"logs": ["chat"], "shards": 2},
    "ingest": {"log": "chat", "sources": ["talk.jsonl"]},
    "vectors": {"logs": ["chat"]},
    "rater-train": {"logs": ["chat"], "workers": 2},
    "freeze": {"items": "talk.jsonl", "purpose": "test", "index": "chat", "settings": {"weights": "one"}},
    "score": {"items": "talk.jsonl", "index": "chat"},
    "meta": {"data": ["talk.jsonl"], "index": "chat"},
}


@pytest.mark.parametrize(
    ("kind", "address"),
    [
        *(("index-build", address) for address in ("local", "head:6380", " head:6379")),
        *((kind, "a:1") for kind in _ORDERS_ON_CLUSTERS),
    ],
)
def test_only_clusters_that_the_settings_name_are_worked_on(home: Settings, kind: str, address: str) -> None:
    order = {"kind": kind, **_ORDERS_ON_CLUSTERS[kind], "on": address}
    (home.home / "inbox").mkdir(exist_ok=True)
    (home.home / "inbox" / "talk.jsonl").write_text("{}")
    for clusters in ("", "head:6379, other:6379"):
        with client_of(home, ready=False, clusters=clusters) as client:
            answer = client.post("/v1/jobs", json=order)
            assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
            timed = {"cron": "0 0 * * *", "order": order}
            assert client.put("/v1/schedules/night", json=timed).json()["code"] == "not_allowed"
            assert client.get("/v1/jobs").json()["jobs"] == []


def test_an_ingest_on_a_cluster_has_no_workers_here_and_takes_nothing_posted(home: Settings) -> None:
    with client_of(home, ready=False, clusters="head:6379") as client:
        order = {"kind": "ingest", "log": "chat", "on": "head:6379"}
        for wrong in ({"posted": True}, {"sources": ["talk.jsonl"], "workers": 2}):
            answer = client.post("/v1/jobs", json={**order, **wrong})
            assert (answer.status_code, answer.json()["code"]) == (422, "bad_input")
            assert "on goes with sources alone" in answer.text


def test_a_build_on_a_cluster_is_queued_as_it_was_asked_for(home: Settings) -> None:
    with client_of(home, ready=False, clusters="other:6379,head:6379") as client:
        order = {"kind": "index-build", "logs": ["chat"], "on": "head:6379"}
        answer = client.post("/v1/jobs", json=order)
        assert (answer.status_code, answer.json()["code"]) == (422, "bad_input")
        assert answer.json()["errors"][0]["field"] == "index-build.shards"
        queued = client.post("/v1/jobs", json={**order, "shards": 4}).json()
        assert (queued["order"]["on"], queued["order"]["shards"]) == ("head:6379", 4)


def test_a_source_whose_name_is_no_utf8_is_refused_by_it(home: Settings, client: TestClient) -> None:
    folder = home.home / "inbox" / "talk"
    folder.mkdir(parents=True)
    (folder / os.fsdecode(b"bad\xff.jsonl")).symlink_to("/etc/passwd")
    answer = client.post("/v1/jobs", json={"kind": "ingest", "log": "talk", "sources": ["talk"]})
    assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
    assert all(fact in answer.json()["detail"] for fact in ("talk/bad", "udcff.jsonl"))


# ── looking and stopping ──────────────────────────────────────────────────────────────────────────────────────────


def test_jobs_are_listed_by_what_they_write(client: TestClient) -> None:
    update, other, night = (
        started(client, **UPDATE),
        started(client, **gc_of("chat")),
        started(client, kind="nightly", log="chat", index="chat"),
    )

    def ids(resource: str, **more: Any) -> list[str]:
        answer = client.get("/v1/jobs", params={"resource": resource, **more}).json()
        return [job["id"] for job in answer["jobs"]]

    assert ids("index/chat") == [night, update]
    assert ids("index/chat", kind="nightly") == ids("log/chat") == [night]
    assert ids("vectors/chat") == [other]
    assert ids("index/cha") == ids("' OR 1=1 --") == []
    assert client.get("/v1/jobs", params={"resource": "\0"}).status_code == 422  # PostgreSQL takes no such text
    assert ids("index/chat", limit=1) == [night]
    assert ids("index/chat", after=night) == [update]


def test_pages_of_jobs_hold_each_once_newest_first(client: TestClient) -> None:
    ids = [started(client, **gc_of(f"v{number}")) for number in range(7)]
    client.delete(f"/v1/jobs/{ids[2]}")
    for limit in (1, 3, 7, 8):
        walked, after = list[str](), None
        while True:
            page = client.get("/v1/jobs", params={"limit": limit, **({"after": after} if after else {})}).json()
            walked += [job["id"] for job in page["jobs"]]
            if (after := page["next"]) is None:
                break
        assert walked == ids[::-1], limit
    cancelled = client.get("/v1/jobs", params={"state": "cancelled"}).json()
    assert [job["id"] for job in cancelled["jobs"]] == [ids[2]]
    assert client.get("/v1/jobs", params={"kind": "meta"}).json() | {"request_id": ""} == {
        "jobs": [],
        "next": None,
        "request_id": "",
    }
    for wrong in ({"state": "lost"}, {"kind": "No!"}, {"limit": 201}):
        assert client.get("/v1/jobs", params=wrong).status_code == 422, wrong
    assert client.get("/v1/jobs", params={"after": "x"}).json()["code"] == "usage"


def test_waiting_job_is_cancelled_at_once_and_ended_job_stays_ended(home: Settings, client: TestClient) -> None:
    waits = started(client, **gc_of("a"))
    answer = client.delete(f"/v1/jobs/{waits}")
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
    assert client.delete(f"/v1/jobs/{waits}").status_code == 200
    done = started(client, **UPDATE)
    run_worker(home, ServeSettings(), once=True)
    ended = client.delete(f"/v1/jobs/{done}")
    assert (ended.status_code, ended.json()["state"], ended.json()["cancel_requested"]) == (200, "done", False)
    unknown = "0" * 26
    assert client.delete(f"/v1/jobs/{unknown}").status_code == client.get(f"/v1/jobs/{unknown}").status_code == 404


def test_a_job_that_runs_is_asked_to_stop(client: TestClient) -> None:
    job = started(client, **UPDATE)
    store: JobStore = client.app.state.refaug.jobs
    assert store.claim("somebody") is not None
    answer = client.delete(f"/v1/jobs/{job}")
    assert (answer.status_code, answer.json()["state"], answer.json()["cancel_requested"]) == (202, "running", True)
    assert store.heartbeat(job, "somebody") is True


def test_a_failed_job_is_tried_again_under_its_id(home: Settings, client: TestClient) -> None:
    (home.home / "inbox").mkdir()
    talk = home.home / "inbox" / "talk.jsonl"
    talk.write_text("no dialogue\n")
    job = started(client, kind="ingest", log="talk", sources=["talk.jsonl"])
    run_worker(home, ServeSettings(), once=True)
    assert client.get(f"/v1/jobs/{job}").json()["state"] == "failed"
    talk.write_text('{"id": "t1", "turns": ["hello you", "hello me"]}\n')

    answer = client.post(f"/v1/jobs/{job}/retry")

    assert (answer.status_code, answer.json()["id"], answer.json()["state"]) == (202, job, "queued")
    assert [answer.json()[name] for name in ("error", "finished", "tries")] == [None, None, 0]
    again = client.post(f"/v1/jobs/{job}/retry")
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    run_worker(home, ServeSettings(), once=True)
    ended = client.get(f"/v1/jobs/{job}").json()
    assert (ended["state"], ended["result"]["pairs_added"]) == ("done", 1)
    assert client.post(f"/v1/jobs/{job}/retry").status_code == 409
    acts = [one["action"] for one in client.get("/v1/audit").json()["entries"] if job in one["subject"]]
    assert acts == ["queue", "retry"]


def test_retry_is_refused_where_another_job_like_it_waits(client: TestClient) -> None:
    first = started(client, **UPDATE)
    client.delete(f"/v1/jobs/{first}")
    second = started(client, **UPDATE)
    refused = client.post(f"/v1/jobs/{first}/retry")
    assert refused.status_code == 409
    assert second in refused.json()["detail"]
    client.delete(f"/v1/jobs/{second}")
    assert client.post(f"/v1/jobs/{first}/retry").json()["cancel_requested"] is False


def test_retry_is_refused_where_its_file_is_gone(home: Settings, client: TestClient) -> None:
    (home.home / "inbox").mkdir()
    (home.home / "inbox" / "talk.jsonl").write_text("{}\n")
    job = started(client, kind="ingest", log="talk", sources=["talk.jsonl"])
    client.delete(f"/v1/jobs/{job}")
    (home.home / "inbox" / "talk.jsonl").unlink()
    assert client.post(f"/v1/jobs/{job}/retry").json()["code"] == "no_source"
    assert client.post(f"/v1/jobs/{'0' * 26}/retry").status_code == 404


def test_what_a_job_did_before_its_retry_is_in_the_audit_log_once(home: Settings, client: TestClient) -> None:
    job = started(client, **UPDATE)
    store: JobStore = client.app.state.refaug.jobs
    for worker in ("first", "second"):
        assert store.claim(worker) is not None
        if worker == "first":
            JobActs(home).observer(job)(Change(action="publish", subject="index chat@1", details={}))
        store.finish(job, worker, JobState.FAILED, error={"code": "x", "message": "m"})
        if worker == "first":
            assert client.post(f"/v1/jobs/{job}/retry").status_code == 202
    acts = [one["action"] for one in client.get("/v1/audit").json()["entries"]]
    assert acts == ["queue", "publish", "retry"]


# ── following ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Sent:
    id: int
    type: str
    data: Mapping[str, Any]


def events_in(text: str) -> list[Sent]:
    """The events of a stream, as the standard has them: blocks of `field: value` lines; comments begin with a colon."""
    found = list[Sent]()
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":"))
        if fields:
            found.append(Sent(int(fields["id"]), fields["event"], orjson.loads(fields["data"])))
    return found


def followed(client: TestClient, job: str, headers: Mapping[str, str] | None = None, **query: Any) -> list[Sent]:
    answer = client.get(f"/v1/jobs/{job}/events", headers=dict(headers or {}), params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return events_in(answer.text)


def in_rows(client: TestClient, job: str) -> list[Sent]:
    store: JobStore = client.app.state.refaug.jobs
    return [Sent(one.id, one.type, {"at": one.at, **one.data}) for one in store.events(job, 0, 10_000)]


def test_a_job_that_is_over_is_told_from_its_begin_to_its_end(home: Settings, client: TestClient) -> None:
    job = started(client, **UPDATE)
    run_worker(home, ServeSettings(), once=True)
    found = followed(client, job)
    assert found == in_rows(client, job)
    assert [one.data["state"] for one in found if one.type == "state"] == ["queued", "running", "done"]
    assert (found[-1].type, found[-1].data["state"]) == ("state", "done")
    assert any(one.type == "stage" for one in found)


def test_who_comes_back_misses_nothing_and_gets_nothing_twice(home: Settings, client: TestClient) -> None:
    job = started(client, **UPDATE)
    run_worker(home, ServeSettings(), once=True)
    whole = in_rows(client, job)
    assert len(whole) > 3
    for place in range(len(whole) + 1):
        last = whole[place - 1].id if place else 0
        assert followed(client, job, {"Last-Event-ID": str(last)}) == whole[place:]
        assert followed(client, job, after=last) == whole[place:]
    # Who connects again sends the address of the first time, and says where it was in the header.
    assert followed(client, job, {"Last-Event-ID": str(whole[1].id)}, after=whole[0].id) == whole[2:]


def test_many_events_come_in_pieces_and_none_is_lost(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "_MAX_EVENTS", 7)
    job = started(client, **UPDATE)
    store: JobStore = client.app.state.refaug.jobs
    claimed = store.claim("somebody")
    assert claimed is not None
    store.progress(job, "somebody", None, [NewEvent(type="note", data={"message": f"{n}\n…"}) for n in range(40)])
    store.requeue(job, "somebody", "enough")
    store.cancel(job)
    found = followed(client, job)
    assert found == in_rows(client, job)
    assert [one.data["message"] for one in found if one.type == "note"] == [f"{number}\n…" for number in range(40)]


def test_events_come_while_the_job_runs_and_the_stream_ends_with_it(home: Settings, client: TestClient) -> None:
    job = started(client, **gc_of("any"))
    got = list[Sent]()

    def follow() -> None:
        got.extend(followed(client, job))

    def steps(
        order: Mapping[str, Any], home: Settings, serve: ServeSettings, progress: Progress, *, job: str
    ) -> Mapping[str, Any]:
        until = time.monotonic() + 30
        while not getattr(client.app.state, "streams", 0):  # somebody listens
            assert time.monotonic() < until
            time.sleep(0.01)
        for number in range(3):
            progress.stage(f"step {number}", 10, "things")
        return {"kind": order["kind"]}

    following = threading.Thread(target=follow)
    following.start()
    run_worker(home, ServeSettings(), once=True, run=steps)
    following.join(30)
    assert not following.is_alive()
    assert got == in_rows(client, job)
    assert [one.data["state"] for one in got if one.type == "state"] == ["queued", "running", "done"]
    assert [one.data["stage"] for one in got if one.type == "stage"] == ["step 0", "step 1", "step 2"]
    assert client.app.state.streams == 0


def listening(
    client: TestClient, job: str, headers: Mapping[str, str] | None = None, *, texts: list[str] | None = None
) -> threading.Thread:
    """Follow a job from now on; what the server sends is added to `texts`."""

    def follow() -> None:
        text = client.get(f"/v1/jobs/{job}/events", headers=headers).text
        if texts is not None:
            texts.append(text)

    thread = threading.Thread(target=follow)
    thread.start()
    until = time.monotonic() + 30
    while not getattr(client.app.state, "streams", 0):
        assert time.monotonic() < until
        time.sleep(0.01)
    return thread


def test_so_many_streams_are_open_and_no_more(home: Settings) -> None:
    with client_of(home, ready=False, streams=1) as client:
        job = started(client, **UPDATE)
        first = listening(client, job)
        second = client.get(f"/v1/jobs/{job}/events")
        assert (second.status_code, second.json()["code"]) == (503, "overloaded")
        assert int(second.headers["retry-after"]) >= 1
        client.delete(f"/v1/jobs/{job}")
        first.join(30)
        assert not first.is_alive()
        assert [one.data["state"] for one in followed(client, job)] == ["queued", "cancelled"]


def test_a_stream_tells_nothing_more_when_its_key_was_revoked(home: Settings) -> None:
    database = Database.open(home)
    (token, key), (admin, _) = (KeyStore(database).create(scope, [scope]) for scope in (Scope.READ, Scope.ADMIN))
    database.close()
    with client_of(home, ready=False, keys=True) as client:
        client.headers["Authorization"] = f"Bearer {admin}"
        job, texts = started(client, **UPDATE), list[str]()
        stream = listening(client, job, {"Authorization": f"Bearer {token}"}, texts=texts)
        assert client.delete(f"/v1/keys/{key.id}").status_code == 200
        client.delete(f"/v1/jobs/{job}")
        stream.join(30)
        assert not stream.is_alive()
        assert "cancelled" not in texts[0]
        assert [one.data["state"] for one in followed(client, job)] == ["queued", "cancelled"]


def test_a_silent_stream_ends_with_its_key(home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "PING_S", 0.02)
    database = Database.open(home)
    (token, key), (admin, _) = (KeyStore(database).create(scope, [scope]) for scope in (Scope.READ, Scope.ADMIN))
    database.close()
    with client_of(home, ready=False, keys=True) as client:
        client.headers["Authorization"] = f"Bearer {admin}"
        stream = listening(client, started(client, **UPDATE), {"Authorization": f"Bearer {token}"})
        assert client.delete(f"/v1/keys/{key.id}").status_code == 200
        stream.join(30)
        assert not stream.is_alive()


def test_streams_end_when_the_server_is_told_to_stop(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = listening(client, started(client, **UPDATE))
    monkeypatch.setattr(AppStatus, "should_exit", True)  # as uvicorn's handler of signals does
    stream.join(30)
    assert not stream.is_alive()


def test_a_silent_stream_is_kept_open_by_comments(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert routes.PING_S == 15
    monkeypatch.setattr(routes, "PING_S", 0.02)
    job = started(client, **UPDATE)
    pinged, ping = list[int](), event_stream._ping
    monkeypatch.setattr(event_stream, "_ping", lambda: pinged.append(1) or ping())
    texts = list[str]()
    following = threading.Thread(target=lambda: texts.append(client.get(f"/v1/jobs/{job}/events").text))
    following.start()
    until = time.monotonic() + 30
    while len(pinged) < 3:
        assert time.monotonic() < until
        time.sleep(0.01)
    client.delete(f"/v1/jobs/{job}")
    following.join(30)
    assert texts[0].count(": still here\n\n") >= 2
    assert [one.data["state"] for one in events_in(texts[0])] == ["queued", "cancelled"]


def test_events_of_no_job_are_404_and_places_are_numbers(client: TestClient) -> None:
    assert client.get(f"/v1/jobs/{'0' * 26}/events").json()["code"] == "not_found"
    job = started(client, **UPDATE)
    for wrong in ({"headers": {"Last-Event-ID": "x"}}, {"params": {"after": -1}}):
        answer = client.get(f"/v1/jobs/{job}/events", **wrong)
        assert (answer.status_code, answer.json()["code"]) == (422, "bad_input")
