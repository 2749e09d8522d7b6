"""The service over HTTP while its database is locked or gone, or its disk is full.

Whoever needs the database is told to come again; whoever only wants to be scored notices nothing; and when it is back,
everything goes on where it was, with nothing lost, doubled or half there.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import orjson
import psycopg
import pytest
import uvicorn
from anyio.to_thread import current_default_thread_limiter
from disks import small_disk
from evaluated import BYTES
from fastapi import FastAPI
from safeguards import POSTGRESQL
from servers import served as started_server
from serving import client_of, small_home, small_items, wait_until
from starlette.testclient import TestClient

from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.logs.store import StoredLog
from refaug.scoring.reference_sets.set_store import ReferenceSets
from refaug.service.database.database import Database
from refaug.service.jobs import kinds
from refaug.service.jobs.store import JobState, JobStore, NewEvent
from refaug.service.jobs.worker import JobFunction, run_worker
from refaug.service.server_settings import ServeSettings
from refaug.service.web import app as web
from refaug.service.web.app import create_app
from refaug.service.web.handling import database_threads
from refaug.service.web.state import ServiceState

pytest_plugins = ("databases",)

ITEMS = small_items(2)
NIGHT = {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "order": {"kind": "index-update", "index": "chat"}}
SOME = "0" * 26


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return small_home(tmp_path_factory.mktemp("faults"))


@pytest.fixture
def home(template: Settings, tmp_path: Path) -> Settings:
    shutil.copytree(template.home, tmp_path / "served")
    return Settings(home=tmp_path / "served")


@contextmanager
def served(home: Settings, url: str, wait_s: float, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """The app, on a database for which it waits so long and no longer."""

    class Waiting(Database):
        @classmethod
        def open(cls, home: Settings, url: str = "", *, wait_s: float = wait_s) -> Waiting:
            return super().open(home, url, wait_s=wait_s)

    with monkeypatch.context() as patched:
        patched.setattr(web, "Database", Waiting)
        with client_of(home, database=url) as client:
            yield client


def gc_of(name: str) -> dict[str, Any]:
    return {"kind": "gc", "artefact": "vectors", "name": name}


def started(client: TestClient, **order: Any) -> str:
    answer = client.post("/v1/jobs", json=order)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def scored(client: TestClient) -> dict[str, Any]:
    """What scoring answers, but for what differs from request to request."""
    answer = client.post("/v1/scores", json={"items": ITEMS, "metrics": ["upsilon-bleu"]})
    assert answer.status_code == 200, answer.text
    return {name: value for name, value in answer.json().items() if name not in ("request_id", "seconds")}


def require_away(client: TestClient, said: str, *, reads: bool = True) -> None:
    """Every route that needs the database says that it is away, and when to come again."""
    asked: list[tuple[str, str, Any, dict[str, str]]] = [
        ("POST", "/v1/jobs", gc_of("a"), {}),
        ("POST", "/v1/jobs", gc_of("a"), {"Idempotency-Key": "away"}),
        ("DELETE", f"/v1/jobs/{SOME}", None, {}),
        ("PUT", "/v1/schedules/night", NIGHT, {}),
        ("DELETE", "/v1/logs/chat/dialogues/d0-1", None, {}),
        ("POST", "/v1/reference-sets", {"items": ITEMS, "purpose": "test"}, {"Idempotency-Key": "away"}),
    ]
    if reads:
        paths = ("/v1/jobs", f"/v1/jobs/{SOME}", f"/v1/jobs/{SOME}/events", "/v1/schedules", "/v1/schedules/night")
        asked += [("GET", path, None, {}) for path in paths]
    for method, path, body, headers in asked:
        answer = client.request(method, path, json=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable"), (method, path, answer.text)
        assert answer.headers["retry-after"] == "2"
        assert said in answer.json()["detail"], answer.text


def require_back(client: TestClient) -> None:
    """They all answer, and what they refused has left nothing."""
    assert client.get("/v1/schedules").json()["schedules"] == []
    before = {job["id"] for job in client.get("/v1/jobs").json()["jobs"]}
    job = client.post("/v1/jobs", json=gc_of("a"), headers={"Idempotency-Key": "away"})
    assert (job.status_code, "idempotent-replayed" in job.headers) == (202, False)
    assert {one["id"] for one in client.get("/v1/jobs").json()["jobs"]} - before == {job.json()["id"]}
    assert client.put("/v1/schedules/night", json=NIGHT).status_code == 201
    frozen = {"items": ITEMS, "purpose": "test"}
    made = client.post("/v1/reference-sets", json=frozen, headers={"Idempotency-Key": "away"})
    assert made.status_code == 201, made.text


# ── locked ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def locked(home: Settings, url: str) -> Iterator[None]:
    """Somebody else is writing, or changing the tables, and does not end."""
    if url:
        with psycopg.connect(url) as connection:
            connection.execute("LOCK TABLE jobs, job_events, schedules, idempotency IN ACCESS EXCLUSIVE MODE")
            yield
            connection.rollback()
        return
    with sqlite_locked_by_another(home):
        yield


@contextmanager
def sqlite_locked_by_another(home: Settings) -> Iterator[None]:
    program = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN IMMEDIATE'); print(); input()"
    command = ["python3", "-c", program, str(home.home / "refaug.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        yield
        process.communicate(b"\n", timeout=60)


def with_tables(home: Settings, url: str) -> None:
    database = Database.open(home, url)
    database.migrate()
    database.close()


def test_a_locked_database_is_503_and_scoring_goes_on(
    home: Settings, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_tables(home, database_url)
    with served(home, database_url, 0.1, monkeypatch) as client:
        before = scored(client)
        with locked(home, database_url):
            # SQLite's readers do not wait for a writer: they see what was there.
            require_away(client, "locked by another process", reads=bool(database_url))
            if not database_url:
                assert client.get("/v1/jobs").json()["jobs"] == []
            assert scored(client) == before
            assert client.get("/readyz").status_code == 200
        require_back(client)
        assert scored(client) == before


def limited_to(client: TestClient, threads: int) -> None:
    """Let the event loop have so many threads for everything that blocks."""
    assert client.portal is not None

    def limit() -> None:
        current_default_thread_limiter().total_tokens = threads

    client.portal.call(limit)


def test_whoever_waits_for_a_locked_database_keeps_nobody_from_scoring(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(home, "", 120, monkeypatch) as client, ThreadPoolExecutor(6) as others:
        before = scored(client)
        sent = [client.post("/v1/uploads?name=a", content=b"a", headers=BYTES).json()["id"] for _ in range(3)]
        limited_to(client, 3)
        state: ServiceState = client.app.state.refaug
        with locked(home, ""):
            asked = [others.submit(client.post, "/v1/jobs", json=gc_of(f"v{number}")) for number in range(3)]
            asked += [others.submit(client.delete, f"/v1/uploads/{upload}") for upload in sent]  # with a row of each
            wait_until(lambda: state.database._engine.pool.checkedout() == 5)  # the last one has no connection yet
            assert scored(client) == before
            assert client.get("/metrics").status_code == 200
            assert not any(one.done() for one in asked)
        assert [one.result(60).status_code for one in asked] == [202, 202, 202, 200, 200, 200]


def test_nobody_stands_in_a_line_that_does_not_move(home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_threads, "MAX_WAIT_S", 0.05)
    with served(home, "", 120, monkeypatch) as client, ThreadPoolExecutor(database_threads._MAX_QUERIES) as others:
        state: ServiceState = client.app.state.refaug
        with locked(home, ""):
            asked = [
                others.submit(client.post, "/v1/jobs", json=gc_of(f"v{number}"))
                for number in range(database_threads._MAX_QUERIES)
            ]
            wait_until(lambda: state.database._engine.pool.checkedout() == database_threads._MAX_QUERIES)
            paths = [
                "/v1/schedules",
                *(f"/v1/evaluations/{'0' * 26}/{part}" for part in ("replies", "notes", "download")),
            ]
            for answer in (client.post("/v1/jobs", json=gc_of("late")), *map(client.get, paths)):
                assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
                assert "too many requests waiting" in answer.json()["detail"]
                assert answer.headers["retry-after"] == "1"
        assert [one.result(60).status_code for one in asked] == [202] * database_threads._MAX_QUERIES
        assert started(client, **gc_of("late"))


# ── away ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Losable:
    """A database that can be taken away; what that gives brings it back."""

    url: str
    lose: Callable[[], Callable[[], None]]
    said: str


@pytest.fixture(params=["sqlite", POSTGRESQL])
def losable(request: pytest.FixtureRequest, home: Settings) -> Losable:
    if request.param == "sqlite":
        return Losable(url="", lose=lambda: moved_away(home), said="is not there")
    cluster = request.getfixturevalue("cluster")
    cluster.ask("DROP DATABASE IF EXISTS served WITH (FORCE)")
    cluster.ask("CREATE DATABASE served TEMPLATE template0")

    def lose() -> Callable[[], None]:
        cluster.stop()
        return cluster.start  # type: ignore[no-any-return]

    url: str = cluster.url("served")
    with_tables(home, url)
    return Losable(url=url, lose=lose, said="cannot be reached")


def moved_away(home: Settings) -> Callable[[], None]:
    """The file, in good order: no connection is open while it is moved, as with a disk that is mounted elsewhere."""
    there, away = home.home / "refaug.db", home.home / "moved.db"
    with sqlite3.connect(there) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    there.rename(away)

    def back() -> None:
        assert not there.exists(), "an empty one was made in its place"
        away.rename(there)

    return back


def test_lost_database_gives_503_and_everything_is_there_on_its_return(
    home: Settings, losable: Losable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(home, losable.url, 1, monkeypatch) as client:
        before, job = scored(client), started(client, **gc_of("before"))
        back = losable.lose()
        require_away(client, losable.said)
        assert scored(client) == before
        assert client.get("/readyz").status_code == 200
        assert "refaug_database_up 0.0" in client.get("/metrics").text
        posted = client.post("/v1/logs/new/dialogues", json={"dialogues": [{"turns": [{"text": "a"}, {"text": "b"}]}]})
        assert posted.status_code == 202  # kept in files
        back()
        assert [one["id"] for one in client.get("/v1/jobs").json()["jobs"]] == [job]
        require_back(client)
        assert "refaug_database_up 1.0" in client.get("/metrics").text


def test_a_service_begins_without_its_database_and_has_it_when_it_comes(
    home: Settings, losable: Losable, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = losable.lose()
    with served(home, losable.url, 1, monkeypatch) as client:
        scored(client)
        require_away(client, losable.said)
        back()
        require_back(client)


def test_job_and_its_event_stream_survive_a_database_outage(
    home: Settings, losable: Losable, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = list[Callable[[], None]]()

    with served(home, losable.url, 1, monkeypatch) as client, ThreadPoolExecutor(2) as others:
        job = started(client, **gc_of("long"))
        follower: Future[Any] = others.submit(client.get, f"/v1/jobs/{job}/events")
        wait_until(lambda: getattr(client.app.state, "streams", 0) == 1)

        def run(order: Mapping[str, Any], *given: Any, job: str) -> Mapping[str, Any]:
            progress: Progress = given[2]
            progress.stage("before", 2)
            wait_until(lambda: bool(client.get(f"/v1/jobs/{job}").json()["progress"]))
            back.append(losable.lose())
            progress.stage("meanwhile", 3)
            require_away(client, losable.said)
            back[0]()
            return {"order": order["kind"]}

        serve = ServeSettings(database=losable.url)
        assert others.submit(run_worker, home, serve, once=True, run=run).result(120) == 0
        followed = events_in(follower.result(60).text)
        shown = client.get(f"/v1/jobs/{job}").json()
        assert (shown["state"], shown["tries"], shown["result"]) == ("done", 1, {"order": "gc"})
        assert [one[2]["stage"] for one in followed if one[1] == "stage"] == ["before", "meanwhile"]
        assert [one[2]["state"] for one in followed if one[1] == "state"] == ["queued", "running", "done"]
        numbers = [one[0] for one in followed]
        assert numbers == sorted(set(numbers))


def events_in(text: str) -> list[tuple[int, str, dict[str, Any]]]:
    """The whole events of a stream; the last block counts only where it was ended by an empty line."""
    found = []
    for block in text.split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append((int(fields["id"]), fields["event"], orjson.loads(fields["data"])))
    return found


# ── followed by who loses the connection ──────────────────────────────────────────────────────────────────────────────


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """The app behind a real socket, so that a stream can be broken off in its middle; its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)
    assert not thread.is_alive()


def test_reconnecting_reader_gets_each_event_once(home: Settings, database_url: str) -> None:
    with_tables(home, database_url)
    with listening(create_app(home, ServeSettings(database=database_url))) as address:
        database = Database.open(home, database_url)
        jobs = JobStore(database)
        job = jobs.enqueue("gc", {}, []).id
        assert jobs.claim("somebody") is not None
        writer = threading.Thread(target=written, args=(jobs, job))
        writer.start()
        got = followed_with_breaks(address, job)
        writer.join(60)
        rows_now = [(one.id, one.type, {"at": one.at, **one.data}) for one in jobs.events(job, 0, 10_000)]
        database.close()
    kept = [one for one in got if one[1] != "progress"]
    assert kept == [one for one in rows_now if one[1] != "progress"]
    assert [one[2]["message"] for one in got if one[1] == "note"] == [f"note {number}" for number in range(60)]
    numbers = [one[0] for one in got]
    assert numbers == sorted(set(numbers))
    assert got[-1] == rows_now[-1]
    assert got[-1][2]["state"] == "done"


def written(jobs: JobStore, job: str) -> None:
    """Notes, each with progress that takes the place of the one before, and the end."""
    for number in range(60):
        progress = {"stage": "s", "done": number}
        told = [NewEvent(type="note", data={"message": f"note {number}"}), NewEvent(type="progress", data=progress)]
        jobs.progress(job, "somebody", progress, told)
    jobs.finish(job, "somebody", JobState.DONE, outcome={})


def followed_with_breaks(address: str, job: str) -> list[tuple[int, str, dict[str, Any]]]:
    """All events, by connections of which all but the last are broken off after some bytes, in the middle of any."""
    got, last = list[tuple[int, str, dict[str, Any]]](), 0
    with httpx2.Client(base_url=address, timeout=60) as client:
        for turn in range(1_000):
            text, most = "", 300 + 170 * (turn % 5) if len(got) < 100 else 1 << 30
            with client.stream("GET", f"/v1/jobs/{job}/events", headers={"Last-Event-ID": str(last)}) as answer:
                assert answer.status_code == 200
                for piece in answer.iter_text(97):
                    text += piece
                    if len(text) > most:
                        break
            new = events_in(text)
            got += new
            last = got[-1][0] if got else 0
            if got and got[-1][1] == "state" and got[-1][2]["state"] == "done":
                return got
    raise AssertionError("it never ended")


@pytest.mark.slow
def test_streams_end_well_when_the_server_is_stopped(home: Settings) -> None:
    texts = list[str]()
    with started_server(home.home, "--no-job-worker") as service:
        job = service.ask("POST", "/v1/jobs", json=gc_of("a")).json()["id"]
        begun = threading.Event()
        following = threading.Thread(target=read_to_its_end, args=(str(service.client.base_url), job, texts, begun))
        following.start()
        assert begun.wait(60)
        service.process.terminate()
        assert service.process.wait(60) == 0
        following.join(60)
    assert [one[2]["state"] for one in events_in("".join(texts))] == ["queued"]


def read_to_its_end(address: str, job: str, texts: list[str], begun: threading.Event) -> None:
    """An error where the connection is broken off, and not ended."""
    with httpx2.stream("GET", f"{address}/v1/jobs/{job}/events", timeout=60) as answer:
        for text in answer.iter_text():
            texts.append(text)
            begun.set()


# ── a full disk ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def disk(tmp_path: Path, template: Settings) -> Iterator[Path]:
    """A file system of its own with a home on it and a few megabytes more."""
    with small_disk("size=24m") as folder:
        shutil.copytree(template.home, folder / "home")
        yield folder


def fill(disk: Path) -> Callable[[], None]:
    """Take all room; what this gives makes room again."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue
    return filler.unlink


def talk(number: int) -> dict[str, Any]:
    return {"id": f"t{number}", "turns": [{"text": f"what about {number}"}, {"text": f"about {number} of them"}]}


@pytest.mark.machine
def test_on_a_full_disk_what_is_to_be_kept_is_507_and_with_room_it_goes_on(disk: Path) -> None:
    home = Settings(home=disk / "home")
    with client_of(home) as client:
        before = scored(client)
        assert client.get("/v1/jobs").json()["jobs"] == []  # from now on a connection is open
        room = fill(disk)
        asked: list[tuple[str, str, Any, dict[str, str]]] = [
            ("POST", "/v1/jobs", {**gc_of("a"), "name": "a" * 60}, {}),
            ("POST", "/v1/jobs", gc_of("a"), {"Idempotency-Key": "full"}),
            ("PUT", "/v1/schedules/night", NIGHT, {}),
            ("POST", "/v1/reference-sets", {"items": ITEMS, "purpose": "test"}, {}),
            ("POST", "/v1/reference-sets", {"items": ITEMS, "purpose": "test"}, {"Idempotency-Key": "full"}),
            ("POST", "/v1/logs/new/dialogues", {"dialogues": [talk(number) for number in range(200)]}, {}),
        ]
        for method, path, body, headers in asked:
            answer = client.request(method, path, json=body, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (507, "storage_full"), (path, answer.text)
            assert str(disk) not in answer.text
        assert scored(client) == before
        assert client.get("/v1/jobs").json()["jobs"] == []
        assert client.get("/v1/schedules").json()["schedules"] == []
        assert client.get("/v1/reference-sets").json()["sets"] == []
        room()
        for method, path, body, headers in asked[1:]:
            answer = client.request(method, path, json=body, headers=headers)
            assert answer.status_code in (200, 201, 202), (path, answer.text)
            assert "idempotent-replayed" not in answer.headers
        assert len(client.get("/v1/jobs").json()["jobs"]) == 1
        assert len(client.get("/v1/reference-sets").json()["sets"]) == 1
        assert scored(client) == before


@pytest.mark.machine
def test_who_may_write_leaves_room_for_the_service_itself(disk: Path) -> None:
    with client_of(Settings(home=disk / "home")) as client:
        before = scored(client)
        room = fill(disk)
        os.truncate(disk / "filler", (disk / "filler").stat().st_size - (200 << 10))  # of 24 MB
        for path, body in (
            ("logs/new/dialogues", {"dialogues": [talk(1)]}),
            ("reference-sets", {"items": ITEMS, "purpose": "test"}),
        ):
            answer = client.post(f"/v1/{path}", json=body)
            assert (answer.status_code, answer.json()["code"]) == (507, "storage_full")
        assert client.put("/v1/schedules/night", json=NIGHT).status_code == 201
        assert scored(client) == before
        room()
        assert client.post("/v1/logs/new/dialogues", json={"dialogues": [talk(1)]}).status_code == 202


def filling(disk: Path, made: list[Callable[[], None]]) -> JobFunction:
    """What jobs do, on a disk that is full as soon as they begin."""

    def run(
        order: Mapping[str, Any], home: Settings, serve: ServeSettings, progress: Progress, *, job: str
    ) -> Mapping[str, Any]:
        made.append(fill(disk))
        return kinds.run(order, home, serve, progress, job=job)

    return run


@pytest.mark.machine
@pytest.mark.parametrize("kind", ["ingest", "freeze"])
def test_job_on_a_full_disk_fails_by_name_and_leaves_nothing_visible(
    disk: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    home = Settings(home=disk / "home")
    with client_of(home, freeze_at_once=1) as client, ThreadPoolExecutor(1) as other:
        before = scored(client)

        def ask() -> str:
            if kind == "ingest":
                return started(client, kind="ingest", log="talk", posted=True, workers=0)
            frozen = {"items": ITEMS, "purpose": "test", "references": "given"}
            return str(client.post("/v1/reference-sets", json=frozen).json()["id"])

        dialogues = [talk(number) for number in range(2_000)]
        if kind == "ingest":
            assert client.post("/v1/logs/talk/dialogues", json={"dialogues": dialogues}).status_code == 202
        job, room = ask(), list[Callable[[], None]]()
        worker = other.submit(run_worker, home, ServeSettings(), once=True, run=filling(disk, room))
        wait_until(lambda: any("waiting for the database" in one.message for one in caplog.records) or worker.done())
        assert not worker.done(), worker.result()
        assert scored(client) == before
        assert client.get(f"/v1/jobs/{job}").json()["state"] == "running"
        room[0]()
        assert worker.result(60) == 0
        ended = client.get(f"/v1/jobs/{job}").json()
        assert (ended["state"], ended["error"]["code"]) == ("failed", "storage_full")
        assert str(disk) not in orjson.dumps(ended).decode()
        assert not (home.logs / "talk" / "manifest.json").exists()
        assert client.get("/v1/reference-sets").json()["sets"] == []

        again = ask()
        assert run_worker(home, ServeSettings(), once=True) == 0
        done = client.get(f"/v1/jobs/{again}").json()
        assert done["state"] == "done", done
        if kind == "ingest":
            pairs = StoredLog.open(home.logs, "talk").pairs()
            assert sorted(pair.dialogue for pair in pairs) == sorted(one["id"] for one in dialogues)
        else:
            frozen_set = ReferenceSets(home.reference_sets).open(done["result"]["set"])
            frozen_set.verify()
            assert [item.id for item in frozen_set.items()] == [item["id"] for item in ITEMS]
