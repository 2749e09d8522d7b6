"""Logs over HTTP: pages of them, dialogues that are posted, ingested by a job and erased by another."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import client_of, small_home
from starlette.testclient import TestClient

from refaug.core.home import Settings
from refaug.logs.store import StoredLog
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return small_home(tmp_path_factory.mktemp("logs"), raters=0)


@pytest.fixture
def home(template: Settings, tmp_path: Path) -> Settings:
    shutil.copytree(template.home, tmp_path / "home")
    return Settings(home=tmp_path / "home")


@pytest.fixture
def client(home: Settings) -> Iterator[TestClient]:
    with client_of(home, ready=False) as found:
        yield found


def dialogue(name: str, *texts: str) -> dict[str, Any]:
    return {"id": name, "turns": [{"text": text} for text in texts]}


TALKS = [
    dialogue("t1", "do you like green apples", "no i like the red ones", "we do too"),
    dialogue("t/2", "how are the boats", "they are blue"),
]


def job_done(client: TestClient, home: Settings, answer: Any) -> dict[str, Any]:
    """The job of an answer, after a worker has run what waits."""
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"/v1/jobs/{answer.json()['id']}"
    assert run_worker(home, ServeSettings(), once=True) == 0
    found: dict[str, Any] = client.get(answer.headers["location"]).json()
    assert found["state"] == "done", found
    return found


def test_a_log_that_is_damaged_is_listed_with_what_is_wrong(home: Settings, client: TestClient) -> None:
    shutil.copytree(home.logs / "chat", home.logs / "broken")
    (next((home.logs / "broken").glob("*.parquet"))).write_bytes(b"")
    bad, good = client.get("/v1/logs").json()["logs"]
    assert (bad["name"], bad["pairs"]) == ("broken", None)
    assert "the manifest says" in bad["problem"]
    assert str(home.home) not in bad["problem"]
    assert (good["name"], good["problem"]) == ("chat", None)
    single = client.get("/v1/logs/broken")
    assert (single.status_code, single.json()["code"]) == (500, "corrupt")


def test_posted_dialogues_wait_and_are_in_the_log_after_its_ingest(home: Settings, client: TestClient) -> None:
    posted = client.post("/v1/logs/talk/dialogues", json={"dialogues": TALKS})
    assert posted.status_code == 202, posted.text
    told = posted.json()
    assert (told["log"], told["accepted"], told["duplicate"]) == ("talk", 2, False)
    assert (told["ids"], told["problems"]) == (["t1", "t/2"], [])
    assert (told["waiting"]["dialogues"], told["waiting"]["requests"]) == (2, 1)

    before = client.get("/v1/logs/talk").json()
    assert (before["pairs"], before["created"], before["updated"], before["ingests"]) == (0, None, None, 0)
    assert before["waiting"] == told["waiting"]
    assert "talk" not in [log["name"] for log in client.get("/v1/logs").json()["logs"]]

    again = client.post("/v1/logs/talk/dialogues", json={"dialogues": TALKS}).json()
    assert (again["duplicate"], again["waiting"]) == (True, told["waiting"])

    job = job_done(client, home, client.post("/v1/jobs", json={"kind": "ingest", "log": "talk", "posted": True}))

    assert job["result"]["pairs_added"] == 3
    after = client.get("/v1/logs/talk").json()
    assert (after["pairs"], after["dialogues"], after["ingests"]) == (3, 2, 1)
    assert after["waiting"] == {"requests": 0, "dialogues": 0, "bytes": 0}
    stored = StoredLog.open(home.logs, "talk")
    assert (after["created"], after["updated"]) == (stored.manifest.created, stored.manifest.updated)
    assert [(pair.dialogue, pair.utterance, pair.response) for pair in stored.pairs()] == [
        ("t1", "do you like green apples", "no i like the red ones"),
        ("t1", "no i like the red ones", "we do too"),
        ("t/2", "how are the boats", "they are blue"),
    ]


def test_every_ingest_of_a_log_is_listed_with_what_it_added(home: Settings, client: TestClient) -> None:
    for number in range(3):
        client.post(
            "/v1/logs/talk/dialogues", json={"dialogues": [dialogue(f"d{number}", "how are you", f"{number} apples")]}
        )
        job_done(client, home, client.post("/v1/jobs", json={"kind": "ingest", "log": "talk", "posted": True}))
    first = client.get("/v1/logs/talk/ingests", params={"limit": 2}).json()
    rest = client.get("/v1/logs/talk/ingests", params={"after": first["next"]}).json()
    listed = [*first["ingests"], *rest["ingests"]]
    assert ([one["number"] for one in listed], rest["next"]) == ([1, 2, 3], None)
    manifest = StoredLog.open(home.logs, "talk").manifest
    for one, ingest in zip(listed, manifest.ingests, strict=True):
        assert (one["at"], one["sources"], one["counts"]) == (ingest.at, 1, dict(ingest.counts))
    assert client.get("/v1/logs/none/ingests").status_code == 404


def test_bad_dialogue_refuses_all_with_its_place_or_is_skipped_on_request(client: TestClient) -> None:
    dialogues = [TALKS[0], {"id": "x", "turns": 5}, 7, dialogue("t1", "again", "the same id")]
    refused = client.post("/v1/logs/talk/dialogues", json={"dialogues": dialogues})
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_input")
    assert [(one["item"], one["place"], one["field"]) for one in refused.json()["errors"]] == [
        ("x", 1, "dialogues[1].turns"),
        (None, 2, "dialogues[2]"),
        ("t1", 3, "dialogues[3].id"),
    ]
    assert "report" in refused.json()["remedy"]
    assert client.get("/v1/logs/talk").status_code == 404

    reported = client.post("/v1/logs/talk/dialogues", json={"dialogues": dialogues, "on_error": "report"})
    assert reported.status_code == 202
    assert (reported.json()["accepted"], reported.json()["ids"]) == (1, ["t1"])
    assert [one["place"] for one in reported.json()["problems"]] == [1, 2, 3]
    assert client.get("/v1/logs/talk").json()["waiting"]["dialogues"] == 1


def test_of_many_bad_dialogues_a_hundred_are_named_and_the_others_counted(client: TestClient) -> None:
    refused = client.post("/v1/logs/talk/dialogues", json={"dialogues": [1] * 130})
    assert refused.status_code == 422
    told = refused.json()
    assert [one["place"] for one in told["errors"]] == list(range(100))
    assert told["more_errors"] == 30


def test_a_finished_erasure_has_no_name_of_whom_it_erased(home: Settings, client: TestClient) -> None:
    names = ["zenobia-zanzibar", "nowhere"]
    turns = [{"text": "where do you buy tea", "speaker": names[0]}, {"text": "at the mill", "speaker": "b"}]
    client.post("/v1/logs/talk/dialogues", json={"dialogues": [{"id": "tea", "turns": turns}]})
    job_done(client, home, client.post("/v1/jobs", json={"kind": "ingest", "log": "talk", "posted": True}))
    queued = client.post("/v1/jobs", json={"kind": "erase", "log": "talk", "speakers": names})
    assert queued.json()["order"]["speakers"] == names

    job_done(client, home, queued)

    job = client.get(f"/v1/jobs/{queued.json()['id']}").json()
    assert (job["state"], job["order"]["log"], job["result"]["removed"]["speakers"]) == ("done", "talk", [1, 0])
    left = [path for path in home.home.rglob("*") if path.is_file() and names[0].encode() in path.read_bytes()]
    assert left == []


def test_an_erased_dialogue_is_gone_from_the_log_and_from_what_waits(home: Settings, client: TestClient) -> None:
    client.post("/v1/logs/talk/dialogues", json={"dialogues": TALKS})
    job_done(client, home, client.post("/v1/jobs", json={"kind": "ingest", "log": "talk", "posted": True}))
    later = [dialogue("t3", "how do boats fly", "they do not"), dialogue("t/2", "how are they now", "still blue")]
    client.post("/v1/logs/talk/dialogues", json={"dialogues": later})

    answer = client.delete("/v1/logs/talk/dialogues/t/2")

    assert (answer.json()["kind"], answer.json()["state"]) == ("erase", "queued")
    assert (answer.json()["order"]["log"], answer.json()["order"]["dialogues"]) == ("talk", ["t/2"])
    second = client.delete("/v1/logs/talk/dialogues/t3")
    assert (second.status_code, second.json()["code"]) == (409, "conflict")
    assert answer.json()["id"] in second.json()["detail"]

    job_done(client, home, answer)
    job_done(client, home, client.post("/v1/jobs", json={"kind": "ingest", "log": "talk", "posted": True}))
    assert [pair.dialogue for pair in StoredLog.open(home.logs, "talk").pairs()] == ["t1", "t1", "t3"]
    assert client.get("/v1/logs/talk").json()["erased"] == {"dialogues": 1, "speakers": 0}


def test_nothing_is_erased_from_a_log_that_is_not_there(client: TestClient) -> None:
    answer = client.delete("/v1/logs/nope/dialogues/t1")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert client.get("/v1/jobs").json()["jobs"] == []
