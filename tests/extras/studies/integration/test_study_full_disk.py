"""Acts of a study on a disk that is full but for ever more room: a clear refusal or the whole act, and nothing lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from disks import fill, refused_until_it_fits, small_disk
from endpoints import FakeEndpoint, Received, endpoint, openai
from servers import Served, deadline_s, served
from serving import migrated
from studying import Person, action_id, chat_protocol, new_study

from refaug.core.home import Settings

pytestmark = [pytest.mark.machine, pytest.mark.slow, pytest.mark.faults]


@dataclass
class FullStudy:
    """A running server with a study of a bot that replies when it may, and the disk of both."""

    service: Served
    disk: Path
    token: str
    bot: FakeEndpoint
    may_reply: threading.Semaphore
    refusals: dict[str, list[str]] = field(default_factory=dict)

    def act(self, person: Person, path: str, body: Any = None) -> dict[str, Any]:
        """The state after an action that is sent again, under its id, until there is room for it."""
        action = action_id()
        answer, codes = refused_until_it_fits(self.disk, lambda: person.post(path, body, action=action))
        self.refusals[path.rpartition("/")[2]] = codes
        assert answer.status_code == 200, answer.text
        return person.state

    def refused_writes(self) -> int:
        """How many writes of the database have found no room."""
        return (self.disk.parent / f"{self.disk.name}.log").read_text().count("database or disk is full")

    def make_room(self) -> None:
        """Give all room back."""
        (self.disk / "filler").unlink(missing_ok=True)

    def records(self) -> list[dict[str, Any]]:
        """The stored study."""
        answer = self.service.client.get("/v1/studies/full/export")
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.content.splitlines()]


@pytest.fixture(scope="module")
def full() -> Iterator[FullStudy]:
    may_reply = threading.Semaphore(0)

    def reply(received: Received) -> dict[str, Any]:
        assert may_reply.acquire(timeout=deadline_s())
        return openai(f"reply {received.number}")

    with small_disk("size=24m") as disk, endpoint(reply) as bot:
        migrated(Settings(home=disk))
        spending = disk.parent / "judgements"  # what a bot may cost is written on another disk, before the reply is
        spending.mkdir()
        (disk / "judgements").symlink_to(spending)
        with served(disk, "--bot-hosts", "127.0.0.1") as service:
            specification = {"kind": "openai", "url": bot.url, "model": "small"}
            assert service.client.put("/v1/bots/zebra", json={"specification": specification}).status_code == 201
            protocol = chat_protocol("zebra", per_participant=1, delay="none", min_turns=2)
            token = new_study(service.client, "full", protocol)
            yield FullStudy(service, disk, token, bot, may_reply)
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
    """Write a message, the reply to which comes on a full disk, and is stored when there is room: asked for once."""
    task, asked = person.state["task"]["id"], len(full.bot.received)
    full.act(person, f"tasks/{task}/messages", {"n": n, "text": text})
    full.make_room()
    full.service.until(lambda: len(full.bot.received) > asked, "the bot to be asked")
    refused = full.refused_writes()
    fill(full.disk)
    full.may_reply.release()
    full.service.until(lambda: full.refused_writes() > refused, "the reply to find no room")
    assert person.look()["task"]["sides"][0]["messages"][-1]["state"] == "asked"
    full.make_room()
    while person.look(20)["task"]["sides"][0]["messages"][-1]["state"] == "asked":
        pass
    assert len(full.bot.received) == asked + 1


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
    assert [turn["text"] for turn in turns] == ["first", "reply 0", "second", "reply 1"]
    assert len(full.service.client.get("/v1/studies/full/participants").json()["participants"]) == 1
    acts = [row["action"] for row in full.service.client.get("/v1/audit").json()["entries"]]
    assert acts.count("close") == 1
