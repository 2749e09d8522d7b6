"""Every case of the files, over a server in this process; `make test-all` repeats them over servers as they ship."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attack_cases import (
    BODIES,
    REQUESTS,
    UPLOAD_MIB,
    UPLOADS,
    answers_to,
    joined,
    request_of,
    upload_request_of,
)
from servers import Served, served
from serving import small_home, wait_until

from refaug.service.database.database import Database
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope

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


@pytest.mark.parametrize("pieces", [1, pytest.param(7, marks=pytest.mark.slow)])
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


def require_upload_answered(port: int, case: dict[str, Any], *lines: str) -> None:
    """An upload gets its answer, what it holds is previewed in words, and it goes when it is removed."""
    answers = answers_to(port, upload_request_of(case, *lines))
    assert [status for status, _ in answers][:1] == [status for status, _ in answers], "one answer"
    status, body = answers[0] if answers else (0, b"")
    assert status in (case["statuses"] or [0]), body[:300]
    require_problem(status, body)
    if status != 201:
        return
    upload = json.loads(body)["id"]
    try:
        asked = {"path": "/v1/uploads/preview", "body": [json.dumps({"items": f"upload:{upload}"})]}
        [(status, body)] = answers_to(port, request_of(asked, *lines))
        statuses, word = case["preview"]
        assert status in statuses, body[:300]
        assert word.encode() in body, body[:300]
        require_problem(status, body)
        assert len(body) < 1 << 20
    finally:
        removal = "\r\n".join((f"DELETE /v1/uploads/{upload} HTTP/1.1", "Host: x", *lines, "", ""))
        [(removed, _)] = answers_to(port, removal.encode())
    assert removed == 200


def folders_of_uploads(home: Path) -> list[str]:
    """What lies where uploads are kept."""
    folder = home / "uploads"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


@pytest.mark.parametrize("case", UPLOADS.values(), ids=UPLOADS)
def test_each_upload_gets_its_answer_and_leaves_nothing(
    attacked: Attacked, monkeypatch: pytest.MonkeyPatch, case: dict[str, Any]
) -> None:
    monkeypatch.setitem(attacked.state.serve.__dict__, "body_timeout_s", 60.0)
    with attacked.limited(body_s=60.0, idle_s=60.0):
        require_upload_answered(attacked.port, case)
        attacked.wait_until_alone()
    wait_until(lambda: not folders_of_uploads(attacked.state.home.home))


SHIPPED = [
    (1, False),
    (2, True),
    *(pytest.param(case, marks=pytest.mark.faults, id=str(case)) for case in ((1, True), (2, False))),
]


@pytest.fixture(scope="module", params=SHIPPED, ids=str)
def shipped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str]]:
    """The server as it ships, with one web process or two, with keys or without, and a key."""
    workers, has_keys = request.param
    home = small_home(tmp_path_factory.mktemp("shipped"))
    database = Database.open(home)
    token, _ = KeyStore(database).create("all", [Scope.ADMIN])
    database.close()
    options = (
        "--workers",
        str(workers),
        "--allowed-hosts",
        "*",
        "--upload-mib",
        str(UPLOAD_MIB),
        *(("--keys",) if has_keys else ()),
    )
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
    for name, case in UPLOADS.items():
        require_upload_answered(port, case, *((line,) if token else ()))
        assert service.client.get("/healthz").status_code == 200, name
    service.until(lambda: not folders_of_uploads(service.home), "nothing of an upload to be left")
    if token:
        assert [status for status, _ in answers_to(port, upload_request_of(UPLOADS["a good table"]))] == [401]
        [(status, _)] = answers_to(port, request_of(BODIES["a good body"]))
        assert status == 401
    assert set(service.children()["web"]) == before, "no web process has died"
