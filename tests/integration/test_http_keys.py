"""Keys over HTTP: wrong ones are slowed where they come from, no key takes all places, and acts are written down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from refusals import refusing
from serving import client_of, migrated
from starlette.testclient import TestClient
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from refaug.cli.main import main
from refaug.core.errors import TooMany
from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.keys import Key, KeyPlaces, KeyStore, WrongKeys
from refaug.service.scopes import Scope

PROXY, HONEST, GUESSER = "10.0.0.1", "192.0.2.1", "198.51.100.9"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("keys") / "home"
    folder.mkdir()
    return migrated(Settings(home=folder))


@pytest.fixture(scope="module")
def tokens(home: Settings) -> dict[str, str]:
    database = Database.open(home)
    made = {name: KeyStore(database).create(name, [Scope.ADMIN])[0] for name in ("ann", "bob")}
    database.close()
    return made


@pytest.fixture(scope="module")
def client(home: Settings, tokens: dict[str, str]) -> Iterator[TestClient]:
    with client_of(home, ready=False, keys=True) as client:
        yield client


def wrong_secret(token: str) -> str:
    return token[:-4] + ("AAAA" if not token.endswith("AAAA") else "BBBB")


def statuses(
    client: TestClient, token: str, peer: str | None, count: int, *, trusted: str = PROXY, **headers: str
) -> list[int]:
    """Ask from an address, or through a Unix socket, behind uvicorn's reading of the headers of a trusted proxy."""

    async def ask() -> list[int]:
        app = ProxyHeadersMiddleware(client.app, trusted_hosts=trusted)

        async def connected(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "client": None if peer is None else (peer, 1)}, receive, send)

        transport = httpx.ASGITransport(connected)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as asking:
            sent = {"Authorization": f"Bearer {token}", **headers}
            return [(await asking.get("/v1/jobs", headers=sent)).status_code for _ in range(count)]

    return asyncio.run(ask())


@pytest.fixture
def clock(client: TestClient) -> Iterator[Any]:
    """The clock of the count of wrong keys, which begins anew."""

    class Clock:
        now = 1_000.0

        def __call__(self) -> float:
            return self.now

    clock = Clock()
    client.app.state.refaug.wrong_keys = WrongKeys(10, clock=clock)
    return clock


def test_wrong_secrets_are_slowed_and_right_ones_nowhere(
    client: TestClient, tokens: dict[str, str], clock: Any
) -> None:
    guess = wrong_secret(tokens["ann"])
    assert statuses(client, guess, GUESSER, 12) == [401] * 10 + [429] * 2
    assert statuses(client, tokens["ann"], GUESSER, 20) == [200] * 20  # its holder may be behind the same proxy
    assert statuses(client, tokens["bob"], GUESSER, 1) == [200]
    assert statuses(client, tokens["ann"], HONEST, 20) == [200] * 20
    assert statuses(client, guess, GUESSER, 1) == [429]
    clock.now += 6.0
    assert statuses(client, guess, GUESSER, 2) == [401, 429]


def test_a_refusal_says_when_to_come_again(client: TestClient, tokens: dict[str, str], clock: Any) -> None:
    headers = {"Authorization": f"Bearer {wrong_secret(tokens['ann'])}"}
    for _ in range(10):
        client.get("/v1/jobs", headers=headers)
    refused = client.get("/v1/jobs", headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
    assert refused.headers["Retry-After"] == "6"
    assert tokens["ann"][-43:] not in refused.text


def test_what_is_no_key_counts_for_its_address_and_no_key_at_all_does_not(client: TestClient, clock: Any) -> None:
    assert statuses(client, "hello", GUESSER, 11) == [401] * 10 + [429]
    assert {client.get("/v1/jobs").status_code for _ in range(20)} == {401}


def test_behind_a_trusted_proxy_the_forwarded_address_counts(
    client: TestClient, tokens: dict[str, str], clock: Any
) -> None:
    guess = wrong_secret(tokens["ann"])
    assert statuses(client, guess, PROXY, 11, **{"X-Forwarded-For": GUESSER})[-1] == 429
    assert statuses(client, tokens["ann"], PROXY, 2, **{"X-Forwarded-For": HONEST}) == [200] * 2


def test_a_forwarded_address_that_is_not_trusted_changes_nothing(
    client: TestClient, tokens: dict[str, str], clock: Any
) -> None:
    guess = wrong_secret(tokens["ann"])
    for number in range(10):
        assert statuses(client, guess, GUESSER, 1, **{"X-Forwarded-For": f"203.0.113.{number}"}) == [401]
    assert statuses(client, guess, GUESSER, 1, **{"X-Forwarded-For": "203.0.113.77"}) == [429]


def test_at_a_socket_the_address_that_the_proxy_forwards_counts(
    client: TestClient, tokens: dict[str, str], clock: Any
) -> None:
    """A peer at a Unix socket has no address, so that `*` alone trusts it."""
    guess = wrong_secret(tokens["ann"])
    forwarded = {name: {"X-Forwarded-For": address} for name, address in (("honest", HONEST), ("guesser", GUESSER))}
    assert statuses(client, guess, None, 11, trusted="*", **forwarded["guesser"])[-1] == 429
    assert statuses(client, guess, None, 1, trusted="*", **forwarded["honest"]) == [401]
    clock.now += 3_600.0
    assert statuses(client, guess, None, 11, trusted=PROXY, **forwarded["guesser"])[-1] == 429
    assert statuses(client, guess, None, 1, trusted=PROXY, **forwarded["honest"]) == [429]  # all are one address


# ── requests at once ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_has_as_many_places_in_a_process_as_the_refusal_says() -> None:
    places, ann, bob = KeyPlaces(2), *(Key(id=name, name=name, scopes=frozenset()) for name in ("a", "b"))
    places.take(ann)
    places.take(ann)
    with refusing(TooMany, "a", 2) as refused:
        places.take(ann)
    assert refused.value.status == 429
    places.take(bob)
    places.give_back(ann)
    places.take(ann)


def test_a_key_with_all_its_places_in_use_is_refused_and_others_are_not(
    client: TestClient, tokens: dict[str, str]
) -> None:
    state = client.app.state.refaug
    before, state.key_places = state.key_places, KeyPlaces(1)
    ann = state.keys.check(tokens["ann"])
    state.key_places.take(ann)  # a request that is being answered
    headers = {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}
    try:
        refused = client.get("/v1/jobs", headers=headers["ann"])
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        assert {client.get("/v1/jobs", headers=headers["bob"]).status_code for _ in range(3)} == {200}
        assert client.head("/v1/jobs", headers=headers["bob"]).status_code == 200
        assert client.get("/v1/artefacts/index/nothing", headers=headers["bob"]).status_code == 404
        state.key_places.give_back(ann)
        assert {client.get("/v1/jobs", headers=headers["ann"]).status_code for _ in range(3)} == {200}
    finally:
        state.key_places = before


def test_each_process_has_all_places_of_the_setting(home: Settings) -> None:
    ann = Key(id="a", name="a", scopes=frozenset())
    with client_of(home, ready=False, keys=True, key_requests=3, workers=3) as client:
        places = client.app.state.refaug.key_places
        for _ in range(3):
            places.take(ann)
        with refusing(TooMany):
            places.take(ann)


def test_a_body_that_is_still_to_come_holds_no_place_of_its_key(client: TestClient, tokens: dict[str, str]) -> None:
    state = client.app.state.refaug
    before, state.key_places = state.key_places, KeyPlaces(1)
    headers = {"Authorization": f"Bearer {tokens['ann']}"}
    is_uploading, rest_comes = asyncio.Event(), asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b'{"cron": '
        is_uploading.set()
        await rest_comes.wait()
        yield b'"no time"}'

    async def ask() -> list[int]:
        transport = httpx.ASGITransport(client.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver", headers=headers) as asking:
            json = {"Content-Type": "application/json"}
            slow = [asyncio.create_task(asking.put("/v1/schedules/x", content=body(), headers=json)) for _ in range(2)]
            await is_uploading.wait()
            meanwhile = await asking.get("/v1/jobs")
            state.key_places.take(state.keys.check(tokens["ann"]))  # a request that is being answered
            rest_comes.set()
            return [meanwhile.status_code, *[(await answer).status_code for answer in slow]]

    try:
        assert asyncio.run(ask()) == [200, 429, 429]
        state.key_places.give_back(state.keys.check(tokens["ann"]))
        assert client.put("/v1/schedules/x", json={"cron": "no time"}, headers=headers).status_code == 422
    finally:
        state.key_places = before


# ── the audit log ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_acts_are_in_the_audit_log_with_key_and_request(
    client: TestClient, tokens: dict[str, str], home: Settings, capfdbinary: Any
) -> None:
    headers = {"Authorization": f"Bearer {tokens['ann']}", "X-Request-Id": "r-1"}
    body = {"cron": "30 2 * * *", "order": {"kind": "index-update", "index": "chat"}}
    assert client.put("/v1/schedules/nightly", json=body, headers=headers).status_code == 201
    assert client.delete("/v1/schedules/nightly", headers=headers).status_code == 200
    assert client.delete("/v1/schedules/nightly", headers=headers).status_code == 404  # nothing was done
    job = client.post("/v1/jobs", json=body["order"], headers=headers).json()
    for _ in range(2):  # the second one changes nothing
        assert client.delete(f"/v1/jobs/{job['id']}", headers=headers).status_code == 200
    every = client.get("/v1/audit", headers=headers).json()
    acts = [
        ("put", "schedule nightly"),
        ("delete", "schedule nightly"),
        ("queue", f"job {job['id']}"),
        ("cancel", f"job {job['id']}"),
    ]
    own = [entry for entry in every["entries"] if entry["actor"] == "key ann"]
    assert [(entry["action"], entry["subject"]) for entry in own] == acts
    assert [entry["request"] for entry in own] == ["r-1", "r-1", None, "r-1"]
    assert [entry["action"] for entry in every["entries"][:2]] == ["create", "create"]
    paged = client.get("/v1/audit", params={"limit": 2, "after": every["entries"][1]["id"]}, headers=headers).json()
    assert [entry["id"] for entry in paged["entries"]] == [entry["id"] for entry in own[:2]]
    assert paged["next"] == own[1]["id"]
    late = client.get("/v1/audit", params={"since": "2999-01-01T00:00:00"}, headers=headers).json()
    assert late["entries"] == []
    early = client.get("/v1/audit", params={"since": "0001-01-01T00:00:00+05:00"}, headers=headers).json()
    assert early["entries"] == every["entries"]
    capfdbinary.readouterr()
    assert main(["--home", str(home.home), "admin", "audit", "--json", "--since", own[2]["at"]]) == 0
    lines = capfdbinary.readouterr().out.splitlines()
    assert len(lines) == 2
    assert own[3]["id"].encode() in lines[1]
    assert main(["--home", str(home.home), "admin", "audit", "--verify"]) == 0
    checked = f"{len(every['entries'])} rows checked: none was altered, and none is missing before another\n"
    assert capfdbinary.readouterr().err == checked.encode()


def test_the_audit_log_is_for_admins(client: TestClient, home: Settings) -> None:
    database = Database.open(home)
    token, _ = KeyStore(database).create("reader", [Scope.READ, Scope.WRITE, Scope.SCORE])
    database.close()
    client.app.state.refaug.keys.refresh()
    assert client.get("/v1/audit", headers={"Authorization": f"Bearer {token}"}).status_code == 403


def test_a_home_without_a_database_gets_none_for_the_audit_log(tmp_path: Path, capfdbinary: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("REFAUG_DATABASE", raising=False)
        assert main(["--home", str(tmp_path), "artefacts", "publish", "index", "chat@2026-11-20.1"]) == 3
    assert not (tmp_path / "refaug.db").exists()


# ── making and revoking ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_made_over_http_opens_at_once_and_no_more_when_revoked(
    client: TestClient, tokens: dict[str, str]
) -> None:
    admin = {"Authorization": f"Bearer {tokens['bob']}"}
    body = {"name": "trainer-7", "scopes": ["score", "read"], "rate_per_s": 5.0, "quota_per_day": 100}
    answer = client.post("/v1/keys", json=body, headers=admin)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert (made["scopes"], made["rate_per_s"], made["quota_per_day"]) == (["read", "score"], 5.0, 100)
    assert made["token"].startswith(f"refaug_{made['id']}_")
    own = {"Authorization": f"Bearer {made['token']}"}
    assert client.get("/v1/key", headers=own).json()["name"] == "trainer-7"
    assert client.get("/v1/keys", headers=own).json()["code"] == "not_allowed"

    again = client.post("/v1/keys", json=body, headers=admin)
    assert (again.status_code, again.json()["code"]) == (409, "conflict")

    revoked = client.delete(f"/v1/keys/{made['id']}", headers=admin)
    assert (revoked.status_code, revoked.json()["revoked"] is None) == (200, False)
    assert "token" not in revoked.json()
    assert client.get("/v1/key", headers=own).json()["code"] == "no_key"
    assert client.delete(f"/v1/keys/{made['id']}", headers=admin).json()["revoked"] == revoked.json()["revoked"]
    acts = [(one["actor"], one["action"]) for one in client.get("/v1/audit", headers=admin).json()["entries"]]
    assert acts[-2:] == [("key bob", "create"), ("key bob", "revoke")]


def test_lists_of_keys_have_every_key_by_name_and_no_secret(client: TestClient, tokens: dict[str, str]) -> None:
    admin, walked, after = {"Authorization": f"Bearer {tokens['bob']}"}, list[str](), ""
    while after is not None:
        page = client.get("/v1/keys", params={"limit": 1, "after": after}, headers=admin)
        walked += [key["name"] for key in page.json()["keys"]]
        after = page.json()["next"]
        assert not any(token[-43:] in page.text for token in tokens.values())
    assert {"ann", "bob"} <= set(walked)
    assert walked == sorted(set(walked))


def test_a_server_that_asks_for_no_keys_makes_and_revokes_none(home: Settings) -> None:
    with client_of(home, ready=False) as client:
        assert client.get("/v1/key").json()["required"] is False
        made = client.post("/v1/keys", json={"name": "stranger", "scopes": ["admin"]})
        assert (made.status_code, made.json()["code"]) == (409, "conflict")
        key = client.get("/v1/keys").json()["keys"][0]
        assert client.delete(f"/v1/keys/{key['id']}").status_code == 409
        assert client.get("/v1/keys").json()["keys"][0]["revoked"] is None


def test_headers_and_cookies_that_name_a_person_open_nothing_and_name_no_actor(
    client: TestClient, tokens: dict[str, str]
) -> None:
    names = ("X-Forwarded-User", "X-Forwarded-Email", "X-Auth-Request-User", "X-Auth-Request-Email", "Remote-User")
    sent = dict.fromkeys(names, "eve") | {"Cookie": f"_oauth2_proxy=eve; key={tokens['bob']}"}
    assert client.get("/v1/jobs", headers=sent).status_code == 401
    bob = {"Authorization": f"Bearer {tokens['bob']}"}
    order = {"name": "by-eve", "scopes": ["score"]}
    assert client.post("/v1/keys", json=order, headers=sent | bob).status_code == 201
    rows = client.get("/v1/audit", headers=bob).json()["entries"]
    assert [row["actor"] for row in rows if row["subject"] == "key by-eve"] == ["key bob"]
