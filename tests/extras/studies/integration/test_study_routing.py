"""Active routing at a service: votes choose the next two bots, and the study ends when their order is decided."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from servers import Served, served
from serving import client_of, migrated
from sqlalchemy import text
from starlette.testclient import TestClient
from studying import Person, add_bots, chat_protocol, new_study
from typer.testing import CliRunner

from refaug.cli.main import app
from refaug.core.home import Settings
from refaug.extras.studies.routing import EXPLORED, FEWEST_VOTES, decides
from refaug.service.database.database import Database

pytest_plugins = ("databases",)
FORM = {"name": "pair", "questions": [{"id": "better", "text": "Which one?", "type": "pair"}]}
BOTS = ("quokka", "wombat", "numbat", "bilby")
STRENGTHS = (4.0, 3.0, 0.5, 0.0)  # the last two are hard to tell apart
AT_ONCE, LEAVING = 6, 0.05


def routed_protocol(**changes: Any) -> dict[str, Any]:
    """A protocol of pairs whose next one the votes choose."""
    asked = {"kind": "chat-pair", "form": FORM, "min_turns": 0, "per_participant": 10, "routing": "active"}
    return chat_protocol(*BOTS, **{**asked, **changes})


class Voters:
    """Participants of one study who come, vote as the bots are worth, and sometimes leave without a word."""

    def __init__(self, client: TestClient, token: str, seed: int, strengths: tuple[float, ...] = STRENGTHS) -> None:
        self._client, self._token, self._drawn = client, token, random.Random(seed)
        self._strengths = strengths
        self.people = list[Person]()
        self.pairs = list[tuple[int, int]]()  # as they were voted on
        self.wins = np.zeros((len(strengths), len(strengths)))

    def vote(self, people: int) -> None:
        """Let so many take part, some at a time, and each until the study has nothing for it."""
        here = list[Person]()
        while people or here:
            if people and len(here) < AT_ONCE:
                people -= 1
                here.append(Person(self._client))
                here[-1].enter(self._token)
                here[-1].agree()
                self.people.append(here[-1])
            person = self._drawn.choice(here)
            if not self._step(person):
                here.remove(person)

    def _step(self, person: Person) -> bool:
        if person.state["step"] == "ready":
            person.done("tasks/next")
        if person.state["step"] != "task":
            return False
        if self._drawn.random() < LEAVING:
            return False
        self.choose(person)
        return True

    def choose(self, person: Person) -> None:
        """Vote on the current task of a participant."""
        task = person.state["task"]["id"]
        query = text("SELECT slot_a, slot_b, left_slot FROM study_tasks WHERE id = :id")
        with self._client.app.state.refaug.database.reading() as connection:  # type: ignore[attr-defined]
            first, second, left = connection.execute(query, {"id": task}).one()
        is_first = self._drawn.random() < 1 / (1 + exp(self._strengths[second] - self._strengths[first]))
        person.done(
            f"tasks/{task}/answers", {"answers": {"better": "left" if is_first == (left == first) else "right"}}
        )
        person.done(f"tasks/{task}/finish")
        self.pairs.append((first, second))
        self.wins[(first, second) if is_first else (second, first)] += 1


@pytest.mark.slow
def test_votes_choose_the_pairs_until_the_order_is_decided(database_url: str, tmp_path: Path) -> None:
    home = Settings(home=tmp_path / "home")
    home.home.mkdir()
    database = Database.open(home, database_url)
    database.migrate()
    database.close()
    with client_of(home, ready=False, database=database_url) as client:
        add_bots(client, *BOTS[:3])
        token = new_study(client, "routed", routed_protocol(bots=[*BOTS[:3]], target=200))
        voters = Voters(client, token, seed=1, strengths=(4.5, 2.0, 0.0))
        voters.vote(20)
        progress = client.get("/v1/studies/routed/progress").json()
        assert all(bot["done"] == bot["target"] for bot in progress["bots"])
        assert FEWEST_VOTES <= progress["counts"]["tasks_done"] == len(voters.pairs) < 3 * 200
        assert decides(voters.wins)
        assert Counter(person.state["step"] for person in voters.people)["full"] > 0
        assert all(person.state["completion"]["code"] for person in voters.people if person.state["step"] == "done")
        # Neighbours were compared more often than the ends of the order, which explorations alone go to.
        asked = Counter(voters.pairs)
        assert min(asked[0, 1], asked[1, 2]) > asked[0, 2] >= EXPLORED * len(voters.pairs) / 2
        assert told(client) == [
            ("study routed has decided the order of its bots, and takes no more tasks", len(voters.pairs))
        ]
        # A participant who withdraws takes the votes along: the study goes on where they were needed.
        withdrawn = 0
        while decides(remaining(client)):
            voters.people[withdrawn].done("withdraw")
            withdrawn += 1
        late = Person(client)
        late.enter(token)
        late.agree()
        assert late.done("tasks/next")["step"] == "task"


def remaining(client: TestClient) -> np.ndarray:
    """The wins that records still have."""
    wins, place = np.zeros((3, 3)), {bot: at for at, bot in enumerate(BOTS[:3])}
    for record in map(json.loads, client.get("/v1/studies/routed/export").text.splitlines()):
        if record["state"] == "done":
            sides = {bot["side"]: place[bot["bot"]] for bot in record["bots"]}
            left, right = sides["left"], sides["right"]
            wins[(left, right) if record["answers"]["better"] == "left" else (right, left)] += 1
    return wins


def told(client: TestClient) -> list[tuple[str, int]]:
    """What webhooks are told of the study: the text and the number of tasks."""
    notices, found = client.app.state.refaug.notices, []  # type: ignore[attr-defined]
    while (notice := notices.take(datetime.now(UTC) + timedelta(seconds=1), 1.0)) is not None:
        body = orjson.loads(notice.body)
        found.append((body["text"], body["data"]["tasks"]))
        notices.remove(notice.id)
    return found


@pytest.mark.slow
def test_a_study_of_bots_that_are_alike_goes_on_to_its_target_and_prints_no_interval(tmp_path: Path) -> None:
    with client_of(migrated(Settings(home=tmp_path / "home")), ready=False) as client:
        add_bots(client, *BOTS)
        token = new_study(client, "alike", routed_protocol(target=12, skips=0))
        voters = Voters(client, token, seed=2, strengths=(0.0, 0.0, 0.0, 0.0))
        voters.vote(20)
        counts = client.get("/v1/studies/alike/progress").json()["counts"]
        assert (counts["tasks_done"] + counts["tasks_reserved"], decides(voters.wins)) == (6 * 12, False)
        report = client.get("/v1/studies/alike/report").json()["report"]
        bots = report["analyses"]["all"]["choices"]["better"]["bradley_terry"]["half"]["bots"]
        assert ({row["low"] for row in bots}, {row["why"] for row in bots}) == ({None}, {"routed"})
        assert report["routing"]["stopped"] == {"kept": False, "all": False}


def test_an_answer_that_is_taken_back_is_no_vote(tmp_path: Path) -> None:
    with client_of(migrated(Settings(home=tmp_path / "home")), ready=False) as client:
        add_bots(client, *BOTS)
        token = new_study(client, "undone", routed_protocol(target=1, per_participant=6))
        voters = Voters(client, token, seed=3)
        person = Person(client)
        person.enter(token)
        person.agree()
        asked = []
        for _ in range(3):
            person.done("tasks/next")
            voters.choose(person)
            asked.append(voters.pairs[-1])
            person.done("undo")
            task = person.state["task"]["id"]
            person.done(f"tasks/{task}/finish")
        assert all(one != other for one, other in pairwise(asked))
        counts = client.get("/v1/studies/undone/progress").json()["counts"]
        assert counts["tasks_done"] == 3


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    """A service in processes of its own, with three bots."""
    with served(tmp_path / "home") as running:
        add_bots(running.client, *BOTS[:3])
        yield running


@pytest.mark.slow
def test_a_rehearsal_of_many_at_once_ends_when_the_order_is_decided(server: Served) -> None:
    asked = {"kind": "chat-pair", "form": FORM, "min_turns": 1, "per_participant": 8, "target": 100}
    new_study(server.client, "routed", chat_protocol(*BOTS[:3], routing="active", **asked), act="pilot")
    address, together = str(server.client.base_url).rstrip("/"), 6
    words = ["--home", str(server.home), "--quiet", "studies", "simulate", "--study", "routed", "--server", address]
    options = ["--participants", "30", "--careless", "0", "--qualities", "6,4,2", "--together", str(together)]
    result = CliRunner().invoke(app, [*words, *options, "--json"])
    assert result.exit_code == 0, (result.output, result.exception)
    compared = json.loads(result.stdout)
    assert (compared["stored"]["lost"], compared["balance"]["planned"]) == (0, None)
    assert compared["order"]["all"]["found"] is True
    assert compared["ends"]["full"] > 0
    records = map(json.loads, server.client.get("/v1/studies/routed/export").text.splitlines())
    done = sorted((record for record in records if record["state"] == "done"), key=lambda record: record["ended"])
    wins, decided_at = np.zeros((3, 3)), 0
    for number, record in enumerate(done, 1):
        sides = {bot["side"]: int(bot["slot"]) for bot in record["bots"]}
        left, right = sides["left"], sides["right"]
        wins[(left, right) if record["answers"]["better"] == "left" else (right, left)] += 1
        decided_at = decided_at or (number if decides(wins) else 0)
    assert decides(wins)
    assert FEWEST_VOTES <= decided_at <= len(done) <= decided_at + together  # who was in a task may finish it
