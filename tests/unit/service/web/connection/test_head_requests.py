"""HEAD is GET without its body: the same status and headers, through the whole app, also where an answer never ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from serving import client_of, migrated
from starlette.testclient import TestClient

from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.jobs.store import JobStore


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return migrated(Settings(home=tmp_path_factory.mktemp("heads") / "home"))


@pytest.fixture(scope="module")
def client(home: Settings) -> Iterator[TestClient]:
    with client_of(home, headers={"X-Request-Id": "the-same"}) as found:
        yield found


@pytest.mark.parametrize(
    "path",
    ["/healthz", "/readyz", "/docs", "/openapi.json", "/v1/metrics", "/v1/jobs", "/v1/no"],
)
def test_a_head_is_that_of_the_get_and_nothing_follows(client: TestClient, path: str) -> None:
    whole, head = client.get(path), client.head(path)
    assert head.content == b""
    assert (head.status_code, head.headers) == (whole.status_code, whole.headers)
    assert len(whole.content) > 0


def test_the_head_of_a_page_has_its_policy_and_no_body(client: TestClient) -> None:
    answer = client.head("/")
    assert (answer.status_code, answer.content) == (200, b"")
    assert "script-src 'self'" in answer.headers["content-security-policy"]


def test_the_head_of_a_stream_ends_at_once(home: Settings, client: TestClient) -> None:
    database = Database.open(home)
    job = JobStore(database).enqueue("gc", {"kind": "gc"}, ["gc"])  # nobody runs it, so its events never end
    database.close()
    head = client.head(f"/v1/jobs/{job.id}/events")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"].startswith("text/event-stream")
    assert client.app.state.streams == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/healthz", "GET, HEAD"),
        ("/v1/jobs", "GET, HEAD, POST"),
        ("/v1/schedules/nightly", "DELETE, GET, HEAD, PUT"),
        ("/v1/artefacts/index/chat/current", "PUT"),
        ("/v1/logs/chat/dialogues/d1/a", "DELETE"),
    ],
)
def test_another_method_is_told_all_that_there_are(client: TestClient, path: str, allowed: str) -> None:
    for method in ("PATCH", "OPTIONS"):
        answer = client.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
        assert answer.headers["allow"] == allowed
    if "GET" not in allowed:
        assert client.head(path).status_code == 405
