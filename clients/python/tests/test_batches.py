"""Large inputs: several requests give what one would, in its order, no faster than the results are taken."""

from __future__ import annotations

import asyncio
import io
import os
import socket
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from functools import partial
from typing import Any, Optional

import pytest
from kinds import Opened
from known_items import ITEMS
from refusals import refusing
from scripted import Asked, Said, ok, page, problem, scripted
from serving import small_items

from refaug_client import AsyncClient, BadInput, Client, ConnectionLost, NotFound, RefaugError, Retry, Usage
from refaug_client._asyncio import LoopWire
from refaug_client._core.progress import make_reporter
from refaug_client._http.async_connection import AsyncConnection
from refaug_client._http.call import Call, read_json
from refaug_client._http.connection import Connection
from refaug_client._http.settings import ConnectionSettings
from refaug_client._large.batches import Batch, Size, cut
from refaug_client._large.sending import run_in_order

WAIT_S = 30.0
FIND = {"settings": {"k": 4}}
MANY = [
    {**item, "id": f"m{number}"} for number, item in enumerate([*ITEMS, *small_items(11, seed=8)])
]  # 23 of them, each with replies of a and b


@pytest.fixture
def client(opened: Opened, url: str) -> Any:
    return opened(url)


def numbered(number: int) -> Call[dict[str, Any]]:
    return Call("POST", "/v1/x", read_json, body={"number": number})


def answers_of(connection: Connection, count: int, at_once: int) -> Generator[dict[str, Any], None, None]:
    """The answers to numbered calls, as threads send them; typed as what `run_in_order` returns can do."""
    tasks = (partial(Connection.send, call=numbered(number)) for number in range(count))
    return run_in_order(connection, tasks, at_once)  # type: ignore[return-value]


EARLIER: set[threading.Thread] = set()  # senders of earlier tests that a busy machine has not ended yet


@pytest.fixture(autouse=True)
def _earlier_senders() -> None:
    EARLIER.clear()
    EARLIER.update(senders())


def senders() -> list[threading.Thread]:
    """Return the senders that this test has started and that still run."""
    return [thread for thread in threading.enumerate() if thread.name == "refaug-send" and thread not in EARLIER]


def require_no_senders() -> None:
    for one in senders():
        one.join(WAIT_S)
    assert senders() == []


class Gate:
    """Lets requests in and holds them until so many are there."""

    def __init__(self, together: int) -> None:
        self.together, self.inside, self.most = together, 0, 0
        self.changed = threading.Condition()

    def __call__(self, asked: Asked) -> Said:
        with self.changed:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self.most >= self.together, WAIT_S)
        with self.changed:
            self.inside -= 1
        return ok(asked.json)


# ── cutting ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_is_as_large_as_batches_are_when_it_is_asked_for() -> None:
    size = Size(4)
    batches = cut(range(11), size)
    assert next(batches) == Batch(0, [0, 1, 2, 3])
    size.lower_to(2)
    assert next(batches) == Batch(4, [4, 5])
    size.lower_to(3)  # never larger again
    assert [one.items for one in batches] == [[6, 7], [8, 9], [10]]


# ── order, and how many at once ───────────────────────────────────────────────────────────────────────────────────


def test_answers_keep_their_order_when_later_ones_come_first() -> None:
    others = threading.Event()
    answered: list[int] = []

    def answer(asked: Asked) -> Said:
        number = asked.json["number"]
        answered.append(number)
        if len(answered) == 4:
            others.set()
        return Said(200, asked.body, {"content-type": "application/json"}, first=others if number == 0 else None)

    with scripted(answer) as server:
        connection = Connection(ConnectionSettings.of(server.url))
        assert [one["number"] for one in answers_of(connection, 9, 4)] == list(range(9))
        connection.close()
    require_no_senders()


@pytest.mark.parametrize(("at_once", "connections", "most"), [(3, 8, 3), (1, 8, 1), (6, 2, 2)])
def test_no_more_are_under_way_than_may_be_at_once(at_once: int, connections: int, most: int) -> None:
    gate = Gate(most)
    with scripted(gate) as server:
        connection = Connection(ConnectionSettings.of(server.url, connections=connections))
        assert [one["number"] for one in answers_of(connection, 12, at_once)] == list(range(12))
        connection.close()
    assert gate.most == most


def test_asyncio_keeps_order_and_bound_alike() -> None:
    gate = Gate(3)

    async def collected(url: str) -> list[int]:
        connection = AsyncConnection(ConnectionSettings.of(url))

        async def tasks() -> AsyncIterator[Callable[[Any], Awaitable[dict[str, Any]]]]:
            for number in range(12):
                yield partial(LoopWire.send, call=numbered(number))

        wire = LoopWire(connection, connection.settings)
        found = [one["number"] async for one in wire.run_in_order(tasks(), 3)]  # type: ignore[arg-type]
        await connection.close()
        return found

    with scripted(gate) as server:
        assert asyncio.run(collected(server.url)) == list(range(12))
    assert gate.most == 3


def test_input_is_read_no_further_than_it_is_sent() -> None:
    read: list[int] = []

    def items() -> Iterator[dict[str, str]]:
        for number in range(1_000):
            read.append(number)
            yield {"utterance": str(number)}

    with scripted(echoed) as server, Client(server.url) as client:
        assert read == []
        stream = client.references_iter(items(), batch=5, at_once=2)
        assert read == []  # nothing happens before the first result is asked for
        first = next(stream)
        assert (first.id, len(read)) == ("item-0", 5)
        assert [next(stream).id for _ in range(5)] == [f"item-{number}" for number in range(1, 6)]
        assert len(read) == 5 * (1 + 2 + 1)
        for _ in range(50):
            next(stream)
        assert len(read) <= 56 + 5 * (2 + 1)
        stream.close()
        assert next(stream, None) is None


def test_asyncio_reads_no_further_either_and_takes_asynchronous_input() -> None:
    read: list[int] = []

    async def items() -> AsyncIterator[dict[str, str]]:
        for number in range(1_000):
            read.append(number)
            yield {"utterance": str(number)}

    async def some(url: str) -> list[str]:
        async with AsyncClient(url) as client:
            stream = client.references_iter(items(), batch=5, at_once=2)
            found = [(await stream.__anext__()).id for _ in range(6)]
            assert len(read) == 5 * (1 + 2 + 1)
            await stream.aclose()
            assert [one async for one in stream] == []
        return found

    with scripted(echoed) as server:
        assert asyncio.run(some(server.url)) == [f"item-{number}" for number in range(6)]


def echoed(asked: Asked) -> Said:
    """References that are the utterances."""
    items = [
        {"id": one.get("id", "item-0"), "references": [{"text": one["utterance"], "source": "gold"}]}
        for one in asked.json["items"]
    ]
    return ok({"items": items, "versions": {}, "provenance": {}, "problems": [], "warnings": [], "request_id": "r"})


# ── endings ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_closing_early_sends_no_more(opened: Opened) -> None:
    with scripted(echoed) as server:
        client = opened(server.url)
        for item in client.references_iter(({"utterance": str(n)} for n in range(1_000)), batch=2, at_once=3):
            if item.id == "item-1":
                break  # the last one of the first batch
        del item
        require_no_senders()
        assert len(server.requests) == 1


def test_leaving_the_loop_ends_the_sending_of_what_is_under_way() -> None:
    never = threading.Event()

    def answer(asked: Asked) -> Said:
        first = None if asked.json["number"] == 0 else never
        return Said(200, asked.body, {"content-type": "application/json"}, first=first)

    with scripted(answer) as server:
        connection = Connection(ConnectionSettings.of(server.url))
        answers = answers_of(connection, 100, 3)
        assert next(answers) == {"number": 0}
        server.until(4)  # 1, 2 and 3 are held by the server, for ever
        answers.close()
        require_no_senders()
        assert sorted(asked.json["number"] for asked in server.requests) == [0, 1, 2, 3]
        assert connection.send(Call("POST", "/v1/x", read_json, body={"number": 0})) == {"number": 0}  # it goes on
        connection.close()


def test_a_client_that_is_closed_meanwhile_ends_the_waiting() -> None:
    arrived = threading.Event()

    def answer(asked: Asked) -> Said:
        arrived.set()
        return Said(200, asked.body, {"content-type": "application/json"}, first=threading.Event())

    with scripted(answer) as server:
        connection = Connection(ConnectionSettings.of(server.url))

        def close() -> None:
            arrived.wait(WAIT_S)
            connection.close()

        closer = threading.Thread(target=close)
        closer.start()
        with refusing(Usage):
            next(answers_of(connection, 5, 2))
        closer.join()
        require_no_senders()
        with refusing(Usage):
            next(answers_of(connection, 5, 2))


def test_closing_a_client_ends_the_threads_of_a_stream_left_open() -> None:
    with scripted(echoed) as server:
        client = Client(server.url)
        stream = client.references_iter(({"utterance": str(n)} for n in range(1_000)), batch=2, at_once=3)
        assert [next(stream).id for _ in range(3)] == ["item-0", "item-1", "item-2"]
        assert 1 <= len(senders()) <= 3
        client.close()
        require_no_senders()  # although the stream could still be asked
        with refusing((Usage, ConnectionLost)):
            list(stream)


def test_sockets_opened_while_a_connection_is_closed_are_shut_down() -> None:
    """Many threads open sockets at once; none of them keeps the closing from its end, or is left open by it."""
    for _ in range(20):
        connection = Connection(ConnectionSettings.of("http://127.0.0.1:9"))
        pairs = [socket.socketpair() for _ in range(8)]
        start = threading.Barrier(len(pairs) + 1)

        def remember(opened: socket.socket, start: threading.Barrier, connection: Connection) -> None:
            start.wait(WAIT_S)
            connection._remember_socket("connect_tcp.complete", {"return_value": Stream(opened)})

        threads = [threading.Thread(target=remember, args=(own, start, connection)) for own, _ in pairs]
        for thread in threads:
            thread.start()
        connection.http  # noqa: B018  as after a first request
        start.wait(WAIT_S)
        connection.close()
        for thread in threads:
            thread.join(WAIT_S)
        for own, other in pairs:
            other.settimeout(WAIT_S)
            assert other.recv(1) == b""  # it was shut down
            own.close()
            other.close()


class Stream:
    """What httpcore hands to a trace."""

    def __init__(self, opened: socket.socket) -> None:
        self._opened = opened

    def get_extra_info(self, name: str) -> socket.socket:
        assert name == "socket"
        return self._opened


def test_an_error_comes_after_all_that_came_before_it(opened: Opened) -> None:
    def answer(asked: Asked) -> Said:
        if any(one["utterance"] == "7" for one in asked.json["items"]):
            return problem(404, "not_found", "no such index")
        return echoed(asked)

    with scripted(answer) as server:
        client, found = opened(server.url), []
        with refusing(NotFound):
            found.extend(
                item.references[0].text
                for item in client.references_iter(({"utterance": str(n)} for n in range(100)), batch=3, at_once=4)
            )
        assert found == ["0", "1", "2", "3", "4", "5"]
        require_no_senders()
        assert len(server.requests) <= 1 + 2 + 4 + 1


def test_an_error_of_the_input_comes_after_all_that_was_read_before_it(opened: Opened) -> None:
    def items() -> Iterator[dict[str, str]]:
        for number in range(7):
            yield {"utterance": str(number)}
        raise OSError("the file broke off")

    with scripted(echoed) as server:
        found = []
        with pytest.raises(OSError, match="the file broke off"):
            found.extend(item.references[0].text for item in opened(server.url).references_iter(items(), batch=2))
    assert found == ["0", "1", "2", "3", "4", "5"]  # the seventh was in a batch that never was whole


def test_what_passes_is_tried_again_and_nothing_is_lost_or_doubled() -> None:
    turns = iter(range(1_000))

    def answer(asked: Asked) -> Said:
        return problem(429, retry_after=0) if next(turns) % 3 == 1 else echoed(asked)

    with scripted(answer) as server, Client(server.url, retry=Retry(first_s=0.001, most_s=0.01)) as client:
        found = client.references([{"utterance": str(n)} for n in range(40)], batch=3)
        assert [one.references[0].text for one in found] == [str(n) for n in range(40)]
        assert found.items[39].id == "item-39"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_what_was_begun_in_a_parent_is_not_gone_on_with_in_a_child() -> None:
    with scripted(echoed) as server, Client(server.url) as client:
        stream = client.references_iter(({"utterance": str(n)} for n in range(100)), batch=2)
        assert [next(stream).id for _ in range(3)] == ["item-0", "item-1", "item-2"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # there are threads, which is the point
            child = os.fork()
        if child == 0:
            code = 1
            try:
                for _ in range(100):
                    next(stream)
            except Usage as error:
                code = 0 if "another process" in str(error) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert [one.id for one in stream] == [f"item-{number}" for number in range(3, 100)]


# ── too large ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("refusal", [problem(413, "too_large", "too many"), page(413, "<html>too large</html>")])
def test_what_is_too_large_is_halved_and_so_is_what_follows(opened: Opened, refusal: Said) -> None:
    with scripted(lambda asked: refusal if len(asked.json["items"]) > 3 else echoed(asked)) as server:
        items = [{"utterance": str(n)} for n in range(17)]
        found = opened(server.url).references(items, at_once=1, batch=10)
        assert [one.references[0].text for one in found] == [str(n) for n in range(17)]
        assert [len(asked.json["items"]) for asked in server.requests] == [10, 5, 3, 2, 5, 3, 2, 3, 3, 1]


def test_a_request_that_seemed_small_enough_is_halved_too(opened: Opened) -> None:
    def answer(asked: Asked) -> Said:
        return problem(413, "too_large") if len(asked.json["items"]) > 2 else echoed(asked)

    with scripted(answer) as server:
        found = opened(server.url).references([{"utterance": str(n)} for n in range(5)])
        assert [one.id for one in found] == ["item-0", "item-1", "item-2", "item-3", "item-4"]


def test_one_item_that_is_too_large_is_an_error(opened: Opened) -> None:
    def answer(asked: Asked) -> Said:
        large = any(len(one["utterance"]) > 10 for one in asked.json["items"])
        return problem(413, "too_large", "too long for one request") if large else echoed(asked)

    items = [{"utterance": "short"}, {"utterance": "s"}, {"utterance": "much too long"}, {"utterance": "t"}]
    with scripted(answer) as server:
        found = []
        with refusing(BadInput) as caught:
            found.extend(item.id for item in opened(server.url).references_iter(items, batch=4))
        assert (found, caught.value.status) == (["item-0", "item-1"], 413)
        with refusing(BadInput):
            opened(server.url).references(items[2:3])


# ── what the server gives ─────────────────────────────────────────────────────────────────────────────────────────


def bare(found: Any) -> dict[str, Any]:
    """A document without what differs between two askings."""
    return {key: value for key, value in found.to_dict().items() if key not in ("request_id", "data", "batches")}


def test_references_of_several_requests_are_those_of_one(client: Any) -> None:
    items = [{key: item[key] for key in ("utterance", "references")} for item in MANY]
    whole, parts = client.references(items, **FIND), client.references(items, **FIND, batch=4, at_once=3)
    assert [one.to_dict() for one in parts] == [one.to_dict() for one in whole]
    assert [one.id for one in parts] == [f"item-{number}" for number in range(23)]
    assert (parts.versions, parts.provenance) == (whole.versions, whole.provenance)
    assert [one.to_dict() for one in client.references_iter(iter(items), **FIND, batch=5)] == [
        one.to_dict() for one in whole
    ]


def test_references_can_be_sent_again_as_they_came(client: Any) -> None:
    found = client.references(MANY, **FIND, batch=7)
    scores = client.score(found.items, replies=[item["replies"]["a"] for item in MANY], metric="upsilon-bleu", batch=6)
    assert len(scores["upsilon-bleu"]["model"].replies) == 23
    again = list(client.references_iter(found.items, **FIND, batch=9))
    assert [one.id for one in again] == [item["id"] for item in MANY]


def test_ratings_of_several_requests_are_those_of_one(client: Any) -> None:
    pairs = [
        {"utterance": one["utterance"], "golds": one["references"], "candidates": list(one["replies"].values())}
        for one in MANY
    ]
    whole = client.rate(pairs)
    expected = [pytest.approx(one, abs=1e-5) for one in whole.ratings]  # as steady as a rater is (docs/metrics.md)
    assert client.rate(pairs, batch=3).ratings == expected
    assert list(client.rate_iter((one for one in pairs), batch=5)) == expected
    assert [len(one) for one in whole.ratings] == [2] * 23


SCORED = [
    {"metrics": ["upsilon-bleu", "bleu", "chrf"], **FIND},
    {"metrics": ["bleu:n=1", "bleu:n=4"], "draws": 50, "baseline": "b", "seed": 7, "confidence": 0.9},
    {"metrics": ["upsilon-rouge-l", "multi-bleu"], **FIND, "draws": 20},
    {"metrics": ["upsilon-bleu"], "references": "find", **FIND},
]


@pytest.mark.parametrize("asked", SCORED, ids=lambda asked: ",".join(asked["metrics"]))
def test_scores_of_several_requests_are_those_of_one_to_the_last_bit(client: Any, asked: dict[str, Any]) -> None:
    whole, parts = client.score(MANY, **asked), client.score(MANY, **asked, batch=5, at_once=2)
    assert [one.signature_full for one in parts] == [one.signature_full for one in whole]
    for of_parts, of_whole in zip(parts, whole):
        for name in ("a", "b"):
            one, other = of_parts[name], of_whole[name]
            assert one.replies == other.replies
            assert [reply.id for reply in one.details] == [item["id"] for item in MANY]
            for field in ("corpus", "interval", "mean", "mean_interval", "scored", "unscored", "parts"):
                assert getattr(one, field) == getattr(other, field), field
        assert of_parts.comparisons == of_whole.comparisons
    assert (parts.items, parts.resampling, parts.versions) == (whole.items, whole.resampling, whole.versions)
    assert parts.problems == []


def test_metrics_are_found_by_what_was_asked_for(client: Any) -> None:
    scores = client.score(MANY, metrics=["bleu:n=1", "bleu:n=4"], batch=6)
    assert scores["bleu:n=1"]["a"].corpus > scores["bleu:n=4"]["a"].corpus
    (item, *_) = client.score_iter(MANY, metrics=["bleu:n=1", "bleu:n=4"], batch=6)
    assert item["bleu:n=4"]["b"].score == scores["bleu:n=4"]["b"].replies[0]


def test_replies_one_by_one_have_the_scores_of_all_at_once(client: Any) -> None:
    whole = client.score(MANY, metrics=["upsilon-bleu", "bleu"], **FIND)
    stream = list(client.score_iter((one for one in MANY), metrics=["upsilon-bleu", "bleu"], **FIND, batch=4))
    assert [one.id for one in stream] == [item["id"] for item in MANY]
    for metric in ("upsilon-bleu", "bleu"):
        for name in ("a", "b"):
            assert [one[metric][name].score for one in stream] == whole[metric][name].replies
        assert {one.signatures[metric] for one in stream} == {whole[metric].signature}
    with refusing(Usage, "m0"):
        _ = stream[0].score
    with refusing(KeyError, "upsilon-bleu, bleu"):
        _ = stream[0]["chrf"]


def test_one_system_and_one_metric_need_no_name(client: Any) -> None:
    items = [{**item, "replies": {"a": item["replies"]["a"]}} for item in MANY]
    stream = list(client.score_iter(items, metric="bleu", batch=6))
    whole = client.score(items, metric="bleu")
    assert [one.score for one in stream] == whole.replies
    assert stream[0].signature == whole.signature
    assert repr(stream[0]).startswith("ScoredItem('m0', {'bleu': {'a': ")


def test_explanations_and_per_cent_come_one_by_one_too(client: Any) -> None:
    plain = list(client.score_iter(MANY[:5], metric="bleu", batch=2))
    found = list(client.score_iter(MANY[:5], metric="bleu", percent=True, explain=True, batch=2))
    assert [one["bleu"]["a"].score for one in found] == [100 * one["bleu"]["a"].score for one in plain]
    assert all("without_reference" in one["bleu"]["a"].more for one in found)


def test_a_system_without_replies_in_some_batches_has_none_there(client: Any) -> None:
    items = [dict(one) for one in MANY[:12]]
    for place in (0, 1, 2, 3, 9):
        items[place] = {**items[place], "replies": {"a": items[place]["replies"]["a"]}}
    for place in (10, 11):
        items[place] = {**items[place], "replies": {"b": items[place]["replies"]["b"]}}
    whole, parts = client.score(items, metric="bleu"), client.score(items, metric="bleu", batch=2)
    assert list(parts["bleu"].systems) == list(whole["bleu"].systems) == ["a", "b"]
    for name in ("a", "b"):
        assert [one.to_dict() for one in parts["bleu"][name].details] == [
            {key: value for key, value in one.to_dict().items() if key != "parts"}
            for one in whole["bleu"][name].details
        ]
        assert parts["bleu"][name].corpus == whole["bleu"][name].corpus
        assert parts["bleu"][name].unscored_by_reason == whole["bleu"][name].unscored_by_reason


@pytest.mark.parametrize("lacking", [range(4, 10), range(6)], ids=["last", "first"])
def test_batches_without_any_reply_are_unscored_and_no_error(client: Any, lacking: range) -> None:
    replies = [None if place in lacking else "we like red boats" for place in range(10)]
    asked: Any = {"replies": replies, "metrics": ["bleu", "delta-bleu"], "references": "given", "on_error": "report"}
    items = [*MANY[:4], {**MANY[4], "id": 9}, *WEIGHTED, {"references": 1}, *MANY[7:9]]
    whole, parts = client.score(items, **asked), client.score(items, **asked, batch=2)
    for metric in ("bleu", "delta-bleu"):
        assert parts[metric].replies == whole[metric].replies
        assert [one.id for one in parts[metric]["model"].details] == [one.id for one in whole[metric]["model"].details]
        assert parts[metric].corpus == whole[metric].corpus
        assert parts[metric]["model"].unscored_by_reason == whole[metric]["model"].unscored_by_reason
    assert [one.field for one in parts.problems] == [one.field for one in whole.problems] == ["items[7].references"]
    items = [{key: one[key] for key in ("id", "references")} for one in MANY[:6]]
    items[2]["replies"] = {"model": "we like red boats"}
    for more in ({}, {"explain": True}):
        found = list(client.score_iter(items, metric="chrf", batch=2, **more))
        assert [one.reply.problem for one in found] == ["no_reply"] * 2 + [None] + ["no_reply"] * 3
        assert [one.id for one in found] == [one["id"] for one in items]


def test_a_last_batch_without_any_score_is_unscored_and_no_error(client: Any) -> None:
    items = [*MANY[:4], {**MANY[4], "references": []}]
    whole, parts = client.score(items, metric="bleu"), client.score(items, metric="bleu", batch=4)
    assert parts["bleu"]["a"].replies == whole["bleu"]["a"].replies
    assert parts["bleu"]["a"].replies[-1] is None
    assert parts["bleu"]["a"].details[-1].problem == whole["bleu"]["a"].details[-1].problem
    assert parts["bleu"]["a"].corpus == whole["bleu"]["a"].corpus
    assert [one["bleu"]["a"].score for one in client.score_iter(items, metric="bleu", batch=4)] == whole["bleu"][
        "a"
    ].replies
    with refusing(BadInput):
        client.score([{**one, "references": []} for one in MANY[:4]], metric="bleu", batch=2)


# ── metrics that the references do not suit ───────────────────────────────────────────────────────────────────────────


GOLDS_ONLY = [{**one, "references": ["at home"]} for one in MANY[:4]]
WEIGHTED = [{**one, "references": ["at home", {"text": "in the shop", "weight": 0.5}]} for one in MANY[4:6]]
NO_GOLDS = [{**one, "references": []} for one in MANY[6:8]]
SUITS: Any = {"metrics": ["delta-bleu", "chrf"], "references": "given"}


def require_same_scores(parts: Any, whole: Any) -> None:
    assert (parts.corpus, parts.mean, parts.replies) == (whole.corpus, whole.mean, whole.replies)
    assert (parts.scored, parts.unscored_by_reason) == (whole.scored, whole.unscored_by_reason)


@pytest.mark.parametrize("on_error", ["fail", "report"])
@pytest.mark.parametrize(
    "items", [GOLDS_ONLY + WEIGHTED + NO_GOLDS, NO_GOLDS + WEIGHTED, WEIGHTED + GOLDS_ONLY, WEIGHTED + NO_GOLDS]
)
def test_a_metric_that_suits_any_batch_is_scored_over_all_items(client: Any, items: Any, on_error: str) -> None:
    whole = client.score(items, **SUITS, on_error=on_error)
    parts = client.score(items, **SUITS, on_error=on_error, batch=2)
    assert [one.metric for one in parts] == [one.metric for one in whole] == ["delta-bleu", "chrf"]
    assert parts.problems == whole.problems == []
    for metric in ("delta-bleu", "chrf"):
        for system in ("a", "b"):
            require_same_scores(parts[metric][system], whole[metric][system])
            assert len(parts[metric][system].replies) == len(items)


def test_a_metric_that_suits_no_batch_is_reported_or_refused_as_in_one_request(client: Any) -> None:
    items = GOLDS_ONLY + NO_GOLDS
    for batch in (100, 2):
        with refusing(BadInput):
            client.score(items, **SUITS, batch=batch)
        with refusing(BadInput):
            client.score(items, metric="delta-bleu", references="given", on_error="report", batch=batch)
        with refusing(BadInput) as caught:
            client.score(NO_GOLDS, **SUITS, on_error="report", batch=1 if batch == 2 else batch)
        assert caught.value.code == "no_gold"
    whole, parts = (client.score(items, **SUITS, on_error="report", batch=batch) for batch in (100, 2))
    assert [one.metric for one in parts] == [one.metric for one in whole] == ["chrf"]
    assert parts.problems == whole.problems
    assert [(one.field, one.to_dict()["metric"]) for one in parts.problems] == [("metrics[0]", "delta-bleu")]
    require_same_scores(parts["chrf"]["a"], whole["chrf"]["a"])


def test_a_metric_that_a_set_does_not_suit_is_reported_once(client: Any) -> None:
    frozen = client.sets.freeze(GOLDS_ONLY, purpose="test", references="given")
    ids = [f"m{number % 4}" for number in range(10)]
    replies = {"a": [f"at home {number}" for number in range(10)]}
    ask: Any = {"items": ids, "metrics": ["upsilon-bleu", "chrf"]}
    whole, parts = (client.sets.score(frozen.id, replies, **ask, on_error="report", batch=batch) for batch in (100, 3))
    assert [one.metric for one in parts] == [one.metric for one in whole] == ["chrf"]
    assert parts.problems == whole.problems
    assert [one.field for one in parts.problems] == ["metrics[0]"]
    require_same_scores(parts["chrf"]["a"], whole["chrf"]["a"])
    for batch in (100, 3):
        with refusing(BadInput):
            client.sets.score(frozen.id, replies, **ask, batch=batch)


@pytest.mark.parametrize("explain", [False, True])
def test_a_stream_judges_each_request_for_itself(url: str, explain: bool) -> None:
    items = GOLDS_ONLY[:2] + WEIGHTED
    with Client(url) as client:
        stream = client.score_iter(items, **SUITS, on_error="report", explain=explain, batch=2)
        assert [(one.id, list(one.scores)) for one in stream] == [
            ("m0", ["chrf"]), ("m1", ["chrf"]), ("m4", ["delta-bleu", "chrf"]), ("m5", ["delta-bleu", "chrf"])
        ]  # fmt: skip
        assert [one["field"] for one in stream.problems] == ["metrics[0]"]
        with refusing(BadInput):
            list(client.score_iter(items, **SUITS, explain=explain, batch=2))


# ── bad items ─────────────────────────────────────────────────────────────────────────────────────────────────────


BAD = [*MANY[:5], {"id": "bad", "utterance": 5}, 3, *MANY[5:7], {**MANY[7], "references": [{"text": 5}]}, *MANY[8:10]]


@pytest.mark.parametrize("batch", [2, 3, 5])
def test_bad_items_are_named_by_their_places_in_all_of_the_input(client: Any, batch: int) -> None:
    whole = client.score(BAD, metric="bleu", on_error="report")
    parts = client.score(BAD, metric="bleu", on_error="report", batch=batch)
    assert parts.problems == whole.problems
    assert [one.place for one in parts.problems] == [5, 6, 9]
    assert parts["bleu"]["a"].replies == whole["bleu"]["a"].replies
    assert [one.id for one in parts["bleu"]["a"].details] == [f"m{n}" for n in (0, 1, 2, 3, 4, 5, 6, 8, 9)]
    referenced = client.references(BAD, **FIND, on_error="report", batch=batch)
    assert [one.place for one in referenced.problems] == [5, 6, 9]
    assert [one.id for one in client.score_iter(BAD, metric="bleu", on_error="report", batch=batch)] == [
        reply.id for reply in whole["bleu"]["a"].details
    ]


@pytest.mark.parametrize("batch", [2, 5])
def test_a_refusal_names_the_place_in_all_of_the_input(client: Any, batch: int) -> None:
    found = []
    with pytest.raises(BadInput) as caught:
        found.extend(item.id for item in client.references_iter(iter(BAD), **FIND, batch=batch))
    assert caught.value.errors[0]["place"] == 5
    assert caught.value.errors[0]["field"].startswith("items[5]")
    assert "items[5]" in str(caught.value)
    assert found == [f"m{number}" for number in range(5 - 5 % batch)]


def test_nothing_but_bad_items_is_refused_as_in_one_request(client: Any) -> None:
    for batch in (100, 2):
        with refusing(BadInput) as caught:
            client.score(
                [{"id": "x", "utterance": 5}, 3, None, {"id": 0.5}], metric="bleu", on_error="report", batch=batch
            )
        assert caught.value.errors[0]["place"] == 0


def test_a_stream_tells_its_problems_and_versions_when_it_has_come_to_them(url: str) -> None:
    with Client(url) as client:
        stream = client.references_iter(BAD, **FIND, on_error="report", batch=4)
        assert (stream.problems, stream.versions) == ([], {})
        assert len(list(stream)) == len(BAD) - 3
        assert [one["place"] for one in stream.problems] == [5, 6, 9]
        assert stream.versions["index"].startswith("chat@")
        with client.references_iter(MANY, **FIND, batch=4) as other:
            assert next(other).id == "m0"
        assert list(other) == []


# ── frozen sets ───────────────────────────────────────────────────────────────────────────────────────────────────


def rows(count: int) -> tuple[list[str], dict[str, list[Optional[str]]]]:
    """So many replies to items of the set, several to each, some missing."""
    ids = [f"d{(7 * number) % 12}" for number in range(count)]
    replies: dict[str, list[Optional[str]]] = {
        name: [
            None if (number + shift) % 9 == 8 else f"{ITEMS[(7 * number) % 12]['replies'][name]} {number % 4}"
            for number in range(count)
        ]
        for shift, name in enumerate(("a", "b"))
    }
    return ids, replies


@pytest.mark.parametrize("asked", [{}, {"draws": 40, "baseline": "a", "seed": 3}, {"return_": "values"}])
def test_scores_against_a_set_are_the_same_in_any_number_of_requests(
    client: Any, sets: dict[str, str], asked: dict[str, Any]
) -> None:
    ids, replies = rows(40)
    ask: Any = {"items": ids, "metrics": ["delta-bleu", "bleu"], **asked}
    whole, parts = (
        client.sets.score(sets["train"], replies, **ask),
        client.sets.score(sets["train"], replies, **ask, batch=7),
    )
    for metric in ("delta-bleu", "bleu"):
        assert parts[metric].signature_full == whole[metric].signature_full
        for name in ("a", "b"):
            assert parts[metric][name].to_dict() == whole[metric][name].to_dict()
        assert parts[metric].comparisons == whole[metric].comparisons
    assert (parts.set, parts.items, parts.resampling) == (whole.set, whole.items, whole.resampling)
    assert list(whole["bleu"]["a"].replies).count(None) == replies["a"].count(None) > 0


def test_the_default_metric_of_a_set_is_the_same_in_any_number_of_requests(client: Any, sets: dict[str, str]) -> None:
    ids, replies = rows(10)
    found = client.sets.score(sets["test"], replies["a"], items=ids, batch=3)
    assert found.metric.metric == "delta-bleu"
    assert found.replies == client.sets.score(sets["test"], replies["a"], items=ids).replies


def test_a_batch_of_unknown_ids_alone_is_reported_or_refused(client: Any, sets: dict[str, str]) -> None:
    ids, texts = ["d1", "d2", "x", "y", "d3"], ["at home", "we like red boats", "tea", "tea", "tea"]
    ask: Any = {"items": ids, "metric": "bleu"}
    whole = client.sets.score(sets["train"], texts, **ask, on_error="report")
    parts = client.sets.score(sets["train"], texts, **ask, on_error="report", batch=2)
    assert parts.problems == whole.problems
    assert [one.place for one in parts.problems] == [2, 3]
    assert parts.replies == whole.replies
    with pytest.raises(BadInput) as caught:
        client.sets.score(sets["train"], texts, **ask, batch=2)
    assert caught.value.errors[0]["field"] == "items[2]"


def test_wrong_number_of_replies_is_refused_before_sending(client: Any) -> None:
    with refusing(Usage, "model"):
        client.sets.score("e7043c04b0875353", ["a", "b", "c"], items=["d1", "d2", "d3", "d4"], batch=2)


def test_all_of_a_set_is_one_request(client: Any, sets: dict[str, str]) -> None:
    texts = [item["replies"]["a"] for item in ITEMS]
    assert len(client.sets.score(sets["train"], texts, metric="bleu", batch=5).replies) == 12


# ── what cannot be had ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"metric": "bleu", "explain": True}, "explain"),
        ({"metric": "bleu", "percent": True}, "percent"),
        ({"metric": "bleu", "return_": "stats"}, "stats"),
        ({}, "no metric is named"),
    ],
)
def test_what_several_requests_cannot_give_is_refused_before_any_is_sent(
    opened: Opened, asked: dict[str, Any], says: str
) -> None:
    with scripted([problem(500, "internal")]) as server:
        with refusing(Usage, says):
            opened(server.url).score(MANY, **asked, batch=5)
        assert server.requests == []


def test_a_metric_that_looks_at_all_items_needs_one_request(client: Any) -> None:
    with refusing(Usage, "items"):
        client.score(MANY, metric="cider", batch=5)
    assert client.score(MANY, metric="cider", batch=1_000)["cider"]["a"].corpus is not None
    with refusing(Usage):
        list(client.score_iter(MANY, metric="cider", batch=5))


@pytest.mark.parametrize("name", ["d1", 7])
def test_an_id_that_comes_twice_is_refused_wherever_the_two_are(opened: Opened, name: Any) -> None:
    items = [{**one, "id": str(place)} for place, one in enumerate(MANY)]
    items[2], items[19] = {**items[2], "id": name}, {**items[19], "id": str(name)}
    items[7] = {**items[7], "id": "other"}
    with scripted([problem(500, "internal")]) as server:
        client = opened(server.url)
        for ask in (client.references, lambda given, batch: client.score(given, metric="bleu", batch=batch)):
            with refusing(Usage, "items[19].id", name, "items[2]"):
                ask(items, batch=5)
        assert server.requests == []


@pytest.mark.parametrize("value", [0, -1, True, 2.5, "3", None])
def test_numbers_that_are_none_are_refused(opened: Opened, value: Any) -> None:
    client = opened("http://127.0.0.1:9")
    for name in ("batch", "at_once"):
        for ask in (client.references, client.rate, client.references_iter, client.rate_iter):
            with refusing(Usage, name):
                ask([{"utterance": "x"}], **{name: value})


@pytest.mark.parametrize("items", ["text", b"bytes", {"utterance": "x"}, 5, None])
def test_one_thing_is_not_several(opened: Opened, items: Any) -> None:
    client = opened("http://127.0.0.1:9")
    for ask in (client.references, client.references_iter, client.score_iter, client.rate_iter):
        with pytest.raises(Usage):
            ask(items)


def test_no_items_are_no_requests_one_by_one(opened: Opened) -> None:
    with scripted([problem(500, "internal")]) as server:
        client = opened(server.url)
        assert list(client.references_iter(iter(()))) == []
        assert list(client.score_iter([], metric="bleu")) == []
        assert list(client.rate_iter([])) == []
        assert server.requests == []


def test_a_closed_client_sends_nothing(opened: Opened) -> None:
    client = opened("http://127.0.0.1:9")
    client.close()
    with refusing(Usage, "closed"):
        next(iter(client.references_iter([{"utterance": "x"}])))


# ── versions ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_the_first_answer_was_made_with_is_named_in_all_others(opened: Opened) -> None:
    """An index that is published meanwhile is not mixed with the one before."""

    def answer(asked: Asked) -> Said:
        found = echoed(asked).body.replace(
            b'"versions": {}', b'"versions": {"index": "chat@3#ab", "rater": "base@1#cd"}'
        )
        return Said(200, found, {"content-type": "application/json"})

    with scripted(answer) as server:
        found = opened(server.url).references([{"utterance": str(n)} for n in range(9)], batch=2, index="chat")
        asked = [(one.json.get("index"), one.json.get("rater")) for one in server.requests]
        assert asked == [("chat", None)] + [("chat@3", "base@1")] * 4
        assert (found.versions.index, found.versions.rater) == ("chat@3#ab", "base@1#cd")


def test_scores_by_different_things_are_never_put_together(opened: Opened) -> None:
    turns = iter(range(100))

    def answer(asked: Asked) -> Said:
        version = next(turns)
        ids = [one["id"] for one in asked.json["items"]]
        system = {"items": ids, "rows": [[1.0]] * len(ids), "scores": [0.5] * len(ids), "problems": []}
        sheet = {"metric": "bleu", "signature": "s", "signature_full": f"bleu|v:{version}", "systems": {"a": system}}
        return ok({"stats": [sheet], "problems": [], "warnings": [], "versions": {}, "data": "x", "items": len(ids)})

    with scripted(answer) as server:
        with refusing(Usage, "bleu|v:1", "bleu|v:0"):
            opened(server.url).score(MANY, metric="bleu", batch=5, at_once=1)
        assert "/v1/scores/combine" not in [asked.path for asked in server.requests]


@pytest.mark.parametrize("lacking", ["scores", "rows", "items", "problems"])
def test_sums_that_lack_something_are_no_answer(opened: Opened, lacking: str) -> None:
    def answer(asked: Asked) -> Said:
        ids = [one["id"] for one in asked.json["items"]]
        system: dict[str, Any] = {
            "items": ids,
            "rows": [[1.0]] * len(ids),
            "scores": [0.5] * len(ids),
            "problems": [],
        }
        del system[lacking]
        sheet = {"metric": "bleu", "signature": "s", "signature_full": "bleu|", "systems": {"a": system}}
        return ok({"stats": [sheet], "problems": [], "warnings": [], "versions": {}})

    asked = lambda one: answer(one) if one.body else problem(404, "not_found")  # noqa: E731  what else it is asked for
    with scripted(asked) as server, refusing(RefaugError, lacking):
        opened(server.url, retry=0).score(MANY, metric="bleu", batch=5)


def test_a_batch_whose_items_are_all_refused_leaves_the_references_of_others(opened: Opened) -> None:
    def answer(asked: Asked) -> Said:
        bad = [place for place, one in enumerate(asked.json["items"]) if one["utterance"] == ""]
        if not bad:
            return echoed(asked)
        listed = [{"item": None, "place": place, "field": f"items[{place}]", "message": "no"} for place in bad]
        return problem(422, "bad_input", "no", errors=listed)

    items = [{"utterance": text} for text in ("a", "b", "", "", "c")]
    with scripted(answer) as server:
        client = opened(server.url)
        found = client.references(items, on_error="report", batch=2)
        assert [one.id for one in found.items] == ["item-0", "item-1", "item-4"]
        assert [one.place for one in found.problems] == [2, 3]
        stream = client.references_iter(items, on_error="report", batch=2)
        assert [one.id for one in stream] == ["item-0", "item-1", "item-4"]
        with pytest.raises(BadInput):
            client.references([*items[2:4], {"utterance": ""}], on_error="report", batch=2)


def test_warnings_of_some_batches_say_of_which(opened: Opened) -> None:
    turns = iter(["3 of 5 are thin", "4 of 5 are thin", "nothing", "5 of 5 are thin"])

    def answer(asked: Asked) -> Said:
        told = f'"warnings": ["always", "{next(turns)}"]'.encode()
        return Said(200, echoed(asked).body.replace(b'"warnings": []', told), {"content-type": "application/json"})

    with scripted(answer) as server:
        found = opened(server.url).references([{"utterance": str(n)} for n in range(20)], batch=5, at_once=1)
    assert found.warnings == [
        "always",
        "3 of 5 are thin (items 0 to 4; likewise in 2 more requests)",
        "nothing (items 10 to 14)",
    ]


# ── how far it is ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_function_is_told_how_many_are_done_and_of_how_many(opened: Opened) -> None:
    with scripted(echoed) as server:
        client, told = opened(server.url), []
        items = [{"utterance": str(n)} for n in range(10)]
        client.references(items, batch=4, progress=lambda done, total: told.append((done, total)))
        assert told == [(4, 10), (8, 10), (10, 10)]
        told.clear()
        client.references(items, progress=lambda done, total: told.append((done, total)))
        assert told == [(10, 10)]
        told.clear()
        list(client.references_iter(iter(items), batch=4, progress=lambda done, total: told.append((done, total))))
        assert told == [(4, None), (8, None), (10, None)]
        told.clear()
        list(client.references_iter(items, batch=4, progress=lambda done, total: told.append((done, total))))
        assert told == [(4, 10), (8, 10), (10, 10)]


def test_a_function_that_raises_stops_the_work(opened: Opened) -> None:
    def enough(done: int, total: Optional[int]) -> None:
        raise KeyError("enough")

    with scripted(echoed) as server:
        with pytest.raises(KeyError, match="enough"):
            opened(server.url).references([{"utterance": str(n)} for n in range(40)], batch=2, progress=enough)
        require_no_senders()
        assert len(server.requests) <= 6


def test_in_a_pipe_progress_is_a_few_lines_on_stderr(
    opened: Opened, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted(echoed) as server:
        opened(server.url).references([{"utterance": str(n)} for n in range(1_000)], batch=5, progress=True)
    said = capsys.readouterr()
    lines = said.err.splitlines()
    assert said.out == ""
    assert lines[0].startswith("items: 5 of 1,000 (0 %), ")
    assert lines[-1].startswith("items: 1,000 of 1,000 (100 %), ")
    assert len(lines) < 20  # not one for each of two hundred requests


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with make_reporter(True, 200, "items") as told:
        for _ in range(4):
            told.advance(50)
        told.stage("train", 10)
        told.reach(10)
    said = screen.getvalue()
    assert said.startswith("\ritems: 50 of 200 (25 %), ")
    assert "\ritems: 200 of 200 (100 %), " in said
    assert said.count("\n") == 2  # one for each stage
    assert "\ntrain" in said.replace("\r", "")


def test_stderr_that_is_closed_or_not_there_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    for file in (closed, None):
        monkeypatch.setattr(sys, "stderr", file)
        with make_reporter(True, 3, "items") as told:
            told.advance(3)
        assert told.done == 3


@pytest.mark.parametrize("progress", ["yes", 5, []])
def test_progress_is_a_function_or_yes_or_no(opened: Opened, progress: Any) -> None:
    client = opened("http://127.0.0.1:9")
    for ask in (client.references, client.references_iter):
        with refusing(Usage, "progress="):
            ask([{"utterance": "x"}], progress=progress)
