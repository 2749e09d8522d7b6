"""Who opens a participant's session: ids that nobody signed, cookies, links to go on, places, and several processes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from servers import served
from serving import client_of, migrated
from sqlalchemy import text
from starlette.testclient import TestClient
from studying import Person, action_id, add_bots, chat_protocol, database_bytes, invitation, new_study

from refaug.core.home import Settings
from refaug.extras.studies.participation import invites
from refaug.extras.studies.participation.invites import SESSION_DAYS, Newcomers
from refaug.extras.studies.routes.parts import parts_of
from refaug.service.database.database import time_text

ITEM = {"id": "d", "turns": ["Hi"], "replies": {"a": "Ho"}}
ANNA = {"PROLIFIC_PID": "anna-0001"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A server with two bots."""
    folder = tmp_path_factory.mktemp("access") / "home"
    folder.mkdir()
    with client_of(migrated(Settings(home=folder)), ready=False) as opened:
        add_bots(opened, "quokka", "wombat")
        yield opened


def entered(client: TestClient, token: str, **given: Any) -> Person:
    """A person who has agreed."""
    person = Person(client)
    person.enter(token, **given)
    person.agree()
    return person


def rated(person: Person) -> dict[str, Any]:
    """The state after a task of rating one reply."""
    task = person.done("tasks/next")["task"]["id"]
    person.done(f"tasks/{task}/answers", {"answers": {"overall": 2}})
    return person.done(f"tasks/{task}/finish")


# ── who comes back ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_who_has_the_shared_link_gets_nothing_of_another_by_their_id(client: TestClient) -> None:
    token = new_study(client, "claimed", chat_protocol("quokka"))
    anna = entered(client, token, external=ANNA)
    anna.done("tasks/next")
    anna.say("remember the marzipan")
    participants = client.get("/v1/studies/claimed/participants").json()["participants"]
    for state in ("in a task", "done"):
        refused = Person(client).open(token, external=ANNA)
        assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed"), state
        assert "set-cookie" not in refused.headers
        assert set(refused.json()) <= {"type", "title", "status", "code", "detail", "remedy", "request_id"}
        assert not any(secret in refused.text for secret in ("marzipan", anna.state["code"], "completion"))
        if state == "in a task":
            anna.chat(2, quality=5)
            assert anna.state["step"] == "done"
    after = client.get("/v1/studies/claimed/participants").json()["participants"]
    assert [row["code"] for row in after] == [row["code"] for row in participants] == [anna.state["code"]]
    assert anna.look()["completion"]["code"]


def test_a_cookie_a_repeated_action_and_a_personal_link_lead_back(client: TestClient) -> None:
    token = new_study(client, "back", chat_protocol("quokka"))
    anna, action = Person(client), action_id()
    anna.enter(token, action=action, external=ANNA)
    code, resume = anna.state["code"], anna.resume
    assert anna.enter(token, external=ANNA)["code"] == code
    assert anna.resume == resume, "a browser that is known is shown no second link"
    lost = Person(client)
    assert lost.enter(token, action=action, external=ANNA)["code"] == code, "the first answer may have been lost"
    assert lost.resume not in ("", resume)
    assert anna.enter(token, external={"PROLIFIC_PID": "berta-0002"})["code"] != code, "two people at one computer"
    assert anna.open(token, external=ANNA).status_code == 403

    alone = Person(client)
    code = alone.enter(token)["code"]
    assert alone.enter(token)["code"] == code
    assert Person(client).enter(token)["code"] != code

    personal = invitation(client, "back", uses_max=1)
    first = Person(client).enter(personal, external={"PROLIFIC_PID": "cleo-0003"})["code"]
    assert Person(client).enter(personal)["code"] == first
    assert Person(client).open(personal, external=ANNA).status_code == 200, "the link is the person's, whatever comes"
    assert Person(client).open(token, external={"PROLIFIC_PID": "cleo-0003"}).status_code == 403


def test_a_closed_browser_is_gone_on_from_at_the_same_place_on_another_device(client: TestClient) -> None:
    token = new_study(client, "device", chat_protocol("quokka", "wombat"))
    anna = entered(client, token, external=ANNA)
    task = anna.done("tasks/next")["task"]["id"]
    anna.say("the first line")
    resume = anna.resume
    database = client.app.state.refaug.database  # type: ignore[attr-defined]
    assert resume.encode() not in database_bytes(client.app.state.refaug.home.home)  # type: ignore[attr-defined]
    del anna  # the browser is closed, with its cookie

    elsewhere = Person(client)
    assert elsewhere.open(token, external=ANNA).status_code == 403
    state = elsewhere.enter(resume, external=ANNA)
    assert (state["task"]["id"], [message["text"] for message in state["task"]["sides"][0]["messages"]][:1]) == (
        task, ["the first line"],
    )  # fmt: skip
    assert elsewhere.resume == "", "the link is shown once"
    assert "resume" not in elsewhere.look()
    while elsewhere.state["step"] in ("ready", "task"):
        elsewhere.chat(3, quality=4)
    assert elsewhere.state["step"] == "done"
    with database.reading() as connection:
        assert (
            connection.execute(
                text("SELECT count(*) FROM study_resume_links WHERE hash = :it"), {"it": resume}
            ).scalar()
            == 0
        )


def test_the_researcher_makes_a_new_link_and_whatever_opened_it_before_does_no_more(client: TestClient) -> None:
    token = new_study(client, "renewed", chat_protocol("quokka"))
    anna, action = Person(client), action_id()
    anna.enter(token, action=action, external=ANNA)
    anna.agree()
    code, former = anna.state["code"], anna.resume
    made = client.post(f"/v1/studies/renewed/participants/{code}/resume-link")
    assert (made.status_code, made.json()["code"]) == (201, code)
    assert made.json()["link"] == f"/take#{made.json()['token']}"

    stale = client.get("/v1/take/state", headers={"Cookie": f"refaug_take={anna.cookie}"})
    assert (stale.status_code, stale.json()["code"]) == (401, "no_key")
    assert Person(client).open(former).status_code == 404
    assert Person(client).open(token, action=action, external=ANNA).status_code == 403
    assert Person(client).enter(made.json()["token"])["code"] == code
    entries = client.get("/v1/audit?limit=200").json()["entries"]
    assert ("resume link", f"participant {code} of study renewed") in [
        (row["action"], row["subject"]) for row in entries
    ]

    assert client.post("/v1/studies/renewed/participants/P-000000/resume-link").status_code == 404
    client.delete(f"/v1/studies/renewed/participants/{code}")
    assert Person(client).open(made.json()["token"]).status_code == 404
    gone = client.post(f"/v1/studies/renewed/participants/{code}/resume-link")
    assert (gone.status_code, gone.json()["code"]) == (409, "conflict")


def test_a_session_ends_after_its_days(client: TestClient) -> None:
    person = Person(client)
    person.enter(new_study(client, "aged", chat_protocol("quokka")))
    database = client.app.state.refaug.database  # type: ignore[attr-defined]
    for days, status in ((SESSION_DAYS - 1, 200), (SESSION_DAYS + 1, 401)):
        with database.writing() as connection:
            then = time_text(datetime.now(UTC) - timedelta(days=days))
            connection.execute(text("UPDATE study_sessions SET created = :then"), {"then": then})
        answer = client.get("/v1/take/state", headers={"Cookie": f"refaug_take={person.cookie}"})
        assert answer.status_code == status


def test_the_newest_session_stays_though_others_were_begun_when_a_clock_was_ahead(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invites, "_MOST_SESSIONS", 2)
    person = Person(client)
    person.enter(new_study(client, "ahead", chat_protocol("quokka")))
    resume, cookies = person.resume, [person.cookie]
    for _ in range(2):
        with client.app.state.refaug.database.writing() as connection:  # type: ignore[attr-defined]
            then = time_text(datetime.now(UTC) + timedelta(hours=1))
            connection.execute(text("UPDATE study_sessions SET created = :then"), {"then": then})
        person.enter(resume)
        cookies.append(person.cookie)
    statuses = [
        client.get("/v1/take/state", headers={"Cookie": f"refaug_take={cookie}"}).status_code for cookie in cookies
    ]
    assert (sorted(statuses[:2]), statuses[2]) == ([200, 401], 200)


# ── how many come ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_ids_that_are_tried_are_slowed_and_who_is_known_is_not(client: TestClient) -> None:
    token, other = (new_study(client, name, chat_protocol("quokka")) for name in ("tried", "untried"))
    known = Person(client)
    known.enter(token, external={"PROLIFIC_PID": "known"})
    moment = [0.0]
    state = client.app.state.refaug  # type: ignore[attr-defined]
    before, parts_of(state).newcomers = parts_of(state).newcomers, Newcomers(3, clock=lambda: moment[0])
    try:
        tried = [Person(client).open(token, external={"PROLIFIC_PID": name}) for name in ("a", "known", "b", "c")]
        assert [answer.status_code for answer in tried] == [200, 403, 200, 429]
        assert (tried[-1].headers["retry-after"], tried[-1].json()["code"]) == ("20", "too_many_requests")
        assert len(client.get("/v1/studies/tried/participants").json()["participants"]) == 3
        assert Person(client).open(other, external={"PROLIFIC_PID": "c"}).status_code == 200
        assert known.open(token, external={"PROLIFIC_PID": "known"}).status_code == 200
        assert Person(client).open(known.resume).status_code == 200
        moment[0] = 20.0
        again = [Person(client).open(token, external={"PROLIFIC_PID": name}).status_code for name in ("c", "d")]
        assert again == [200, 429]
    finally:
        parts_of(state).newcomers = before


def test_sessions_that_never_answer_take_no_place(client: TestClient) -> None:
    protocol = {"kind": "rate-reply", "consent": "Yes?", "per_participant": 1, "participants": 2, "ratings_per_item": 2}
    new_study(client, "idle", protocol, [ITEM])
    token = invitation(client, "idle", uses_max=2)
    idle = [entered(client, token) for _ in range(4)]
    for person in idle:
        assert person.done("tasks/next")["step"] in ("task", "full")
    assert entered(client, token).done("tasks/next")["step"] == "full"  # they may be reading, for a minute
    with client.app.state.refaug.database.writing() as connection:  # type: ignore[attr-defined]
        soon = time_text(datetime.now(UTC) + timedelta(seconds=10))
        connection.execute(
            text("UPDATE study_tasks SET reserved_until = :soon WHERE state = 'reserved'"), {"soon": soon}
        )
    people = [entered(client, token) for _ in range(2)]
    assert [rated(person)["step"] for person in people] == ["done", "done"]
    assert client.get("/v1/studies/idle/invites").json()["invites"][1]["uses"] == 2
    assert Person(client).open(token).status_code == 403
    shared = client.get("/v1/studies/idle/invites").json()["invites"][0]
    assert shared["uses"] == 0
    late = next(person for person in idle if person.look()["step"] == "task")
    answered = late.post(f"tasks/{late.state['task']['id']}/answers", {"answers": {"overall": 1}}).json()
    assert (answered["done"], answered["state"]["step"]) == ({"let_in": False}, "full")
    assert client.get("/v1/studies/idle").json()["counts"]["tasks_done"] == 2


def test_nobody_loses_a_task_to_one_who_gets_nothing_for_it(client: TestClient) -> None:
    protocol = {"kind": "rate-reply", "consent": "Yes?", "per_participant": 2, "ratings_per_item": 2}
    token = new_study(client, "kept", protocol, [ITEM])
    reading, quick = entered(client, token), entered(client, token)
    task = reading.done("tasks/next")["task"]["id"]
    rated(quick)
    with client.app.state.refaug.database.writing() as connection:  # type: ignore[attr-defined]
        soon = {"soon": time_text(datetime.now(UTC) + timedelta(seconds=10)), "id": task}
        connection.execute(text("UPDATE study_tasks SET reserved_until = :soon WHERE id = :id"), soon)
    assert quick.done("tasks/next")["step"] == "done"  # the one item was theirs already
    assert client.get("/v1/studies/kept").json()["counts"]["expired"] == 0
    assert entered(client, token).done("tasks/next")["step"] == "task"  # who can do it gets it


def test_of_tasks_that_wait_the_oldest_with_work_for_another_is_released(client: TestClient) -> None:
    protocol = {"kind": "rate-reply", "consent": "Yes?", "per_participant": 2, "ratings_per_item": 2}
    token = new_study(client, "older", protocol, [ITEM, {**ITEM, "id": "another"}])
    quick = entered(client, token)
    rated(quick)
    for _ in range(3):
        assert entered(client, token).done("tasks/next")["step"] == "task"
    study = client.get("/v1/studies/older").json()["id"]
    where = "FROM study_tasks WHERE study = :study AND state"
    with client.app.state.refaug.database.writing() as connection:  # type: ignore[attr-defined]
        own = connection.scalar(text(f"SELECT unit {where} = 'done'"), {"study": study})
        waiting = connection.execute(text(f"SELECT id, unit {where} != 'done'"), {"study": study}).all()
        for task, unit in waiting:  # that of the reply that was rated already is the oldest
            soon = time_text(datetime.now(UTC) + timedelta(seconds=10 if unit == own else 20))
            row = {"soon": soon, "task": task}
            connection.execute(text("UPDATE study_tasks SET reserved_until = :soon WHERE id = :task"), row)
    assert quick.done("tasks/next")["step"] == "task"
    with client.app.state.refaug.database.reading() as connection:  # type: ignore[attr-defined]
        released = connection.scalars(text(f"SELECT unit {where} = 'expired'"), {"study": study}).all()
    assert released == [next(unit for _, unit in waiting if unit != own)]


def test_who_comes_when_all_places_are_taken_is_told_before_anything_is_asked(client: TestClient) -> None:
    token = new_study(client, "taken", chat_protocol("quokka", participants=1))
    reading = Person(client)
    reading.enter(token)
    first = entered(client, token)
    first.done("tasks/next")
    first.say("hello")
    assert Person(client).enter(token)["step"] == "full"
    assert reading.agree()["step"] == "full"


def test_a_quota_counts_who_has_answered(client: TestClient) -> None:
    options = [{"value": value, "text": value} for value in ("a", "b")]
    screening = [{"id": "group", "type": "choice", "text": "Which?", "options": options}]
    quotas = [{"question": "group", "value": "a", "most": 1}]
    completion = {"screened_out_code": "SORRY"}
    protocol = chat_protocol("quokka", "wombat", screening=screening, quotas=quotas, completion=completion)
    token = new_study(client, "quotas", protocol)
    people = [Person(client) for _ in range(2)]
    for person in people:
        person.enter(token)
        assert person.agree(group="a")["step"] == "ready"
        person.done("tasks/next")
    people[0].say("I am the first one")
    refused = people[1].done(f"tasks/{people[1].state['task']['id']}/messages", {"n": 1, "text": "I am late"})
    assert (refused["step"], refused["completion"]["reason"], refused["completion"]["code"]) == (
        "screened_out", "quota", "SORRY",
    )  # fmt: skip


# ── several processes ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_what_one_process_erases_is_over_in_the_other(client: TestClient) -> None:
    home: Path = client.app.state.refaug.home.home  # type: ignore[attr-defined]
    people = [entered(client, new_study(client, name, chat_protocol("quokka"))) for name in ("erased", "moved")]
    for person in people:
        person.look()
    with served(home) as other:
        for person in people:
            cookie = {"Cookie": f"refaug_take={person.cookie}"}
            assert other.ask("GET", "/v1/take/state", headers=cookie).json()["code"] == person.state["code"]
        erased, moved = (person.state["code"] for person in people)
        assert other.ask("DELETE", f"/v1/studies/erased/participants/{erased}").status_code == 200
        assert other.ask("POST", f"/v1/studies/moved/participants/{moved}/resume-link").status_code == 201
    for person in people:
        answer = client.get("/v1/take/state", headers={"Cookie": f"refaug_take={person.cookie}"})
        assert (answer.status_code, answer.json()["code"]) == (401, "no_key")
