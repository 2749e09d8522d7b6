"""A server that is too old is named as that, and nothing else is blamed on its age."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from scripted import DROP, Asked, Said, ok, page, problem, scripted

from refaug_client import BadAnswer, BadInput, NotFound, OldServer, RefaugError, Unavailable
from refaug_client._http import old_server as _compat
from refaug_client._http.async_connection import AsyncConnection
from refaug_client._http.call import Call, read_json
from refaug_client._http.connection import Connection
from refaug_client._http.old_server import is_older
from refaug_client._http.settings import ConnectionSettings
from refaug_client._version import VERSION

NEWER = Call("POST", "/v1/wonders", lambda answer: answer.json()["wonder"], body={"items": []})
OLD = {"status": "ok", "version": "0.0.9"}
SAME = {"status": "ok", "version": VERSION}
NO_ROUTE = problem(404, "unknown_path", "Nothing answers at this path.")
UNKNOWN_FIELD = problem(
    422,
    "bad_input",
    "glow: Extra inputs are not permitted",
    errors=[{"field": "glow", "message": "Extra inputs are not permitted", "item": None, "place": None}],
)
UNKNOWN_VALUE = problem(422, "bad_input", "return: Input should be 'scores' or 'stats'; found 'values'")
LACKING = ok({"request_id": "r"})
MAY_BE_OLD = [NO_ROUTE, problem(405, "method_not_allowed", "Method Not Allowed"), UNKNOWN_FIELD, UNKNOWN_VALUE, LACKING]
WHATEVER_THE_AGE = [
    (problem(404, "not_found", "there is no set 4011ff91501055dc"), NotFound),
    (problem(422, "bad_input", "items[3].utterance: Field required"), BadInput),
    (problem(400, "usage", "nothing looks at settings.alpha with these settings"), BadInput),
    (problem(503, "overloaded", "Not Found", retry_after=0), Unavailable),
    (page(404), BadAnswer),
    (page(200), BadAnswer),
]
UNKNOWN_AGE = [problem(503, retry_after=0), page(200), DROP, NO_ROUTE, LACKING, ok({"version": 3})]


def answering(answer: Any, health: Any) -> Callable[[Asked], Any]:
    return lambda asked: health if asked.path == "/healthz" else answer


def error_of(url: str, *, asynchronous: bool = False, streamed: bool = False, call: Call[Any] = NEWER) -> RefaugError:
    """What comes of a call, with one try."""

    with pytest.raises(RefaugError) as caught:
        asyncio.run(sent_by_asyncio(url, call, streamed)) if asynchronous else sent(url, call, streamed)
    return caught.value


def sent(url: str, call: Call[Any], streamed: bool) -> None:
    connection = Connection(ConnectionSettings.of(url, retry=0))
    try:
        if streamed:
            with connection.stream(call):
                pass
        else:
            connection.send(call)
    finally:
        connection.close()


async def sent_by_asyncio(url: str, call: Call[Any], streamed: bool) -> None:
    connection = AsyncConnection(ConnectionSettings.of(url, retry=0))
    try:
        if streamed:
            async with connection.stream(call):
                pass
        else:
            await connection.send(call)
    finally:
        await connection.close()


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("answer", MAY_BE_OLD)
def test_an_older_server_is_named_with_both_versions_and_its_own_error(answer: Said, asynchronous: bool) -> None:
    with scripted(answering(answer, ok(OLD))) as server:
        error = error_of(server.url, asynchronous=asynchronous)
    assert isinstance(error, OldServer)
    assert (error.server, error.client) == ("0.0.9", VERSION)
    assert "0.0.9" in str(error)
    assert VERSION in str(error)
    assert "refaug-client==0.0.*" in error.remedy
    assert isinstance(error.__cause__, RefaugError)
    assert error.__cause__.message in str(error)
    assert (error.status, error.request_id) == (error.__cause__.status, error.__cause__.request_id)
    assert [asked.path for asked in server.requests] == ["/v1/wonders", "/healthz"]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("version", [VERSION, "0.1.99", "0.2.0", "1.0.0rc1", "0.10.0", "of the sea", ""])
def test_a_server_that_is_not_older_gives_the_error_that_it_gave(version: str, asynchronous: bool) -> None:
    with scripted(answering(NO_ROUTE, ok({"status": "ok", "version": version}))) as server:
        error = error_of(server.url, asynchronous=asynchronous)
    assert type(error) is NotFound
    assert len(server.requests) == 2


@pytest.mark.parametrize(("answer", "kind"), WHATEVER_THE_AGE)
def test_what_has_nothing_to_do_with_its_age_is_not_asked_about(answer: Said, kind: type[RefaugError]) -> None:
    with scripted(answering(answer, ok(OLD))) as server:
        assert type(error_of(server.url)) is kind
    assert [asked.path for asked in server.requests] == ["/v1/wonders"]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("health", UNKNOWN_AGE)
def test_where_its_version_cannot_be_known_the_error_stays(health: Any, asynchronous: bool) -> None:
    with scripted(answering(NO_ROUTE, health)) as server:
        assert type(error_of(server.url, asynchronous=asynchronous)) is NotFound
    assert [asked.path for asked in server.requests] == ["/v1/wonders", "/healthz"]


def test_missing_field_from_a_server_of_the_same_version_is_bad_answer() -> None:
    with scripted(answering(LACKING, ok(SAME))) as server:
        error = error_of(server.url)
    assert type(error) is BadAnswer
    assert "'wonder'" in str(error)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_is_streamed_is_looked_at_too(asynchronous: bool) -> None:
    with scripted(answering(NO_ROUTE, ok(OLD))) as server:
        assert type(error_of(server.url, asynchronous=asynchronous, streamed=True)) is OldServer


def test_the_error_survives_the_way_out_of_a_worker_process() -> None:
    with scripted(answering(NO_ROUTE, ok(OLD))) as server:
        error = error_of(server.url)
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, OldServer)
    assert (again.server, again.client, str(again)) == ("0.0.9", VERSION, str(error))


@pytest.mark.parametrize(
    ("server", "client", "older"),
    [
        ("0.1.0", "0.1.0", False),
        ("0.1.0", "0.1.9", False),
        ("0.1.9", "0.2.0", True),
        ("0.9.0", "0.10.0", True),
        ("0.10.0", "0.9.0", False),
        ("1.0.0", "0.9.0", False),
        ("0.9.9", "1.0.0", True),
        ("v0.0.1", "0.1.0", True),
        ("0.1", "0.2", True),
        ("0.1.0.dev3+g1234", "0.2.0", True),
        ("1", "2.0.0", False),
        ("", "0.1.0", False),
        ("٠.٠", "0.1.0", False),
        ("0.1.0", "", False),
    ],
)
def test_only_the_first_two_numbers_tell_the_age(server: str, client: str, older: bool) -> None:
    assert is_older(server, client) is older


# what the rules above rely on, said by the server itself


@pytest.mark.parametrize(
    "call",
    [
        Call("GET", "/v1/wonders", read_json),
        Call("PATCH", "/v1/metrics", read_json),
        Call("POST", "/v1/scores", read_json, body={"items": [{"id": "a"}], "glow": True}),
        Call("POST", "/v1/scores", read_json, body={"items": [{"id": "a"}], "return": "wonders"}),
        Call("POST", "/v1/jobs", read_json, body={"kind": "wonder"}),
        Call("GET", "/healthz", lambda answer: answer.json()["wonder"]),
    ],
)
def test_a_real_server_that_lacks_something_is_seen_to(
    url: str, call: Call[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(error_of(url, call=call))
    assert kind in (NotFound, BadInput, BadAnswer)
    monkeypatch.setattr(_compat, "VERSION", "9.0.0")
    error = error_of(url, call=call)
    assert type(error) is OldServer
    assert (error.server, error.client, type(error.__cause__)) == (VERSION, "9.0.0", kind)


def test_a_real_server_that_lacks_a_set_is_not_old(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compat, "VERSION", "9.0.0")
    assert type(error_of(url, call=Call("GET", "/v1/reference-sets/0123456789abcdef", read_json))) is NotFound
    wrong = Call("POST", "/v1/scores", read_json, body={"items": [{"id": "a", "references": 7, "replies": {"m": "x"}}]})
    assert type(error_of(url, call=wrong)) is BadInput
