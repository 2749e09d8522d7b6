"""What keys that look on may learn, what became of recruited people, and when the list of responses is made anew."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from serving import client_of, migrated
from sqlalchemy import text
from starlette.testclient import TestClient
from studying import FORM, Person, invitation, new_study

from refaug.core.home import Settings
from refaug.extras.studies.participation.study_figures import study_stamp
from refaug.extras.studies.routes.parts import parts_of
from refaug.extras.studies.routes.studies import study_responses
from refaug.service.database.database import Database, time_text
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope

ITEMS = [{"id": f"r{n}", "turns": [f"Question {n}?"], "replies": {"zebra": f"Answer {n}."}} for n in range(2)]
PROTOCOL = {
    "kind": "rate-reply",
    "form": FORM,
    "consent": "c",
    "per_participant": 2,
    "ratings_per_item": 3,
    "completion": {
        "code": "PAID-7",
        "return_url": "https://recruiter.example/done?cc=PAID-7",
        "screened_out_code": "OUT-7",
    },
}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, str]]:
    """A server of a study in which one finished, one is at it, and one has gone; and a key that looks on."""
    folder = tmp_path_factory.mktemp("lookers") / "home"
    folder.mkdir()
    home = migrated(Settings(home=folder))
    with closing(Database.open(home)) as database:
        keys = {
            scope: str(KeyStore(database).create(scope.value, [scope])[0]) for scope in (Scope.STUDY, Scope.STUDY_READ)
        }
    with client_of(home, ready=False, keys=True) as client:
        client.headers["X-API-Key"] = keys[Scope.STUDY]
        token = new_study(client, "paid", PROTOCOL, ITEMS)
        for name, tasks in (("done", 2), ("here", 1), ("gone", 0)):
            begin(client, token, name, tasks)
        yield client, keys[Scope.STUDY_READ]


def begin(client: TestClient, token: str, name: str, tasks: int) -> Person:
    """Take part under an id, rate so many replies, and get the next one where there is one."""
    person = Person(client)
    state = person.enter(token, external={"PROLIFIC_PID": name})
    person.done("consent", {"sha256": state["consent"]["sha256"], "agree": True, "screening": {}})
    for _ in range(tasks):
        rate(person, person.done("tasks/next")["task"])
    if tasks < len(ITEMS):
        person.done("tasks/next")
    return person


def rate(person: Person, task: dict[str, Any]) -> None:
    person.done(f"tasks/{task['id']}/answers", {"answers": {"quality": 5}})
    person.done(f"tasks/{task['id']}/finish")


def decisions(client: TestClient) -> dict[str, str]:
    answer = client.post("/v1/studies/paid/recruits", json={"ids": ["done", "here", "gone", "nobody"]})
    assert answer.status_code == 200, answer.text
    return {recruit["id"]: recruit["decision"] for recruit in answer.json()["recruits"]}


def test_whoever_is_at_it_is_not_asked_to_return(keyed: tuple[TestClient, str]) -> None:
    client, _ = keyed
    assert decisions(client) == {"done": "approve", "here": "at_it", "gone": "at_it", "nobody": "unknown"}
    database = client.app.state.refaug.database  # type: ignore[attr-defined]
    code = client.post("/v1/studies/paid/recruits", json={"ids": ["gone"]}).json()["recruits"][0]["code"]
    then = {"then": time_text(datetime.now(UTC) - timedelta(hours=9)), "code": code}
    with database.writing() as connection:
        connection.execute(text("UPDATE study_participants SET seen = :then WHERE code = :code"), then)
    assert decisions(client)["gone"] == "at_it"  # the task is still reserved
    of_code = "participant = (SELECT id FROM study_participants WHERE code = :code)"
    with database.writing() as connection:
        connection.execute(text(f"UPDATE study_tasks SET reserved_until = :then WHERE {of_code}"), then)
    assert decisions(client) == {"done": "approve", "here": "at_it", "gone": "return", "nobody": "unknown"}


def test_ids_are_looked_up_by_keys_that_change_studies_and_it_is_audited(keyed: tuple[TestClient, str]) -> None:
    client, looking = keyed
    refused = client.post("/v1/studies/paid/recruits", json={"ids": ["done"]}, headers={"X-API-Key": looking})
    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    decisions(client)
    audit = client.app.state.refaug.audit  # type: ignore[attr-defined]
    with audit._database.reading() as connection:
        rows = connection.execute(text("SELECT actor, subject, details FROM audit WHERE action = 'look up'")).all()
    assert (rows[-1].actor, rows[-1].subject) == ("key study", "recruits of study paid")
    assert '"ids":4' in str(rows[-1].details).replace(" ", "")


def test_what_proves_payable_work_is_not_read_by_keys_that_look_on(keyed: tuple[TestClient, str]) -> None:
    client, looking = keyed
    for path in ("", "/participants"):
        whole = client.get(f"/v1/studies/paid{path}")
        read = client.get(f"/v1/studies/paid{path}", headers={"X-API-Key": looking})
        assert (whole.status_code, read.status_code) == (200, 200)
        assert "PAID-7" in whole.text
        assert "PAID-7" not in read.text
        assert "OUT-7" not in read.text
    assert read.json()["participants"][0].keys() == whole.json()["participants"][0].keys()
    assert client.get("/v1/studies/paid", headers={"X-API-Key": looking}).json()["protocol"]["completion"] == {}


def test_a_list_is_made_anew_by_one_request_and_not_for_tasks_given_out(
    keyed: tuple[TestClient, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, _ = keyed
    state: Any = client.app.state.refaug  # type: ignore[attr-defined]
    study, token = parts_of(state).studies.get("paid"), invitation(client, "paid")
    begin(client, token, "before", 0)  # who comes takes tasks back whose time is over
    before = study_stamp(state.database, study)
    person = begin(client, token, "late", 0)
    assert study_stamp(state.database, study) == before
    rate(person, person.done("tasks/next")["task"])
    assert study_stamp(state.database, study) != before

    made, records = list[str](), study_responses.study_records

    def counted(*given: Any, **named: Any) -> Any:
        made.append("list")
        return records(*given, **named)

    monkeypatch.setattr(study_responses, "study_records", counted)
    lists, found, barrier = study_responses.ResponseLists(), list[Any](), threading.Barrier(4)

    def look() -> None:
        barrier.wait()
        found.append(lists.of(state.database, study))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["list"]
    assert all(one is found[0] for one in found)
    assert sorted(response.state for response in found[0].responses) == ["done"] * 4 + ["expired"]
