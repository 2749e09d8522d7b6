"""How evaluations and uploads end: cancelled as they end, removed twice, killed, and with a full disk."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from disks import fill, small_disk
from evaluated import BYTES, TABLE, asked
from servers import served
from serving import client_of, migrated

from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.service.database.database import Database
from refaug.service.jobs import kinds
from refaug.service.jobs.store import JobStore
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings

ITEM = {"id": "d1", "utterance": "is it warm", "references": ["it is"], "replies": {"a": "it is"}}


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    return migrated(Settings(home=tmp_path / "home"))


def work(home: Settings) -> None:
    assert run_worker(home, ServeSettings(), once=True) == 0


def test_a_job_that_is_cancelled_after_it_stored_its_scores_leaves_none(home: Settings) -> None:
    def store_and_wait(
        order: Mapping[str, Any], place: Settings, serve: ServeSettings, progress: Progress, *, job: str
    ) -> Mapping[str, Any]:
        kinds.run(order, place, serve, progress, job=job)
        assert (home.home / "evaluations" / job).is_dir()
        with closing(Database.open(place)) as database:
            JobStore(database).cancel(job)
        while True:
            time.sleep(0.01)  # until the worker learns of it

    with client_of(home, ready=False) as client:
        name = asked(client)
        assert run_worker(home, ServeSettings(), once=True, run=store_and_wait) == 0
        at = f"/v1/evaluations/{name}"
        assert client.get(at).json()["state"] == "cancelled"
        assert list((home.home / "evaluations").iterdir()) == []
        assert client.get(f"{at}/download").status_code == 409
        assert client.post(f"{at}/retry").status_code == 202
        work(home)
        assert client.get(at).json()["counts"] == {"items": 8, "replies": 16, "bad": 0}
        assert client.get(f"{at}/replies").json()["total"] == 16


def test_cancelling_never_removes_and_removing_twice_is_404(home: Settings) -> None:
    with client_of(home, ready=False) as client:
        name = asked(client)
        at = f"/v1/evaluations/{name}"
        cancelled = client.post(f"{at}/cancel")
        assert (cancelled.status_code, cancelled.json()["state"]) == (202, "cancelled")
        assert client.post(f"{at}/cancel").status_code == 202
        client.post(f"{at}/retry")
        work(home)
        refused = client.post(f"{at}/cancel")
        assert (refused.status_code, "is done" in refused.json()["detail"]) == (409, True)
        assert client.get(at).json()["state"] == "done"
        assert [client.delete(at).status_code for _ in range(2)] == [200, 404]
        assert client.post(f"{at}/cancel").status_code == 409

        failed = asked(client, metrics=["rater"], rater="absent")
        work(home)
        assert client.get(f"/v1/evaluations/{failed}").json()["state"] == "failed"
        assert [client.delete(f"/v1/evaluations/{failed}").status_code for _ in range(2)] == [200, 404]
        assert client.get("/v1/evaluations").json()["evaluations"] == []


@pytest.mark.slow
def test_removing_cancelling_and_ending_at_once_leave_no_half_state(home: Settings) -> None:
    states = set[str]()
    with client_of(home, ready=False) as client:
        for turn in range(12):
            name = asked(client, seed=turn)
            at, ended = f"/v1/evaluations/{name}", threading.Event()

            def press(at: str = at, ended: threading.Event = ended, turn: int = turn) -> None:
                while not ended.is_set():
                    answer = client.delete(at) if turn % 2 else client.post(f"{at}/cancel")
                    assert answer.status_code in ({200, 202, 404, 409} if turn % 2 else {202, 409}), answer.text
                    time.sleep(0.001 * turn)

            threads = [threading.Thread(target=press) for _ in range(2)]
            worker = threading.Timer(0, run_worker, (home, ServeSettings()), {"once": True})
            worker.start()
            time.sleep(0.03 * (turn // 2))
            for thread in threads:
                thread.start()
            worker.join()
            ended.set()
            for thread in threads:
                thread.join()
            shown = client.get(at)
            state = shown.json()["state"] if shown.status_code == 200 else "removed"
            states.add(state)
            is_stored = (home.home / "evaluations" / name).exists()
            assert (state, is_stored) in {("done", True), ("cancelled", False), ("removed", False)}
            assert client.get(f"{at}/download").status_code == {"done": 200, "cancelled": 409, "removed": 404}[state]
    assert len(states) > 1


def test_an_upload_that_is_removed_before_the_job_reads_it_is_named(home: Settings) -> None:
    with client_of(home, ready=False) as client:
        name = asked(client)
        upload = client.get("/v1/uploads").json()["uploads"][0]["id"]
        assert client.delete(f"/v1/uploads/{upload}").status_code == 200
        work(home)
        failed = client.get(f"/v1/evaluations/{name}").json()
        assert (failed["state"], failed["error"]["code"]) == ("failed", "not_found")
        assert upload in failed["error"]["message"]
        assert client.post(f"/v1/evaluations/{name}/retry").status_code == 404


# ── kills and disks ───────────────────────────────────────────────────────────────────────────────────────────────────


def begun_upload(address: str, home: Path) -> socket.socket:
    """A connection over which half of an upload has come, and is on the disk."""
    host, _, port = address.removeprefix("http://").rstrip("/").partition(":")
    connection = socket.create_connection((host, int(port)))
    head = f"POST /v1/uploads?name=big.csv HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {8 << 20}\r\n"
    connection.sendall(f"{head}Content-Type: application/octet-stream\r\n\r\n".encode() + b"a" * (4 << 20))
    until = time.monotonic() + 60
    while not any(path.stat().st_size for path in (home / "uploads").glob(".*.part/content.csv")):
        assert time.monotonic() < until, "the upload never began"
        time.sleep(0.01)
    return connection


@pytest.mark.slow
def test_a_killed_web_process_leaves_no_half_upload_and_a_killed_job_ends_with_the_same_scores(
    home: Settings,
) -> None:
    with served(home.home) as service:
        connection = begun_upload(str(service.client.base_url), home.home)
        service.kill("web")
        connection.close()
        service.until(lambda: service.ask("GET", "/readyz").status_code == 200, "the service to be ready again")
        table = b"id,utterance,reference,reply:a\n" + b"".join(
            b"%d,how are you %d,i am fine %d,so am i %d and you\n" % (n, n, n, n) for n in range(8_000)
        )
        sent = service.ask("POST", "/v1/uploads?name=t.csv", content=table, headers=BYTES).json()
        assert sorted(path.name for path in (home.home / "uploads").iterdir()) == [sent["id"]]
        order = {"kind": "score", "items": f"upload:{sent['id']}", "metrics": ["chrf"], "draws": 50}
        documents = list[bytes]()
        for kills in (0, 2):
            name = service.ask("POST", "/v1/evaluations", json=order).json()["id"]
            at = f"/v1/evaluations/{name}"
            for _ in range(kills):
                with suppress(AssertionError):
                    service.until(lambda at=at: is_over(service.ask("GET", at).json(), "running"), "it to run")
                service.kill("jobs", "web")
                service.until(lambda: service.ask("GET", "/readyz").status_code == 200, "it to be ready")
            assert service.ended(name)["state"] == "done"
            documents.append(service.ask("GET", f"{at}/download").content)
        assert documents[0] == documents[1]
        assert not [path.name for path in (home.home / "evaluations").iterdir() if path.name.startswith(".")]


def is_over(evaluation: Mapping[str, Any], state: str) -> bool:
    return evaluation["state"] in (state, "done", "failed")


@pytest.mark.machine
@pytest.mark.slow
def test_a_full_disk_ends_an_upload_with_507_and_a_job_with_its_reason(tmp_path: Path) -> None:
    with small_disk("size=6m") as disk:
        home = migrated(Settings(home=disk / "home"))
        with client_of(home, ready=False) as client:
            name = asked(client)
            filler = fill(disk)
            refused = client.post("/v1/uploads?name=t.csv", content=TABLE * 500, headers=BYTES)
            assert (refused.status_code, refused.json()["code"]) == (507, "storage_full")
            assert [path.name for path in (home.home / "uploads").iterdir()] == [
                path.name for path in (home.home / "uploads").iterdir() if len(path.name) == 26
            ]
            filler.unlink()
            limit = ServeSettings(evaluations_mib=1)
            (home.home / "evaluations").mkdir(exist_ok=True)
            (home.home / "evaluations" / "ballast").write_bytes(b"x" * (1 << 20))
            assert run_worker(home, limit, once=True) == 0
            failed = client.get(f"/v1/evaluations/{name}").json()
            assert (failed["state"], failed["error"]["code"]) == ("failed", "storage_full")
            assert [path.name for path in (home.home / "evaluations").iterdir()] == ["ballast"]
            (home.home / "evaluations" / "ballast").unlink()
            client.post(f"/v1/evaluations/{name}/retry")
            work(home)
            assert client.get(f"/v1/evaluations/{name}").json()["state"] == "done"


@pytest.mark.machine
@pytest.mark.slow
def test_a_disk_that_is_full_when_scores_are_written_ends_the_job_alone(tmp_path: Path) -> None:
    table = b"id,utterance,reference,reply:a,reply:b\n" + b"".join(
        b"%d,how are you %d,i am fine %d,so am i %d,not at all %d\n" % (n, n, n, n, n) for n in range(8_000)
    )
    with small_disk("size=16m") as disk:
        home = migrated(Settings(home=disk / "home"))
        with client_of(home, ready=False) as client:
            uploaded = client.post("/v1/uploads?name=t.csv", content=table, headers=BYTES).json()
            order = {"kind": "score", "items": f"upload:{uploaded['id']}", "metrics": ["bleu", "chrf"], "draws": 50}
            name = client.post("/v1/evaluations", json=order).json()["id"]
            filler = fill(disk)
            os.truncate(filler, filler.stat().st_size - (512 << 10))  # room for rows of the database, not for scores
            work(home)
            failed = client.get(f"/v1/evaluations/{name}").json()
            assert (failed["state"], failed["error"]["code"]) == ("failed", "storage_full")
            assert str(tmp_path) not in str(failed)
            assert list((home.home / "evaluations").iterdir()) == []
            assert client.get(f"/v1/evaluations/{name}/replies").status_code == 409
            assert client.get("/healthz").status_code == 200
            scored = client.post("/v1/scores", json={"items": [ITEM], "metrics": ["chrf"]})
            assert (scored.status_code, scored.json()["scores"][0]["systems"]["a"]["corpus"]) == (200, 1.0)
            assert [row["state"] for row in client.get("/v1/evaluations").json()["evaluations"]] == ["failed"]
            filler.unlink()
            again = client.post(f"/v1/evaluations/{name}/retry").json()["id"]
            work(home)
            done = client.get(f"/v1/evaluations/{again}").json()
            assert (done["state"], done["counts"]["replies"]) == ("done", 16_000)
            assert client.get(f"/v1/evaluations/{again}/replies?limit=1").json()["total"] == 16_000
            assert [path.name for path in (home.home / "evaluations").iterdir()] == [again]
