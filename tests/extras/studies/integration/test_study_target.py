"""A webhook is told once when a study has as many tasks of each bot as it wants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
from serving import client_of, migrated
from studying import Person, add_bots, chat_protocol, new_study

from refaug.core.home import Settings


def test_the_last_wanted_task_of_an_open_study_is_told_and_no_other_one(tmp_path: Path) -> None:
    with client_of(migrated(Settings(home=tmp_path / "home")), ready=False) as client:
        notices = client.app.state.refaug.notices  # type: ignore[attr-defined]
        add_bots(client, "quokka")
        token = new_study(client, "fruit", chat_protocol("quokka", target=2, per_participant=1))
        told = []
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
        told = []
        while (notice := notices.take(datetime.now(UTC) + timedelta(seconds=1), 1.0)) is not None:
            body = orjson.loads(notice.body)
            told.append((body["text"], body["data"]))
            notices.remove(notice.id)
        assert told == [
            ("study fruit has reached its stop rule and pauses", {"study": "fruit", "tasks": 1}),
            ("study fruit has reached its target", {"study": "fruit", "tasks": 2}),
        ]
