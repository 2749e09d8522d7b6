"""Calls over a connection, from threads and from asyncio: what is sent, what is tried again, what a failure becomes."""

from __future__ import annotations

import asyncio
import gc
import gzip
import itertools
import json
import pickle
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional, Union

import httpx
import pytest
from refusals import refusing
from scripted import DROP, Asked, Said, ok, page, problem, scripted

from refaug_client._core import errors
from refaug_client._http.async_connection import AsyncConnection
from refaug_client._http.call import Call, path, read_json
from refaug_client._http.connection import Connection, finish
from refaug_client._http.settings import NO_RETRY, ConnectionSettings, Retry

AT_ONCE = Retry(first_s=0.0, most_s=0.0)
NEVER = threading.Event()  # nobody sets it
TIMED_OUT = {"timeout_s": 0.15, "retry": NO_RETRY}
Ask = Callable[..., Any]


def health() -> Call[dict[str, Any]]:
    return Call("GET", "/healthz", read_json)


def post(**more: Any) -> Call[dict[str, Any]]:
    return Call("POST", "/v1/jobs", read_json, body={"kind": "x"}, **more)


def from_threads(url: str, *calls: Call[Any], how: Optional[Mapping[str, Any]] = None, **settings: Any) -> list[Any]:
    connection = Connection(ConnectionSettings.of(url, **{"retry": AT_ONCE, **settings}))
    try:
        return [connection.send(call, **(how or {})) for call in calls]
    finally:
        connection.close()


def from_asyncio(url: str, *calls: Call[Any], how: Optional[Mapping[str, Any]] = None, **settings: Any) -> list[Any]:
    async def all_of_them() -> list[Any]:
        connection = AsyncConnection(ConnectionSettings.of(url, **{"retry": AT_ONCE, **settings}))
        try:
            return [await connection.send(call, **(how or {})) for call in calls]
        finally:
            await connection.close()

    return asyncio.run(all_of_them())


@pytest.fixture(params=[from_threads, from_asyncio], ids=["threads", "asyncio"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Sends calls and gives their answers, in one of the two ways."""
    found: Ask = request.param
    return found


# ── what is sent ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_real_server_answers(ask: Ask, url: str) -> None:
    found = ask(url, health())
    assert found[0]["status"] == "ok"


def test_many_calls_need_one_connection(ask: Ask) -> None:
    with scripted([ok({"x": 1})]) as server:
        assert ask(server.url, *[health()] * 20) == [{"x": 1}] * 20
        assert (len(server.requests), server.connections) == (20, 1)


def test_a_request_says_who_asks_and_what_for(ask: Ask) -> None:
    call = Call(
        "POST", path("v1", "logs", "a b/ä"), read_json, query={"after": "x&y", "most": 5, "all": True, "none": None}
    )
    with scripted([ok({})]) as server:
        ask(server.url + "/under/", call, post(), key="k1", headers={"X-Team": "dialogue", "User-Agent": "mine"})
        first, second = server.requests
    assert (first.method, first.path) == ("POST", "/under/v1/logs/a%20b%2F%C3%A4?after=x%26y&most=5&all=true")
    assert first.headers["authorization"] == second.headers["authorization"] == "Bearer k1"
    assert (first.headers["x-team"], first.headers["user-agent"]) == ("dialogue", "mine")
    assert first.body == b""
    assert "content-type" not in first.headers
    assert (second.headers["content-type"], second.body) == ("application/json", b'{"kind":"x"}')
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    assert "idempotency-key" not in second.headers
    assert "x-timeout-s" not in second.headers


def test_without_a_key_none_is_sent(ask: Ask) -> None:
    with scripted([ok({})]) as server:
        ask(server.url, health())
        assert "authorization" not in server.requests[0].headers
        assert server.requests[0].headers["user-agent"].startswith("refaug-client/")


def test_tries_of_a_call_share_an_idempotency_key_and_calls_do_not(ask: Ask) -> None:
    with scripted([DROP, problem(503, retry_after=0), ok({}), ok({})]) as server:
        ask(server.url, post(repeatable=False, keyed=True), post(repeatable=False, keyed=True))
        keys = [asked.headers["idempotency-key"] for asked in server.requests]
    assert keys[0] == keys[1] == keys[2] != keys[3]


def test_a_packed_answer_is_unpacked(ask: Ask) -> None:
    packed = Said(200, gzip.compress(b'{"x": "' + b"a" * 10_000 + b'"}'), {"content-type": "application/json"})
    packed.headers = {**packed.headers, "content-encoding": "gzip"}
    with scripted([packed]) as server:
        assert ask(server.url, health()) == [{"x": "a" * 10_000}]


def test_an_answer_in_pieces_is_put_together(ask: Ask) -> None:
    text = json.dumps({"x": "日本語" * 100}).encode()
    pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
    with scripted([Said(200, headers={"content-type": "application/json"}, pieces=pieces)]) as server:
        assert ask(server.url, health()) == [{"x": "日本語" * 100}]


# ── what is tried again ───────────────────────────────────────────────────────────────────────────────────────────


def test_what_passes_is_tried_again_until_it_is_answered(ask: Ask) -> None:
    answers = [problem(429, retry_after=0), page(502), DROP, problem(503, retry_after=0), page(200), ok({"x": 1})]
    with scripted(answers) as server:
        assert ask(server.url, health()) == [{"x": 1}]
        names = [asked.headers["x-request-id"] for asked in server.requests]
    assert [name.partition(".")[2] for name in names] == ["", "2", "3", "4", "5", "6"]
    assert len({name.partition(".")[0] for name in names}) == 1


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (DROP, errors.ConnectionLost),
        (Said(200, b'{"x": 1}', {"content-type": "application/json"}, cut=4), errors.ConnectionLost),
        (page(504), errors.BadAnswer),
        (problem(503, "expired"), errors.Unavailable),
    ],
    ids=["dropped", "half", "page", "expired"],
)
def test_what_may_have_been_done_is_not_sent_twice(ask: Ask, answer: Any, kind: type[errors.RefaugError]) -> None:
    with scripted([answer, ok({})]) as server:
        with pytest.raises(kind) as caught:
            ask(server.url, post(repeatable=False))
        assert len(server.requests) == 1
    assert caught.value.tries == 1
    with scripted([answer, ok({"x": 2})]) as server:
        assert ask(server.url, post(repeatable=False, keyed=True)) == [{"x": 2}]
        assert len(server.requests) == 2


@pytest.mark.parametrize("answer", [problem(429, retry_after=0), problem(503, "overloaded", retry_after=0)])
def test_what_was_refused_is_sent_again_whatever_it_is(ask: Ask, answer: Any) -> None:
    with scripted([answer, ok({"x": 3})]) as server:
        assert ask(server.url, post(repeatable=False)) == [{"x": 3}]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 413, 422, 500, 501, 507])
def test_a_refusal_for_good_is_raised_at_once(ask: Ask, status: int) -> None:
    with scripted([problem(status, "some"), ok({})]) as server:
        with pytest.raises(errors.Problem) as caught:
            ask(server.url, health())
        assert len(server.requests) == 1
    assert (caught.value.status, caught.value.tries, caught.value.request_id) == (status, 1, "theirs")


def test_an_error_says_how_often_it_was_tried_and_which_request_it_was(ask: Ask) -> None:
    with scripted([page(502)]) as server:
        with pytest.raises(errors.BadAnswer) as caught:
            ask(server.url, health(), retry=Retry(tries=3, first_s=0.0))
        last = server.requests[-1].headers["x-request-id"]
        assert len(server.requests) == 3
    assert (caught.value.tries, caught.value.request_id) == (3, last)
    assert str(caught.value).endswith(f"(tried 3 times, request {last})")


def test_a_long_wait_that_the_server_asks_for_is_not_slept_through(ask: Ask) -> None:
    with scripted([problem(429, retry_after=3_600), ok({})]) as server:
        with pytest.raises(errors.TooMany) as caught:
            ask(server.url, health(), retry=Retry())
        assert len(server.requests) == 1
    assert caught.value.retry_after_s == 3_600
    with scripted([problem(503, retry_after=5), ok({})]) as server:
        with pytest.raises(errors.Unavailable):
            ask(server.url, health(), retry=Retry(), how={"within_s": 1.0})
        assert len(server.requests) == 1


def test_a_request_that_is_still_answered_elsewhere_is_asked_for_again(ask: Ask) -> None:
    with scripted([DROP, *[problem(409, "in_progress")] * 7, ok({"x": 9})]) as server:
        assert ask(server.url, post(keyed=True), retry=Retry(tries=2, first_s=0.0, most_s=0.0)) == [{"x": 9}]
        assert len({asked.headers["idempotency-key"] for asked in server.requests}) == 1


# ── time ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_answer_that_does_not_come_is_given_up(ask: Ask) -> None:
    with scripted([Said(200, b"{}", first=NEVER)]) as server, refusing(errors.TimedOut, "GET /healthz", "0.15 s"):
        ask(server.url, health(), **TIMED_OUT)


def test_an_answer_that_comes_drop_by_drop_for_ever_is_given_up(ask: Ask) -> None:
    class Endless(list[bytes]):
        def __iter__(self) -> Any:
            return itertools.repeat(b" ")

    drops = Said(200, headers={"content-type": "application/json"}, pieces=Endless([b" "]))
    with scripted([drops]) as server, pytest.raises(errors.TimedOut):
        ask(server.url, health(), **TIMED_OUT)


def test_an_answer_that_stops_in_the_middle_is_given_up(ask: Ask) -> None:
    stuck = Said(200, headers={"content-type": "application/json"}, pieces=[b'{"x"', NEVER])  # type: ignore[list-item]
    with scripted([stuck]) as server, pytest.raises(errors.TimedOut):
        ask(server.url, health(), **TIMED_OUT)


def test_the_whole_of_the_tries_has_an_end_too(ask: Ask) -> None:
    with scripted([Said(200, b"{}", first=NEVER)]) as server:
        with pytest.raises(errors.TimedOut):
            ask(server.url, health(), how={"within_s": 0.7, "timeout_s": 0.1}, retry=Retry(tries=1_000, first_s=0.0))
        server.until(2)
        assert len(server.requests) <= 8
        before = len(server.requests)
        for over in (0, 0.0, -1.0):
            with refusing(errors.TimedOut):
                ask(server.url, health(), how={"within_s": over})
        assert len(server.requests) == before


def test_the_server_is_told_how_long_we_wait(ask: Ask) -> None:
    with scripted([ok({})]) as server:
        ask(server.url, post(timed=True), how={"timeout_s": 2.5})
        ask(server.url, post(timed=True), how={"timeout_s": 30, "within_s": 7.0})
        ask(server.url, post())
        told = [asked.headers.get("x-timeout-s") for asked in server.requests]
    assert told[0] == "2.500"
    assert 6.0 < float(told[1] or 0) <= 7.0
    assert told[2] is None


def too_long(most: str) -> Said:
    return problem(
        422, "bad_input", errors=[{"item": None, "field": "header.x-timeout-s", "message": f"at most {most}"}]
    )


def test_a_server_that_gives_less_time_is_asked_for_what_it_gives(ask: Ask) -> None:
    with scripted([too_long("60"), ok({"x": 1}), ok({"x": 2}), ok({"x": 3})]) as server:
        calls = [post(timed=True), post(timed=True)]
        assert ask(server.url, *calls, timeout_s=120, retry=NO_RETRY) == [{"x": 1}, {"x": 2}]
        told = [asked.headers.get("x-timeout-s") for asked in server.requests]
    assert told == ["120.000", None, None]  # without it, its own limit holds; and that is remembered
    with scripted([too_long("ten"), ok({"x": 1}), ok({"x": 2})]) as server:
        ask(server.url, post(timed=True), post(timed=True), timeout_s=5.0)
        assert [asked.headers.get("x-timeout-s") for asked in server.requests] == ["5.000", None, None]
    with scripted([too_long("60")]) as server:  # and it is not asked for ever
        with pytest.raises(errors.BadInput):
            ask(server.url, post(timed=True), timeout_s=120)
        assert len(server.requests) == 2


def test_a_real_server_that_gives_less_time_answers(ask: Ask, url: str, sets: dict[str, str]) -> None:
    body = {"items": ["d0"], "replies": {"a": ["we like red boats"]}, "metrics": ["upsilon-bleu"], "return": "values"}
    call = Call("POST", path("v1", "reference-sets", sets["train"], "scores"), read_json, body=body, timed=True)
    long, short = ask(url, call, timeout_s=3_000)[0], ask(url, call)[0]
    assert long["scores"] == short["scores"]
    assert len(short["scores"][0]["systems"]["a"]["values"]) == 1


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), float("inf"), 1e12, "60", True])
def test_times_that_make_no_sense_are_refused_before_anything_is_sent(ask: Ask, wrong: Any) -> None:
    with scripted([ok({})]) as server:
        with refusing(errors.Usage, "timeout_s"):
            ask(server.url, health(), how={"timeout_s": wrong})
        with refusing(errors.Usage, "timeout_s"):
            ask(server.url, health(), timeout_s=wrong)
        assert server.requests == []


@pytest.mark.parametrize("wrong", [float("nan"), "5", True])
def test_ends_that_make_no_sense_are_refused(ask: Ask, wrong: Any) -> None:
    with refusing(errors.Usage, "within_s"):
        ask("http://127.0.0.1:9", health(), how={"within_s": wrong})


# ── failures ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", errors.ConnectionLost),
        (b"220 mail\r\n250 ok\r\n\r\n", errors.BadAnswer),
        (b"\x15\x03\x01\x00\x02\x02\x46", errors.BadAnswer),
        (b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", errors.BadAnswer),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab", errors.ConnectionLost),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", errors.BadAnswer),
        (b"", errors.ConnectionLost),
        (DROP, errors.ConnectionLost),
        (page(200), errors.BadAnswer),
        (page(504), errors.BadAnswer),
        (Said(200, b"not packed", {"content-encoding": "gzip"}), errors.BadAnswer),
        (Said(302, b"", {"location": "https://login.example/"}), errors.BadAnswer),
        (Said(200, b'{"x": 1', {"content-type": "application/json"}), errors.BadAnswer),
        (Said(101, b"", {}), errors.BadAnswer),
    ],
)
def test_every_broken_answer_is_an_error_of_ours(ask: Ask, answer: Any, kind: type[errors.RefaugError]) -> None:
    with scripted([answer]) as server:
        with pytest.raises(kind) as caught:
            ask(server.url, health(), retry=NO_RETRY)
        assert caught.value.request_id == server.requests[0].headers["x-request-id"]


def test_a_broken_connection_is_not_used_again(ask: Ask) -> None:
    half = Said(200, b'{"x": 1}', {"content-type": "application/json"}, cut=3)
    with scripted([ok({"x": 0}), half, b"rubbish", ok({"x": 1}), ok({"x": 2})]) as server:
        assert ask(server.url, health(), health(), health()) == [{"x": 0}, {"x": 1}, {"x": 2}]
        assert server.connections == 3


def test_an_id_that_is_too_long_for_an_address_is_refused(ask: Ask) -> None:
    with scripted([]) as server, refusing(errors.Usage, "GET"):
        ask(server.url, Call("GET", path("v1", "reference-sets", "x" * 70_000), read_json))


def test_nobody_there_is_said_with_the_address(ask: Ask) -> None:
    with scripted([ok({})]) as server:
        gone = server.url
    with refusing(errors.CannotConnect, gone):
        ask(gone, health(), retry=Retry(tries=3, first_s=0.0))


def test_a_server_that_comes_back_on_its_port_is_found_again(ask: Ask) -> None:
    with scripted([ok({"x": 1})]) as server:
        url, port = server.url, int(server.url.rpartition(":")[2])
        assert ask(url, health()) == [{"x": 1}]
    tried = threading.Event()
    back = list[Any]()

    def later() -> None:
        assert tried.wait(30)
        with scripted([ok({"x": 2})], port=port) as again:
            again.until(1)
            back.append(again.requests[0].path)

    def drawn() -> float:
        tried.set()
        return 0.05

    thread = threading.Thread(target=later)
    thread.start()
    retry = Retry(tries=10_000, first_s=0.1, most_s=0.1, total_s=60.0, draw=drawn)
    assert ask(url, health(), retry=retry) == [{"x": 2}]
    thread.join()
    assert back == ["/healthz"]


def test_more_threads_than_connections_wait_for_one(ask: Ask) -> None:
    hold = threading.Event()

    def answer(asked: Asked) -> Any:
        return Said(200, b"{}", {"content-type": "application/json"}, first=hold if asked.path == "/held" else None)

    async def two_tasks(url: str) -> None:
        connection = AsyncConnection(ConnectionSettings.of(url, connections=1, retry=NO_RETRY))
        first = asyncio.ensure_future(connection.send(Call("GET", "/held", read_json)))
        await asyncio.to_thread(server.until, 1)
        with refusing(errors.CannotConnect):
            await connection.send(health(), timeout_s=0.1)
        hold.set()
        assert await first == {}
        await connection.close()

    def two_threads(url: str) -> None:
        connection = Connection(ConnectionSettings.of(url, connections=1, retry=NO_RETRY))
        with ThreadPoolExecutor() as threads:
            first = threads.submit(connection.send, Call("GET", "/held", read_json))
            server.until(1)
            with refusing(errors.CannotConnect):
                connection.send(health(), timeout_s=0.1)
            hold.set()
            assert first.result() == {}
        connection.close()

    with scripted(answer) as server:
        if ask is from_threads:
            two_threads(server.url)
        else:
            asyncio.run(two_tasks(server.url))


def test_threads_share_connections_and_each_gets_its_own_answer() -> None:
    with scripted(lambda asked: ok({"path": asked.path})) as server:
        connection = Connection(ConnectionSettings.of(server.url, connections=4))

        def one(number: int) -> str:
            found: str = connection.send(Call("GET", f"/{number}", read_json))["path"]
            return found

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(one, range(400))) == [f"/{number}" for number in range(400)]
        assert server.connections < 20  # now and then httpcore closes one that it could have used
        connection.close()


def test_tasks_share_connections_and_each_gets_its_own_answer() -> None:
    async def all_of_them(url: str) -> list[str]:
        connection = AsyncConnection(ConnectionSettings.of(url, connections=4))
        found = await asyncio.gather(*[connection.send(Call("GET", f"/{number}", read_json)) for number in range(100)])
        await connection.close()
        return [one["path"] for one in found]

    with scripted(lambda asked: ok({"path": asked.path})) as server:
        assert asyncio.run(all_of_them(server.url)) == [f"/{number}" for number in range(100)]
        assert server.connections < 20


# ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_closing_wakes_a_thread_that_waits_for_an_answer() -> None:
    with scripted([ok({}), Said(200, b"{}", first=NEVER)]) as server, ThreadPoolExecutor() as threads:
        connection = Connection(ConnectionSettings.of(server.url))
        connection.send(health())  # the one that waits is on a connection that was there before
        waiting = threads.submit(connection.send, health())
        server.until(2)
        connection.close()
        with refusing(errors.ConnectionLost):
            waiting.result(timeout=30)
        connection.close()


def test_closing_ends_a_pause() -> None:
    begun = threading.Event()

    def drawn() -> float:
        begun.set()
        return 1.0

    with scripted([problem(503)]) as server, ThreadPoolExecutor() as threads:
        connection = Connection(ConnectionSettings.of(server.url, retry=Retry(first_s=60.0, most_s=60.0, draw=drawn)))
        waiting = threads.submit(connection.send, health())
        assert begun.wait(30)
        connection.close()
        with pytest.raises(errors.Unavailable):
            waiting.result(timeout=30)
        assert len(server.requests) == 1


def test_closing_ends_a_pause_of_a_task_and_its_request() -> None:
    async def closed(url: str, reached: Callable[[], Any], kind: type[errors.RefaugError]) -> None:
        connection = AsyncConnection(ConnectionSettings.of(url, retry=Retry(first_s=60.0, most_s=60.0, draw=drawn)))
        waiting = asyncio.ensure_future(connection.send(health()))
        await asyncio.to_thread(reached)
        await connection.close()
        with pytest.raises(kind):
            await asyncio.wait_for(waiting, 30)
        await connection.close()

    begun = threading.Event()

    def drawn() -> float:
        begun.set()
        return 1.0

    with scripted([problem(503)]) as server:
        asyncio.run(closed(server.url, lambda: begun.wait(30), errors.Unavailable))
        assert len(server.requests) == 1
    with scripted([Said(200, b"{}", first=NEVER)]) as server:
        asyncio.run(closed(server.url, lambda: server.until(1), errors.RefaugError))


def test_a_closed_connection_says_so() -> None:
    connection = Connection(ConnectionSettings.of("http://127.0.0.1:9"))
    connection.close()
    connection.close()
    with refusing(errors.Usage):
        connection.send(health())
    with refusing(errors.Usage):
        finish(connection.stream(health()).__aenter__())

    async def tried() -> None:
        other = AsyncConnection(ConnectionSettings.of("http://127.0.0.1:9"))
        await other.close()
        await other.close()
        with refusing(errors.Usage):
            await other.send(health())
        with refusing(errors.Usage):
            async with other.stream(health()):
                pass

    asyncio.run(tried())


def test_a_part_of_a_connection_ends_alone() -> None:
    with scripted([ok({"x": 1})]) as server:
        connection = Connection(ConnectionSettings.of(server.url))
        part = connection.share()
        assert part.send(health()) == connection.send(health()) == {"x": 1}
        assert server.connections == 1
        part.close()
        with refusing(errors.Usage, "closed"):
            part.send(health())
        assert connection.send(health()) == {"x": 1}
        assert server.connections == 1
        connection.close()


def test_a_part_is_woken_when_the_whole_is_closed() -> None:
    with scripted([Said(200, b"{}", first=NEVER)]) as server, ThreadPoolExecutor() as threads:
        connection = Connection(ConnectionSettings.of(server.url, retry=NO_RETRY))
        waiting = threads.submit(connection.share().send, health())
        server.until(1)
        connection.close()
        with pytest.raises(errors.NoAnswer):
            waiting.result(timeout=30)


# ── streams ───────────────────────────────────────────────────────────────────────────────────────────────────────


def streamed(url: str, kind: Ask, **settings: Any) -> bytes:
    """All of an answer, as it came."""
    to = ConnectionSettings.of(url, **{"retry": AT_ONCE, **settings})
    found = list[bytes]()

    async def read(connection: Union[Connection, AsyncConnection]) -> None:
        async with connection.stream(health()) as response:
            async for piece in response.aiter_bytes():
                found.append(piece)

    def threads() -> None:
        connection = Connection(to)
        try:
            finish(read(connection))
        finally:
            connection.close()

    async def tasks() -> None:
        connection = AsyncConnection(to)
        try:
            await read(connection)
        finally:
            await connection.close()

    if kind is from_threads:
        threads()
    else:
        asyncio.run(tasks())
    return b"".join(found)


def test_a_stream_is_tried_again_until_it_begins(ask: Ask) -> None:
    whole = Said(200, headers={"content-type": "text/event-stream"}, pieces=[b"a", b"b", b"c"])
    with scripted([DROP, page(502), problem(503, retry_after=0), whole]) as server:
        assert streamed(server.url, ask) == b"abc"
        assert len(server.requests) == 4


def test_stream_cut_in_the_middle_is_an_error_without_retry(ask: Ask) -> None:
    half = Said(200, headers={"content-type": "text/event-stream"}, pieces=[b"a", b"b"], cut=2)
    with scripted([half]) as server:
        with pytest.raises(errors.ConnectionLost):
            streamed(server.url, ask)
        assert len(server.requests) == 1
    stuck = Said(200, headers={"content-type": "text/event-stream"}, pieces=[b"a", NEVER])  # type: ignore[list-item]
    with scripted([stuck]) as server, pytest.raises(errors.TimedOut):
        streamed(server.url, ask, timeout_s=0.15)


def test_a_stream_that_is_refused_is_an_error(ask: Ask) -> None:
    with scripted([problem(404)]) as server, pytest.raises(errors.NotFound):
        streamed(server.url, ask)


@pytest.mark.slow
def test_a_stream_may_take_longer_than_any_pause_in_it(ask: Ask) -> None:
    pieces = [b"a", *[Slow(b".")] * 12, b"b"]
    with scripted([Said(200, headers={"content-type": "text/plain"}, pieces=pieces)]) as server:
        assert streamed(server.url, ask, timeout_s=1.0) == b"a" + b"." * 12 + b"b"


class Slow(bytes):
    """A piece that the server takes a tenth of a second to write."""

    def __len__(self) -> int:
        NEVER.wait(0.1)
        return 1


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_address_and_key_come_from_the_environment_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (ConnectionSettings.of().url, ConnectionSettings.of().key) == ("http://127.0.0.1:8000", None)
    monkeypatch.setenv("REFAUG_URL", "https://scores.example/refaug/")
    monkeypatch.setenv("REFAUG_KEY", "from-there")
    assert (ConnectionSettings.of().url, ConnectionSettings.of().key) == ("https://scores.example/refaug", "from-there")
    given = ConnectionSettings.of("http://other.example", key="mine")
    assert (given.url, given.key) == ("http://other.example", "mine")
    monkeypatch.setenv("REFAUG_URL", "")
    assert ConnectionSettings.of().url == "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000",
        "ftp://x",
        "http://",
        "http://[::1",
        "http://x:99999",
        "http://x:0",
        "http://a b",
        "http://x\n",
        " http://x",
        "http://x?y=1",
        "http://x#y",
        "http://scores..example",
        "http://" + "x" * 64 + ".example",
        "http://\N{SNOWMAN}.example",
        "http://256.1.1.1",
        5,
        b"http://x",
    ],
)
def test_what_is_no_address_is_refused(url: Any) -> None:
    with pytest.raises(errors.Usage):
        ConnectionSettings.of(url)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    for url in ("http://me:secret@x", "http://me:secret@x y", "://me:secret@x"):
        with refusing(errors.Usage) as caught:
            ConnectionSettings.of(url)
        assert "secret" not in str(caught.value)


def test_what_follows_an_address_is_not_repeated() -> None:
    for url in ("http://x/y?key=secret", "http://x/y#secret?"):
        with refusing(errors.Usage, "http://x/y") as caught:
            ConnectionSettings.of(url)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_server_on_this_machine_is_not_asked_through_a_proxy(
    ask: Ask, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted([ok({"status": "other"})] * 2) as proxy, scripted([ok({"status": "ok"})]) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        near = server.url.replace("127.0.0.1", host)
        if host == "[::1]":  # nobody listens there, and that is what is said: the proxy would have answered
            with pytest.raises(errors.CannotConnect):
                ask(near, health(), retry=NO_RETRY)
        else:
            assert ask(near, health())[0]["status"] == "ok"
        assert proxy.requests == []
        assert ask("http://scores.example", health())[0]["status"] == "other"
        assert len(proxy.requests) == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"connections": 0}, "connections=0"),
        ({"connections": 2.0}, "connections=2.0"),
        ({"connections": True}, "connections=True"),
        ({"verify": None}, "verify=NoneType"),
        ({"retry": "often"}, "retry='often'"),
        ({"headers": ["a"]}, "headers=list"),
        ({"headers": {"a b": "x"}}, "a b"),
        ({"headers": {5: "x"}}, "5 is not a name of a header"),
        ({"headers": {"a": "x\r\nb: y"}}, "the header a has characters"),
        ({"headers": {"a": None}}, "the header a has characters"),
        ({"headers": {"a": "ä"}}, "the header a has characters"),
        ({"key": "two words"}, "the key has characters"),
        ({"key": "line\n"}, "the key has characters"),
        ({"key": "schlüssel"}, "the key has characters"),
        ({"key": 5}, "the key has characters"),
        ({"uds": ""}, "uds=''"),
        ({"uds": 5}, "uds=5"),
        ({"uds": "/" + "x" * 120}, "107"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], said: str) -> None:
    with refusing(errors.Usage, said):
        ConnectionSettings.of("http://x", **wrong)


def test_a_number_of_further_tries_is_enough_of_a_setting() -> None:
    assert ConnectionSettings.of(retry=0).retry == ConnectionSettings.of(retry=False).retry == NO_RETRY
    assert ConnectionSettings.of(retry=2).retry == Retry(tries=3)
    assert ConnectionSettings.of(retry=True).retry == ConnectionSettings.of().retry == Retry()
    assert ConnectionSettings.of(retry=Retry(first_s=1.0)).retry == Retry(first_s=1.0)


def test_no_secret_is_shown() -> None:
    to = ConnectionSettings.of("http://x", key="secret-1", headers={"cookie": "secret-2"})
    assert "secret" not in repr(to)
    for wrong in ({"key": "secret 1"}, {"headers": {"cookie": "secret\n"}}):
        with pytest.raises(errors.Usage) as caught:
            ConnectionSettings.of("http://x", **wrong)
        assert "secret" not in str(caught.value)


def test_certificates_that_are_not_there_are_said() -> None:
    connection = Connection(ConnectionSettings.of("https://x", verify="/no/such/file"))
    with refusing(errors.Usage, "/no/such/file"):
        connection.send(health())


# ── an httpx client of one's own ──────────────────────────────────────────────────────────────────────────────────


def test_a_client_that_was_handed_in_is_used_and_stays_open() -> None:
    asked = list[httpx.Request]()

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json={"x": 1})

    with httpx.Client(transport=httpx.MockTransport(answer), headers={"x-mine": "1"}) as http:
        connection = Connection(ConnectionSettings.of("http://somewhere.example", key="k"), http)
        assert connection.send(health()) == {"x": 1}
        connection.close()
        assert not http.is_closed
        with refusing(errors.Usage, "closed"):
            connection.send(health())
    assert (str(asked[0].url), asked[0].headers["x-mine"]) == ("http://somewhere.example/healthz", "1")
    assert asked[0].headers["authorization"] == "Bearer k"

    async def tried() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as other:
            asynchronous = AsyncConnection(ConnectionSettings.of("http://somewhere.example"), other)
            assert await asynchronous.send(health()) == {"x": 1}
            await asynchronous.close()
            assert not other.is_closed

    asyncio.run(tried())


def test_a_client_that_was_handed_in_and_closed_is_said_to_be() -> None:
    http = httpx.Client()
    http.close()
    with refusing(errors.Usage):
        Connection(ConnectionSettings.of("http://127.0.0.1:9"), http).send(health())


def test_a_client_that_follows_takes_the_key_nowhere_else() -> None:
    with scripted([ok({})]) as elsewhere:
        away = Said(307, b"", {"location": f"{elsewhere.url}/healthz"})
        with scripted([away]) as server, httpx.Client(follow_redirects=True) as http:
            connection = Connection(ConnectionSettings.of(server.url, key="k", retry=NO_RETRY), http)
            with refusing(errors.BadAnswer, "307"):
                connection.send(health())
        assert elsewhere.requests == []


def test_a_connection_travels_as_its_settings() -> None:
    to = ConnectionSettings.of("http://x.example", key="k", retry=2, headers={"A": "b"}, timeout_s=5)
    for made in (Connection(to), AsyncConnection(to)):
        assert pickle.loads(pickle.dumps(made)).settings == to
    with httpx.Client() as http, refusing(errors.Usage):
        pickle.dumps(Connection(to, http))


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the loops end with connections of theirs that nobody closed
def test_every_loop_has_connections_of_its_own() -> None:
    with scripted([ok({"x": 1})]) as server:
        made = [AsyncConnection(ConnectionSettings.of(server.url))]

        async def twice() -> list[Any]:
            return [await made[0].send(health()), await made[0].send(health())]

        for _ in range(3):
            assert asyncio.run(twice()) == [{"x": 1}] * 2
        assert server.connections == 3
        assert len(made[0]._by_loop) == 1  # those of loops that have ended are let go

        async def both() -> list[Any]:  # and two that run at once do not take them from each other
            other = asyncio.to_thread(asyncio.run, twice())
            return [await twice(), await other]

        assert asyncio.run(both()) == [[{"x": 1}] * 2] * 2
        assert server.connections == 5
        asyncio.run(made.pop().close())
    gc.collect()
