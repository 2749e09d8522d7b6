"""Every case of the files, over a server in this process; `make test-all` repeats them over servers as they ship."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from attack_cases import BODIES, REQUESTS, answers_to, joined, request_of
from servers import Served, served
from serving import small_home

from refaug.service.database.database import Database
from refaug.service.keys import KeyStore, Scope

if TYPE_CHECKING:
    from conftest import Attacked


def require_problem(status: int, body: bytes) -> None:
    """An error is a problem document without traces and places."""
    if status < 400 or not body:
        return
    problem = json.loads(body)
    assert problem["status"] == status
    assert len(problem.get("errors", [])) <= 100
    assert b"Traceback" not in body
    assert b'File "' not in body


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize("case", REQUESTS.values(), ids=REQUESTS)
def test_each_request_gets_its_answers_and_the_connection_ends(
    attacked: Attacked, case: dict[str, Any], pieces: int
) -> None:
    answers = answers_to(attacked.port, joined(case["send"]), pieces=pieces)
    assert [status for status, _ in answers] == case["answers"]
    for status, body in answers:
        require_problem(status, body)


@pytest.mark.parametrize("case", BODIES.values(), ids=BODIES)
def test_each_body_gets_its_answer(attacked: Attacked, case: dict[str, Any]) -> None:
    [(status, body)] = answers_to(attacked.port, request_of(case))
    assert status in case["statuses"], body[:300]
    require_problem(status, body)
    assert attacked.state.body_bytes == 0


@pytest.fixture(scope="module", params=[(1, False), (1, True), (2, False), (2, True)], ids=str)
def shipped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str]]:
    """The server as it ships, with one web process or two, with keys or without, and a key."""
    workers, has_keys = request.param
    home = small_home(tmp_path_factory.mktemp("shipped"))
    database = Database.open(home)
    token, _ = KeyStore(database).create("all", [Scope.ADMIN])
    database.close()
    options = ("--workers", str(workers), "--allowed-hosts", "*", *(("--keys",) if has_keys else ()))
    with served(home.home, *options) as service:
        yield service, token if has_keys else ""


@pytest.mark.slow
def test_the_server_as_it_ships_holds_all_of_it(shipped: tuple[Served, str]) -> None:
    service, token = shipped
    port = service.client.base_url.port or 0
    line = f"Authorization: Bearer {token}"
    before = set(service.children()["web"])
    for name, case in REQUESTS.items():
        content = joined(case["send"])
        if token and content.startswith(b"POST "):
            content = content.replace(b"\r\n", b"\r\n" + line.encode() + b"\r\n", 1)
        assert [status for status, _ in answers_to(port, content)] == case["answers"], name
    for name, case in BODIES.items():
        [(status, _)] = answers_to(port, request_of(case, *((line,) if token else ())))
        assert status in case["statuses"], name
        assert service.client.get("/healthz").status_code == 200
    if token:
        [(status, _)] = answers_to(port, request_of(BODIES["a good body"]))
        assert status == 401
    assert set(service.children()["web"]) == before, "no web process has died"
