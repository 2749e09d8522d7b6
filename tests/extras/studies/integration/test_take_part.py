"""Taking part in a study: from the link to the code, resuming, blinding, and what one participant never sees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from serving import client_of, migrated
from sqlalchemy import text
from starlette.testclient import TestClient
from studying import (
    FORM,
    Person,
    action_id,
    add_bots,
    chat_protocol,
    database_bytes,
    invitation,
    new_study,
    word_of,
)

from refaug.core.home import Settings
from refaug.core.records import json_form
from refaug.extras.studies.participation.erasure import erase_what_is_over
from refaug.extras.studies.records import task_line, task_of
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings

PAIR = {"name": "pair", "questions": [{"id": "better", "text": "Which one?", "type": "pair"}]}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A server with four bots."""
    folder = tmp_path_factory.mktemp("studies") / "home"
    folder.mkdir()
    with client_of(migrated(Settings(home=folder)), ready=False) as opened:
        add_bots(opened, "quokka", "wombat", "numbat", "potoroo")
        yield opened


def export(client: TestClient, study: str) -> list[dict[str, Any]]:
    """The records of a study, which are as the reader of exports has them, byte for byte."""
    lines = client.get(f"/v1/studies/{study}/export").content.splitlines(keepends=True)
    tasks = [task_of(orjson.loads(line), "line") for line in lines]
    assert [task_line(task) for task in tasks] == lines
    return [json_form(task) for task in tasks]


def test_a_participant_goes_from_the_link_to_the_code(client: TestClient) -> None:
    protocol = chat_protocol(
        "quokka",
        "wombat",
        completion={"return_url": "https://example.org/done?cc={code}"},
        screening=[
            {
                "id": "adult",
                "type": "choice",
                "text": "Are you 18?",
                "options": [{"value": "yes", "text": "Yes"}, {"value": "no", "text": "No"}],
                "accept": ["yes"],
            }
        ],
        training={
            "items": [{"id": "t1", "turns": ["Hi", "Hm."], "answers": {"quality": [1, 2]}, "feedback": "It is."}]
        },
    )
    person = Person(client)
    state = person.enter(new_study(client, "whole", protocol))
    assert (state["step"], state["progress"]) == ("consent", {"done": 0, "of": 2})
    assert person.agree(adult="yes")["step"] == "training"
    assert [message["text"] for message in person.state["training"]["item"]["sides"][0]["messages"]] == ["Hi", "Hm."]
    person.done("training", {"item": "t1", "answers": {"quality": 7}})
    assert person.state["training"]["attempt"] == 2
    assert person.state["training"]["feedback"] == {
        "item": "t1", "right": False, "text": "It is.", "answers": {"quality": [1, 2]},
    }  # fmt: skip
    assert person.done("training", {"item": "t1", "answers": {"quality": 2}})["step"] == "ready"
    person.chat(3, quality=6)
    assert person.state["step"] == "ready"
    person.chat(3, quality=2)
    assert (person.state["step"], person.state["progress"]) == ("done", {"done": 2, "of": 2})
    code = person.state["completion"]["code"]
    assert re.fullmatch("[0-9A-Z]{4}-[0-9A-Z]{4}", code)
    assert person.state["completion"]["return_url"] == f"https://example.org/done?cc={code}"
    records = export(client, "whole")
    assert [record["answers"] for record in records] == [{"quality": 6}, {"quality": 2}]
    assert {record["bots"][0]["bot"] for record in records} == {"quokka", "wombat"}
    for record in records:
        said = [turn["text"] for turn in record["sides"][0]["turns"] if turn["role"] == "bot"]
        assert said == [f"{word_of(record['bots'][0]['bot'])} says number {number}." for number in range(3)]


def test_a_study_is_exported_in_the_formats_of_other_programs(client: TestClient) -> None:
    person = Person(client)
    person.enter(new_study(client, "formats", chat_protocol("quokka", "wombat", per_participant=2)))
    person.agree()
    for quality in (6, 2):
        person.chat(3, quality=quality)
    address = "/v1/studies/formats/export"
    table = client.get(address, params={"format": "csv"})
    assert table.headers["content-type"].startswith("text/csv")
    header, *rows = table.text.splitlines()
    assert header.startswith("ID,Chat ID,Datetime,Chatbot ID,Message,Response,Bot Input,Study Key,")
    assert len(rows) == 6
    talks = [orjson.loads(line) for line in client.get(address, params={"format": "conversations"}).text.splitlines()]
    assert [talk["ratings"] for talk in talks] == [{"quality": 6}, {"quality": 2}]
    assert {talk["bot"] for talk in talks} == {"quokka", "wombat"}
    refused = client.get(address, params={"format": "weights"})
    assert refused.status_code == 422
    assert "the study rates no references" in refused.text


def test_screening_and_quotas_are_told_kindly(client: TestClient) -> None:
    options = [{"value": value, "text": value} for value in ("a", "b", "c")]
    screening = [{"id": "group", "type": "choice", "text": "Which?", "options": options, "accept": ["a", "b"]}]
    quotas = [{"question": "group", "value": "a", "most": 1}]
    completion = {"code": "DONE", "screened_out_code": "SORRY"}
    protocol = chat_protocol("quokka", screening=screening, quotas=quotas, completion=completion)
    token = new_study(client, "quota", protocol)
    outcomes = []
    for answer in ("a", "a", "c", "b"):
        person = Person(client)
        person.enter(token)
        if person.agree(group=answer)["step"] == "ready":
            person.chat(3, quality=4)  # by answering, one counts for the quota
        completion = person.state["completion"] or {}
        outcomes.append((person.state["step"], completion.get("reason"), completion.get("code")))
    assert outcomes == [
        ("done", None, "DONE"),
        ("screened_out", "quota", "SORRY"),
        ("screened_out", "screening", "SORRY"),
        ("done", None, "DONE"),
    ]


def test_the_gate_of_the_training_closes_after_the_last_attempt(client: TestClient) -> None:
    training = {"items": [{"turns": ["a", "b"], "answers": {"quality": 1}}], "attempts": 2, "least": 1}
    person = Person(client)
    person.enter(new_study(client, "gate", chat_protocol("quokka", training=training)))
    person.agree()
    for _ in range(2):
        person.done("training", {"item": "t1", "answers": {"quality": 7}})
    assert (person.state["step"], person.state["completion"]["reason"]) == ("screened_out", "training")


def test_the_same_action_happens_once_and_another_body_is_refused(client: TestClient) -> None:
    person = Person(client)
    person.enter(new_study(client, "once", chat_protocol("quokka")))
    person.agree()
    task = person.done("tasks/next")["task"]["id"]
    said = {"n": 1, "text": "hello"}
    answers = [person.post(f"tasks/{task}/messages", said, action="once-000000000000").json() for _ in range(3)]
    assert [answer["done"] for answer in answers] == [{"asked": ["one"], "n": 1, "task": task}] * 3
    person.look(20)
    assert [message["n"] for message in person.sides[0]["messages"]] == [1, 2]
    other = person.post(f"tasks/{task}/messages", {"n": 3, "text": "other"}, action="once-000000000000")
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    short = person.post("tasks/next", {}, action="short")
    assert (short.status_code, short.json()["errors"][0]["field"]) == (422, "header.X-Action")


def test_two_participants_never_see_each_other(client: TestClient) -> None:
    token = new_study(client, "two", chat_protocol("quokka", "wombat"))
    first, second = Person(client), Person(client)
    for person in (first, second):
        person.enter(token)
        person.agree()
        person.done("tasks/next")
    first.say("the first one writes of apples")
    second.say("the second one writes of pears")
    tasks = [person.state["task"]["id"] for person in (first, second)]
    assert tasks[0] != tasks[1]
    for person, other in ((first, tasks[1]), (second, tasks[0])):
        for path, body in (
            ("messages", {"n": 3, "text": "x"}),
            ("votes", {"n": 2, "value": 1}),
            ("answers", {"answers": {"quality": 1}}),
            ("finish", {}),
            ("skip", {"reason": "x"}),
            ("retry", {}),
        ):
            answer = person.post(f"tasks/{other}/{path}", body)
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), path
    for person in (first, second):
        person.look()
    assert b"pears" not in b"".join(first.raw)
    assert b"apples" not in b"".join(second.raw)
    own = first.client.request("GET", "/v1/take/export", headers={"Cookie": f"refaug_take={second.cookie}"})
    assert "apples" not in own.text
    assert second.state["code"] in own.text


def test_nothing_that_is_sent_to_participants_names_a_bot(client: TestClient) -> None:
    token = new_study(client, "blind", chat_protocol("quokka", "wombat", "numbat", checks={"degraded": True}))
    studied = client.get("/v1/studies/blind").json()
    person = Person(client)
    person.enter(token)
    person.agree()
    while person.state["step"] in ("ready", "task"):
        person.chat(3, quality=3)
    assert person.state["step"] == "done"
    own = client.get("/v1/take/export", headers={"Cookie": f"refaug_take={person.cookie}"}).content
    sent = b"".join([*person.raw, own]).decode()
    for bot in studied["bots"]:
        for secret in (bot["bot"], bot["sha256"], bot["sha256"][:12]):
            assert secret not in sent
    assert studied["protocol_sha256"] not in sent
    assert not re.search(
        r'"ms"|replay|retrieval|http://|slot|degraded', sent.replace(person.state["study"]["kind"], "")
    )


def test_the_server_refuses_to_finish_below_the_least_number_of_turns(client: TestClient) -> None:
    person = Person(client)
    person.enter(new_study(client, "least", chat_protocol("quokka")))
    person.agree()
    task = person.done("tasks/next")["task"]["id"]
    person.done(f"tasks/{task}/answers", {"answers": {"quality": 5}})
    for turn in range(3):
        refused = person.post(f"tasks/{task}/finish")
        assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
        assert str(3 - turn) in refused.json()["detail"]
        person.say("hello")
    assert person.done(f"tasks/{task}/finish")["progress"]["done"] == 1


def test_votes_are_of_own_replies_and_can_be_undone(client: TestClient) -> None:
    person = Person(client)
    person.enter(new_study(client, "votes", chat_protocol("quokka")))
    person.agree()
    task = person.done("tasks/next")["task"]["id"]
    person.say("hello")
    for n in (1, 4):
        answer = person.post(f"tasks/{task}/votes", {"n": n, "value": 1})
        assert answer.status_code == 404
    person.done(f"tasks/{task}/votes", {"n": 2, "value": 1})
    person.done(f"tasks/{task}/votes", {"n": 2, "value": -1})
    votes = []
    for _ in range(2):
        votes.append(person.sides[0]["messages"][1]["vote"])
        person.done("undo")
    assert [*votes, person.sides[0]["messages"][1]["vote"]] == [-1, 1, None]
    assert not person.state["can_undo"]
    assert person.post("undo").status_code == 409


def test_a_finished_task_is_opened_again_while_the_next_one_is_untouched(client: TestClient) -> None:
    person = Person(client)
    person.enter(new_study(client, "again", chat_protocol("quokka", "wombat")))
    person.agree()
    person.chat(3, quality=5)
    first = export(client, "again")[0]["task"]
    person.done("tasks/next")
    assert person.done("undo")["task"]["id"] == first
    person.done(f"tasks/{first}/answers", {"answers": {"quality": 1}})
    person.done(f"tasks/{first}/finish")
    person.chat(3, quality=2)
    assert person.state["step"] == "done"
    assert [record["answers"]["quality"] for record in export(client, "again")] == [1, 2]


def test_answers_to_questions_that_are_no_longer_shown_do_not_count(client: TestClient) -> None:
    scale = {"text": "?", "type": "likert", "required": False}
    questions = [
        {**scale, "id": "ok"},
        {**scale, "id": "quality", "show_if": {"ok": 7}},
        {**scale, "id": "sure", "show_if": {"quality": 2}},  # hidden with the question that it depends on
        {**scale, "id": "last", "required": True},
    ]
    form = {"name": "f", "questions": questions}
    person = Person(client)
    person.enter(new_study(client, "hiding", chat_protocol("quokka", min_turns=0, form=form)))
    person.agree()
    task = f"tasks/{person.done('tasks/next')['task']['id']}"
    person.done(f"{task}/answers", {"answers": {"ok": 7, "quality": 2, "sure": 3, "last": 4}})
    person.done(f"{task}/answers", {"answers": {"ok": 1}})
    person.done(f"{task}/finish")
    assert export(client, "hiding")[0]["answers"] == {"ok": 1, "last": 4}
    assert person.done("undo")["task"]["answers"] == {"ok": 1, "quality": 2, "sure": 3, "last": 4}
    person.done("undo")
    person.done(f"{task}/finish")
    assert export(client, "hiding")[0]["answers"] == {"ok": 7, "quality": 2, "sure": 3, "last": 4}


def test_drafts_come_back_on_another_device(client: TestClient) -> None:
    person, elsewhere = Person(client), Person(client)
    person.enter(new_study(client, "resumed", chat_protocol("quokka")))
    person.agree()
    task = person.done("tasks/next")["task"]["id"]
    person.say("hello")
    person.done(f"tasks/{task}/answers", {"answers": {"quality": 3}})
    state = elsewhere.enter(person.resume)
    assert (state["code"], state["task"]["id"], state["task"]["answers"]) == (
        person.state["code"], task, {"quality": 3},
    )  # fmt: skip
    elsewhere.say("hello from here")
    stale = person.post(f"tasks/{task}/messages", {"n": 3, "text": "and from there"})
    assert (stale.status_code, stale.json()["code"]) == (409, "conflict")
    forged = Person(client).open(person.resume[:-1] + ("x" if person.resume[-1] != "x" else "y"))
    assert forged.status_code == 404


def test_a_recruiting_services_id_is_stored_as_a_hash(client: TestClient) -> None:
    token = new_study(client, "recruited", chat_protocol("quokka"))
    codes = []
    for person_id in ("person-zanzibar-1", "person-zanzibar-2"):
        external = {"PROLIFIC_PID": person_id, "SESSION_ID": action_id()}
        codes.append(Person(client).enter(token, external=external)["code"])
    assert codes[0] != codes[1]
    database = client.app.state.refaug.database  # type: ignore[attr-defined]
    with database.reading() as connection:
        rows = connection.execute(text("SELECT * FROM study_participants")).all()
    assert "zanzibar" not in str(rows)
    personal = invitation(client, "recruited", uses_max=1)
    assert len({Person(client).enter(personal)["code"] for _ in range(2)}) == 1


def test_skips_are_counted_and_the_skipped_bot_does_not_come_back(client: TestClient) -> None:
    person = Person(client)
    person.enter(new_study(client, "skips", chat_protocol("quokka", "wombat", "numbat", skips=1)))
    person.agree()
    task = person.done("tasks/next")["task"]["id"]
    assert person.post(f"tasks/{task}/skip", {"reason": "bot_failed"}).status_code == 409
    assert person.done(f"tasks/{task}/skip", {"reason": "too long"})["study"]["skips_left"] == 0
    second = person.done("tasks/next")["task"]["id"]
    refused = person.post(f"tasks/{second}/skip", {"reason": "too long"})
    assert refused.status_code == 409
    while person.state["step"] in ("ready", "task"):
        person.chat(3, quality=3)
    records = export(client, "skips")
    assert [record["state"] for record in records] == ["skipped", "done", "done"]
    assert len({record["bots"][0]["bot"] for record in records}) == 3
    assert records[0]["skip_reason"] == "too long"


def test_pairs_get_every_message_on_both_sides(client: TestClient) -> None:
    protocol = {**chat_protocol("quokka", "wombat"), "kind": "chat-pair", "form": PAIR}
    person = Person(client)
    person.enter(new_study(client, "pairs", protocol))
    person.agree()
    person.done("tasks/next")
    task = person.state["task"]["id"]
    for _ in range(3):
        person.say("hello both")
    said = {side["side"]: [message["text"] for message in side["messages"]] for side in person.sides}
    assert said["left"][0] == said["right"][0] == "hello both"
    assert said["left"][1] != said["right"][1]
    person.done(f"tasks/{task}/answers", {"answers": {"better": "left"}})
    assert person.done(f"tasks/{task}/finish")["step"] == "done"
    (record,) = export(client, "pairs")
    left = next(bot["bot"] for bot in record["bots"] if bot["side"] == "left")
    assert said["left"][1].startswith(word_of(left))


def test_replies_to_be_judged_are_shown_without_their_systems(client: TestClient) -> None:
    items = [
        {"id": f"d{number}", "turns": ["Hi!", "Hello.", f"How {number}?"], "replies": {"zeta": "Fine.", "omega": "No."}}
        for number in range(2)
    ]
    protocol = {"kind": "pair-reply", "consent": "Yes?", "form": PAIR, "per_participant": 2}
    person = Person(client)
    person.enter(new_study(client, "static", protocol, items))
    person.agree()
    lefts = []
    for _ in range(2):
        task = person.done("tasks/next")["task"]
        assert [turn["role"] for turn in task["payload"]["turns"]] == ["participant", "bot", "participant"]
        lefts.append(task["payload"]["replies"]["left"])
        person.done(f"tasks/{task['id']}/answers", {"answers": {"better": "left"}})
        person.done(f"tasks/{task['id']}/finish")
    assert sorted(lefts) == ["Fine.", "No."]  # sides alternate
    assert b"zeta" not in b"".join(person.raw)
    records = export(client, "static")
    assert [record["item"]["replies"] for record in records] == [{"omega": "No.", "zeta": "Fine."}] * 2
    for record, left in zip(records, lefts, strict=True):
        system = next(bot["bot"] for bot in record["bots"] if bot["side"] == "left")
        assert record["item"]["replies"][system] == left
    decision = {"item": records[0]["item"]["unit"], "question": "better", "value": "zeta", "note": "looked twice"}
    assert client.put("/v1/studies/static/adjudications", json=decision).status_code == 200
    own = client.get("/v1/take/export", headers={"Cookie": f"refaug_take={person.cookie}"})
    assert [task["answers"] for task in own.json()["tasks"]] == [{"better": "left"}] * 2
    assert not re.search("zeta|omega|looked|anonymous", own.text)


def test_turns_get_labels(client: TestClient) -> None:
    options = [{"value": "odd", "text": "Odd"}, {"value": "good", "text": "Good"}]
    form = {
        "name": "labels",
        "questions": [{"id": "label", "text": "What is it?", "type": "choice", "options": options, "scope": "turn"}],
    }
    items = [{"id": "d", "bot": "zeta", "turns": ["Hi!", "Hello.", "Rain?", "No rain."]}]
    person = Person(client)
    protocol = {"kind": "label-turns", "consent": "Yes?", "form": form, "per_participant": 1}
    person.enter(new_study(client, "labels", protocol, items))
    person.agree()
    task = person.done("tasks/next")["task"]
    assert task["why_not"] == "these questions have no answer: 2/label, 4/label"
    person.done(f"tasks/{task['id']}/answers", {"answers": {"label": "odd"}, "n": 2})
    assert person.post(f"tasks/{task['id']}/answers", {"answers": {"label": "odd"}, "n": 5}).status_code == 404
    person.done(f"tasks/{task['id']}/answers", {"answers": {"label": "good"}, "n": 4})
    assert person.state["task"]["answers"] == {"2/label": "odd", "4/label": "good"}
    person.done(f"tasks/{task['id']}/finish")
    turns = export(client, "labels")[0]["sides"][0]["turns"]
    assert [turn.get("labels") for turn in turns] == [None, {"label": "odd"}, None, {"label": "good"}]


def test_replies_of_a_chat_get_labels_and_spans_that_are_checked_against_their_text(client: TestClient) -> None:
    options = [{"value": "odd", "text": "Odd"}, {"value": "rude", "text": "Rude"}]
    form = {
        "name": "marks",
        "questions": [
            {"id": "flags", "text": "What is wrong?", "type": "labels", "options": options, "required": True},
            {"id": "marks", "text": "Where?", "type": "spans", "options": options},
        ],
    }
    openings = {"opening": "fixed", "openings": ["Well?"]}
    person = Person(client)
    person.enter(new_study(client, "marks", chat_protocol("quokka", min_turns=1, form=form, **openings)))
    person.agree()
    task = person.done("tasks/next")["task"]["id"]
    person.say("hello")
    reply = person.sides[0]["messages"][-1]
    place = reply["n"]
    assert place == 3
    assert person.state["task"]["why_not"] == "these questions have no answer: 3/flags"
    end = len(reply["text"])
    span = {"start": 0, "end": end, "label": "rude"}
    for body, status, says in (
        ({"answers": {"flags": ["odder"]}, "n": place}, 422, "a list of labels: odd, rude"),
        ({"answers": {"marks": [{**span, "end": end + 1}]}, "n": place}, 422, f"an end of at most {end}"),
        ({"answers": {"flags": []}, "n": 1}, 404, "no turn 1 of a bot"),  # the text that the study begins with
        ({"answers": {"flags": []}, "n": 2}, 404, "no turn 2 of a bot"),
    ):
        answer = person.post(f"tasks/{task}/answers", body)
        assert (answer.status_code, says in answer.text) == (status, True), answer.text
    person.done(f"tasks/{task}/answers", {"answers": {"marks": [span]}, "n": place})
    person.done(f"tasks/{task}/answers", {"answers": {"flags": ["rude", "odd"]}, "n": place})
    person.done("undo")
    assert person.state["task"]["answers"] == {"3/marks": [span]}
    person.done(f"tasks/{task}/answers", {"answers": {"flags": []}, "n": place})
    person.done(f"tasks/{task}/finish")
    turns = export(client, "marks")[0]["sides"][0]["turns"]
    assert [turn.get("labels") for turn in turns] == [None, None, {"flags": [], "marks": [span]}]


def test_the_check_of_attention_belongs_to_the_whole_task(client: TestClient) -> None:
    person = Person(client)
    person.enter(new_study(client, "attentive", chat_protocol("quokka", min_turns=1, checks={"attention": 1})))
    person.agree()
    task = person.done("tasks/next")["task"]["id"]
    person.say("hello")
    refused = person.post(f"tasks/{task}/answers", {"answers": {"attention": "red"}, "n": 2})
    assert (refused.status_code, "no such question here" in refused.text) == (422, True), refused.text
    person.done(f"tasks/{task}/answers", {"answers": {"attention": "red"}})
    assert person.state["task"]["answers"] == {"attention": "red"}


@pytest.mark.parametrize("said", ["x" * 100_000, "😀🎉", "مرحبا بالعالم", "<script>alert(1)</script>", "=1+1", "a\0b"])
def test_hostile_messages_come_back_as_they_are(client: TestClient, said: str) -> None:
    name = f"hostile-{abs(hash(said)) % 10**9}"
    person = Person(client)
    person.enter(new_study(client, name, chat_protocol("quokka", max_message_chars=200_000, min_turns=1)))
    person.agree()
    person.done("tasks/next")
    person.say(said)
    assert person.sides[0]["messages"][0]["text"] == said.replace("\0", "\ufffd")


def test_wrong_requests_are_told_what_would_be_right(client: TestClient) -> None:
    person = Person(client)
    person.enter(new_study(client, "wrong", chat_protocol("quokka", max_message_chars=10)))
    early = person.post("tasks/next")
    assert (early.status_code, early.json()["code"]) == (409, "conflict")
    refused = person.post("consent", {"sha256": "0" * 64, "agree": True})
    assert (refused.status_code, "read it again" in refused.json()["remedy"]) == (409, True)
    person.agree()
    task = person.done("tasks/next")["task"]["id"]
    for path, body, status, says in (
        ("messages", {"n": 1, "text": "   "}, 422, "blank"),
        ("messages", {"n": 1, "text": "x" * 11}, 422, "11 characters"),
        ("messages", {"n": 2, "text": "x"}, 409, "message 1 comes next"),
        ("answers", {"answers": {"qualty": 1}}, 422, "did you mean 'quality'"),
        ("answers", {"answers": {"quality": 8}}, 422, "not an answer"),
        ("votes", {"n": 2, "value": 2}, 422, "value"),
    ):
        answer = person.post(f"tasks/{task}/{path}", body)
        assert (answer.status_code, says in answer.text) == (status, True), answer.text
    stranger = client.get("/v1/take/state")
    assert (stranger.status_code, stranger.json()["code"]) == (401, "no_key")
    other_site = client.post(
        "/v1/take/undo",
        json={},
        headers={
            "X-Action": action_id(),
            "Origin": "https://evil.example",
            "Cookie": f"refaug_take={person.cookie}",
        },
    )
    assert (other_site.status_code, other_site.json()["code"]) == (403, "not_allowed")


def test_a_cookie_is_for_these_routes_and_no_script(client: TestClient) -> None:
    token = new_study(client, "cookie", chat_protocol("quokka"))
    answer = client.post("/v1/take/session", json={"token": token}, headers={"X-Action": action_id()})
    attributes = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/v1/take"} <= attributes
    assert answer.headers["cache-control"] == "no-store"


def test_withdrawing_removes_the_texts_and_keeps_the_fact(client: TestClient) -> None:
    person = Person(client)
    person.enter(new_study(client, "withdrawn", chat_protocol("quokka")))
    person.agree()
    person.done("tasks/next")
    person.say("remember the quagmire")
    assert person.done("withdraw")["step"] == "withdrawn"
    assert person.done("withdraw")["step"] == "withdrawn"
    assert export(client, "withdrawn") == []
    assert client.get("/v1/studies/withdrawn").json()["counts"]["withdrawn"] == 1
    home: Path = client.app.state.refaug.home.home  # type: ignore[attr-defined]
    for file in home.glob("refaug.db*"):
        assert b"quagmire" not in file.read_bytes(), file


def test_erasing_a_participant_leaves_no_text_in_the_files(client: TestClient) -> None:
    person, other = Person(client), Person(client)
    token = new_study(client, "erased", chat_protocol("quokka", max_message_chars=9_000, form={**FORM, "questions": [
        *FORM["questions"], {"id": "comment", "text": "?", "type": "text"}]}))  # fmt: skip
    for each, word in ((person, "xylograph"), (other, "marginalia")):
        each.enter(token)
        each.agree()
        each.done("tasks/next")
        for _ in range(3):
            each.say(f"{word} " * 200)
        task = each.state["task"]["id"]
        each.done(f"tasks/{task}/answers", {"answers": {"quality": 2, "comment": f"{word} again"}})
        each.done(f"tasks/{task}/finish")
    answer = client.delete(f"/v1/studies/erased/participants/{person.state['code']}")
    assert answer.json()["code"] == person.state["code"]
    home: Path = client.app.state.refaug.home.home  # type: ignore[attr-defined]
    content = database_bytes(home)
    assert b"xylograph" not in content
    assert b"marginalia" in content
    assert {record["participant"] for record in export(client, "erased")} == {other.state["code"]}
    actions = [
        row["action"] for row in client.get("/v1/audit?limit=200").json()["entries"] if "study erased" in row["subject"]
    ]
    assert "erase" in actions


def test_what_was_written_is_erased_when_the_time_of_a_closed_study_is_over(client: TestClient) -> None:
    people = {name: Person(client) for name in ("over", "kept")}
    for name, person in people.items():
        person.enter(new_study(client, name, chat_protocol("quokka", retention_days=30 if name == "over" else 31)))
        person.agree()
        person.done("tasks/next")
        person.say(f"{name} sesquipedalian")
        assert client.post(f"/v1/studies/{name}/close").status_code == 200
    database = client.app.state.refaug.database  # type: ignore[attr-defined]
    closed = datetime.fromisoformat(client.get("/v1/studies/over").json()["closed"])

    assert erase_what_is_over(database, now=closed + timedelta(days=30, seconds=-1)) == 0
    assert erase_what_is_over(database, now=closed + timedelta(days=30), most=0) == 0
    assert erase_what_is_over(database, now=closed + timedelta(days=30)) == 1
    assert erase_what_is_over(database, now=closed + timedelta(days=30)) == 0

    home: Path = client.app.state.refaug.home.home  # type: ignore[attr-defined]
    content = database_bytes(home)
    assert (b"over sesquipedalian" in content, b"kept sesquipedalian" in content) == (False, True)
    rows = [row for row in client.get("/v1/audit?limit=200").json()["entries"] if row["action"] == "erase"]
    code = people["over"].state["code"]
    assert ("retention", f"participant {code} of study over") in [(row["actor"], row["subject"]) for row in rows]
    assert client.get("/v1/studies/over/participants").json()["participants"][0]["state"] == "withdrawn"


def test_a_worker_keeps_the_promise_of_studies(client: TestClient) -> None:
    person = Person(client)
    person.enter(new_study(client, "promise", chat_protocol("quokka", retention_days=7)))
    person.agree()
    client.post("/v1/studies/promise/close")
    state = client.app.state.refaug  # type: ignore[attr-defined]
    assert run_worker(state.home, ServeSettings(), once=True) == 0
    assert client.get("/v1/studies/promise/participants").json()["participants"][0]["state"] != "withdrawn"
    with state.database.writing() as connection:
        connection.execute(text("UPDATE studies SET closed = '2020-01-01T00:00:00.000000Z' WHERE name = 'promise'"))
    assert run_worker(state.home, ServeSettings(), once=True) == 0
    assert client.get("/v1/studies/promise/participants").json()["participants"][0]["state"] == "withdrawn"


def test_a_paused_study_gives_out_nothing_and_lets_tasks_be_finished(client: TestClient) -> None:
    person, late = Person(client), Person(client)
    token = new_study(client, "paused", chat_protocol("quokka", "wombat"))
    person.enter(token)
    person.agree()
    person.done("tasks/next")
    client.post("/v1/studies/paused/pause")
    refused = client.post("/v1/take/session", json={"token": token}, headers={"X-Action": action_id()})
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    person.chat(3, quality=4)
    assert person.state["step"] == "closed"
    client.post("/v1/studies/paused/open")
    assert person.look()["step"] == "ready"
    late.enter(token)
    client.post("/v1/studies/paused/close")
    assert [each.look()["step"] for each in (person, late)] == ["closed", "closed"]
