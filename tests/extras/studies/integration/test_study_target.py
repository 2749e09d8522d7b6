"""A webhook is told once when a study has as many tasks of each bot as it wants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from serving import client_of, migrated
from studying import CONSENT, FORM, Caller, Person, add_bots, chat_protocol, new_study

from refaug.core.home import Settings


def test_the_last_wanted_task_of_an_open_study_is_told_and_no_other_one(tmp_path: Path) -> None:
    with client_of(migrated(Settings(home=tmp_path / "home")), ready=False) as client:
        notices = client.app.state.refaug.notices  # type: ignore[attr-defined]
        add_bots(client, "quokka")
        token = new_study(client, "fruit", chat_protocol("quokka", target=2, per_participant=1))
        told: list[int] = []
        for _ in range(3):
            person = Person(client)
            person.enter(token)
            person.agree()
            person.chat()
            told.append(notices.waiting()[0])
        assert told == [0, 1, 1]
        notice = notices.take(datetime.now(UTC) + timedelta(seconds=1), 1.0)
        body = orjson.loads(notice.body)
        assert (body["type"], body["text"]) == ("study.target_reached", "study fruit has reached its target")
        assert body["data"] == {"study": "fruit", "tasks": 2}


def test_a_stop_rule_and_a_target_that_is_reached_in_a_pause_are_told(tmp_path: Path) -> None:
    with client_of(migrated(Settings(home=tmp_path / "home")), ready=False) as client:
        notices = client.app.state.refaug.notices  # type: ignore[attr-defined]
        add_bots(client, "quokka")
        rule = {"tasks": 1}
        token = new_study(client, "fruit", chat_protocol("quokka", target=2, per_participant=1, stop=rule))
        people = [Person(client), Person(client)]
        for person in people:
            person.enter(token)
            person.agree()
            person.done("tasks/next")
        texts = []
        for person in people:
            person.chat()
            texts.append(notices.waiting()[0])
        assert texts == [1, 2]
        told: list[tuple[str, dict[str, object]]] = []
        while (notice := notices.take(datetime.now(UTC) + timedelta(seconds=1), 1.0)) is not None:
            body = orjson.loads(notice.body)
            told.append((body["text"], body["data"]))
            notices.remove(notice.id)
        assert told == [
            ("study fruit has reached its stop rule and pauses", {"study": "fruit", "tasks": 1}),
            ("study fruit has reached its target", {"study": "fruit", "tasks": 2}),
        ]


REPLIES = [
    {"id": f"r{n}", "turns": [f"Question {n}?"], "replies": {"zebra": "Yes.", "quokka": "No."}} for n in range(2)
]


def rate(person: Person, answer: dict[str, Any]) -> None:
    """One more item, to the end."""
    task = person.done("tasks/next")["task"]["id"]
    person.done(f"tasks/{task}/answers", {"answers": answer})
    person.done(f"tasks/{task}/finish")


PAIR_FORM = {
    "name": "better",
    "questions": [{"id": "better", "text": "Which one?", "type": "pair", "required": True}],
}


def test_three_bots_side_by_side_have_their_target_once_each_pair_has_it(tmp_path: Path) -> None:
    with client_of(migrated(Settings(home=tmp_path / "home")), ready=False) as client:
        notices = client.app.state.refaug.notices  # type: ignore[attr-defined]
        bots = ("quokka", "wombat", "numbat")
        add_bots(client, *bots)
        pairs = {"kind": "chat-pair", "form": PAIR_FORM, "min_turns": 0, "target": 1, "per_participant": 1}
        token = new_study(client, "fruit", chat_protocol(*bots, **pairs))
        told: list[int] = []
        for _ in range(3):
            person = Person(client)
            person.enter(token)
            person.agree()
            rate(person, {"better": "left"})
            told.append(notices.waiting()[0])
        assert told == [0, 0, 1]
        progress = client.get("/v1/studies/fruit/progress").json()["bots"]
        assert {bot["bot"]: (bot["done"], bot["target"]) for bot in progress} == dict.fromkeys(bots, (2, 2))


def test_checks_bring_no_bot_nearer_to_its_target(tmp_path: Path) -> None:
    with client_of(migrated(Settings(home=tmp_path / "home")), ready=False) as client:
        add_bots(client, "quokka", "wombat")
        asked = {"kind": "chat-pair", "form": PAIR_FORM, "min_turns": 0, "target": 5, "per_participant": 2}
        protocol = chat_protocol("quokka", "wombat", checks={"degraded": True, "repeat": 1}, **asked)
        person = Person(client)
        person.enter(new_study(client, "fruit", protocol))
        person.agree()
        while person.state["step"] == "ready":
            rate(person, {"better": "left"})
        progress = client.get("/v1/studies/fruit/progress").json()
        assert progress["counts"]["tasks_done"] == 4
        assert [(bot["bot"], bot["done"], bot["target"]) for bot in progress["bots"]] == [
            ("quokka", 2, 5), ("wombat", 2, 5), ("quokka-degraded", 1, None),
        ]  # fmt: skip
        assert [(pair["slots"], sum(pair["left"])) for pair in progress["pairs"]] == [([0, 1], 2)]


@pytest.mark.parametrize(
    ("kind", "form", "answer", "units"),
    [("rate-reply", FORM, {"quality": 4}, 4), ("pair-reply", PAIR_FORM, {"better": "left"}, 2)],
)
def test_the_last_wanted_task_of_items_is_told_once_though_it_is_taken_back(
    tmp_path: Path, kind: str, form: dict[str, Any], answer: dict[str, Any], units: int
) -> None:
    with client_of(migrated(Settings(home=tmp_path / "home")), ready=False) as client:
        notices = client.app.state.refaug.notices  # type: ignore[attr-defined]
        protocol = {"kind": kind, "form": form, "consent": CONSENT, "per_participant": units, "ratings_per_item": 2}
        token = new_study(client, "fruit", protocol, REPLIES)
        people, told = [Person(client), Person(client)], []
        for person in people:
            person.enter(token)
            person.agree()
            for _ in range(units):
                rate(person, answer)
                told.append(notices.waiting()[0])
        assert told == [0] * (2 * units - 1) + [1]
        for person in people:  # each of the two takes the last task back: the target is reached twice more
            person.done("undo")
            person.done(f"tasks/{person.state['task']['id']}/finish")
        assert notices.waiting()[0] == 1
        body = orjson.loads(notices.take(datetime.now(UTC) + timedelta(seconds=1), 1.0).body)
        assert (body["text"], body["data"]) == (
            "study fruit has reached its target",
            {"study": "fruit", "tasks": 2 * units},
        )


def test_a_target_that_is_reached_again_after_somebody_withdrew_is_told_once_and_a_higher_one_again(
    tmp_path: Path,
) -> None:
    with client_of(migrated(Settings(home=tmp_path / "home")), ready=False) as client:
        notices = client.app.state.refaug.notices  # type: ignore[attr-defined]
        add_bots(client, "quokka")
        protocol = chat_protocol("quokka", target=2, per_participant=1)
        token = new_study(client, "fruit", protocol)
        first, second, third = (Person(client) for _ in range(3))
        for person in (first, second, third):
            person.enter(token)
            person.agree()
        first.chat()
        second.chat()
        assert notices.waiting()[0] == 1
        second.done("withdraw")
        third.chat()
        assert notices.waiting()[0] == 1
        body = {"protocol": {**protocol, "target": 3}, "reason": "more are needed"}
        assert client.request("PUT", "/v1/studies/fruit/protocol", json=body).status_code == 200
        person = Person(client)
        person.enter(token)
        person.agree()
        person.chat()
        assert notices.waiting()[0] == 2


def test_the_item_of_one_who_withdrew_is_given_again_and_the_target_is_told(tmp_path: Path) -> None:
    with client_of(migrated(Settings(home=tmp_path / "home")), ready=False) as client:
        notices = client.app.state.refaug.notices  # type: ignore[attr-defined]
        protocol = {"kind": "rate-reply", "form": FORM, "consent": CONSENT, "per_participant": 1, "ratings_per_item": 2}
        items = [{**REPLIES[0], "replies": {"zebra": "Yes.", "quokka": "No.", "lemur": "So."}}]
        token = new_study(client, "fruit", protocol, items)
        rated, waiting = Person(client), Person(client)
        for person in (rated, waiting):
            person.enter(token)
            person.agree()
        rate(rated, {"quality": 4})
        waiting.done("tasks/next")
        rated.done("withdraw")
        waiting.done("withdraw")  # with a task that was begun
        told: list[int] = []
        for _ in range(6):
            person = Person(client)
            person.enter(token)
            person.agree()
            rate(person, {"quality": 4})
            told.append(notices.waiting()[0])
        assert told == [0, 0, 0, 0, 0, 1]
        body = orjson.loads(notices.take(datetime.now(UTC) + timedelta(seconds=1), 1.0).body)
        assert body["data"] == {"study": "fruit", "tasks": 6}


def amend(client: Caller, protocol: dict[str, Any]) -> None:
    """Another protocol of the study that is open."""
    body = {"protocol": protocol, "reason": "as many are enough"}
    answer = client.request("PUT", "/v1/studies/fruit/protocol", json=body)
    assert answer.status_code == 200, answer.text


def test_a_target_that_an_amendment_lowers_to_what_is_there_is_told_once(tmp_path: Path) -> None:
    with client_of(migrated(Settings(home=tmp_path / "home")), ready=False) as client:
        notices = client.app.state.refaug.notices  # type: ignore[attr-defined]
        add_bots(client, "quokka")
        protocol = chat_protocol("quokka", target=5, per_participant=1)
        token = new_study(client, "fruit", protocol)
        for _ in range(3):
            person = Person(client)
            person.enter(token)
            person.agree()
            person.chat()
        told: list[int] = []
        for target in (4, 2, 1, 3, 2):
            amend(client, {**protocol, "target": target})
            told.append(notices.waiting()[0])
        assert told == [0, 1, 1, 2, 2]  # three are also as many as are there; fewer were told with more
        body = orjson.loads(notices.take(datetime.now(UTC) + timedelta(seconds=1), 1.0).body)
        assert (body["text"], body["data"]) == ("study fruit has reached its target", {"study": "fruit", "tasks": 3})


def test_fewer_ratings_of_each_item_than_there_are_already_are_told(tmp_path: Path) -> None:
    with client_of(migrated(Settings(home=tmp_path / "home")), ready=False) as client:
        notices = client.app.state.refaug.notices  # type: ignore[attr-defined]
        protocol = {"kind": "rate-reply", "form": FORM, "consent": CONSENT, "per_participant": 4, "ratings_per_item": 3}
        token = new_study(client, "fruit", protocol, REPLIES)
        person = Person(client)
        person.enter(token)
        person.agree()
        told: list[int] = []
        for _ in range(4):
            amend(client, {**protocol, "ratings_per_item": 1, "title": f"Study {len(told)}"})
            told.append(notices.waiting()[0])
            amend(client, {**protocol, "title": f"Study {len(told)}"})
            rate(person, {"quality": 4})
        amend(client, {**protocol, "ratings_per_item": 1})
        assert [*told, notices.waiting()[0]] == [0, 0, 0, 0, 1]
