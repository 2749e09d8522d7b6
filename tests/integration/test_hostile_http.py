"""Requests that nobody means well with, byte by byte: each is answered in our shape or dropped, and leaves no trace.

A real server over the real app, asked through plain sockets, since a client library would not send most of this. After
every request the answer is looked at for keys, places and traces, and so is all that was logged meanwhile; then the
server has to answer as before, and to hold nothing of any body.
"""

from __future__ import annotations

import io
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, Self

import pytest
import uvicorn
from serving import client_of, small_home, wait_until

from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.keys import KeyStore
from refaug.service.process.guarded_config import ConnectionLimits
from refaug.service.process.json_logging import JsonLines
from refaug.service.process.server import config_of
from refaug.service.scopes import Scope
from refaug.service.server_settings import ServeSettings
from refaug.service.web.app import create_app

pytest_plugins = ("databases",)

SAID = "whatnobodymaylog"  # a word of every body
SCORED = {
    "items": [{"id": "d1", "utterance": SAID, "references": ["no it is not"], "replies": {"a": "no it is"}}],
    "metrics": ["bleu"],
}
SETTINGS = {"body_mib": 2, "bodies_mib": 4, "body_timeout_s": 0.5, "shutdown_s": 2, "timeout_s": 20, "streams": 2}
LIMITS = {"idle_s": 2.0, "head_s": 0.5, "fetch_s": 0.5, "drain_s": 0.5, "trailers_s": 0.5, "linger_s": 0.5}
HEAD_BYTES = ConnectionLimits().head_bytes


@dataclass
class Answer:
    """What came back; no status where the connection was dropped."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """A socket to the server."""

    def __init__(self, port: int, *, buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(60)
        self.socket.connect(("127.0.0.1", port))

    def send(self, data: bytes) -> Connection:
        with suppress(BrokenPipeError, ConnectionResetError):  # refused before it was all sent: the answer may be there
            self.socket.sendall(data)
        return self

    def answer(self, method: str = "GET") -> Answer:
        response = HTTPResponse(self.socket, method=method)
        try:
            response.begin()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, headers, response.read())
        except (HTTPException, ConnectionError):
            return Answer()
        finally:
            response.close()

    def is_dropped(self) -> bool:
        """Whether the server has let go of it, having said nothing."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.socket.close()


@dataclass
class Hostile:
    """The server, and ways to ask it."""

    port: int
    token: str
    home: Path
    server: uvicorn.Server
    state: Any
    log: io.StringIO

    def connect(self, **given: Any) -> Connection:
        return Connection(self.port, **given)

    def head(self, method: str, path: str | bytes, *lines: str | bytes) -> bytes:
        """The head of a request by somebody who may do everything."""
        first = method.encode() + b" " + (path if isinstance(path, bytes) else path.encode()) + b" HTTP/1.1"
        typed = method != "POST" or any(_lower(one).startswith(b"content-type") for one in lines)
        kind = () if typed else ("Content-Type: application/json",)
        more = (one if isinstance(one, bytes) else one.encode() for one in (*kind, *lines))
        return b"\r\n".join([first, b"Host: x", f"Authorization: Bearer {self.token}".encode(), *more]) + b"\r\n\r\n"

    def post(self, path: str, body: bytes, *lines: str | bytes) -> bytes:
        return self.head("POST", path, f"Content-Length: {len(body)}", *lines) + body

    def ask(self, data: bytes, method: str = "GET") -> Answer:
        with self.connect() as connection:
            return self.checked(connection.send(data).answer(method), method)

    def checked(self, answer: Answer, method: str = "GET") -> Answer:
        """The answer, which tells nobody anything and is in our shape where it is an error."""
        self.require_silent(f"{answer.headers}{answer.body.decode('utf-8', 'replace')}")
        if answer.status is not None and answer.status >= 400:
            assert answer.headers["content-type"] == "application/problem+json", answer
            assert answer.headers["x-content-type-options"] == "nosniff"
            if method != "HEAD":
                told = answer.json
                assert told["status"] == answer.status
                assert told["type"] == f"/problems/{told['code']}"
                assert told["request_id"] == answer.headers["x-request-id"]
        return answer

    def require_silent(self, text: str) -> None:
        for secret in (self.token, self.token.split("_", 2)[2], str(self.home), "Traceback", 'File "'):
            assert secret not in text

    def scored(self) -> Any:
        """A good request, for comparison: all of its answer but the name of the request."""
        answer = self.ask(self.post("/v1/scores", json.dumps(SCORED).encode()))
        assert answer.status == 200, answer
        return {name: value for name, value in answer.json.items() if name != "request_id"}


def _lower(line: str | bytes) -> bytes:
    return (line if isinstance(line, bytes) else line.encode()).lower()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    home = small_home(tmp_path_factory.mktemp("hostile"))
    database = Database.open(home)
    token, _ = KeyStore(database).create("all", [Scope.ADMIN])
    database.close()
    serve = ServeSettings(port=0, keys=True, **SETTINGS)
    app, config = create_app(home, serve), config_of(serve)
    config.app, config.timeout_keep_alive = (lambda: app), 2
    config.limits = replace(config.limits, **LIMITS)
    server = uvicorn.Server(config)
    log = io.StringIO()
    handler, root = logging.StreamHandler(log), logging.getLogger()
    handler.setFormatter(JsonLines(home.home))
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        port = server.servers[0].sockets[0].getsockname()[1]
        found = Hostile(port, token, home.home, server, app.state.refaug, log)
        wait_until(lambda: found.ask(found.head("GET", "/readyz")).status == 200)
        yield found
    finally:
        server.should_exit = True
        thread.join()
        root.removeHandler(handler)
        root.setLevel(level)


@pytest.fixture(scope="module")
def as_before(running: Hostile) -> Any:
    return running.scored()


@pytest.fixture(autouse=True)
def unharmed(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every test: the same answer as before, no body held, no request inside, and a log that tells nothing."""
    if "running" not in request.fixturenames:
        yield
        return
    running, before = request.getfixturevalue("running"), request.getfixturevalue("as_before")
    yield
    assert running.scored() == before
    wait_until(lambda: running.state.body_bytes == 0)
    wait_until(lambda: not running.server.server_state.tasks)
    said = running.log.getvalue()
    running.require_silent(said)
    assert SAID not in said
    for line in said.splitlines():
        assert json.loads(line)["event"], "every line is one object"
    assert '"level":"error"' not in said


# ── what is not a request ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("piece", [100, 1 << 20])
def test_a_head_may_be_so_long_however_it_comes(running: Hostile, piece: int) -> None:
    """Also where its end never comes; and one that is nearly as long, with a large body right behind, is read."""
    lines = [f"X-{number}: {'a' * 990}" for number in range(80)]
    endless = running.head("GET", "/healthz", *lines)[:-4]
    assert len(endless) > HEAD_BYTES
    for data in (endless, endless + b"\r\n\r\n"):
        with running.connect() as connection:
            for start in range(0, len(data), piece):
                connection.send(data[start : start + piece])
            answer = running.checked(connection.answer())
        assert (answer.status, answer.json["code"]) == (431, "head_too_large")
    body = json.dumps({**SCORED, "metrics": ["x" * 1_000]}).encode() + b" " * 500_000
    data = running.post("/v1/scores", body, *lines[:60])
    with running.connect() as connection:
        for start in range(0, len(data), max(piece, 20_000)):
            connection.send(data[start : start + max(piece, 20_000)])
        assert running.checked(connection.answer()).status in (400, 422)


@pytest.mark.slow
def test_unfinished_head_and_silent_connection_time_out(
    running: Hostile,
) -> None:
    with running.connect() as slow, running.connect() as silent:
        answer = running.checked(slow.send(running.head("GET", "/healthz")[:-2]).answer())
        assert (answer.status, answer.json["code"]) == (408, "body_timeout")
        assert slow.is_dropped()
        assert silent.is_dropped()


@pytest.mark.slow
def test_the_clock_of_a_head_is_its_own(running: Hostile) -> None:
    """Of requests in a row whose heads are each cut in two, none is taken for one head that goes on for ever."""
    one = running.head("GET", "/healthz", "X-Filler: " + "a" * 9_000)
    with running.connect() as connection:
        connection.send(one[:100])
        begun, count = time.monotonic(), 0
        while time.monotonic() - begun < 3 * LIMITS["head_s"]:
            connection.send(one[100:] + one[:100])
            count += running.checked(_next(connection)).status == 200
            threading.Event().wait(0.02)
    assert count * len(one) > 2 * HEAD_BYTES


@pytest.mark.slow
def test_an_answer_that_is_fetched_slowly_comes_whole(running: Hostile) -> None:
    large = running.ask(running.head("GET", "/openapi.json")).body
    with running.connect(buffer=4_096) as connection:
        connection.send(running.head("GET", "/openapi.json", "Connection: close"))
        begun, found = time.monotonic(), bytearray()
        while piece := connection.socket.recv(1 << 16):
            found += piece
            if time.monotonic() - begun < 3 * LIMITS["fetch_s"]:  # longer than who takes nothing may stay
                threading.Event().wait(0.01)
    assert found.partition(b"\r\n\r\n")[2] == large


# ── bodies ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_body_that_does_not_come_is_given_up(running: Hostile) -> None:
    chunks = running.head("POST", "/v1/scores", "Transfer-Encoding: chunked") + b"1\r\n{\r\n"
    lies = running.head("POST", "/v1/scores", "Content-Length: 100") + b"{"
    for data in (chunks, lies):
        answer = running.ask(data)
        assert (answer.status, answer.json["code"]) == (408, "body_timeout")


def test_a_body_that_comes_byte_by_byte_is_read_or_given_up(running: Hostile) -> None:
    data = running.post("/v1/scores", json.dumps(SCORED).encode())
    with running.connect() as connection:
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(data)):
            connection.send(data[at : at + 1])
        answer = running.checked(connection.answer())
    assert answer.status in (200, 408), answer


@pytest.mark.parametrize("half", [True, False])
def test_who_hangs_up_in_the_middle_leaves_nothing(running: Hostile, *, half: bool) -> None:
    for data in (
        running.head("POST", "/v1/scores", "Content-Length: 1000000") + b" " * 500_000,
        running.head("POST", "/v1/scores", "Transfer-Encoding: chunked") + b"7a120\r\n" + b" " * 400_000,
        running.head("GET", "/healthz")[:30],
    ):
        with running.connect() as connection:
            connection.send(data)
            if half:
                connection.socket.shutdown(socket.SHUT_WR)
                running.checked(connection.answer())


def _next(connection: Connection) -> Answer:
    """One answer, and nothing of the one behind it."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += connection.socket.recv(1)
    first, *lines = head.decode().split("\r\n")[:-2]
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    body = b""
    while len(body) < int(headers["content-length"]):
        body += connection.socket.recv(int(headers["content-length"]) - len(body))
    return Answer(int(first.split()[1]), headers, body)


def test_more_bodies_than_there_is_room_for_are_told_to_come_again(running: Hostile) -> None:
    started = [running.connect() for _ in range(3)]
    for connection in started:
        connection.send(running.head("POST", "/v1/scores", "Content-Length: 2000000") + b" " * 1_900_000)
    answers = [running.checked(connection.answer()) for connection in started]
    for connection in started:
        connection.socket.close()
    codes = sorted((one.status, one.json["code"]) for one in answers)
    assert codes == [(408, "body_timeout"), (408, "body_timeout"), (503, "overloaded")]


# ── names ─────────────────────────────────────────────────────────────────────────────────────────────────────────

NAMES = (
    *("a%00b", "..", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "%0d%0aX-Evil:%201"),
    *("%ED%A0%80", "%FF", "%E2%80%AE", "%5B0-9%5D%2A", "a" * 5_000),
)
PLACES: tuple[tuple[str, str, Any], ...] = (
    ("GET", "/v1/jobs/{}", None),
    ("GET", "/v1/jobs/{}/events", None),
    ("DELETE", "/v1/jobs/{}", None),
    ("GET", "/v1/reference-sets/{}", None),
    ("GET", "/v1/reference-sets/{}/download", None),
    ("POST", "/v1/reference-sets/{}/scores", {"replies": {"a": ["x"]}}),
    ("POST", "/v1/reference-sets/{}/derive", {"k": 1}),
    ("DELETE", "/v1/reference-sets/{}?reason=x", None),
    ("GET", "/v1/logs/{}", None),
    ("POST", "/v1/logs/{}/dialogues", {"dialogues": [{"turns": ["a", "b"]}]}),
    ("DELETE", "/v1/logs/{}/dialogues/x", None),
    ("GET", "/v1/schedules/{}", None),
    ("PUT", "/v1/schedules/{}", {"cron": "0 0 * * *", "order": {"kind": "index-update", "index": "a"}}),
    ("DELETE", "/v1/schedules/{}", None),
    ("GET", "/v1/bots/{}", None),
    ("PUT", "/v1/bots/{}", {"specification": {"kind": "replay", "replies": ["a"]}}),
    ("DELETE", "/v1/bots/{}", None),
    ("POST", "/v1/bots/{}/replies", {"dialogues": [{"turns": ["a"]}]}),
    ("GET", "/v1/artefacts/index/{}", None),
    ("GET", "/v1/artefacts/index/{}/versions", None),
    ("PUT", "/v1/artefacts/index/{}/current", {"rollback": True}),
    ("PUT", "/v1/artefacts/rater/base/current", {"version": "{}"}),
    ("GET", "/problems/{}", None),
    ("GET", "/pages/{}/api.js", None),
)
CURSORS = tuple(
    f"/v1/{what}?after={{}}"
    for what in ("jobs", "logs", "reference-sets", "artefacts/index", "artefacts/rater", "schedules")
)


def _asked(running: Hostile, method: str, path: str, body: Any) -> bytes:
    if body is None:
        return running.head(method, path)
    written = json.dumps(body).encode()
    lines = ("Content-Type: application/json", f"Content-Length: {len(written)}")
    return running.head(method, path, *lines) + written


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:20])
def test_names_are_names_wherever_one_stands(running: Hostile, name: str) -> None:
    for method, path, body in PLACES:
        asked = json.loads(json.dumps(body).replace("{}", name)) if "version" in (body or {}) else body
        answer = running.ask(_asked(running, method, path.format(name), asked))
        assert answer.status in (307, 400, 404, 405, 409, 422), (method, path, answer)
        assert "x-evil" not in answer.headers
    for path in CURSORS:
        answer = running.ask(running.head("GET", path.format(name)))
        assert answer.status in (200, 400, 404, 422), (path, answer)
    files = {path.name for path in running.home.parent.rglob("*")}
    assert not {"etc", "passwd", "X-Evil"} & files


def test_paths_out_and_addresses_of_others_lead_nowhere(running: Hostile) -> None:
    for path in ("/v1/../../etc/passwd", "/pages/../../app.py", "//example.org/", "/v1//jobs", "/V1/jobs"):
        assert running.ask(running.head("GET", path)).status == 404, path
    lines = ("X-Forwarded-Host: example.org", "X-Forwarded-Prefix: //example.org", "X-Forwarded-Proto: javascript")
    answer = running.ask(running.head("GET", "/", *lines).replace(b"Host: x", b"Host: example.org", 1))
    assert answer.status == 200
    assert b"example.org" not in answer.body
    assert b"javascript:" not in answer.body


# ── keys, and what is told of requests ────────────────────────────────────────────────────────────────────────────


def test_a_key_counts_in_its_headers_alone(running: Hostile) -> None:
    query = f"/v1/jobs?access_token={running.token}&api_key={running.token}&key={running.token}"
    for data in (
        f"GET {query} HTTP/1.1\r\nHost: x\r\n\r\n",
        f"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nCookie: key={running.token}\r\n\r\n",
        f"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {running.token}\r\n\r\n",
        f"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {running.token}x\r\n\r\n",
        f"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nX-API-Key: {running.token[:-1]}\r\n\r\n",
        f"GET /v1/{running.token} HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /v1/jobs HTTP/1.1\r\nHost: x\r\nX-API-Key: \xff\xfe\r\n\r\n",
    ):
        answer = running.ask(data.encode("latin-1"))
        assert (answer.status, answer.json["code"]) in ((401, "no_key"), (404, "unknown_path")), data


def test_who_has_no_key_is_told_so_before_the_body_is_waited_for(running: Hostile) -> None:
    data = b"POST /v1/scores HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
    answer = running.ask(data)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")


# ── many ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_many_connections_that_ask_nothing_are_in_nobodys_way(running: Hostile) -> None:
    idle = [running.connect() for _ in range(300)]
    try:
        assert running.ask(running.head("GET", "/readyz")).status == 200
    finally:
        for one in idle:
            one.socket.close()


@contextmanager
def limited(running: Hostile, connections: int, **more: Any) -> Iterator[list[Connection]]:
    """The server with so many connections allowed, and all of them open; each is kept, asked or not."""
    wait_until(lambda: not running.server.server_state.connections)
    with pytest.MonkeyPatch.context() as patch:
        limits = {"connections": connections, "quiet_s": 60.0, "idle_s": 60.0, **more}
        patch.setattr(running.server.config, "limits", replace(running.server.config.limits, **limits))
        kept = [running.connect() for _ in range(connections)]
        try:
            wait_until(lambda: len(running.server.server_state.connections) == connections)
            yield kept
        finally:
            for one in kept:
                one.socket.close()
            wait_until(lambda: not running.server.server_state.connections)


def test_connections_are_so_many_and_those_above_are_told_to_come_again(
    running: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored = running.post("/v1/scores", json.dumps(SCORED).encode())
    with limited(running, 3) as kept:
        for data in (scored, running.head("GET", "/v1/jobs"), running.head("GET", "/healthzz")):
            answer = running.ask(data)
            assert (answer.status, answer.json["code"]) == (503, "overloaded")
            assert answer.json["detail"] == "3 connections are open already"
            assert (answer.headers["retry-after"], answer.headers["connection"]) == ("1", "close")
        for path in ("/healthz", "/readyz?x=1", "/metrics"):  # whoever asks these decides whether we are there
            with running.connect() as connection:
                answer = running.checked(connection.send(running.head("GET", path)).answer())
                assert (answer.status, answer.headers["connection"]) == (200, "close")
                assert connection.is_dropped()
        for one in kept:  # those that were there first are answered as ever, again and again
            for _ in range(2):
                assert running.checked(_next(one.send(scored))).status == 200
        limits = replace(running.server.config.limits, surplus_s=0.1)
        monkeypatch.setattr(running.server.config, "limits", limits)
        with running.connect() as silent, running.connect() as slow:
            assert silent.is_dropped()
            assert running.checked(slow.send(b"GET /").answer()).status in (408, None)
            assert slow.is_dropped()
    assert running.ask(scored).status == 200


def test_only_so_many_are_told_and_the_others_are_dropped_at_once(running: Hostile) -> None:
    with (
        limited(running, 3, surplus_s=60.0, surplus_connections=2),
        running.connect() as fourth,
        running.connect() as fifth,
    ):
        wait_until(lambda: len(running.server.server_state.connections) == 5)
        with running.connect() as sixth:
            assert sixth.is_dropped()
        for one in (fourth, fifth):
            assert running.checked(one.send(running.head("GET", "/v1/jobs")).answer()).status == 503


# ── both databases ────────────────────────────────────────────────────────────────────────────────────────────────


def test_nul_and_odd_names_are_no_trouble_for_either_database(tmp_path: Path, database_url: str) -> None:
    (tmp_path / "home").mkdir()
    home = Settings(home=tmp_path / "home")
    database = Database.open(home, database_url)
    database.migrate()
    database.close()
    with client_of(home, ready=False, database=database_url) as client:
        posted = {"dialogues": [{"id": "a\0b", "turns": ["a\0", {"text": "b", "speaker": "\0"}], "tags": ["\0"]}]}
        assert client.post("/v1/logs/chat/dialogues", json=posted).status_code == 202
        erased = client.delete("/v1/logs/chat/dialogues/a%00b")
        assert erased.status_code == 202
        job = client.get(erased.headers["location"]).json()
        assert job["order"]["dialogues"] == ["a\0b"]
        for path in ("/v1/jobs/%00", "/v1/jobs/%00/events", "/v1/schedules/a%00b"):
            assert client.get(path).status_code in (404, 422), path
        for query in ("after=%00", "after=%ED%A0%80", "kind=%00", "state=%00", "after=" + "9" * 150):
            assert client.get(f"/v1/jobs?{query}").status_code in (200, 400, 404, 422), query
        order = {"kind": "erase", "log": "chat", "speakers": ["\0", "\u202e", "'; DROP TABLE jobs; --"]}
        assert client.post("/v1/jobs", json=order).status_code == 409, "one waits for the log already"
        timed = {"cron": "0 0 * * *", "timezone": "Europe/\0", "order": order}
        assert client.put("/v1/schedules/night", json=timed).status_code in (400, 422)
        timed = {"cron": "0 0 * * \0", "order": order}
        assert client.put("/v1/schedules/night", json=timed).status_code in (400, 422)
        assert client.put("/v1/schedules/night", json={"cron": "0 0 * * *", "order": order}).status_code == 201
        assert client.get("/v1/schedules/night").json()["order"]["speakers"] == order["speakers"]
