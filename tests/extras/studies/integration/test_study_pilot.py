"""What a pilot leaves to the study: bots that were changed after it, and figures while it pauses."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from serving import client_of, migrated
from starlette.testclient import TestClient
from studying import CONSENT, FORM, Person, add_bots, chat_protocol, invitation, new_study

from refaug.core.home import Settings

BETTER = {"name": "better", "questions": [{"id": "better", "text": "Which one?", "type": "pair", "required": True}]}
PAIRS = {"kind": "chat-pair", "form": BETTER, "min_turns": 0}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A server with two bots."""
    with client_of(migrated(Settings(home=tmp_path_factory.mktemp("pilot") / "home")), ready=False) as opened:
        add_bots(opened, "quokka", "wombat")
        yield opened


def entered(client: TestClient, token: str) -> Person:
    person = Person(client)
    person.enter(token)
    person.agree()
    return person


def vote(person: Person) -> dict[str, Any]:
    """Finish a task without a message; the left bot is better."""
    task = person.done("tasks/next")["task"]["id"]
    person.done(f"tasks/{task}/answers", {"answers": {"better": "left"}})
    return person.done(f"tasks/{task}/finish")


@pytest.mark.parametrize("changed", ["quokka", "wombat"])
def test_after_a_bot_was_changed_each_has_all_tasks_and_the_check_with_the_bots_as_they_are(
    client: TestClient, changed: str
) -> None:
    protocol = chat_protocol("quokka", "wombat", per_participant=3, checks={"degraded": True}, **PAIRS)
    study = f"changed-{changed}"
    new_study(client, study, protocol, act="pilot")
    add_bots(client, changed, replies=len(changed))
    assert client.post(f"/v1/studies/{study}/open").status_code == 200
    person = entered(client, invitation(client, study))
    while person.state["step"] == "ready":
        vote(person)
    records = [json.loads(line) for line in client.get(f"/v1/studies/{study}/export").text.splitlines()]
    assert Counter(record["check"] for record in records) == {None: 3, "degraded": 1}
    hashes = client.get(f"/v1/studies/{study}").json()["protocol"]["bot_hashes"]
    for record in records:
        other = "wombat" if record["check"] is None else "quokka-degraded"
        assert {bot["bot"]: bot["sha256"] for bot in record["bots"]} == {
            name: hashes[name] for name in ("quokka", other)
        }


REPLIES = [{"id": "r", "turns": ["Hi"], "replies": {"zebra": "Ho"}}]
RATED = {"kind": "rate-reply", "form": FORM, "consent": CONSENT, "per_participant": 1, "ratings_per_item": 2}


def rate(person: Person, quality: int) -> None:
    """A whole task about a reply."""
    task = person.done("tasks/next")["task"]["id"]
    person.done(f"tasks/{task}/answers", {"answers": {"quality": quality}})
    person.done(f"tasks/{task}/finish")


def test_no_pilot_follows_once_people_came_to_the_open_study(client: TestClient) -> None:
    token = new_study(client, "once", RATED, REPLIES)
    rate(entered(client, token), 4)
    client.post("/v1/studies/once/pause")
    refused = client.post("/v1/studies/once/pilot")
    assert (refused.status_code, refused.json()["detail"]) == (
        409, "study once was open: what its participants do counts",
    )  # fmt: skip
    assert client.post("/v1/studies/once/open").json()["state"] == "open"
    assert entered(client, token).done("tasks/next")["step"] == "task"  # the second of two ratings


def mean_of(client: TestClient, study: str) -> float:
    report = client.get(f"/v1/studies/{study}/report?draws=100").json()["report"]
    (mean,) = report["analyses"]["all"]["ratings"]["quality"]["means"]
    return float(mean["mean"])


def test_a_pilot_that_pauses_or_ends_shows_what_was_done_in_it(client: TestClient) -> None:
    token = new_study(client, "rests", RATED, REPLIES, act="pilot")
    rate(entered(client, token), 4)
    for act in ("pause", "pilot", "close"):
        client.post(f"/v1/studies/rests/{act}")
        assert client.get("/v1/studies/rests/progress").json()["counts"]["tasks_done"] == 1
        assert (len(client.get("/v1/studies/rests/responses").json()["responses"]), mean_of(client, "rests")) == (1, 4)


def test_a_pilot_is_not_shown_while_the_open_study_pauses(client: TestClient) -> None:
    token = new_study(client, "opened", RATED, REPLIES, act="pilot")
    rate(entered(client, token), 1)
    for act in ("pause", "open"):
        client.post(f"/v1/studies/opened/{act}")
    rate(entered(client, token), 6)
    client.post("/v1/studies/opened/pause")
    assert client.get("/v1/studies/opened/progress").json()["counts"]["tasks_done"] == 1
    assert mean_of(client, "opened") == 6
