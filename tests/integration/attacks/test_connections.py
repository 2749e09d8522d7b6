"""Connections that send too little, too much, or the wrong thing at the wrong moment."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pytest
from attack_cases import answers_to
from safeguards import mostly_slow
from serving import wait_until

from refaug.service.web.guard.open_connections import GuardedConnection, OpenConnections
from refaug.service.web.guard.states import State

if TYPE_CHECKING:
    from conftest import Attacked

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
ITEM = {"id": "i", "utterance": "is it", "references": ["no it is not"], "replies": {"a": "no it is"}}
SCORED = json.dumps({"items": [ITEM], "metrics": ["bleu"]}).encode()
HEAD = b"POST /v1/scores HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def post(body: bytes, *, length: int | None = None) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n" % (len(body) if length is None else length) + body


@pytest.mark.slow
def test_connections_with_a_line_end_alone_are_closed(attacked: Attacked) -> None:
    clients = [attacked.connect().send(b"\r\n") for _ in range(100)]
    assert [client.rest() for client in clients] == [b""] * 100
    for client in clients:
        client.socket.close()
    attacked.wait_until_alone()


def test_line_ends_one_after_another_prolong_nothing(attacked: Attacked) -> None:
    with attacked.limited(idle_s=0.5), attacked.connect() as client:
        client.socket.settimeout(0.05)
        closed = False
        for _ in range(400):
            try:
                client.send(b"\r\n")
                closed = client.socket.recv(1) == b""
            except TimeoutError:
                continue
            except OSError:
                closed = True
            if closed:
                break
        assert closed


def test_a_line_end_after_an_answer_prolongs_nothing(attacked: Attacked) -> None:
    with attacked.connect() as client:
        assert client.send(HEALTH).status() == 200
        assert client.send(b"\r\n").rest() == b""


EARLY = {
    "413": (post(b"", length=100_000_000), 413),
    "415": (post(b"", length=100).replace(b"application/json", b"text/xml"), 415),
    "404": (post(b"", length=100).replace(b"/v1/scores", b"/nowhere"), 404),
    "405": (post(b"", length=100).replace(b"/v1/scores", b"/healthz"), 405),
    "408": (post(b"{", length=100), 408),
}


@pytest.mark.parametrize(("request_bytes", "status"), mostly_slow(EARLY.values(), quick=[0]), ids=EARLY)
def test_a_body_byte_after_an_early_answer_prolongs_nothing(
    attacked: Attacked, request_bytes: bytes, status: int
) -> None:
    with attacked.connect() as client:
        assert client.send(request_bytes).status() == status
        assert client.send(b"x").rest() == b""


def test_the_rest_of_a_refused_body_is_read_before_the_next_request(attacked: Attacked) -> None:
    refused = post(b"", length=1_000_000).replace(b"application/json", b"text/xml")
    with attacked.connect() as client:
        assert client.send(refused).status() == 415
        assert client.send(b"x" * 1_000_000 + HEALTH).status() == 200


def test_trailers_have_a_limit(attacked: Attacked) -> None:
    with attacked.connect() as client:
        client.send(CHUNKED + b"2\r\n{}\r\n0\r\n" + b"Name: value\r\n" * 2_000)
        assert client.status() == 431
        assert client.rest() == b""
    attacked.wait_until_alone()


def test_trailers_are_no_headers_of_the_request(attacked: Attacked) -> None:
    trailers = b"X-Request-Id: from-a-trailer\r\nContent-Encoding: gzip\r\n"
    chunks = b"%x\r\n%b\r\n0\r\n" % (len(SCORED), SCORED)
    with attacked.connect() as client:
        client.send(CHUNKED + chunks + trailers + b"\r\n")
        while b"\r\n\r\n" not in client.buffer:
            client.buffer += client.socket.recv(1 << 16)
        assert client.buffer.startswith(b"HTTP/1.1 200 ")
        assert b"from-a-trailer" not in client.buffer
        assert client.status() == 200


@pytest.mark.slow
def test_trailers_that_never_end_are_timed_out(attacked: Attacked) -> None:
    with attacked.connect() as client:
        assert client.send(CHUNKED + b"2\r\n{}\r\n0\r\nName: v").status() == 408
        assert client.rest() == b""


@pytest.mark.parametrize("request_bytes", [HEALTH, post(SCORED)], ids=["GET", "POST"])
def test_a_client_that_ends_sending_gets_its_answer(attacked: Attacked, request_bytes: bytes) -> None:
    with attacked.connect() as client:
        client.send(request_bytes).end_sending()
        assert client.status() == 200
        assert client.rest() == b""


def test_all_complete_requests_of_a_client_that_ends_sending_are_answered(attacked: Attacked) -> None:
    with attacked.connect() as client:
        client.send(HEALTH + post(SCORED) + HEALTH * 40 + HEALTH[:20]).end_sending()
        assert [client.status() for _ in range(42)] == [200] * 42
        assert client.rest() == b""


@pytest.mark.slow
def test_requests_in_one_go_are_answered_one_at_a_time(attacked: Attacked) -> None:
    with attacked.connect() as client:
        client.send(HEALTH * 5_000)
        assert {client.status() for _ in range(5_000)} == {200}
        assert len(attacked.server.server_state.tasks) <= 1


def test_after_what_is_no_request_earlier_ones_are_answered(attacked: Attacked) -> None:
    with attacked.connect() as client:
        client.send(post(SCORED) + b"no request\r\n\r\n")
        assert [client.status(), client.status()] == [200, 400]
        assert client.rest() == b""


def test_a_refused_head_says_what_would_be_accepted(attacked: Attacked) -> None:
    [(status, body)] = answers_to(attacked.port, CHUNKED.replace(b"chunked", b"gzip, chunked"))
    assert (status, json.loads(body)["detail"]) == (
        400,
        "Transfer-Encoding is 'gzip, chunked': send chunked or a Content-Length",
    )


def test_an_error_can_be_read_by_a_client_that_sends_on(attacked: Attacked) -> None:
    with attacked.connect() as client:
        client.send(b"GET / HTTP/1.1\r\n" + b"Name: value\r\n" * 30_000)
        assert client.status() == 431


def test_a_slow_head_makes_room_for_a_new_connection(attacked: Attacked) -> None:
    with attacked.limited(connections=3, slow_s=0.0, head_s=60.0):
        slow = [attacked.connect().send(b"GET / HT") for _ in range(3)]
        wait_until(lambda: len(attacked.server.server_state.connections) == 3)
        with attacked.connect() as client:
            assert client.send(HEALTH).status() == 200
        assert slow[0].status() == 503
        for client in slow:
            client.socket.close()


def test_slow_bodies_hold_no_place_among_the_requests(attacked: Attacked, monkeypatch: pytest.MonkeyPatch) -> None:
    serve = attacked.state.serve
    monkeypatch.setitem(serve.__dict__, "requests", 2)
    slow = [attacked.connect().send(post(b"{", length=100)) for _ in range(5)]
    with attacked.connect() as client:
        assert [client.send(post(SCORED)).status() for _ in range(3)] == [200, 200, 200]
    assert [client.status() for client in slow] == [408] * 5
    for client in slow:
        client.socket.close()


def test_an_answer_that_is_never_fetched_is_not_waited_for(attacked: Attacked, monkeypatch: pytest.MonkeyPatch) -> None:
    unsent, enter = dict[State, int](), OpenConnections.enter

    def recorded(self: OpenConnections, connection: GuardedConnection, state: State, previous: State | None) -> None:
        unsent[state] = connection.unsent_bytes
        enter(self, connection, state, previous)

    items = [{**ITEM, "id": f"{place}-{'x' * 9_000}"} for place in range(900)]
    request_bytes = post(json.dumps({"items": items, "metrics": ["bleu"]}).encode())
    attacked.wait_until_alone()
    monkeypatch.setattr(OpenConnections, "enter", recorded)
    with attacked.limited(fetch_s=0.5), attacked.connect() as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.send(request_bytes.replace(b"Host: x", b"Host: x\r\nConnection: close"))
        wait_until(lambda: State.CLOSED in unsent)
        attacked.wait_until_alone()
    assert list(unsent)[-2:] == [State.CLOSING, State.CLOSED]
    assert unsent[State.CLOSED] > 0
