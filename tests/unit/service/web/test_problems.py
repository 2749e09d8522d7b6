"""Problems: one shape for every error, codes that can be looked up, and neither paths nor values of ours in them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from serving import bare_app
from starlette.responses import StreamingResponse
from starlette.testclient import TestClient

from refaug.core import errors
from refaug.core.errors import Later, NoKey, NotFound, RefaugError, TooMany
from refaug.core.home import Settings
from refaug.scoring.items import BadItem
from refaug.service.web.problems import Details, bad_items_error, code_meanings


class Gone(NotFound, Details):
    """Something that was there once."""

    def __init__(self) -> None:
        super().__init__("it is gone", remedy="use the other one")
        self.details = {"instead": "other", "status": "never overwritten"}


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    app = bare_app(Settings(home=tmp_path / "home"))
    raised: dict[str, Exception] = {
        "not-found": NotFound(
            f"no file at {tmp_path / 'home' / 'inbox' / 'x'}", remedy=f"look into {tmp_path / 'home'}"
        ),
        "later": TooMany("three a second", retry_after_s=2.2),
        "no-key": NoKey("this needs a key"),
        "details": Gone(),
        "unforeseen": ValueError("the secret words of somebody"),
        "items": bad_items_error(
            [
                BadItem(file="items", line=3, item="d7", field="references[0].weight", message="NaN is out of range"),
                BadItem(file="items", line=1, item=None, field="", message="no object"),
            ],
            4,
        ),
    }

    @app.get("/raise/{name}")
    def raise_it(name: str, number: int = 0) -> None:
        del number
        raise raised[name]

    @app.get("/half")
    async def half() -> StreamingResponse:
        async def pieces() -> Iterator[bytes]:
            yield b"the first half"
            raise ValueError("secret")

        return StreamingResponse(pieces())

    return app


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app) as client:
        yield client


def test_an_error_has_all_members_and_no_path(client: TestClient) -> None:
    answer = client.get("/raise/not-found", headers={"X-Request-Id": "r1"})
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "/problems/not_found",
        "title": "No artefact of that name",
        "status": 404,
        "code": "not_found",
        "detail": "no file at HOME/inbox/x",
        "remedy": "look into HOME",
        "request_id": "r1",
    }


def test_what_may_go_through_later_says_when(client: TestClient) -> None:
    answer = client.get("/raise/later")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")
    assert answer.json()["code"] == "too_many_requests"


def test_whoever_lacks_a_key_is_told_how_to_send_one(client: TestClient) -> None:
    answer = client.get("/raise/no-key")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_an_error_may_say_more_and_overwrites_nothing(client: TestClient) -> None:
    told = client.get("/raise/details").json()
    assert told["instead"] == "other"
    assert told["status"] == 404


def test_bad_items_are_listed_with_item_place_and_field(client: TestClient) -> None:
    answer = client.get("/raise/items")
    assert answer.status_code == 422
    told = answer.json()
    assert "items[2].references[0].weight" in told["detail"]
    assert told["errors"] == [
        {"item": "d7", "place": 2, "field": "items[2].references[0].weight", "message": "NaN is out of range"},
        {"item": None, "place": 0, "field": "items[0]", "message": "no object"},
    ]


def test_what_was_not_foreseen_shows_neither_value_nor_trace(client: TestClient, caplog: Any) -> None:
    with caplog.at_level(logging.ERROR):
        answer = client.get("/raise/unforeseen")
    assert answer.status_code == 500
    assert answer.json()["code"] == "internal"
    assert answer.json()["detail"] == "something went wrong that was not foreseen (ValueError)"
    record = next(one for one in caplog.records if one.message == "failed")
    assert record.why == "ValueError"
    assert any(" raise_it" in frame for frame in record.trace)
    assert "secret" not in answer.text + caplog.text + str(record.__dict__)


def test_an_answer_that_breaks_off_is_logged_and_not_answered_twice(client: TestClient, caplog: Any) -> None:
    with caplog.at_level(logging.ERROR):
        answer = client.get("/half")
    assert (answer.status_code, answer.content) == (200, b"the first half")
    assert next(one for one in caplog.records if one.message == "failed").why == "ValueError"
    assert "secret" not in caplog.text


def test_unknown_paths_methods_and_parameters_have_the_same_shape(client: TestClient) -> None:
    unknown = client.get("/nowhere")
    assert (unknown.status_code, unknown.json()["code"], unknown.json()["title"]) == (
        404,
        "unknown_path",
        "Nothing answers at this path",
    )
    assert unknown.json()["remedy"].startswith("look at /docs")
    other = client.post("/raise/later")
    assert (other.status_code, other.json()["code"], other.headers["allow"]) == (405, "method_not_allowed", "GET, HEAD")
    wrong = client.get("/raise/later?number=x")
    assert (wrong.status_code, wrong.json()["code"]) == (422, "bad_input")
    assert wrong.json()["errors"][0]["field"] == "query.number"


def test_the_type_of_a_problem_lies_under_the_path_of_the_proxy(app: FastAPI) -> None:
    with TestClient(app, root_path="/refaug") as client:
        assert client.get("/raise/later").json()["type"] == "/refaug/problems/too_many_requests"


def test_every_error_has_a_meaning_and_its_http_status() -> None:
    known = code_meanings()
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, RefaugError)]
    assert len(kinds) > 20
    for kind in kinds:
        assert known[kind.code]["status"] == kind.status
        assert known[kind.code]["title"] == kind.summary().rstrip(".")
    assert known["body_timeout"] == {"status": 408, "title": "Request Timeout"}
    assert all(
        known[kind.code]["status"] in (429, 503)
        for kind in Later.__subclasses__()
        if kind.__module__ == "refaug.core.errors"
    )
