"""Three web processes of one server, with keys: what one has done all know, and what is secret none writes down.

Every request has a connection of its own, which any of the processes may take.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from servers import ROOT, Served, said_by, served
from serving import small_home, small_items

from refaug.service.database.database import Database
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope

pytestmark = pytest.mark.slow

PROCESSES = 3
ROUNDS = 2  # of killing all
ASKED = 24  # requests, of which all processes get some
ITEMS = small_items(2)
PLANTED = "xyzzyplugh"  # in texts, names and addresses that no log may repeat


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str]]:
    """The server and the token of an administrator."""
    home = small_home(tmp_path_factory.mktemp("three"), indexes=2)
    with closing(Database.open(home)) as database:
        token, _ = KeyStore(database).create("root", [Scope.ADMIN])
    options = ("--workers", str(PROCESSES), "--keys", "--no-job-worker", "--default-index", "chat")
    with served(home.home, *options) as found:
        assert len(found.children()["web"]) == PROCESSES
        yield found, token


def ask(service: Served, token: str, method: str, path: str, **more: Any) -> httpx2.Response:
    """The answer to a key, over a connection of its own."""
    headers = {"Authorization": f"Bearer {token}", **more.pop("headers", {})}
    return httpx2.request(method, f"{service.client.base_url}{path}", headers=headers, timeout=60, **more)


def statuses(service: Served, token: str, method: str, path: str, **more: Any) -> Counter[int]:
    """How often each status was answered."""
    return Counter(ask(service, token, method, path, **more).status_code for _ in range(ASKED))


def new_key(service: Served, root: str, name: str, scopes: Sequence[str], **limits: Any) -> tuple[str, str]:
    """The id and the token of a new key, which all processes know."""
    made = ask(service, root, "POST", "/v1/keys", json={"name": name, "scopes": scopes, **limits}).json()
    return made["id"], made["token"]


def known(service: Served, token: str, status: int, path: str = "/v1/key") -> None:
    """Wait until all processes answer a key so."""
    service.until(lambda: statuses(service, token, "GET", path) == {status: ASKED}, f"{status} from all processes")


def test_a_key_opens_all_processes_and_none_once_it_is_revoked(service: tuple[Served, str]) -> None:
    server, root = service
    key, token = new_key(server, root, "passing", ["score"])
    known(server, token, 200)
    assert ask(server, root, "DELETE", f"/v1/keys/{key}").status_code == 200
    known(server, token, 401)


def test_after_publishing_no_process_answers_by_the_version_before(service: tuple[Served, str]) -> None:
    server, root = service
    order = {"items": ITEMS[:1], "settings": {"weights": "one"}}
    for version in reversed(ask(server, root, "GET", "/v1/artefacts/index/chat").json()["versions"]):
        published = ask(server, root, "PUT", "/v1/artefacts/index/chat/current", json={"version": version})
        assert published.status_code == 200, published.text
        answers = [ask(server, root, "POST", "/v1/references", json=order).json() for _ in range(ASKED)]
        assert {answer["versions"]["index"].partition("#")[0] for answer in answers} == {f"chat@{version}"}


def test_a_set_that_was_withdrawn_is_gone_in_all_processes(service: tuple[Served, str]) -> None:
    server, root = service
    order = {"items": ITEMS, "purpose": "test", "references": "given"}
    path = f"/v1/reference-sets/{ask(server, root, 'POST', '/v1/reference-sets', json=order).json()['id']}"
    replies = {"items": ["d0"], "replies": {"a": ["yes"]}}
    assert statuses(server, root, "POST", f"{path}/scores", json=replies) == {200: ASKED}
    assert ask(server, root, "DELETE", path, params={"reason": "it names somebody"}).status_code == 200
    assert statuses(server, root, "POST", f"{path}/scores", json=replies) == {410: ASKED}


def test_a_quota_holds_over_all_processes(service: tuple[Served, str]) -> None:
    server, root = service
    _, token = new_key(server, root, "frugal", ["read"], quota_per_day=9)
    answered = sum((statuses(server, token, "GET", "/v1/metrics") for _ in range(3)), Counter[int]())
    assert answered[200] <= 9
    assert answered[429] == 3 * ASKED - answered[200] - answered[401]


def test_secrets_and_texts_reach_no_log_and_no_figure(service: tuple[Served, str]) -> None:
    server, root = service
    _, token = new_key(server, root, "careful", ["score", "read"])
    known(server, token, 200)
    item = {**ITEMS[0], "utterance": PLANTED, "references": [PLANTED], "replies": {PLANTED: PLANTED}}
    wrong = token[:-5] + "wrong"
    for path, more in (
        ("/v1/scores", {"json": {"items": [item]}}),
        ("/v1/scores", {"json": {"items": [item], "metrics": [PLANTED]}}),
        (
            "/v1/scores",
            {"content": f'{{"items": ["{PLANTED}'.encode(), "headers": {"Content-Type": "application/json"}},
        ),
        ("/v1/references", {"json": {"items": [item], "settings": {PLANTED: PLANTED}}}),
        ("/v1/ratings", {"json": {"pairs": [{"utterance": PLANTED, "golds": [], "candidates": []}]}}),
        (f"/v1/{PLANTED}?key={token}&{PLANTED}={PLANTED}", {"headers": {"Cookie": PLANTED, "User-Agent": PLANTED}}),
        ("/v1/scores", {"headers": {"X-Request-Id": f"{PLANTED} {token}", "Content-Type": PLANTED}, "content": b"{}"}),
    ):
        assert ask(server, token, "POST", path, **more).status_code < 500
        assert ask(server, wrong, "POST", path, **more).status_code < 500
    figures = ask(server, root, "GET", "/metrics")
    assert "refaug_requests_total" in figures.text
    log = (server.home.parent / f"{server.home.name}.log").read_text("utf-8")
    assert "/v1/scores" in log
    for secret in (PLANTED, token, token.rpartition("_")[2], wrong.rpartition("_")[2], root):
        assert secret not in log
        assert secret not in figures.text


def test_a_page_of_another_site_reads_and_does_nothing(service: tuple[Served, str]) -> None:
    server, root = service
    pages = ("/", "/playground", "/evaluate", "/studies", "/bots", "/keys", "/docs", "/take")
    methods = ("GET", "HEAD", "OPTIONS", "POST")
    origin = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "POST"}
    for path in (*pages, "/v1/scores", "/v1/jobs", "/openapi.json", "/metrics"):
        for method in methods:
            answer = ask(server, root, method, path, headers={**origin, "Sec-Fetch-Site": "cross-site"})
            assert not [name for name in answer.headers if name.lower().startswith("access-control-")], (method, path)
            assert answer.status_code >= 400 or method in ("GET", "HEAD"), (method, path)
            if "text/html" in answer.headers.get("content-type", ""):
                assert "frame-ancestors 'none'" in answer.headers["content-security-policy"], path


def test_a_second_server_of_the_home_is_refused_and_the_first_goes_on(service: tuple[Served, str]) -> None:
    server, root = service
    command = [sys.executable, "-m", "refaug", "--home", str(server.home), "serve", "--port", "0", "--keys"]
    second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert second.returncode == 4, second.stderr
    assert str(server.home) in second.stderr
    assert statuses(server, root, "GET", "/v1/key") == {200: ASKED}


def test_killed_one_by_one_the_processes_keep_what_was_acknowledged(service: tuple[Served, str]) -> None:
    """Dialogues, sets and keys that were acknowledged are there though the process that did so was killed at once."""
    server, root = service
    sets, keys = list[str](), list[str]()
    for number in range(ROUNDS):
        before = server.children()["web"]
        keys.append(new_key(server, root, f"kept-{number}", ["read"])[1])
        order = {"items": [{**ITEMS[0], "id": f"kept-{number}"}], "purpose": "test", "references": "given"}
        sets.append(ask(server, root, "POST", "/v1/reference-sets", json=order).json()["id"])
        posted = {"dialogues": [{"id": f"kept-{number}", "turns": ["one", "two"]}]}
        assert ask(server, root, "POST", "/v1/logs/kept/dialogues", json=posted).status_code == 202
        server.kill("web")
        server.until(
            lambda before=before: len(set(server.children()["web"]) - set(before)) == PROCESSES, "new processes"
        )
        server.until(lambda: server.ask("GET", "/readyz").status_code == 200, "the service to be ready again")
    assert [ask(server, token, "GET", "/v1/key").status_code for token in keys] == [200] * ROUNDS
    assert [ask(server, root, "GET", f"/v1/reference-sets/{one}").status_code for one in sets] == [200] * ROUNDS
    waiting = b"".join(path.read_bytes() for path in Path(server.home, "inbox").rglob("*") if path.is_file())
    assert [f"kept-{number}".encode() in waiting for number in range(ROUNDS)] == [True] * ROUNDS


def test_a_fault_of_ours_was_never_met(service: tuple[Served, str]) -> None:
    """Last in this file: with all that was done to it, the server has written no traceback."""
    server, _ = service
    server.process.send_signal(signal.SIGHUP)  # which changes nothing
    log = (server.home.parent / f"{server.home.name}.log").read_text("utf-8")
    assert "Traceback" not in log, said_by(server.home)
