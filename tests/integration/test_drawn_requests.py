"""A hundred thousand requests drawn from seeds: no answer is an error of ours, and none holds up the next.

A seed that failed is repeated by its name, and `pytest --stepwise` goes on from it.
"""

from __future__ import annotations

import http.client
import json
import logging
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
import uvicorn
from drawn_requests import Drawn, requests_of
from serving import listening, wait_until_ready
from studying import add_bots, chat_protocol, new_study

from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.server_settings import ServeSettings
from refaug.service.web.app import create_app

pytestmark = pytest.mark.slow

OF_A_SEED = 1_000
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.faults) for seed in range(1, 100))]
READ = 1 << 20
LIMIT_S = 60


@pytest.fixture(scope="module")
def port(with_all: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The real app behind a real server, over a home with a log, an index, raters, bots and a study."""
    folder = tmp_path_factory.mktemp("drawn") / "home"
    shutil.copytree(with_all, folder)
    home = Settings(home=folder)
    database = Database.open(home)
    database.migrate()
    database.close()
    app = create_app(home, ServeSettings(publish_wait_s=0.5, timeout_s=20, shutdown_s=2, streams=4))
    config = uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=2)
    with listening(uvicorn.Server(config)) as number:
        with httpx2.Client(base_url=f"http://127.0.0.1:{number}", timeout=LIMIT_S) as client:
            wait_until_ready(client)
            add_bots(client, "quokka", "wombat")
            new_study(client, "fuzzed", chat_protocol("quokka", "wombat"))
        yield number


def answer_to(client: http.client.HTTPConnection, request: Drawn) -> tuple[int, dict[str, str], bytes]:
    """The status, the headers and the first bytes of the body; of events nothing, since they do not end."""
    client.request(request.method, request.path, request.body, dict(request.headers))
    answer = client.getresponse()
    headers = {name.lower(): text for name, text in answer.getheaders()}
    is_events = headers.get("content-type", "").startswith("text/event-stream")
    body = b"" if is_events else answer.read(READ)
    if not answer.isclosed():
        answer.close()
        client.close()
    return answer.status, headers, body


def why_wrong(status: int, headers: dict[str, str], body: bytes) -> str | None:
    """What is wrong with an answer, or None: errors are problem documents, and only lack of time is no fault."""
    if b"Traceback" in body or b'File "' in body:
        return "it has a trace"
    if status < 400 or not body:
        return None
    if headers.get("content-type") != "application/problem+json":
        return f"{status} as {headers.get('content-type')}"
    problem = json.loads(body)
    if problem["status"] != status:
        return f"{status} that says {problem['status']}"
    if status >= 500 and (status != 503 or "retry-after" not in headers):
        return f"{status} {problem['code']}"
    return None


@pytest.mark.parametrize("seed", SEEDS)
def test_no_answer_to_drawn_requests_is_an_error_of_ours(
    port: int, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    document = create_app(Settings(), ServeSettings()).openapi()
    wrong = []
    statuses = Counter[int]()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    with caplog.at_level(logging.ERROR), closing(connection) as client:
        for number, request in enumerate(requests_of(document, seed, OF_A_SEED)):
            status, headers, body = answer_to(client, request)
            statuses[status] += 1
            if why := why_wrong(status, headers, body):
                wrong.append((number, why, request.method, request.path[:200], (request.body or b"")[:300]))
    assert wrong == []
    assert {200, 400, 404, 422} <= set(statuses)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
