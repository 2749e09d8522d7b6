"""The gate: ids, headers, a bounded number of requests at once, and one line in the log for each."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi import FastAPI, Request
from serving import Answered, bare_app, played
from starlette.responses import Response
from starlette.testclient import TestClient

from refaug.core.home import Settings
from refaug.service import prometheus_figures
from refaug.service.web.answers import json_response
from refaug.service.web.connection.admission import WAITING_A_PLACE, lent_place
from refaug.service.web.dependencies import count_items

ALWAYS = ("/healthz", "/readyz", "/metrics")


def app_with(folder: Path, held: Callable[[], Awaitable[None]], **settings: Any) -> FastAPI:
    """An app whose /v1/held/{name} does not answer before `held` has ended."""
    app = bare_app(Settings(home=folder), **settings)

    async def answer(request: Request) -> Response:
        count_items(request, 7)
        return json_response({})

    for path in (*ALWAYS, "/v1/jobs/{id}/events", "/v1/free/{name}"):
        app.add_api_route(path, answer, methods=["GET", "POST"])

    @app.post("/v1/held/{name}")
    async def wait(name: str) -> Response:
        await held()
        return json_response({"name": name})

    @app.get("/own")
    async def own() -> Response:
        return Response("x", headers={"Content-Security-Policy": "default-src 'self'", "Cache-Control": "max-age=1"})

    return app


async def never() -> None:
    await asyncio.Event().wait()


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    return TestClient(app_with(tmp_path, never))


def test_an_id_that_was_given_is_kept_and_any_other_is_replaced(client: TestClient) -> None:
    for given in ("a", "A-b_c.9", "x" * 64):
        assert client.get("/healthz", headers={"X-Request-Id": given}).headers["x-request-id"] == given
    for given in ("", "x" * 65, "a b", "a\tb", 'a"b', "a/b"):
        made = client.get("/healthz", headers={"X-Request-Id": given}).headers["x-request-id"]
        assert re.fullmatch("[0-9a-f]{16}", made), given
    assert len({client.get("/healthz").headers["x-request-id"] for _ in range(5)}) == 5


@pytest.mark.parametrize("path", ["/healthz", "/nowhere", "/v1/held/x"])
def test_every_answer_has_the_headers_of_security(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["content-security-policy"].startswith("default-src 'none'; frame-ancestors 'none'")
    assert headers["cache-control"] == "no-store"
    assert not [name for name in headers if name.startswith("access-control")]


def test_what_a_route_says_of_itself_stays(client: TestClient) -> None:
    headers = client.get("/own").headers
    assert headers["content-security-policy"] == "default-src 'self'"
    assert headers["cache-control"] == "max-age=1"


def test_other_sites_are_not_let_in(client: TestClient) -> None:
    answer = client.options(
        "/healthz", headers={"Origin": "http://other.example", "Access-Control-Request-Method": "GET"}
    )
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_more_requests_than_there_are_places_are_told_to_come_again(tmp_path: Path) -> None:
    async def play() -> tuple[list[Answered], Answered, list[Answered], Answered]:
        go_on = asyncio.Event()
        inside = 0

        async def held() -> None:
            nonlocal inside
            inside += 1
            await go_on.wait()

        app = app_with(tmp_path, held, requests=2)
        first = [asyncio.create_task(played(app, f"/v1/held/{name}", empty())) for name in "ab"]
        while inside < 2:
            await asyncio.sleep(0)
        refused = await played(app, "/v1/free/c", empty())
        always = [await played(app, path, empty()) for path in (*ALWAYS, "/v1/jobs/j1/events")]
        go_on.set()
        answered = [await one for one in first]
        return answered, refused, always, await played(app, "/v1/free/d", empty())

    answered, refused, always, after = asyncio.run(asyncio.wait_for(play(), 60))
    assert [orjson.loads(one.body)["name"] for one in answered] == ["a", "b"]
    told = orjson.loads(refused.body)
    assert (refused.status, told["code"], refused.headers["retry-after"]) == (503, "overloaded", "1")
    assert told["detail"] == "2 requests are being answered already"
    assert told["request_id"] == refused.headers["x-request-id"]
    assert [one.status for one in always] == [200] * 4
    assert after.status == 200


def test_a_body_that_no_route_reads_spares_no_request_its_place(tmp_path: Path) -> None:
    async def play() -> tuple[list[Answered], Answered]:
        go_on, inside = asyncio.Event(), 0
        app = app_with(tmp_path, never, requests=2)

        @app.get("/v1/looked-at")
        async def wait() -> Response:
            nonlocal inside
            inside += 1
            await go_on.wait()
            return json_response({})

        announced = {"method": "GET", "headers": ((b"content-length", b"1"),)}
        first = [asyncio.create_task(played(app, "/v1/looked-at", empty(), **announced)) for _ in range(2)]
        while inside < 2:
            await asyncio.sleep(0)
        third = asyncio.create_task(played(app, "/v1/looked-at", empty(), **announced))
        while not third.done() and inside < 3:
            await asyncio.sleep(0)
        go_on.set()
        return [await one for one in first], await third

    answered, refused = asyncio.run(asyncio.wait_for(play(), 60))
    assert ([one.status for one in answered], refused.status) == ([200, 200], 503)


def test_requests_that_wait_lend_their_places_to_so_many(tmp_path: Path) -> None:
    async def play() -> tuple[list[Answered], Answered, Answered, bool]:
        go_on, waiting = asyncio.Event(), 0
        app = app_with(tmp_path, never, requests=1)

        @app.post("/v1/waiting")
        async def wait(request: Request) -> Response:
            nonlocal waiting
            with lent_place(request.scope) as may_wait:
                waiting += may_wait
                if may_wait:
                    await request.receive()  # as what looks whether the client is still there
                    await go_on.wait()
            return json_response({"waited": may_wait})

        first = list[asyncio.Task[Answered]]()
        for number in range(WAITING_A_PLACE):
            first.append(asyncio.create_task(played(app, "/v1/waiting", empty())))
            while waiting <= number:
                await asyncio.sleep(0)
        other = await played(app, "/v1/free/a", empty())
        too_many = await played(app, "/v1/waiting", empty())
        go_on.set()
        waited = [await one for one in first]
        last = await played(app, "/v1/waiting", empty())
        return waited, other, too_many, orjson.loads(last.body)["waited"]

    waited, other, too_many, is_free_again = asyncio.run(asyncio.wait_for(play(), 60))
    assert [orjson.loads(one.body)["waited"] for one in waited] == [True] * WAITING_A_PLACE
    assert (other.status, orjson.loads(too_many.body)["waited"]) == (200, False)
    assert is_free_again is True


def empty() -> Callable[[], Awaitable[dict[str, Any]]]:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    return receive


@pytest.mark.parametrize(("length", "is_read"), [(b"300", True), (str(1 << 18).encode(), True), (b"262145", False)])
def test_small_refused_body_is_read_and_a_large_one_closes_the_connection(
    tmp_path: Path, length: bytes, is_read: bool
) -> None:
    pieces = [b"x" * 100] * 3
    asked = list[int]()

    async def receive() -> dict[str, Any]:
        asked.append(1)
        return {"type": "http.request", "body": pieces[len(asked) - 1], "more_body": len(asked) < 3}

    async def play() -> Answered:
        app = app_with(tmp_path, never, requests=1)
        first = asyncio.create_task(played(app, "/v1/held/a", empty()))
        await asyncio.sleep(0)
        headers = ((b"content-length", length),)
        while (answered := await played(app, "/v1/free/b", receive, headers=headers)).status != 503:
            asked.clear()
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        return answered

    answered = asyncio.run(asyncio.wait_for(play(), 60))
    assert len(asked) == (3 if is_read else 0)
    assert answered.headers.get("connection") == (None if is_read else "close")


def test_a_place_is_free_again_whatever_became_of_the_request(tmp_path: Path) -> None:
    async def fail() -> None:
        raise ValueError("no")

    with TestClient(app_with(tmp_path, fail, requests=1)) as client:
        assert [client.post(f"/v1/held/{number}").status_code for number in range(3)] == [500] * 3
        assert client.get("/v1/free/a").status_code == 200


def test_a_request_is_one_line_without_query_key_or_body(client: TestClient, caplog: Any) -> None:
    with caplog.at_level(logging.INFO, logger="refaug.service.web.connection.admission"):
        client.post(
            "/v1/free/name-of-somebody?key=refaug_secret",
            json={"text": "what somebody said"},
            headers={"X-Request-Id": "r7", "Authorization": "Bearer refaug_secret"},
        )
        client.get("/healthz")
    lines = [one for one in caplog.records if one.message == "request"]
    assert len(lines) == 1
    told = {name: lines[0].__dict__[name] for name in ("request", "route", "method", "status", "items")}
    assert told == {"request": "r7", "route": "/v1/free/{name}", "method": "POST", "status": 200, "items": 7}
    assert lines[0].ms >= 0
    for secret in ("refaug_secret", "somebody"):
        assert secret not in str(lines[0].__dict__)


def test_requests_are_counted_by_the_template_of_their_route(client: TestClient) -> None:
    def count(route: str, method: str, status: str) -> float:
        series = ("refaug_requests", route, method, status)
        return prometheus_figures.totals().get(series, [0.0])[0]

    before = count("/v1/free/{name}", "GET", "200"), count("(none)", "GET", "404"), count("(none)", "other", "404")
    client.get("/v1/free/a")
    client.get("/v1/free/b")
    client.get("/no/such/path")
    client.request("BREW", "/no/such/path")
    after = count("/v1/free/{name}", "GET", "200"), count("(none)", "GET", "404"), count("(none)", "other", "404")
    assert [b - a for a, b in zip(before, after, strict=True)] == [2, 1, 1]
