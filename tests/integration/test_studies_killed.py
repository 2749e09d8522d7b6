"""Studies under kill -9: every acknowledged action is there once, and a reply that was being made arrives once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from servers import Served, deadline_s, served
from studying import Person, action_id, add_bots, chat_protocol, new_study

pytest_plugins = ("databases",)
PEOPLE, TURNS = 8, 4
Kill = Callable[[Served], object]


@dataclass
class PatientClient:
    """A client that sends a request again until it is answered, as the page of a participant does."""

    client: httpx2.Client
    cookies: Any = field(init=False)

    def __post_init__(self) -> None:
        self.cookies = self.client.cookies

    def request(self, method: str, url: str, **given: Any) -> Any:
        until = time.monotonic() + deadline_s()
        while True:
            try:
                answer = self.client.request(method, url, **given)
                if answer.status_code not in (429, 503):
                    return answer
            except httpx2.TransportError:
                pass
            assert time.monotonic() < until, (method, url)
            time.sleep(0.02)


@dataclass
class Talker:
    """A scripted participant, who writes down what was acknowledged."""

    address: str
    token: str
    number: int
    messages: list[tuple[str, int, str]] = field(default_factory=list)  # task, number, text
    votes: dict[tuple[str, int], int] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    finished: list[str] = field(default_factory=list)
    error: BaseException | None = None

    def run(self, is_over: Callable[[], bool]) -> None:
        try:
            with httpx2.Client(base_url=self.address, timeout=60) as client:
                self._take_part(Person(PatientClient(client)), is_over)
        except BaseException as error:  # noqa: BLE001  told to the test
            self.error = error

    def _take_part(self, person: Person, is_over: Callable[[], bool]) -> None:
        person.enter(self.token, action=f"talker-{self.number:02d}-{action_id()}"[:64])
        person.agree()
        while person.state["step"] in ("ready", "task") and not is_over():
            if person.state["step"] == "ready":
                person.done("tasks/next")
                continue
            task = person.state["task"]["id"]
            for turn in range(TURNS):
                text = f"person {self.number} says {turn} in {task}"
                person.say(text)
                n = person.sides[0]["messages"][-1]["n"]
                self.messages.append((task, n - 1, text))
                person.done(f"tasks/{task}/votes", {"n": n, "value": 1 if turn % 2 else -1})
                self.votes[task, n] = 1 if turn % 2 else -1
            quality = 1 + (self.number + len(self.finished)) % 7
            person.done(f"tasks/{task}/answers", {"answers": {"quality": quality}})
            self.answers[task] = quality
            person.done(f"tasks/{task}/finish")
            self.finished.append(task)


def play(
    server: Served, kills: int, seed: int, kill: Callable[[Served], object]
) -> tuple[list[Talker], list[dict[str, Any]]]:
    """What eight participants were told while processes died, and what the export has."""
    patient = PatientClient(server.client)
    bots = [f"talkative-{number}" for number in range(4)]
    add_bots(patient, *bots)
    protocol = chat_protocol(*bots, per_participant=200, target=100_000, votes=True)
    token = new_study(patient, "killed", protocol)
    address, drawn, over = str(server.client.base_url), random.Random(seed), threading.Event()
    talkers = [Talker(address, token, number) for number in range(PEOPLE)]
    threads = [threading.Thread(target=talker.run, args=(over.is_set,)) for talker in talkers]
    for thread in threads:
        thread.start()
    for _ in range(kills):
        seen = sum(len(talker.messages) for talker in talkers)
        wanted = seen + drawn.randint(1, 24)
        server.until(
            lambda wanted=wanted: (
                sum(len(talker.messages) for talker in talkers) >= wanted or any(talker.error for talker in talkers)
            ),
            "messages to be answered",
        )
        time.sleep(drawn.random() / 50)  # a moment within an action, not a wait for one
        kill(server)
    over.set()
    for thread in threads:
        thread.join(deadline_s())
    lines = patient.request("GET", "/v1/studies/killed/export").text.splitlines()
    return talkers, [orjson.loads(line) for line in lines]


def check(talkers: list[Talker], records: list[dict[str, Any]]) -> None:
    assert [talker.error for talker in talkers] == [None] * PEOPLE
    by_task = {record["task"]: record for record in records}
    assert len(by_task) == len(records)
    for talker in talkers:
        assert len(talker.finished) > 0
        for task in talker.finished:
            record = by_task[task]
            turns = record["sides"][0]["turns"]
            said = [(task, turn["n"], turn["text"]) for turn in turns if turn["role"] == "participant"]
            assert said == [message for message in talker.messages if message[0] == task]
            assert [turn["role"] for turn in turns] == ["participant", "bot"] * TURNS
            assert [turn["n"] for turn in turns] == list(range(1, 2 * TURNS + 1))
            replies = [turn["text"] for turn in turns if turn["role"] == "bot"]
            assert [reply.rpartition(" ")[2] for reply in replies] == [f"{number}." for number in range(TURNS)]
            assert {turn["n"]: turn["vote"] for turn in turns if turn["role"] == "bot"} == {
                n: vote for (of, n), vote in talker.votes.items() if of == task
            }
            assert record["answers"] == {"quality": talker.answers[task]}
            assert record["state"] == "done"
    told = {task for talker in talkers for task in talker.finished}
    assert told == {record["task"] for record in records if record["state"] == "done"}


def kill_web(server: Served) -> None:
    """End the web process; the supervisor begins another one."""
    server.kill("web")


KILLS = pytest.mark.parametrize("kill", [kill_web, Served.restart_after_kill], ids=["web", "whole"])


@pytest.mark.slow
@KILLS
def test_every_acknowledged_action_survives_five_kills(tmp_path: Path, kill: Kill) -> None:
    with served(tmp_path / "home") as server:
        check(*play(server, 5, 1, kill))


@pytest.mark.faults
@KILLS
@pytest.mark.parametrize("seed", range(10))
def test_every_acknowledged_action_survives_a_hundred_kills_of_each_sort_over_both_databases(
    tmp_path: Path, seed: int, database_url: str, kill: Callable[[Served], object]
) -> None:
    options = ["--database", database_url] if database_url else []
    with served(tmp_path / "home", *options) as server:
        check(*play(server, 5, seed, kill))
