"""Studies under kill -9: every acknowledged action is there once, and a reply that was being made arrives once.

STUDY_KILLS_TO names a file that each scene of `make faults` adds a line of JSON to: what was acknowledged, lost and
doubled, how long after each kill the first answer came, and how many replies were being made when it hit.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from endpoints import FakeEndpoint, Received, Sent, endpoint, openai
from servers import Served, deadline_s, served
from studying import add_bots, chat_protocol, new_study
from talkers import TURNS, PatientClient, Talker, toll

pytest_plugins = ("databases",)
PEOPLE = 8
KILLS = 5  # of a scene
SEEDS = range(10)  # with two databases: a hundred kills of each sort
FIGURES = os.environ.get("STUDY_KILLS_TO", "")
Kill = Callable[[Served], object]


def slow_answer(received: Received) -> Sent:
    """A model that takes its time, so that kills hit replies that are being made."""
    turn = sum(message["role"] == "assistant" for message in received.body["messages"])
    return Sent(body=openai(f"slowly number {turn}."), after_s=0.15)


@dataclass
class Scene:
    """What eight participants were told while processes died, and what the export has."""

    talkers: list[Talker]
    records: list[dict[str, Any]]
    kills: list[dict[str, Any]]
    asked_bot: int  # requests to the slow bot

    def toll(self) -> dict[str, int]:
        """How much was acknowledged, and how much of it is stored not at all or more often than once."""
        return toll(self.talkers, self.records)


def play(server: Served, slow: FakeEndpoint, seed: int, kills: Sequence[Kill]) -> Scene:
    """Let eight participants talk while processes die."""
    patient = PatientClient(server.client)
    bots = [f"talkative-{number}" for number in range(3)]
    add_bots(patient, *bots)
    specification = {"kind": "openai", "url": slow.url, "model": "small"}
    assert patient.request("PUT", "/v1/bots/slow", json={"specification": specification}).status_code == 201
    protocol = chat_protocol(*bots, "slow", per_participant=200, target=100_000, votes=True)
    token = new_study(patient, "killed", protocol)
    address, drawn, over = str(server.client.base_url), random.Random(seed), threading.Event()
    talkers = [Talker(address, token, number) for number in range(PEOPLE)]
    threads = [threading.Thread(target=talker.run, args=(over.is_set,)) for talker in talkers]
    for thread in threads:
        thread.start()
    killed = list[dict[str, Any]]()
    for kill in kills:
        wanted = sum(len(talker.messages) for talker in talkers) + drawn.randint(1, 24)
        until_said(server, talkers, wanted)
        time.sleep(drawn.random() / 50)  # a moment within an action, not a wait for one
        being_made = sum(talker.client.waits_for_reply for talker in talkers if talker.client)
        kill(server)
        killed.append({"at": time.monotonic(), "being_made": being_made})
    until_said(server, talkers, 1 + sum(len(talker.messages) for talker in talkers))
    over.set()
    for thread in threads:
        thread.join(deadline_s())
    failed = any(talker.error for talker in talkers)
    answered = sorted(times for talker in talkers if talker.client for times in talker.client.answered)
    for one in killed:
        at = one.pop("at")
        one["again_s"] = round(min(end for began, end in answered if began >= at) - at, 2) if not failed else None
    lines = patient.request("GET", "/v1/studies/killed/export").text.splitlines()
    return Scene(talkers, [orjson.loads(line) for line in lines], killed, len(slow.received))


def until_said(server: Served, talkers: Sequence[Talker], wanted: int) -> None:
    """Return when so many messages have got their replies, or a participant could not go on."""
    server.until(
        lambda: sum(len(talker.messages) for talker in talkers) >= wanted or any(talker.error for talker in talkers),
        "messages to be answered",
    )


def check(scene: Scene) -> None:
    talkers, records = scene.talkers, scene.records
    assert [talker.error for talker in talkers] == [None] * PEOPLE
    assert (scene.toll()["lost"], scene.toll()["doubled"]) == (0, 0)
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
    """End the web process, and return when it is gone; the supervisor begins another one."""
    dead = set(server.kill("web"))
    server.until(lambda: not dead & set(server.children()["web"]), "the process to be gone")


OF_BOTH_SORTS = pytest.mark.parametrize("kill", [kill_web, Served.restart_after_kill], ids=["web", "whole"])


@pytest.mark.slow
def test_every_acknowledged_action_survives_three_kills(tmp_path: Path) -> None:
    with endpoint(slow_answer) as slow, served(tmp_path / "home", "--bot-hosts", "127.0.0.1") as server:
        check(play(server, slow, 1, [kill_web, Served.restart_after_kill, kill_web]))


@pytest.mark.faults
@pytest.mark.parametrize("seed", SEEDS)
@OF_BOTH_SORTS
def test_every_acknowledged_action_survives_a_hundred_kills_of_each_sort_over_both_databases(
    tmp_path: Path, database_url: str, kill: Kill, seed: int
) -> None:
    options = ["--bot-hosts", "127.0.0.1", *(["--database", database_url] if database_url else [])]
    began = time.monotonic()
    with endpoint(slow_answer) as slow, served(tmp_path / "home", *options) as server:
        scene = play(server, slow, seed, [kill] * KILLS)
    if FIGURES:
        line = {
            "sort": "web" if kill is kill_web else "whole",
            "database": "postgresql" if database_url else "sqlite",
            "seed": seed,
            "seconds": round(time.monotonic() - began, 1),
            "load": round(os.getloadavg()[0]),
            "errors": sum(talker.error is not None for talker in scene.talkers),
            **scene.toll(),
            "kills": scene.kills,
        }
        with Path(FIGURES).open("ab") as lines:
            lines.write(orjson.dumps(line) + b"\n")
    check(scene)
