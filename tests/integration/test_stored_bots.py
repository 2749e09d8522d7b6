"""Stored bots through commands and over HTTP: put, changed, asked, refused; what the audit log says of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from endpoints import FakeEndpoint, Received, Sent, endpoint, openai, vllm
from serving import client_of, migrated, small_home
from starlette.testclient import TestClient

from refaug.cli.main import main
from refaug.core.home import Settings
from refaug.service.audit import AuditLog
from refaug.service.bots.bot_store import BotStore
from refaug.service.database.database import Database

pytest_plugins = ("databases",)
REPLAY = {"kind": "replay", "replies": ["Hello.", "Tell me more."]}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return migrated(small_home(tmp_path_factory.mktemp("small")))


@pytest.fixture(scope="module")
def client(home: Settings) -> Iterator[TestClient]:
    with client_of(home, bot_hosts="127.0.0.1") as client:
        yield client


def answer_of(received: Received) -> Any:
    return Sent(status=500) if "fail" in received.prompt else vllm(received.prompt.upper())


def put(client: TestClient, name: str, specification: dict[str, Any], **more: Any) -> Any:
    return client.put(f"/v1/bots/{name}", json={"specification": specification, **more})


def replies(client: TestClient, name: str, *dialogues: list[str], **more: Any) -> Any:
    return client.post(
        f"/v1/bots/{name}/replies", json={"dialogues": [{"turns": turns} for turns in dialogues], **more}
    )


def test_a_bot_is_put_changed_and_deleted_in_both_databases(database: Database, tmp_path: Path) -> None:
    store = BotStore(database, Settings(home=tmp_path))
    first = store.put("mine", REPLAY, actor="key ann")
    assert (first.is_new, first.old_sha256) == (True, None)
    same = store.put("mine", REPLAY, actor="key ann")
    assert (same.is_new, same.old_sha256) == (False, None)
    changed = store.put("mine", {**REPLAY, "cycle": True}, actor="key ann")
    assert changed.old_sha256 == first.bot.sha256
    assert store.get("mine") == changed.bot == store.get(f"mine#{changed.bot.sha256[:12]}")
    assert [bot.name for bot in store.list()] == ["mine"]
    store.remove("mine", actor="key ann")
    assert store.list() == []
    rows = [(entry.actor, entry.action, entry.subject) for entry in AuditLog(database).entries()]
    assert rows == [("key ann", "put", "bot mine")] * 2 + [("key ann", "delete", "bot mine")]


def test_a_bot_over_http_replies_and_a_change_is_noticed(client: TestClient) -> None:
    made = put(client, "fixed", REPLAY)
    assert (made.status_code, made.json()["before"]) == (201, None)
    sha256 = made.json()["sha256"]
    answer = replies(
        client, "fixed", ["Hi!"], ["Hi!", "Hello.", "Rain?"], ["a", "b", "c", "d", "e"], sha256=sha256
    ).json()
    assert [(reply["reply"], reply["problem"]) for reply in answer["replies"]] == [
        ("Hello.", None), ("Tell me more.", None), (None, "no_more_replies")
    ]  # fmt: skip
    assert (answer["problems"], answer["bot"]) == ({"no_more_replies": 1}, f"fixed#{sha256[:12]}")
    changed = put(client, "fixed", {**REPLAY, "cycle": True}, expected_sha256=sha256)
    assert (changed.status_code, changed.json()["before"]) == (200, sha256)
    assert replies(client, "fixed", ["Hi!"], sha256=sha256).status_code == 409
    assert put(client, "fixed", REPLAY, expected_sha256=sha256).status_code == 409
    items = [{"id": "d1", "utterance": "Hi!"}]
    body = {"items": items, "bots": {"it": f"bot:fixed#{sha256}"}}
    assert client.post("/v1/replies", json=body).json()["code"] == "conflict"
    fine = client.post("/v1/replies", json={"items": items, "bots": {"it": "bot:fixed"}}).json()
    assert fine["items"][0]["replies"] == {"it": "Hello."}
    assert fine["bots"] == {"it": f"bot:fixed#{changed.json()['sha256'][:12]}"}
    assert client.delete("/v1/bots/fixed").status_code == 200
    assert client.get("/v1/bots/fixed").json()["code"] == "not_found"


def test_an_index_is_pinned_and_replies_as_the_bot_of_a_request_does(client: TestClient) -> None:
    made = put(client, "c-bm25", {"kind": "retrieval", "index": "chat", "mode": "bm25-utterance"}).json()
    assert made["specification"]["index"].startswith("chat@20")
    items = [{"id": "d1", "utterance": "Where do you buy tea?"}]
    bots = {"stored": "bot:c-bm25", "written": "retrieval:chat,mode=bm25-utterance"}
    answer = client.post("/v1/replies", json={"items": items, "bots": bots}).json()["items"][0]
    assert answer["replies"]["stored"] == answer["replies"]["written"] != ""
    assert put(client, "lost", {"kind": "retrieval", "index": "nowhere"}).json()["code"] == "not_found"


def test_a_model_behind_an_endpoint_replies_and_its_faults_are_counted(client: TestClient) -> None:
    with endpoint(answer_of) as fake:
        specification = {"kind": "openai", "url": fake.url, "model": "small", "tries": 1}
        assert put(client, "model", specification).status_code == 201
        answer = replies(client, "model", ["one"], ["fail"], ["two"]).json()
        assert [reply["reply"] for reply in answer["replies"]] == ["ONE", None, "TWO"]
        assert answer["problems"] == {"server": 1}
        assert answer["replies"][0]["answer_tokens"] == 7
        count = len(fake.received)
        again = replies(client, "model", ["one"], ["two"]).json()
        assert [reply["stored"] for reply in again["replies"]] == [True, True]
        assert len(fake.received) == count


def use_of(client: TestClient, name: str) -> dict[str, Any]:
    return next(use for use in client.get("/v1/bot-use").json()["bots"] if use["name"] == name)


def test_what_a_bot_was_asked_and_what_it_cost_is_counted(client: TestClient) -> None:
    with endpoint(answer_of) as fake:
        price = {"input": 1_000.0, "output": 10_000.0, "currency": "EUR"}
        specification = {"kind": "openai", "url": fake.url, "model": "priced", "tries": 1, "price": price}
        put(client, "priced", specification)
        assert use_of(client, "priced")["used"] is None
        before = client.get("/v1/bot-use").json()["tokens_today"]
        replies(client, "priced", ["one"], ["fail"])
        replies(client, "priced", ["one"])
    use = use_of(client, "priced")
    assert (use["requests"], use["unanswered"], use["failures"], use["stored"]) == (3, 1, 1, 1)
    assert (use["prompt_tokens"], use["answer_tokens"], use["money"], use["currency"]) == (90, 7, 0.16, "EUR")
    assert (use["failure"]["problem"], use["failure"]["detail"]) == ("server", "status 500")
    assert use["replied"] > use["failure"]["at"]
    assert [(day["requests"], day["failures"]) for day in use["days"]] == [(3, 1)]
    today = client.get("/v1/bot-use").json()
    assert (today["tokens_today"] - before >= 97, today["tokens_a_day"]) == (True, 1_000_000)


def test_a_bot_whose_key_is_not_set_is_known_to_fail(client: TestClient) -> None:
    put(client, "keyless", {"kind": "http", "url": "http://127.0.0.1:1/", "key_env": "BOT_NEVER_SET"})
    assert replies(client, "keyless", ["Hi!"]).status_code == 422
    failure = use_of(client, "keyless")["failure"]
    assert (failure["problem"], "BOT_NEVER_SET is not set" in failure["detail"]) == ("bad_input", True)


def test_a_retrieval_bot_shows_what_it_chose_from(client: TestClient) -> None:
    put(client, "near", {"kind": "retrieval", "index": "chat", "mode": "bm25-utterance"})
    (plain,) = replies(client, "near", ["Where do you buy tea?"]).json()["replies"]
    (shown,) = replies(client, "near", ["Where do you buy tea?"], retrieved=True).json()["replies"]
    assert "retrieved" not in plain
    assert shown["retrieved"][0]["text"] == shown["reply"] == plain["reply"]
    assert len(shown["retrieved"]) > 1
    assert {*shown["retrieved"][0]} == {"text", "utterance", "similarity", "log"}
    assert shown["retrieved"][0]["similarity"] > 0


def test_an_answer_that_does_not_come_ends_with_the_time_of_the_request(client: TestClient) -> None:
    with endpoint(lambda _: Sent(hangs=True)) as fake:
        put(client, "mute", {"kind": "http", "url": fake.url})
        body = {"dialogues": [{"turns": ["Hi!"]}]}
        answer = client.post("/v1/bots/mute/replies", json=body, headers={"X-Timeout-S": "2"})
    assert (answer.status_code, answer.json()["code"]) == (503, "expired")
    use = use_of(client, "mute")
    assert (use["requests"], use["unanswered"], use["failures"], use["failure"]) == (1, 1, 0, None)


def test_bots_are_shown_where_the_tokens_of_the_day_cannot_be_read(tmp_path: Path) -> None:
    home = migrated(Settings(home=tmp_path / "home"))
    with client_of(home, ready=False) as client:
        put(client, "fixed", REPLAY)
        home.judgements.mkdir(exist_ok=True)
        (home.judgements / "bot-spending.db").write_bytes(b"no database at all, but long enough to be read as one" * 40)
        use = client.get("/v1/bot-use").json()
    assert (use["tokens_today"], [bot["name"] for bot in use["bots"]]) == (None, ["fixed"])


@pytest.mark.parametrize(
    ("specification", "status", "message"),
    [
        ({"kind": "http", "url": "http://169.254.169.254/latest"}, 403, "is not on the list of allowed hosts"),
        ({"kind": "http", "url": "http://localhost:1/"}, 403, "is not on the list of allowed hosts"),
        ({"kind": "http", "url": "http://localhost:1/"}, 403, "adds localhost:1 to --bot-hosts of refaug serve"),
        (
            {"kind": "http", "url": "http://127.0.0.1:1/", "key_env": "REFAUG_DATABASE"},
            403,
            "something else than the key",
        ),
        ({"kind": "http", "url": "http://a:b@127.0.0.1/"}, 422, "there is a key in it"),
        ({"kind": "replay", "replies": []}, 422, "replies: a list of texts"),
        ({"kind": "replay", "replies": ["a"], "key": "sk-1"}, 422, "keys do not belong"),
    ],
)
def test_what_a_request_may_not_store_is_refused(client: TestClient, specification, status, message) -> None:
    answer = put(client, "bad", specification)
    assert answer.status_code == status, answer.text
    assert message in answer.text
    assert client.get("/v1/bots/bad").status_code == 404


def test_a_server_without_a_list_asks_nobody(tmp_path: Path) -> None:
    home = migrated(Settings(home=tmp_path / "home"))
    with endpoint(lambda _: openai("yes")) as fake, client_of(home, ready=False) as client:
        assert put(client, "model", {"kind": "http", "url": fake.url}).status_code == 403
        assert fake.received == []


def command(home: Path, *words: str) -> int:
    return main(["--home", str(home), *words])


@pytest.fixture
def bot_file(tmp_path: Path) -> Iterator[tuple[FakeEndpoint, Path]]:
    with endpoint(answer_of) as fake:
        path = tmp_path / "mine.json"
        path.write_bytes(orjson.dumps({"kind": "openai", "url": fake.url, "model": "small", "tries": 1}))
        yield fake, path


def test_the_commands_add_show_try_ask_and_remove(tmp_path: Path, bot_file, capfd: pytest.CaptureFixture[str]) -> None:
    fake, path = bot_file
    home, items = tmp_path / "home", tmp_path / "items.jsonl"
    rows = [{"id": f"i{number}", "utterance": text} for number, text in enumerate(("one", "fail", "two", "fail again"))]
    items.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    assert command(home, "bots", "add", "mine", str(path)) == 0
    assert command(home, "bots", "list") == 0
    assert f"{fake.url}" in capfd.readouterr().out
    assert command(home, "bots", "try", "mine", "hello") == 0
    assert "> HELLO" in capfd.readouterr().out
    assert command(home, "bots", "try", "mine", "fail") == 4
    assert "status 500" in capfd.readouterr().err
    assert command(home, "bots", "reply", str(items), "--bot", "mine=mine") == 0
    first = capfd.readouterr()
    answered = [orjson.loads(line) for line in first.out.splitlines()]
    assert [row.get("replies", {}).get("mine") for row in answered] == ["ONE", None, "TWO", None]
    assert "mine has no reply to 2 items: i1 (server), i3 (server)" in first.err
    assert "mine: 2 asked, 0 from stored answers" in first.err
    count = len(fake.received)
    assert command(home, "bots", "reply", str(items), "--bot", "mine=mine") == 0
    assert len(fake.received) == count + 2  # the two that failed
    assert capfd.readouterr().out == first.out
    changed = orjson.loads(path.read_bytes())
    path.write_bytes(orjson.dumps({**changed, "system": "Be brief."}))
    assert command(home, "bots", "add", "mine", str(path)) != 0
    assert "another specification" in capfd.readouterr().err
    assert command(home, "bots", "add", "mine", str(path), "--replace") == 0
    assert command(home, "bots", "add", "other", str(path), "--bot-hosts", "api.example.com") != 0
    assert "not on the list" in capfd.readouterr().err
    assert command(home, "bots", "remove", "mine") == 0
    assert command(home, "bots", "show", "mine") != 0
