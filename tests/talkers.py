"""Scripted participants of a study who write down what was acknowledged, and go on whatever happens to the server."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
from servers import deadline_s
from studying import Person, action_id

TURNS = 4


@dataclass
class PatientClient:
    """A client that sends a request again until it is answered, as the page of a participant does."""

    client: httpx2.Client
    cookies: Any = field(init=False)
    answered: list[tuple[float, float]] = field(default_factory=list)  # when a request was sent that was answered
    waits_for_reply: bool = False

    def __post_init__(self) -> None:
        self.cookies = self.client.cookies

    def request(self, method: str, url: str, **given: Any) -> Any:
        until = time.monotonic() + deadline_s()
        self.waits_for_reply = "/state?wait=" in url and not url.endswith("=0")
        while True:
            began = time.monotonic()
            try:
                answer = self.client.request(method, url, **given)
                if answer.status_code not in (429, 503, 507):
                    self.answered.append((began, time.monotonic()))
                    self.waits_for_reply = False
                    return answer
            except httpx2.TransportError:
                pass
            assert time.monotonic() < until, (method, url)
            time.sleep(0.05)


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
    pause_s: float = 0.0  # before each message
    client: PatientClient | None = None
    error: BaseException | None = None

    def run(self, is_over: Callable[[], bool]) -> None:
        try:
            with httpx2.Client(base_url=self.address, timeout=60) as client:
                self.client = PatientClient(client)
                self._take_part(Person(self.client), is_over)
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
                self._reload(person, task)
                time.sleep(self.pause_s)
                text = f"person {self.number} says {turn} in {task}"
                person.say(text)
                while person.sides[0]["messages"][-1]["state"] == "failed":  # as the page offers it
                    person.done(f"tasks/{task}/retry")
                    while person.sides[0]["messages"][-1]["state"] == "asked":
                        person.look(20)
                n = person.sides[0]["messages"][-1]["n"]
                self.messages.append((task, n - 1, text))
                person.done(f"tasks/{task}/votes", {"n": n, "value": 1 if turn % 2 else -1})
                self.votes[task, n] = 1 if turn % 2 else -1
            quality = 1 + (self.number + len(self.finished)) % 7
            person.done(f"tasks/{task}/answers", {"answers": {"quality": quality}})
            self.answers[task] = quality
            self._reload(person, task)
            assert person.state["task"]["answers"] == {"quality": quality}
            person.done(f"tasks/{task}/finish")
            self.finished.append(task)

    def _reload(self, person: Person, task: str) -> None:
        """Load the page anew: it shows what was acknowledged in this task, and lets the participant go on."""
        person.look()
        assert (person.state["step"], person.state["task"]["id"]) == ("task", task)
        messages = person.sides[0]["messages"]
        said = [(task, message["n"], message["text"]) for message in messages if message["role"] == "participant"]
        assert said == [message for message in self.messages if message[0] == task]
        votes = {(task, message["n"]): message["vote"] for message in messages if message["role"] == "bot"}
        assert votes == {place: vote for place, vote in self.votes.items() if place[0] == task}
        assert {message["state"] for message in messages} <= {"answered"}


def toll(talkers: Sequence[Talker], records: Sequence[dict[str, Any]]) -> dict[str, int]:
    """How much was acknowledged, and how much of it is stored not at all or more often than once."""
    tasks: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        tasks.setdefault(record["task"], []).append(record)
    turns = {
        task: [turn for record in of_task for turn in record["sides"][0]["turns"]] for task, of_task in tasks.items()
    }
    found = Counter[str]()

    def count(kind: str, times: int) -> None:
        found.update({kind: 1, "lost": times == 0, "doubled": max(0, times - 1)})

    for talker in talkers:
        for task, n, text in talker.messages:
            of_task = turns.get(task, [])
            count("messages", sum(turn["text"] == text for turn in of_task))
            count("replies", sum(turn["n"] == n + 1 and turn["role"] == "bot" for turn in of_task))
        for (task, n), vote in talker.votes.items():
            count("votes", sum((turn["n"], turn["vote"]) == (n, vote) for turn in turns.get(task, [])))
        for task, quality in talker.answers.items():
            count("answers", sum(record["answers"] == {"quality": quality} for record in tasks.get(task, [])))
        for task in talker.finished:
            count("finished", sum(record["state"] == "done" for record in tasks.get(task, [])))
    return {kind: found[kind] for kind in ("messages", "replies", "votes", "answers", "finished", "lost", "doubled")}
