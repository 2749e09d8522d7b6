"""Studies in trouble: bots that are down, databases that go away, clocks that jump, on both databases."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from serving import client_of
from sqlalchemy import Connection, event, text
from starlette.testclient import TestClient
from studying import Person, add_bots, chat_protocol, new_study

from refaug.bots.replier import BotReply
from refaug.core.errors import Unavailable
from refaug.core.home import Settings
from refaug.extras.studies.participation.participant_acts import spent_ms
from refaug.extras.studies.participation.tasks.chat_turns import AskedTurn, store_reply
from refaug.extras.studies.routes.participants import participant_tasks
from refaug.extras.studies.routes.parts import parts_of
from refaug.service.database.database import Database, time_text
from refaug.service.web.state import ServiceState

pytest_plugins = ("databases",)
JSON = {"Content-Type": "application/json"}


@contextmanager
def service(folder: Path, url: str) -> Iterator[TestClient]:
    """A server over a database, with three bots."""
    home = Settings(home=folder / "home")
    home.home.mkdir(exist_ok=True)
    database = Database.open(home, url)
    database.migrate()
    database.close()
    with client_of(home, ready=False, database=url) as client:
        add_bots(client, "quokka", "wombat", "numbat")
        yield client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """One server for the tests that leave it as it was."""
    with service(tmp_path_factory.mktemp("trouble"), "") as opened:
        yield opened


def entered(client: TestClient, token: str) -> Person:
    person = Person(client)
    person.enter(token)
    person.agree()
    return person


def change(client: TestClient, statement: str, **values: Any) -> None:
    with client.app.state.refaug.database.writing() as connection:  # type: ignore[attr-defined]
        connection.execute(text(statement), values)


@pytest.mark.slow
def test_the_whole_way_on_both_databases(database_url: str, tmp_path: Path) -> None:
    with service(tmp_path, database_url) as client:
        token = new_study(client, "both", chat_protocol("quokka", "wombat", checks={"attention": 1, "repeat": 1}))
        people = [entered(client, token) for _ in range(2)]
        for person in people:
            while person.state["step"] in ("ready", "task"):
                if person.state["step"] == "ready":
                    person.done("tasks/next")
                    continue
                asked = [question["id"] for question in person.state["task"]["form"]["questions"]]
                person.chat(3, quality=4, **({"attention": "red"} if "attention" in asked else {}))
            assert person.state["step"] == "done"
        progress = client.get("/v1/studies/both/progress").json()
        assert [(bot["bot"], bot["done"]) for bot in progress["bots"]] == [("quokka", 2), ("wombat", 2)]
        assert progress["counts"]["finished"] == 2
        assert client.delete(f"/v1/studies/both/participants/{people[0].state['code']}").status_code == 200
        assert len(client.get("/v1/studies/both/export").text.splitlines()) == 3
        client.post("/v1/studies/both/close")
        assert client.delete("/v1/studies/both").status_code == 200
        assert client.get("/v1/studies").json()["studies"] == []


def test_a_bot_that_is_down_is_said_kindly_and_counted_and_another_task_is_offered(client: TestClient) -> None:
    # A replay bot without cycle has nothing to say after its texts.
    for name in ("mute-1", "mute-2"):
        body = {"specification": {"kind": "replay", "replies": [f"Only this of {name[-1]}."]}}
        client.put(f"/v1/bots/{name}", json=body)
    token = new_study(client, "down", chat_protocol("mute-1", "mute-2", "quokka", skips=0))
    person = entered(client, token)
    task = person.done("tasks/next")["task"]["id"]
    person.say("one")
    person.say("two")
    assert person.sides[0]["messages"][-1]["state"] == "failed"
    refused = person.post(f"tasks/{task}/messages", {"n": 5, "text": "three"})
    assert (refused.status_code, "ask for it again" in refused.json()["remedy"]) == (409, True)
    assert person.done(f"tasks/{task}/retry")["task"]["sides"][0]["messages"][-1]["state"] in ("asked", "failed")
    assert person.look(20)["task"]["sides"][0]["messages"][-1]["state"] == "failed"
    assert person.done(f"tasks/{task}/skip", {"reason": "bot_failed"})["step"] == "ready"
    assert person.done("tasks/next")["task"]["id"] != task
    progress = client.get("/v1/studies/down/progress").json()
    assert (progress["counts"]["skipped"], progress["counts"]["bot_failed"]) == (1, 1)
    assert (progress["bots"][0]["failures"], progress["bots"][0]["failing"]) == (2, True)
    other = entered(client, token)  # whose row of the square begins with a bot that works
    other.done("tasks/next")
    other.say("one")
    assert other.sides[0]["messages"][-1]["state"] == "answered"


NONSENSE = ("xyzzy", "plugh", "plover")


@pytest.fixture
def speechless(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[Any]]]:
    """Bots named quokka have no reply to nonsense; by bot, what each was given, and under `held` who waits."""
    reply_of, given = participant_tasks._reply_of, dict[str, list[Any]](held=[])

    async def reply(state: ServiceState, turn: AskedTurn) -> BotReply:
        given.setdefault(turn.bot, []).append(turn.turns)
        while turn.bot in given["held"]:
            await asyncio.sleep(0.01)
        if turn.bot == "quokka" and turn.turns[-1].strip().lower() in NONSENSE:
            return BotReply(text=None, problem="nothing_retrieved")
        if turn.bot in given.get("broken", []):
            return BotReply(text=None, problem="internal")
        return await reply_of(state, turn)

    monkeypatch.setattr(participant_tasks, "_reply_of", reply)
    yield given
    given["held"].clear()


def states(person: Person) -> list[str]:
    """The states of the last message of all sides, whichever bot is on the left."""
    return sorted(side["messages"][-1]["state"] for side in person.sides)


def look_until(person: Person, *expected: str) -> None:
    for _ in range(200):
        if states(person) == list(expected):
            break
        person.look(0.05)
    assert states(person) == list(expected)


def bots_of(client: TestClient, study: str) -> list[tuple[str, int, bool]]:
    bots = client.get(f"/v1/studies/{study}/progress").json()["bots"]
    return [(bot["bot"], bot["failures"], bot["failing"]) for bot in bots]


def test_other_words_come_after_what_a_bot_has_no_reply_to(
    client: TestClient, speechless: dict[str, list[Any]]
) -> None:
    person = entered(client, new_study(client, "wordless", chat_protocol("quokka", min_turns=2, max_turns=2)))
    task = person.done("tasks/next")["task"]["id"]
    person.say("hello")
    person.say("xyzzy")
    assert "1 more message of yours is needed" in person.state["task"]["why_not"]  # this one does not count
    person.say("hello again")
    assert [(message["text"], message["state"]) for message in person.sides[0]["messages"]][2:5] == [
        ("xyzzy", "answered"), (None, "unanswered"), ("hello again", "answered"),
    ]  # fmt: skip
    first, answered = (message["text"] for message in person.sides[0]["messages"][:2])
    assert speechless["quokka"][-1] == (first, answered, "hello again")
    assert person.post(f"tasks/{task}/messages", {"n": 7, "text": "a third"}).status_code == 409
    assert bots_of(client, "wordless") == [("quokka", 0, False)]
    person.done(f"tasks/{task}/answers", {"answers": {"quality": 4}})
    person.done(f"tasks/{task}/finish")
    (record,) = [json.loads(line) for line in client.get("/v1/studies/wordless/export").text.splitlines()]
    assert [turn["n"] for turn in record["sides"][0]["turns"]] == [1, 2, 3, 5, 6]


def test_the_same_words_without_a_reply_come_so_often_and_no_more(
    client: TestClient, speechless: dict[str, list[Any]]
) -> None:
    person = entered(client, new_study(client, "endless", chat_protocol("quokka", min_turns=1, max_turns=1)))
    task = person.done("tasks/next")["task"]["id"]
    for _ in range(4):
        person.say("xyzzy")
    assert len(speechless["quokka"]) == 4
    assert person.post(f"tasks/{task}/messages", {"n": 9, "text": "xyzzy"}).status_code == 409


def test_a_late_reply_to_what_was_said_before_is_no_reply_to_other_words(
    client: TestClient, speechless: dict[str, list[Any]]
) -> None:
    person = entered(client, new_study(client, "belated", chat_protocol("quokka")))
    task = person.done("tasks/next")["task"]["id"]
    person.say("xyzzy")
    speechless["held"].append("quokka")
    place = person.sides[0]["messages"][-1]["n"] + 1
    person.done(f"tasks/{task}/messages", {"n": place, "text": "hello"})
    sha256 = client.get("/v1/studies/belated/progress").json()["bots"][0]["sha256"]
    late = AskedTurn(task=task, side="one", n=2, bot="quokka", bot_sha256=sha256, turns=("xyzzy",), seed=1)
    database = client.app.state.refaug.database  # type: ignore[attr-defined]
    assert not store_reply(database, late, text="A reply to xyzzy.")
    person.look()
    assert states(person) == ["asked"]
    speechless["held"].clear()
    look_until(person, "answered")
    assert all(message["text"] != "A reply to xyzzy." for message in person.sides[0]["messages"])


def test_a_pair_of_which_one_bot_has_no_reply_goes_on_and_keeps_what_was_said(
    client: TestClient, speechless: dict[str, list[Any]]
) -> None:
    protocol = chat_protocol("quokka", "wombat", kind="chat-pair", form="prefer-dialogue-4", min_turns=2)
    person = entered(client, new_study(client, "one-sided", protocol))
    task = person.done("tasks/next")["task"]["id"]
    person.say("hello")
    speechless["held"].append("wombat")
    person.done(f"tasks/{task}/messages", {"n": 3, "text": "xyzzy"})
    look_until(person, "asked", "unanswered")
    for n in (3, 5):
        refused = person.post(f"tasks/{task}/messages", {"n": n, "text": "hello again"})
        assert (refused.status_code, refused.json()["remedy"]) == (409, "wait for it")
    speechless["held"].clear()
    look_until(person, "answered", "unanswered")
    (spoke,) = [side["side"] for side in person.sides if side["messages"][-1]["state"] == "answered"]
    person.done(f"tasks/{task}/votes", {"side": spoke, "n": 4, "value": 1})
    assert person.post(f"tasks/{task}/messages", {"n": 3, "text": "hello again"}).status_code == 409
    assert "messages of yours" not in person.state["task"]["why_not"]
    before = {side["side"]: side["messages"] for side in person.state["task"]["sides"]}
    person.done(f"tasks/{task}/retry")
    person.say("hello again")
    for side in person.sides:
        assert side["messages"][:4] == before[side["side"]]
        assert side["messages"][3]["vote"] == (1 if side["side"] == spoke else None)
        assert [message["state"] for message in side["messages"][4:]] == ["answered", "answered"]
    assert [len(speechless[bot][-1]) for bot in ("quokka", "wombat")] == [3, 5]


def test_no_other_words_where_the_other_bot_of_a_pair_has_failed(
    client: TestClient, speechless: dict[str, list[Any]]
) -> None:
    speechless["broken"] = ["wombat"]
    protocol = chat_protocol("quokka", "wombat", kind="chat-pair", form="prefer-dialogue-4")
    person = entered(client, new_study(client, "half-down", protocol))
    task = person.done("tasks/next")["task"]["id"]
    person.say("xyzzy")
    assert states(person) == ["failed", "unanswered"]
    for n in (1, 3):
        assert person.post(f"tasks/{task}/messages", {"n": n, "text": "hello"}).status_code == 409
    speechless["broken"] = []
    person.done(f"tasks/{task}/retry")
    look_until(person, "answered", "unanswered")


def test_a_bot_without_replies_to_several_messages_in_a_row_is_failing(
    client: TestClient, speechless: dict[str, list[Any]]
) -> None:
    person = entered(client, new_study(client, "empty", chat_protocol("quokka", skips=1, min_turns=1)))
    task = person.done("tasks/next")["task"]["id"]
    for words in ("xyzzy", "plugh", " Xyzzy", "hello", "plover", "xyzzy"):  # twice the same, and a reply between
        person.say(words)
    assert bots_of(client, "empty") == [("quokka", 0, False)]
    change(client, "UPDATE study_bots SET failed_at = '2026-01-01T00:00:00.000000Z' WHERE bot = 'quokka'")
    person.say("XYZZY")
    assert bots_of(client, "empty") == [("quokka", 0, True)]  # it still has not replied
    assert person.post(f"tasks/{task}/skip", {"reason": "bot_failed"}).status_code == 409
    person.say("plugh")
    assert person.sides[0]["messages"][-1]["state"] == "failed"
    assert bots_of(client, "empty") == [("quokka", 1, True)]
    assert person.done(f"tasks/{task}/skip", {"reason": "It has no words."})["study"]["skips_left"] == 1
    other = entered(client, new_study(client, "nonsense", chat_protocol("quokka", skips=1)))
    task = other.done("tasks/next")["task"]["id"]
    other.say("xyzzy")
    assert other.done(f"tasks/{task}/skip", {"reason": "It has no words."})["study"]["skips_left"] == 0


def test_a_changed_bot_is_not_asked(client: TestClient) -> None:
    add_bots(client, "bandicoot")
    token = new_study(client, "changed", chat_protocol("bandicoot"))
    person = entered(client, token)
    person.done("tasks/next")
    client.put("/v1/bots/bandicoot", json={"specification": {"kind": "replay", "replies": ["another one"]}})
    person.say("hello")
    assert [(message["state"], message["text"]) for message in person.sides[0]["messages"]][1] == ("failed", None)


def test_two_bots_of_one_hash_are_refused(client: TestClient) -> None:
    for name in ("twin-1", "twin-2"):
        client.put(f"/v1/bots/{name}", json={"specification": {"kind": "replay", "replies": ["Same."]}})
    refused = client.post("/v1/studies", json={"name": "t", "protocol": chat_protocol("twin-1", "twin-2")})
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_input")
    assert "twin-2 and twin-1 are the same" in refused.json()["detail"]
    missing = client.post("/v1/studies", json={"name": "t", "protocol": chat_protocol("nowhere")})
    assert (missing.status_code, "refaug bots add" in missing.json()["remedy"]) == (404, True)


@pytest.mark.parametrize("number", ["18446744073709551616", "-9223372036854775809", "1" + "0" * 400])
def test_whole_numbers_that_no_table_holds_are_refused(client: TestClient, number: str) -> None:
    def posted(path: str, body: str, **headers: str) -> tuple[int, str]:
        answer = client.post(path, content=body, headers={**JSON, **headers})
        return answer.status_code, answer.json()["code"]

    refused, name = (422, "bad_input"), f"wide{len(number)}{number[0].replace('-', 'm')}"
    assert posted("/v1/studies", f'{{"name": "wide", "protocol": {{"kind": {number}}}}}') == refused
    assert posted("/v1/studies", f'{{"name": "w", "protocol": {{"kind": "chat", "bots": [{number}]}}}}') == refused
    made = client.post("/v1/studies", json={"name": name, "protocol": {"kind": "rate-reply"}}).json()
    lines = f'{{"items": [{{"id": "a", "turns": ["Hi"], "replies": {{"a": {number}}}}}]}}'
    assert posted(f"/v1/studies/{made['id']}/dialogues", lines) == refused
    person = entered(client, new_study(client, f"{name}-answers", chat_protocol("quokka")))
    task = person.done("tasks/next")["task"]["id"]
    cookie = {"X-Action": f"{name}-answers-0000000", "Cookie": f"refaug_take={person.cookie}"}
    assert posted(f"/v1/take/tasks/{task}/answers", f'{{"answers": {{"quality": {number}}}}}', **cookie) == refused
    adjudication = f'{{"item": "a", "question": "quality", "value": {number}}}'
    decided = client.put(f"/v1/studies/{name}-answers/adjudications", content=adjudication, headers=JSON)
    assert decided.status_code in (404, 422), decided.text  # a chat has no items


def test_a_study_without_consent_or_items_does_not_open(client: TestClient) -> None:
    client.post("/v1/studies", json={"name": "a", "protocol": chat_protocol("quokka", consent="")})
    refused = client.post("/v1/studies/a/open")
    assert (refused.status_code, "no text of consent" in refused.json()["detail"]) == (409, True)
    client.post("/v1/studies", json={"name": "b", "protocol": {"kind": "rate-reply", "consent": "Yes?"}})
    refused = client.post("/v1/studies/b/open")
    assert (refused.status_code, "no items" in refused.json()["detail"]) == (409, True)


@pytest.mark.parametrize("name", ["consent", "guidelines"])
def test_a_study_whose_texts_have_a_gap_does_not_open(client: TestClient, name: str) -> None:
    study = f"gap-in-{name}"
    text = "# About this study\n\n- It takes about […] minutes."
    client.post("/v1/studies", json={"name": study, "protocol": chat_protocol("quokka", **{name: text})})
    for act in ("pilot", "open"):
        refused = client.post(f"/v1/studies/{study}/{act}")
        assert refused.status_code == 409
        assert f"{name} has a gap: '- It takes about […] minutes.'" in refused.json()["detail"]
    translated = chat_protocol("quokka", translations={"de": {name: "Es dauert […]."}})
    client.put(f"/v1/studies/{study}/protocol", json={"protocol": translated, "reason": ""})
    assert f"{name} in de has a gap" in client.post(f"/v1/studies/{study}/open").json()["detail"]
    whole = chat_protocol("quokka", **{name: text.replace("[…]", "20")})
    assert client.put(f"/v1/studies/{study}/protocol", json={"protocol": whole, "reason": ""}).status_code == 200
    assert client.post(f"/v1/studies/{study}/open").status_code == 200
    amended = client.put(
        f"/v1/studies/{study}/protocol", json={"protocol": chat_protocol("quokka", **{name: text}), "reason": "x"}
    )
    assert amended.status_code == 409


def test_an_amendment_is_a_new_hash_and_both_are_reported(client: TestClient) -> None:
    protocol = chat_protocol("quokka", "wombat")
    person = entered(client, new_study(client, "amended", protocol))
    person.chat(3, quality=5)
    first = client.get("/v1/studies/amended").json()["protocol_sha256"]
    changed = {"protocol": {**protocol, "min_turns": 1}}
    assert client.put("/v1/studies/amended/protocol", json=changed).status_code == 422
    amended = client.put("/v1/studies/amended/protocol", json={**changed, "reason": "three were too many"}).json()
    assert [entry["sha256"] for entry in amended["amendments"]] == [first, amended["protocol_sha256"]]
    assert amended["amendments"][1]["reason"] == "three were too many"
    assert first != amended["protocol_sha256"]
    person.chat(1, quality=5)
    records = client.get("/v1/studies/amended/export").text
    assert records.count(first) == records.count(amended["protocol_sha256"]) == 1


def test_an_expired_task_is_given_to_another_and_goes_on_when_its_participant_returns(client: TestClient) -> None:
    items = [{"id": "d", "turns": ["Hi"], "replies": {"a": "Ho"}}]
    protocol = {"kind": "rate-reply", "consent": "Yes?", "per_participant": 1}
    token = new_study(client, "late", protocol, items)
    slow, quick = entered(client, token), entered(client, token)
    task = slow.done("tasks/next")["task"]["id"]
    slow.done(f"tasks/{task}/answers", {"answers": {"overall": 1}})
    assert quick.done("tasks/next")["step"] == "full"  # the only task is reserved
    change(client, "UPDATE study_tasks SET reserved_until = '2020-01-01T00:00:00.000000Z' WHERE id = :id", id=task)
    another = entered(client, token)
    other = another.done("tasks/next")["task"]["id"]
    assert client.get("/v1/studies/late").json()["counts"]["expired"] == 1
    assert slow.look()["task"]["id"] == task != other
    slow.done(f"tasks/{task}/answers", {"answers": {"overall": 2}})
    assert slow.done(f"tasks/{task}/finish")["step"] == "done"


def test_a_task_that_expires_while_its_participant_is_erased_is_given_back_once(client: TestClient) -> None:
    items = [{"id": "d", "turns": ["Hi"], "replies": {"a": "Ho"}}]
    protocol = {"kind": "rate-reply", "consent": "Yes?", "per_participant": 1}
    person = entered(client, new_study(client, "twice", protocol, items))
    task, database = person.done("tasks/next")["task"]["id"], client.app.state.refaug.database  # type: ignore[attr-defined]
    waited = list[str]()

    def expire(connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        """Do what another process does while this one waits for the lock of the study, on PostgreSQL."""
        if " ".join(statement.split()).startswith("SELECT studies.id FROM studies WHERE studies.id =") and not waited:
            waited.append(statement)
            connection.execute(text("UPDATE study_tasks SET state = 'expired' WHERE id = :id"), {"id": task})
            connection.execute(text("UPDATE study_items SET load = load - 1 WHERE unit = 'd/a'"))

    event.listen(database._engine, "before_cursor_execute", expire)
    try:
        assert client.delete(f"/v1/studies/twice/participants/{person.state['code']}").status_code == 200
    finally:
        event.remove(database._engine, "before_cursor_execute", expire)
    with database.reading() as connection:
        loads = connection.execute(
            text("SELECT load FROM study_items JOIN studies ON studies.id = study WHERE name = 'twice'")
        ).scalars()
        assert (len(waited), list(loads)) == (1, [0])


def test_clocks_that_jump_count_a_minute_at_most_and_never_less_than_nothing() -> None:
    now = datetime(2026, 11, 27, 12, tzinfo=UTC)
    moments = (timedelta(seconds=5), timedelta(days=400), -timedelta(days=400), timedelta())
    assert [spent_ms(time_text(now - moment), now) for moment in moments] == [5_000, 60_000, 0, 0]


def test_a_clock_that_was_set_back_stops_nobody(client: TestClient) -> None:
    person = entered(client, new_study(client, "back", chat_protocol("quokka", "wombat")))
    person.done("tasks/next")
    code = person.state["code"]
    change(client, "UPDATE study_participants SET seen = '2199-01-01T00:00:00.000000Z' WHERE code = :code", code=code)
    person.chat(3, quality=4)
    assert person.state["progress"]["done"] == 1
    assert client.get("/v1/studies/back/participants").json()["participants"][0]["minutes"] < 1


@pytest.mark.slow
def test_a_database_that_goes_away_in_the_middle_of_a_chat_stops_the_page_only_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service(tmp_path, "") as client:
        person = entered(client, new_study(client, "away", chat_protocol("quokka")))
        task = person.done("tasks/next")["task"]["id"]
        file = tmp_path / "home" / "refaug.db"
        aside = file.with_name("aside.db")
        file.rename(aside)
        refused = person.post(f"tasks/{task}/messages", {"n": 1, "text": "hello"}, action="away-00000000000000")
        assert (refused.status_code, refused.json()["code"], "retry-after" in refused.headers) == (
            503, "unavailable", True,
        )  # fmt: skip
        aside.rename(file)
        assert person.post(
            f"tasks/{task}/messages", {"n": 1, "text": "hello"}, action="away-00000000000000"
        ).status_code == 200  # fmt: skip
        while person.look(20)["task"]["sides"][0]["messages"][-1]["state"] == "asked":
            pass
        assert person.sides[0]["messages"][0]["text"] == "hello"
        # The reply is there, and the database is not, once: it is stored when it is back.
        from refaug.extras.studies.routes.participants import participant_tasks  # noqa: PLC0415

        real, calls = participant_tasks.store_reply, list[str]()

        def away_once(*given: Any, **more: Any) -> bool:
            calls.append("asked")
            if len(calls) == 1:
                raise Unavailable("the database is not there")
            return real(*given, **more)

        monkeypatch.setattr(participant_tasks, "store_reply", away_once)
        person.say("and now")
        assert (len(calls), len(person.sides[0]["messages"])) == (2, 4)


def test_a_reply_is_waited_for_while_its_study_takes_answers(client: TestClient) -> None:
    """A message whose reply is kept from being made stands for a bot that is slow."""
    person = entered(client, new_study(client, "waits", chat_protocol("quokka")))
    task = person.done("tasks/next")["task"]["id"]
    person.say("hello")
    desk = parts_of(client.app.state.refaug).desk  # type: ignore[attr-defined]
    with client.app.state.refaug.database.reading() as connection:  # type: ignore[attr-defined]
        query = text("SELECT participant FROM study_tasks WHERE id = :task")
        me = connection.execute(query, {"task": task}).scalar_one()
    assert desk.asking_task(me) is None
    for state in ("open", "paused", "closed"):
        change(client, "UPDATE studies SET state = :state WHERE name = 'waits'", state=state)
        change(client, "UPDATE study_messages SET state = 'asked', text = NULL WHERE task = :task AND n = 2", task=task)
        assert desk.asking_task(me) == (None if state == "closed" else task)
