"""Balance of bots where participants come, leave, skip and return as they like, on both databases."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from serving import client_of
from sqlalchemy import text
from starlette.testclient import TestClient
from studying import Person, add_bots, chat_protocol, new_study

from refaug.core.home import Settings
from refaug.service.database.database import Database

pytest_plugins = ("databases",)
BOTS = ("quokka", "wombat", "numbat", "bilby", "potoroo", "dunnart")
AT_ONCE, LEAVING, SKIPPING = 25, 0.06, 0.03  # 6 % of tasks: 3 in 10 of the participants leave


class Crowd:
    """Participants of one study, each of whom does the next thing when it is drawn."""

    def __init__(self, client: TestClient, token: str, seed: int) -> None:
        self._client, self._token, self._drawn = client, token, random.Random(seed)
        self.left = 0

    def take_part(self, people: int) -> None:
        """Let so many take part; all have gone when this returns."""
        here = list[Person]()
        while people or here:
            if people and len(here) < AT_ONCE:
                people -= 1
                here.append(self._arrived())
            person = self._drawn.choice(here)
            if not self._step(person):
                here.remove(person)

    def _arrived(self) -> Person:
        person = Person(self._client)
        person.enter(self._token)
        person.agree()
        return person

    def _step(self, person: Person) -> bool:
        """Whether the participant is still there after one more step."""
        if person.state["step"] == "ready":
            person.done("tasks/next")
            return person.state["step"] == "task"
        if person.state["step"] != "task":
            return False
        task, chance = person.state["task"]["id"], self._drawn.random()
        if chance < LEAVING:
            self._leave(task)
            return False
        if chance < LEAVING + SKIPPING and person.state["study"]["skips_left"]:
            person.done(f"tasks/{task}/skip", {"reason": "not now"})
            return True
        person.done(f"tasks/{task}/answers", {"answers": {"quality": 4}})
        person.done(f"tasks/{task}/finish")
        return person.state["step"] in ("ready", "task")

    def _leave(self, task: str) -> None:
        """Say nothing any more; of every second one the reservation is over by now."""
        self.left += 1
        if self.left % 2:
            self.expire(task)

    def expire(self, task: str | None = None) -> None:
        """Let the time of a reservation be over, or of all."""
        statement = (
            "UPDATE study_tasks SET reserved_until = '2020-01-01T00:00:00.000000Z'"
            " WHERE state IN ('reserved', 'started') AND (:all OR id = :id)"
        )
        with self._client.app.state.refaug.database.writing() as connection:  # type: ignore[attr-defined]
            connection.execute(text(statement), {"all": task is None, "id": task or ""})


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "target"), [(1, 16), pytest.param(2, 40, marks=pytest.mark.faults)])
def test_bots_are_balanced_though_three_in_ten_leave(database_url: str, tmp_path: Path, seed: int, target: int) -> None:
    home = Settings(home=tmp_path / "home")
    home.home.mkdir()
    database = Database.open(home, database_url)
    database.migrate()
    database.close()
    with client_of(home, ready=False, database=database_url) as client:
        add_bots(client, *BOTS)
        protocol = chat_protocol(*BOTS, min_turns=0, skips=2, target=target)
        crowd = Crowd(client, new_study(client, "balance", protocol), seed)
        for share in (1.25, 0.6, 0.25):  # of a crowd that has 40 chats of each bot, most by the first
            crowd.take_part(round(share * target))
            crowd.expire()
        assert done(client) == dict.fromkeys(BOTS, target)


def done(client: TestClient) -> dict[str, int]:
    """How many finished chats each bot has."""
    return {bot["bot"]: bot["done"] for bot in client.get("/v1/studies/balance/progress").json()["bots"]}
