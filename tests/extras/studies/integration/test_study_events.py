"""The progress of a study as a stream of events: what changes comes at once, resumed nothing is lost or comes twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import orjson
import pytest
from serving import client_of, migrated, wait_until
from starlette.testclient import TestClient
from studying import Person, add_bots, chat_protocol, new_study

from refaug.core.home import Settings
from refaug.extras.studies.routes.studies import study_figures
from refaug.service.web.connection import event_stream


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("events") / "home"
    folder.mkdir()
    return migrated(Settings(home=folder))


@pytest.fixture(scope="module")
def client(home: Settings) -> Iterator[TestClient]:
    """A server that answers one request at a time."""
    with client_of(home, ready=False, requests=1, streams=1) as opened:
        add_bots(opened, "quokka")
        yield opened


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    assert study_figures._POLL_S == 1
    monkeypatch.setattr(study_figures, "_POLL_S", 0.01)


@dataclass
class Follower:
    """Somebody who follows a study until its stream ends, and what was looked at meanwhile."""

    client: TestClient
    study: str
    headers: dict[str, str] = field(default_factory=dict)
    looks: list[Any] = field(default_factory=list)  # what the stream has seen so far
    text: str = ""

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._follow)

    def _follow(self) -> None:
        answer = self.client.get(f"/v1/studies/{self.study}/events", headers=self.headers)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/event-stream")
        self.text = answer.text

    def begin(self, monkeypatch: pytest.MonkeyPatch) -> None:
        look = study_figures._progress

        def noted(*arguments: Any) -> Any:
            progress = look(*arguments)
            self.looks.append(progress)
            return progress

        monkeypatch.setattr(study_figures, "_progress", noted)
        self._thread.start()
        wait_until(lambda: len(self.looks) > 0)

    def wait_for(self, count: str, number: int) -> None:
        wait_until(lambda: self.looks[-1]["counts"][count] == number)

    def ended(self) -> list[tuple[int, dict[str, Any]]]:
        """The events with their ids, when the stream has ended."""
        self._thread.join(60)
        assert not self._thread.is_alive()
        return events_in(self.text)


def events_in(text: str) -> list[tuple[int, dict[str, Any]]]:
    events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":"))
        if fields:
            assert fields["event"] == "progress"
            events.append((int(fields["id"]), orjson.loads(fields["data"])))
    return events


def followed(client: TestClient, study: str, *, last: int | None = None, **query: Any) -> list[tuple[int, Any]]:
    """The events of a study that is closed, after an id."""
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    return events_in(client.get(f"/v1/studies/{study}/events", headers=headers, params=query).text)


def test_what_changes_comes_and_the_stream_holds_no_place_of_requests(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = new_study(client, "live", chat_protocol("quokka", per_participant=1))
    follower = Follower(client, "live")
    follower.begin(monkeypatch)
    person = Person(client)  # all of this is answered, by a server that answers one request at a time
    person.enter(token)
    follower.wait_for("participants", 1)
    person.agree()
    person.done("tasks/next")
    follower.wait_for("tasks_reserved", 1)
    person.chat(3)
    follower.wait_for("tasks_done", 1)
    full = client.get("/v1/studies/live/events")
    assert (full.status_code, full.json()["code"]) == (503, "overloaded")
    progress = client.get("/v1/studies/live/progress").json()
    client.post("/v1/studies/live/close")
    events = follower.ended()
    ids = [place for place, _ in events]
    assert ids == sorted(set(ids))
    seen = [(data["state"], data["counts"]["participants"], data["counts"]["tasks_done"]) for _, data in events]
    assert (seen[0], seen[-1]) == (("open", 0, 0), ("closed", 1, 1))
    told = [{name: part for name, part in data.items() if name != "at"} for _, data in events]
    assert all(before != after for before, after in pairwise(told))
    assert {**told[-1], "state": "open"} == {name: part for name, part in progress.items() if name != "request_id"}
    assert client.app.state.streams == 0  # type: ignore[attr-defined]
    assert followed(client, "live", last=ids[-1]) == []
    assert [data["state"] for _, data in followed(client, "live", last=ids[0])] == ["closed"]
    assert [data["state"] for _, data in followed(client, "live", after=ids[0])] == ["closed"]
    ((again, _),) = followed(client, "live")
    assert again > ids[-1]


def test_a_silent_stream_is_kept_open_and_ends_with_its_study(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_study(client, "silent", chat_protocol("quokka"))
    monkeypatch.setattr(event_stream, "PING_S", 0.02)
    pinged, ping = list[int](), event_stream._ping
    monkeypatch.setattr(event_stream, "_ping", lambda: pinged.append(1) or ping())
    follower = Follower(client, "silent")
    follower.begin(monkeypatch)
    wait_until(lambda: len(pinged) > 2)
    client.post("/v1/studies/silent/close")
    assert [data["state"] for _, data in follower.ended()] == ["open", "closed"]
    assert follower.text.count(": still here\n\n") >= 2


def test_no_study_and_no_number_are_refused(client: TestClient) -> None:
    assert client.get("/v1/studies/nowhere/events").json()["code"] == "not_found"
    assert client.get("/v1/studies/silent/events", headers={"Last-Event-ID": "soon"}).status_code == 422
    assert client.get("/v1/studies/silent/events", params={"after": -1}).status_code == 422
