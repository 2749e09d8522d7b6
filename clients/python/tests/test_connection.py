"""Calls over a connection: what is sent, what is tried again, what each failure becomes."""

from __future__ import annotations

from refaug_client._call import Call, as_json
from refaug_client._connection import Connection
from refaug_client._settings import Connecting
from scripted import DROP, ok, page, problem, scripted


def call() -> Call[dict[str, object]]:
    return Call("GET", "/healthz", as_json)


def test_a_real_server_answers(url: str, sets: dict[str, str]) -> None:
    connection = Connection(Connecting.of(url))
    assert connection.send(call())["status"] == "ok"
    assert sorted(sets) == ["test", "train", "validation"]
    connection.close()


def test_what_passes_is_tried_again_until_it_is_answered() -> None:
    answers = [problem(429, retry_after=0), page(502), DROP, problem(503, retry_after=0), page(200), ok({"x": 1})]
    with scripted(answers) as server:
        connection = Connection(Connecting.of(server.url))
        assert connection.send(call()) == {"x": 1}
        names = [asked.headers["x-request-id"] for asked in server.requests]
        assert [name.partition(".")[2] for name in names] == ["", "2", "3", "4", "5", "6"]
        connection.close()
