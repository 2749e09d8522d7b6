"""Acts of a study on a disk that is full but for ever more room: a clear refusal or the whole act, and nothing lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from disks import fill, refused_until_it_fits, small_disk
from servers import Served, served
from serving import migrated
from studying import Person, action_id, add_bots, chat_protocol, new_study

from refaug.core.home import Settings

pytestmark = [pytest.mark.machine, pytest.mark.slow, pytest.mark.faults]


@dataclass
class FullStudy:
    """A running server with a study, and the disk of both."""

    service: Served
    disk: Path
    token: str
    refusals: dict[str, list[str]] = field(default_factory=dict)

    def act(self, person: Person, path: str, body: Any = None) -> dict[str, Any]:
        """The state after an action that is sent again, under its id, until there is room for it."""
        action = action_id()
        answer, codes = refused_until_it_fits(self.disk, lambda: person.post(path, body, action=action))
        self.refusals[path.rpartition("/")[2]] = codes
        assert answer.status_code == 200, answer.text
        return person.state

    def make_room(self) -> None:
        """Give all room back."""
        (self.disk / "filler").unlink(missing_ok=True)

    def records(self) -> list[dict[str, Any]]:
        """What is kept of the study."""
        answer = self.service.client.get("/v1/studies/full/export")
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.content.splitlines()]


@pytest.fixture(scope="module")
def full() -> Iterator[FullStudy]:
    with small_disk("size=24m") as disk:
        migrated(Settings(home=disk))
        with served(disk) as service:
            add_bots(service.client, "zebra")
            protocol = chat_protocol("zebra", per_participant=1, delay="none", min_turns=2)
            yield FullStudy(service, disk, new_study(service.client, "full", protocol))
            logged = (disk.parent / f"{disk.name}.log").read_text()
            assert "Traceback" not in logged
            assert '"event":"reply"' not in logged  # one that was made, and could not be stored


def enter(full: FullStudy, person: Person) -> None:
    """Open the link until there is room for a session."""
    action = action_id()
    answer, codes = refused_until_it_fits(full.disk, lambda: person.open(full.token, action=action))
    full.refusals["session"] = codes
    assert answer.status_code == 200, answer.text
    full.make_room()
    person.enter(full.token, action=action)  # the same session once more


def say(full: FullStudy, person: Person, n: int, text: str) -> None:
    """Write a message, the reply to which finds no room before there is some."""
    task = person.state["task"]["id"]
    full.act(person, f"tasks/{task}/messages", {"n": n, "text": text})
    fill(full.disk)
    assert person.client.request(
        "GET", "/v1/take/state", headers={"Cookie": f"refaug_take={person.cookie}"}
    ).status_code in (200, 507)
    full.make_room()
    while any(message["state"] == "asked" for side in person.look(20)["task"]["sides"] for message in side["messages"]):
        pass


def test_a_participant_goes_from_the_link_to_the_code_on_a_full_disk(full: FullStudy) -> None:
    person = Person(full.service.client)
    enter(full, person)
    full.act(person, "consent", {"sha256": person.state["consent"]["sha256"], "agree": True, "screening": {}})
    full.act(person, "tasks/next")
    task = person.state["task"]["id"]
    for n, text in ((1, "first"), (3, "second")):
        say(full, person, n, text)
    full.act(person, f"tasks/{task}/votes", {"side": "one", "n": 2, "value": 1})
    full.act(person, f"tasks/{task}/answers", {"answers": {"quality": 6}})
    full.act(person, f"tasks/{task}/finish")
    assert person.state["step"] == "done"
    closed, codes = refused_until_it_fits(
        full.disk, lambda: full.service.client.request("POST", "/v1/studies/full/close")
    )
    assert closed.status_code == 200, closed.text
    full.refusals["close"] = codes
    assert [act for act, codes in full.refusals.items() if set(codes) != {"storage_full"}] == []
    full.make_room()
    [record] = full.records()
    assert record["answers"] == {"quality": 6}
    turns = record["sides"][0]["turns"]
    assert [turn["role"] for turn in turns] == ["participant", "bot"] * 2
    assert [turn["text"] for turn in turns[::2]] == ["first", "second"]
    assert len(full.service.client.get("/v1/studies/full/participants").json()["participants"]) == 1
    acts = [row["action"] for row in full.service.client.get("/v1/audit").json()["entries"]]
    assert acts.count("close") == 1
