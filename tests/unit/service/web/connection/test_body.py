"""Bodies: every limit of size, depth, packing and time is an error with its code, and what fits is read as it came."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import orjson
import pytest
from fastapi import Depends, FastAPI, Request
from pydantic import BaseModel, ConfigDict, model_validator
from refusals import refusing
from serving import bare_app, played
from starlette.responses import Response
from starlette.testclient import TestClient

from refaug.core.errors import TooLarge
from refaug.core.home import Settings
from refaug.service.scopes import Scope
from refaug.service.server_settings import MIB
from refaug.service.web.answers import json_response
from refaug.service.web.connection.body import MODELS, body_of, parse_body, parse_json, read_body, request_body
from refaug.service.web.problems import BadRequest
from refaug.service.web.routes.keys import KeyIn
from refaug.service.web.routes.logs import DialoguesIn
from refaug.service.web.routes.references import RatingsIn
from refaug.service.web.schemas.scoring import ScoresIn
from refaug.service.web.schemas.sets import SetScoresIn


class Anything(BaseModel):
    model_config = ConfigDict(extra="allow")


class Sent(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    number: int
    texts: list[str] = []
    anything: list[Any] = []


def app_over(folder: Path, **settings: Any) -> FastAPI:
    app = bare_app(Settings(home=folder), **settings)

    @app.post("/sent")
    async def sent(body: Annotated[Sent, Depends(body_of(Sent))]) -> Response:
        return json_response(body.model_dump())

    @app.post("/raw")
    async def raw(request: Request) -> Response:
        return json_response({"bytes": len(await read_body(request))})

    return app


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    app = app_over(tmp_path, body_mib=1, bodies_mib=2)
    with TestClient(app, headers={"Content-Type": "application/json"}) as client:
        yield client


def problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert (told["status"], told["code"], told["type"]) == (status, code, f"/problems/{code}")
    assert told["request_id"] == answer.headers["x-request-id"]
    return told


def test_a_body_is_read_as_it_came_packed_or_not(client: TestClient) -> None:
    sent = {"number": 3, "texts": ["ä\u0000 \U0001f600"], "anything": [{"deep": [1, None]}]}
    plain = client.post("/sent", json=sent)
    packed = client.post(
        "/sent",
        content=gzip.compress(orjson.dumps(sent)),
        headers={"Content-Encoding": "gzip", "Content-Type": "application/json; charset=utf-8"},
    )
    assert plain.json() == {**sent, "request_id": plain.headers["x-request-id"]}
    assert packed.json() == {**sent, "request_id": packed.headers["x-request-id"]}


def test_what_is_no_json_says_where(client: TestClient) -> None:
    problem(client.post("/sent", content=b'{"number": 3,'), 422, "bad_input")
    problem(client.post("/sent", content=b""), 422, "bad_input")
    problem(client.post("/sent", content=b'{"number": 3, "texts": ["\\ud800"]}'), 422, "bad_input")
    problem(client.post("/sent", content=b'{"number": 3, "texts": ["\xff"]}'), 422, "bad_input")


def test_a_wrong_field_is_named_with_what_was_found(client: TestClient) -> None:
    told = problem(client.post("/sent", json={"number": "3", "texts": ["a", 7], "what": 1}), 422, "bad_input")
    assert [(one["field"], one["place"]) for one in told["errors"]] == [
        ("number", None),
        ("texts[1]", 1),
        ("what", None),
    ]
    assert told["errors"][0]["message"] == "a whole number is expected; found '3'"
    assert told["detail"].startswith("number: a whole number is expected")
    told = problem(client.post("/sent", json={}), 422, "bad_input")
    assert told["errors"] == [{"field": "number", "message": "it is missing", "item": None, "place": None}]


def test_many_faults_are_counted_and_the_first_are_shown(client: TestClient) -> None:
    told = problem(client.post("/sent", json={"number": 1, "texts": list(range(130))}), 422, "bad_input")
    assert len(told["errors"]) == 100
    assert told["more_errors"] == 30


def test_a_body_of_great_depth_is_refused(client: TestClient) -> None:
    deep = b'{"number": 1, "anything": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    problem(client.post("/sent", content=deep), 422, "bad_input")


def test_a_body_may_be_as_large_as_the_setting_and_not_a_byte_larger(client: TestClient) -> None:
    assert client.post("/raw", content=b" " * MIB).json()["bytes"] == MIB
    told = problem(client.post("/raw", content=b" " * (MIB + 1)), 413, "too_large")
    assert told["detail"] == "the body is larger than 1 MiB"
    assert told["remedy"] == "send it in several requests"


def test_a_small_file_that_unpacks_to_a_large_one_is_refused_unpacked(client: TestClient) -> None:
    bomb = gzip.compress(b" " * (64 * MIB))
    assert len(bomb) < MIB / 8
    problem(client.post("/raw", content=bomb, headers={"Content-Encoding": "gzip"}), 413, "too_large")
    fits = gzip.compress(b" " * MIB)
    assert client.post("/raw", content=fits, headers={"Content-Encoding": "gzip"}).json()["bytes"] == MIB


def test_others_are_answered_while_a_small_file_is_unpacked(tmp_path: Path) -> None:
    app = app_over(tmp_path, body_mib=8, bodies_mib=16)
    packed = gzip.compress(b" " * (7 * MIB))
    turns = list[int]()

    async def sent_once() -> dict[str, Any]:
        return {"type": "http.request", "body": packed, "more_body": False}

    async def count() -> None:
        while True:
            turns.append(1)
            await asyncio.sleep(0)

    async def read() -> int:
        counting = asyncio.create_task(count())
        headers = [(b"content-type", b"application/json"), (b"content-encoding", b"gzip")]
        size = len(await read_body(Request({"type": "http", "app": app, "headers": headers}, sent_once)))
        counting.cancel()
        return size

    assert asyncio.run(read()) == 7 * MIB
    assert len(turns) >= 7 * 4 - 1  # between pieces of a quarter of a mebibyte


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (gzip.compress(b"{}", mtime=0)[:-4], "not a complete gzip file"),
        (gzip.compress(b"{}", mtime=0) + b"more", "something follows the gzip file"),
        (b"no gzip at all", "the body is not a gzip file"),
        (b"", "not a complete gzip file"),
    ],
    ids=["cut off", "too long", "plain", "empty"],
)
def test_a_damaged_gzip_file_is_named_as_such(client: TestClient, body: bytes, said: str) -> None:
    told = problem(client.post("/raw", content=body, headers={"Content-Encoding": "gzip"}), 400, "usage")
    assert said in told["detail"]


def test_other_types_and_packings_are_refused_by_name(client: TestClient) -> None:
    told = problem(
        client.post("/raw", content=b"a,b", headers={"Content-Type": "text/csv"}), 415, "unsupported_media_type"
    )
    assert "text/csv" in told["detail"]
    assert "application/json" in told["remedy"]
    del client.headers["content-type"]
    told = problem(client.post("/raw", content=b"{}"), 415, "unsupported_media_type")
    assert (told["detail"], told["remedy"]) == ("a body without a type", "send it as application/json")
    client.headers["content-type"] = "application/json; charset=utf-8"
    told = problem(client.post("/raw", content=b"x", headers={"Content-Encoding": "br"}), 415, "unsupported_media_type")
    assert "br" in told["detail"]


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    app = app_over(tmp_path, body_timeout_s=0.1)
    sent = [{"type": "http.request", "body": b'{"number"', "more_body": True}]

    async def receive() -> dict[str, Any]:
        if sent:
            return sent.pop()
        await asyncio.Event().wait()
        raise AssertionError

    answered = asyncio.run(played(app, "/raw", receive))
    told = orjson.loads(answered.body)
    assert (answered.status, told["code"]) == (408, "body_timeout")
    assert "0.1" in told["detail"]
    assert app.state.refaug.body_bytes == 0


def test_all_bodies_at_once_have_one_limit_and_give_back_what_they_took(tmp_path: Path) -> None:
    app = app_over(tmp_path, body_mib=2, bodies_mib=3)
    state = app.state.refaug

    async def both() -> tuple[int, int, bytes]:
        second_is_over = asyncio.Event()
        sent = [{"type": "http.request", "body": b" " * (2 * MIB), "more_body": True}]

        async def slowly() -> dict[str, Any]:
            if sent:
                return sent.pop()
            await second_is_over.wait()
            return {"type": "http.request", "body": b"", "more_body": False}

        async def at_once() -> dict[str, Any]:
            return {"type": "http.request", "body": b" " * (2 * MIB), "more_body": False}

        first = asyncio.create_task(played(app, "/raw", slowly))
        while state.body_bytes < 2 * MIB:
            await asyncio.sleep(0)
        second = await played(app, "/raw", at_once)
        second_is_over.set()
        return (await first).status, second.status, second.body

    first, second, body = asyncio.run(asyncio.wait_for(both(), 60))
    assert (first, second) == (200, 503)
    assert orjson.loads(body)["code"] == "overloaded"
    assert state.body_bytes == 0


def test_models_of_bodies_are_kept_for_the_document() -> None:
    said = request_body(Sent, examples={"one": {"number": 1}})
    try:
        assert MODELS["Sent"] is Sent
        content = said["requestBody"]["content"]["application/json"]
        assert content["schema"] == {"$ref": "#/components/schemas/Sent"}
        assert content["examples"] == {"one": {"value": {"number": 1}}}
    finally:
        del MODELS["Sent"]


def test_answers_carry_the_id_of_their_own_request_also_out_of_threads(tmp_path: Path) -> None:
    app = bare_app(Settings(home=tmp_path))

    @app.get("/threaded")
    def threaded() -> Response:
        return json_response({"main": threading.current_thread() is threading.main_thread()})

    with TestClient(app) as client:
        answer = client.get("/threaded", headers={"X-Request-Id": "mine-1"})
    assert answer.json() == {"main": False, "request_id": "mine-1"}


class Numbers(BaseModel):
    model_config = ConfigDict(strict=True)

    numbers: list[int]


def test_of_very_many_errors_the_first_are_shown_and_all_are_counted() -> None:
    with pytest.raises(BadRequest) as raised:
        parse_json(Numbers, b'{"numbers":[' + b'"a",' * 50_000 + b'"a"]}')
    assert raised.value.error_count == 50_001
    assert [problem["field"] for problem in raised.value.errors] == [f"numbers[{place}]" for place in range(100)]


def test_very_many_errors_behind_the_first_elements_are_counted() -> None:
    with refusing(BadRequest, "50,001"):
        parse_json(Numbers, b'{"numbers":[' + b"1," * 200 + b'"a",' * 50_000 + b'"a"]}')


_MANY = b"[" + b"1," * 99_999 + b"1]"  # as many as are looked at
_MORE = b"[" + b"1," * 100_000 + b"1]"
LONG_LISTS: dict[str, tuple[type[BaseModel], bytes, list[str]]] = {
    "ids": (SetScoresIn, b'{"replies":{"a":["x"]},"items":%b}' % _MANY, ["items[0]"]),
    "replies": (SetScoresIn, b'{"replies":{"a":%b,"b":%b}}' % (_MANY, _MANY), ["replies.a[0]", "replies.b[0]"]),
    "pairs": (RatingsIn, b'{"pairs":%b}' % _MANY, ["pairs[0]"]),
    "metrics": (ScoresIn, b'{"items":[{}],"metrics":%b}' % _MANY, ["metrics"]),
}


@pytest.mark.parametrize(("model", "raw", "fields"), LONG_LISTS.values(), ids=LONG_LISTS)
def test_of_a_very_long_list_only_the_first_error_is_made(
    model: type[BaseModel], raw: bytes, fields: list[str]
) -> None:
    with pytest.raises(BadRequest) as raised:
        parse_json(model, raw)
    assert [problem["field"] for problem in raised.value.errors] == fields
    assert raised.value.error_count == len(fields)


@pytest.mark.parametrize(
    ("model", "raw"),
    [
        (ScoresIn, b'{"items":[{}],"metrics":%b}' % _MORE),
        (ScoresIn, b'{"items":[{"id":"a","references":%b}]}' % _MORE),
        (RatingsIn, b'{"pairs":%b}' % _MORE),
        (DialoguesIn, b'{"dialogues":[%b]}' % (b"[" * 20 + b"1," * 1_000_000 + b"1" + b"]" * 20)),
    ],
    ids=["of metrics", "deep in the body", "of pairs", "of dialogues"],
)
def test_a_list_that_no_field_takes_is_refused_before_its_values_are_made(model: type[BaseModel], raw: bytes) -> None:
    with refusing(TooLarge):
        parse_json(model, raw)


def test_a_field_takes_as_many_elements_as_it_says() -> None:
    dialogues = parse_json(DialoguesIn, b'{"dialogues":%b}' % _MORE).dialogues
    assert len(dialogues) == 100_001
    one_too_many = ["read"] * (len(Scope) + 1)
    with refusing(BadRequest):
        parse_json(KeyIn, json.dumps({"name": "a", "scopes": one_too_many}).encode())
    ids = [f"i{number}" for number in range(100_001)]
    assert parse_json(SetScoresIn, json.dumps({"items": ids, "replies": {"a": ["x"]}}).encode()).items == ids


@pytest.mark.parametrize(
    ("raw", "fields"),
    [
        (b'{"numbers":[],' + b'"a":1,' * 49_999 + b'"b":1}', 50_001),
        (b'{"replies":{' + b'"a":1,' * 50_000 + b'"b":1},"numbers":[1]}', 50_001),
        (b'{"a":[{' + b'"a":{"x":1,"y":[{}]},' * 50_000 + b'"b":1}]}', 50_001),  # with objects between
        (b'[{"a":' * 99 + b"{" + b'"a":1,' * 50_000 + b'"b":1}' + b"}]" * 99, 50_001),
    ],
    ids=["of the body", "of an object in it", "with objects between", "deep in it"],
)
def test_an_object_of_very_many_fields_is_refused(raw: bytes, fields: int) -> None:
    with refusing(TooLarge, "50,000"):
        parse_json(Anything, raw)
    assert raw.count(b'":') >= fields


@pytest.mark.parametrize(
    "content",
    [
        {str(number): number for number in range(50_000)},
        [{"text": "a", "weight": number} for number in range(60_000)],
        {str(number): {"a": {":": 1}, "b": [1]} for number in range(40_000)},
        [{"text": ":" * 60_000 + '"{\\"' * 10}],
    ],
    ids=["as many as may be", "many small objects", "small objects in one", "colons in a text"],
)
def test_many_fields_in_small_objects_are_read(content: Any) -> None:
    raw = json.dumps({"content": content}).encode()
    assert parse_json(Anything, raw).content == content  # type: ignore[attr-defined]


_MEASURE = """
import resource, sys
from refaug.service.web.connection.body import parse_json
from refaug.service.web.schemas.scoring import ScoresIn
from refaug.service.web.schemas.sets import SetScoresIn
from refaug.core.errors import RefaugError

def peak_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

def ends(model, raw):
    try:
        parse_json(model, raw)
    except RefaugError as error:
        return error.code
    return "read"

model, head, unit, count, tail = ScoresIn if sys.argv[1] == "scores" else SetScoresIn, *sys.argv[2:]
for few in (1, 100):
    ends(model, (head + unit * few + tail).encode())
raw = (head + unit * int(count) + tail).encode()
before = peak_kib()
sys.stdout.write(f"{ends(model, raw)} {(peak_kib() - before) * 1024 / len(raw):.2f}")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "head", "unit", "count", "tail"),
    [
        ("scores", '{"items":[],', '"a":1,', 999_000, '"b":1}'),
        ("sets", '{"replies":{', '"a":1,', 999_000, '"b":1}}'),
        ("scores", '{"items":[{}],"metrics":[', "1,", 900_000, "1]}"),
        ("sets", '{"replies":{"a":[', "1,", 900_000, "1]}}"),
        ("scores", '{"items":[{"a":{', '"a":1,', 999_000, '"b":1}}]}'),
    ],
    ids=["unknown fields", "wrong systems", "wrong metrics", "wrong replies", "fields of an item"],
)
def test_a_refused_body_takes_no_more_memory_than_a_few_times_its_size(
    model: str, head: str, unit: str, count: int, tail: str
) -> None:
    """The peak of a process of its own: what errors take lies outside Python's own count."""
    run = subprocess.run(
        [sys.executable, "-c", _MEASURE, model, head, unit, str(count), tail],
        check=True,
        capture_output=True,
        text=True,
    )
    ended, times = run.stdout.split()
    assert ended != "read"
    assert float(times) <= 8.0


def test_large_bodies_are_read_one_after_the_other() -> None:
    at_once, most, threads = 0, 0, set[str]()

    class Watched(Numbers):
        @model_validator(mode="after")
        def watch(self) -> Watched:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            threads.add(threading.current_thread().name)
            at_once -= 1
            return self

    raw = b'{"numbers":[' + b"1," * 40_000 + b"1]}"

    async def all_at_once() -> list[Watched]:
        return await asyncio.gather(*(parse_body(Watched, raw) for _ in range(8)))

    assert [len(read.numbers) for read in asyncio.run(all_at_once())] == [40_001] * 8
    assert (most, len(threads)) == (1, 1)
    assert threads != {threading.current_thread().name}


@pytest.mark.parametrize("value", [b"1", b"{}", b"[]", b'"a"'])
def test_a_body_of_more_than_a_million_values_is_refused(value: bytes) -> None:
    with refusing(TooLarge, "1,000,000"):
        parse_json(Numbers, b'{"numbers":[' + (value + b",") * 1_000_000 + b"1]}")


def test_commas_and_brackets_in_texts_are_no_values() -> None:
    class Text(BaseModel):
        text: str

    content = ',[{"\\' * 400_000
    assert parse_json(Text, json.dumps({"text": content}).encode()).text == content


def test_a_key_that_comes_twice_is_refused_except_in_a_large_body() -> None:
    for model, body in ((Numbers, b'{"numbers":["no"],"numbers":[2]}'), (ScoresIn, b'{"items":[{"id":"a","id":"b"}]}')):
        with refusing(BadRequest, "twice"):
            parse_json(model, body)
        parse_json(model, body + b" " * (1 << 16))
