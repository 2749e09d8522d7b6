"""A scorer: every reply has one outcome, in order, whatever the server does, and the loop around it goes on."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import pickle
import signal
import statistics
import subprocess
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Optional

import httpx
import pytest
from refusals import refusing
from scripted import DROP, Asked, Scripted, ok, page, problem, scripted

from refaug_client import (
    AsyncClient,
    BadAnswer,
    BadInput,
    Client,
    ConnectionLost,
    NoKey,
    NotFound,
    QueueFull,
    Retry,
    ServerFault,
    TimedOut,
    Unavailable,
    Usage,
    Withdrawn,
    WrongPurpose,
)

SET = "abcdef0123456789"
QUICK = Retry(tries=2, first_s=0.001, most_s=0.01)
TEXTS = ["I buy tea at the market.", "we like red boats", "", "No idea.", "At the market.", "茶を買う", "we like"]


def value_of(item: str, reply: Optional[str]) -> Optional[float]:
    """What the made-up server gives: nothing for an empty reply."""
    return None if not reply else (len(item) + 31 * len(reply)) / 7 + 1 / (1 + ord(reply[0]))


def scores(
    asked: Asked, *, signature: str = "1", purpose: str = "validation", unknown: tuple[str, ...] = (), name: str = SET
) -> Any:
    """The answer of a made-up server to replies."""
    given = asked.json
    pairs = list(zip(given["items"], given["replies"]["model"]))
    values = [None if item in unknown else value_of(item, reply) for item, reply in pairs]
    known = [value for value in values if value is not None]
    one = {
        "signature": f"{(given.get('metrics') or ['default'])[0]}|full:{signature}",
        "signature_full": f"all of it|{signature}",
        "scale": 100.0 if given.get("percent") else 1.0,
        "systems": {"model": {"corpus": max(known, default=None), "values": values}},
    }
    problems = [
        {"item": item, "place": place, "field": f"items[{place}]", "message": f"the set has no item {item!r}"}
        for place, (item, _) in enumerate(pairs)
        if item in unknown or not item
    ]
    return ok({"scores": [one], "set": {"id": name, "purpose": purpose, "items": 9}, "problems": problems})


def replies_of(server: Scripted) -> list[list[Optional[str]]]:
    return [asked.json["replies"]["model"] for asked in server.requests]


def scored(texts: list[str], items: list[str]) -> list[Optional[float]]:
    return [value_of(item, text) for item, text in zip(items, texts)]


def answered_so_often(times: int) -> Callable[[Asked], Any]:
    """Scores at first, and then nothing any more."""
    left = iter(range(times))
    return lambda asked: problem(503) if next(left, None) is None else scores(asked)


class Gate:
    """Holds requests back until a test lets them through."""

    def __init__(self, then: Callable[[Asked], Any] = scores) -> None:
        self.open = threading.Event()
        self.then = then

    def __call__(self, asked: Asked) -> Any:
        self.open.wait(30)
        return self.then(asked)


@pytest.fixture(autouse=True)
def threads_end() -> Iterator[None]:
    """No test leaves a thread of a scorer behind."""
    yield
    left = [one.name for one in threading.enumerate() if one.name.startswith("refaug-scorer")]
    assert left == []


# ── against the real server ───────────────────────────────────────────────────────────────────────────────────────


def asked_plainly(url: str, which: str, texts: list[Any], items: list[str], **more: Any) -> dict[str, Any]:
    """The same scores without a scorer."""
    body = {"items": items, "replies": {"model": texts}, "metrics": ["upsilon-bleu"], "on_error": "report", **more}
    answer = httpx.post(f"{url}/v1/reference-sets/{which}/scores", json=body, timeout=60)
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()["scores"][0]
    return found


def test_scores_are_those_of_the_server_to_the_last_bit_cached_or_not(
    url: str, sets: dict[str, str], tmp_path: Path
) -> None:
    which, items = sets["validation"], [f"d{number % 12}" for number in range(70)]
    texts: list[Optional[str]] = [TEXTS[number % len(TEXTS)] for number in range(70)]
    texts[5] = None
    plain = asked_plainly(url, which, texts, items, **{"return": "values"})
    expected = plain["systems"]["model"]["values"]
    assert len({value for value in expected if value}) > 3
    with Client(url) as client:
        uncached = client.scorer(reference_set=which, cache=None, batch=7)
        memory = client.scorer(reference_set=which)
        disk = client.scorer(reference_set=which, cache=tmp_path / "scores.sqlite")
        for scorer in (uncached, memory, memory, disk, disk):
            assert scorer(texts, items=items) == expected
            assert scorer.signature == plain["signature"]
        again = client.scorer(reference_set=which[:8], cache=tmp_path / "scores.sqlite")
        assert again(texts, items=items) == expected
        assert again.counts.sent == 0
        assert again.counts.from_cache == 69
        assert uncached.counts.from_cache == 0
        assert memory.counts.submitted == 140
        assert memory.counts.requests == 1
        for scorer in (uncached, memory, disk, again):
            assert scorer.corpus(texts, items) == plain["systems"]["model"]["corpus"]


def test_a_corpus_score_is_exact_however_many_replies(
    url: str, sets: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [f"d{number % 12}" for number in range(100)]
    texts = [TEXTS[number % len(TEXTS)] for number in range(100)]
    plain = asked_plainly(url, sets["test"], texts, items)["systems"]["model"]
    with Client(url) as client, client.scorer(reference_set=sets["test"]) as scorer:
        assert scorer.corpus(texts, items) == plain["corpus"]
        assert plain["corpus"] != plain["mean"]
        monkeypatch.setattr("refaug_client._scorer.sources.groups._CORPUS_REPLIES", 7)
        assert scorer.corpus(texts, items) == plain["corpus"]
        with client.scorer(reference_set=sets["test"], percent=True) as percent:
            assert percent.corpus(texts, items) == plain["corpus"] * 100.0
            assert percent(texts[:1], items[:1]) == [plain["replies"][0]["score"] * 100.0]
        assert scorer.corpus([None] * 20, ["d1"] * 20) is None
        assert scorer.corpus([], []) is None
        with refusing(BadInput, "nowhere"):
            scorer.corpus([*texts, "tea"], [*items, "nowhere"])
        monkeypatch.undo()
        with refusing(BadInput, "nowhere"):
            scorer.corpus(["tea"], ["nowhere"])


def test_an_unknown_item_fails_alone(url: str, sets: dict[str, str]) -> None:
    with Client(url) as client, client.scorer(reference_set=sets["train"]) as scorer:
        good = scorer.submit(["we like red boats"] * 3, items=["d1", "d2", "d3"])
        bad = scorer.submit(["we like red boats"] * 3, items=["d1", "nowhere", "d3"])
        after = scorer.submit(["we like red boats"], items=["d2"])
        with refusing(BadInput, "nowhere") as caught:
            bad.result()
        assert caught.value.errors[0]["item"] == "nowhere"
        known = good.result()
        assert None not in known
        assert bad.outcome.scores == [known[0], None, known[2]]
        assert [source == "failed" for source in bad.outcome.sources] == [False, True, False]
        assert repr(good.outcome) == f"Outcome(3 replies, sources={good.outcome.counts()}, tag=None)"
        assert after.result() == known[1:2]
        assert scorer.counts.failed == 1


def test_a_text_that_the_server_refuses_fails_alone(url: str, sets: dict[str, str]) -> None:
    with Client(url) as client, client.scorer(reference_set=sets["train"]) as scorer:
        texts = ["we like red boats", "long " * 5_000, "half \ud83d", "boats"]
        pending = scorer.submit(texts, items=["d1", "d2", "d3", "d\ud83d"])
        beside = scorer.submit(["tea"], items=["d1"])
        assert pending.outcome.sources == ["server", "failed", "failed", "failed"]
        assert isinstance(pending.outcome.error, (Usage, BadInput))
        assert beside.outcome.source == "server"


def test_unknown_set_or_metric_is_an_error_at_once(url: str, sets: dict[str, str]) -> None:
    with Client(url) as client:
        with client.scorer(reference_set="ffffffffffffffff", on_unavailable="skip") as scorer:
            with pytest.raises(NotFound):
                scorer(["tea"], items=["d1"])
            with pytest.raises(NotFound):
                _ = scorer.signature
        with client.scorer(reference_set=sets["train"], metric="nonsense", on_unavailable="skip") as scorer:  # noqa: SIM117  too long for one line
            with refusing(BadInput, "nonsense"):
                scorer(["tea", "boats"], items=["d1", "d2"])


def test_a_set_says_what_it_is_for_and_that_is_obeyed(url: str, sets: dict[str, str]) -> None:
    with Client(url) as client:
        with client.scorer(reference_set=sets["test"]) as scorer:
            assert scorer.set_purpose == "test"
            assert scorer.facts.set == sets["test"]
        with client.scorer(reference_set=sets["test"], purpose="validation") as scorer:  # noqa: SIM117  too long for one line
            with refusing(WrongPurpose):
                scorer(["tea"], items=["d1"])
        with client.scorer(reference_set=sets["train"], on_unavailable="last") as scorer:
            with refusing(WrongPurpose):
                scorer(["tea"], items=["d1"])
            with refusing(WrongPurpose):
                scorer.corpus(["tea"], ["d1"])


def test_an_asyncio_program_awaits_what_it_submitted(url: str, sets: dict[str, str]) -> None:
    async def program() -> list[list[Optional[float]]]:
        async with AsyncClient(url) as client:
            scorer = client.scorer(reference_set=sets["train"])
            pending = [scorer.submit([text], items=["d1"]) for text in TEXTS[:4]]
            return [await one for one in pending]

    plain = asked_plainly(url, sets["train"], TEXTS[:4], ["d1"] * 4, **{"return": "values"})
    assert [one for (one,) in asyncio.run(program())] == plain["systems"]["model"]["values"]


# ── handing in and collecting ─────────────────────────────────────────────────────────────────────────────────────


def test_submit_never_waits_for_the_network_and_results_come_in_order() -> None:
    gate = Gate()
    with scripted(gate) as server, Client(server.url) as client:
        scorer = client.scorer(reference_set=SET, batch=8)
        pending = [scorer.submit([f"{step} a", f"{step} b"], items=["d1", "d2"], tag=step) for step in range(50)]
        assert not any(one.done() for one in pending)  # all were handed in while nothing was answered
        assert list(scorer.collect()) == []
        assert scorer.counts.waiting == 100
        gate.open.set()
        collected = scorer.drain(30)
        assert collected == pending
        assert [one.tag for one in collected] == list(range(50))
        assert [one.result() for one in collected] == [
            scored([f"{step} a", f"{step} b"], ["d1", "d2"]) for step in range(50)
        ]
        assert list(scorer.collect()) == []
        assert scorer.counts.scored == 100
        assert scorer.counts.waiting == 0


def test_what_waits_goes_together_and_what_comes_first_goes_at_once() -> None:
    gate = Gate()
    with scripted(gate) as server, Client(server.url) as client:
        scorer = client.scorer(reference_set=SET, batch=10, at_once=1)
        scorer.submit(["first"], items=["d1"])
        server.until(1)  # it did not wait for more
        for number in range(25):
            scorer.submit([f"later {number}"], items=["d1"])
        gate.open.set()
        scorer.drain(30)
        assert [len(one) for one in replies_of(server)] == [1, 10, 10, 5]


def waited_for(way: str, scorer: Any, pending: Any) -> None:
    """Somebody wants the scores now, in one way or another."""
    if way == "result":
        pending.result(30)
    elif way == "drain":
        scorer.drain(30)
    elif way == "await":
        asyncio.run(_awaited(pending))
    elif way == "close":
        scorer.close(30)


async def _awaited(pending: Any) -> Any:
    return await pending


@pytest.mark.parametrize("way", ["result", "drain", "await", "close", "call"])
def test_while_a_request_is_on_its_way_replies_gather_until_somebody_waits(way: str) -> None:
    gate = Gate()
    with scripted(gate) as server, Client(server.url) as client, client.scorer(reference_set=SET) as scorer:
        scorer._workers.queue.gather_s = 3600
        scorer.submit(["first"], items=["d1"])
        server.until(1)
        pending = [scorer.submit([f"later {number}"], items=["d1"]) for number in range(3)][-1]
        if way == "call":
            waiting = threading.Thread(target=scorer, args=(["now"], ["d1"]))
        else:
            waiting = threading.Thread(target=waited_for, args=(way, scorer, pending))
        assert len(server.requests) == 1
        waiting.start()
        server.until(2)  # beside the first, which is still held
        gate.open.set()
        waiting.join()
        assert replies_of(server) == [["first"], ["later 0", "later 1", "later 2", *["now"][: way == "call"]]]


def test_who_waits_for_room_has_what_gathers_sent() -> None:
    gate = Gate()
    with scripted(gate) as server, Client(server.url) as client, client.scorer(reference_set=SET, queue=2) as scorer:
        scorer._workers.queue.gather_s = 3600
        scorer.submit(["first"], items=["d1"])
        server.until(1)
        scorer.submit(["second"], items=["d1"])
        waiting = threading.Thread(target=scorer.submit, args=(["third"], ["d1"]))
        waiting.start()
        server.until(2)  # beside the first, which is still held
        gate.open.set()
        waiting.join()
        scorer.drain(30)
        assert replies_of(server) == [["first"], ["second"], ["third"]]


def test_full_batch_goes_beside_a_running_request_and_the_rest_gathers() -> None:
    gate = Gate()
    with scripted(gate) as server, Client(server.url) as client:
        scorer = client.scorer(reference_set=SET, batch=4, at_once=3)
        scorer._workers.queue.gather_s = 3600
        scorer.submit(["first"], items=["d1"])
        server.until(1)
        for number in range(5):
            scorer.submit([f"later {number}"], items=["d1"])
        server.until(2)
        gate.open.set()
        scorer.drain(30)
        assert [len(one) for one in replies_of(server)] == [1, 4, 1]


def test_what_gathers_goes_after_a_while_though_nobody_waits() -> None:
    gate = Gate()
    with scripted(gate) as server, Client(server.url) as client:
        scorer = client.scorer(reference_set=SET)
        for number in range(2):
            scorer.submit([f"reply {number}"], items=["d1"])
            server.until(number + 1)
        gate.open.set()
        assert [one.result() for one in scorer.drain(30)] == [scored([f"reply {number}"], ["d1"]) for number in (0, 1)]


def test_with_a_time_limit_a_quarter_of_it_is_the_most_that_replies_gather() -> None:
    with scripted(scores) as server, Client(server.url) as client:
        limits = {None: 0.25, 100.0: 0.25, 0.4: 0.1}
        found = {limit: client.scorer(reference_set=SET, max_wait_s=limit)._workers.queue.gather_s for limit in limits}
        assert found == limits


def test_collect_stops_at_the_first_that_is_not_finished() -> None:
    held = threading.Event()

    def answer(asked: Asked) -> Any:
        if asked.json["replies"]["model"] == ["slow"]:
            held.wait(30)
        return scores(asked)

    with scripted(answer) as server, Client(server.url) as client:
        scorer = client.scorer(reference_set=SET, at_once=2, batch=1)
        slow = scorer.submit(["slow"], items=["d1"], tag="slow")
        server.until(1)
        quick = scorer.submit(["quick"], items=["d1"], tag="quick")
        assert quick.result(30) == scored(["quick"], ["d1"])
        third = scorer.submit(["third"], items=["d1"], tag="third")
        scorer._waiter.wait(third._submission, 30)
        assert list(scorer.collect()) == []
        assert slow.done() is False
        held.set()
        scorer._waiter.wait(slow._submission, 30)
        assert [one.tag for one in scorer.collect()] == ["slow", "third"]  # quick was taken by itself


def test_the_same_reply_to_the_same_item_is_sent_once() -> None:
    with scripted(scores) as server, Client(server.url) as client:
        scorer = client.scorer(reference_set=SET)
        assert scorer(["tea", "tea", "boats", "tea"], items=["d1", "d1", "d1", "d2"]) == scored(
            ["tea", "tea", "boats", "tea"], ["d1", "d1", "d1", "d2"]
        )
        assert replies_of(server) == [["tea", "boats", "tea"]]
        assert scorer(["tea", "new"], items=["d2", "d1"]) == scored(["tea", "new"], ["d2", "d1"])
        assert replies_of(server)[1:] == [["new"]]
        assert scorer.counts.to_dict() == {
            **dict.fromkeys(scorer.counts.to_dict(), 0),
            "submitted": 6,
            "scored": 6,
            "from_cache": 1,
            "sent": 4,
            "requests": 2,
        }


def test_no_reply_and_no_score_are_none_and_counted() -> None:
    with scripted(scores) as server, Client(server.url) as client:
        scorer = client.scorer(reference_set=SET)
        pending = scorer.submit([None, "", "tea"], items=["d1", "d1", "d1"])
        assert pending.result() == [None, None, value_of("d1", "tea")]
        assert pending.outcome.sources == ["no-reply", "server", "server"]
        assert scorer([None, ""], items=["d2", "d1"]) == [None, None]
        assert replies_of(server) == [["", "tea"]]
        assert (scorer.counts.scored, scorer.counts.unscored, scorer.counts.from_cache) == (1, 4, 1)


def test_more_than_a_batch_is_split_and_put_together_again() -> None:
    texts = [f"{number:05} " + "x" * (number % 17) for number in range(1_003)]
    with scripted(scores) as server, Client(server.url) as client:
        scorer = client.scorer(reference_set=SET, batch=50, queue=100)  # a submit larger than the queue goes in alone
        assert scorer(iter(texts), items=(f"d{len(text)}" for text in texts)) == scored(
            texts, [f"d{len(text)}" for text in texts]
        )
        assert max(map(len, replies_of(server))) == 50
        assert sorted(text or "" for sent in replies_of(server) for text in sent) == texts


def test_nothing_handed_in_is_done_at_once() -> None:
    with Client("http://127.0.0.1:9", retry=0) as client:
        scorer = client.scorer(reference_set=SET)
        assert scorer([], items=[]) == []
        pending = scorer.submit([], items=[], tag="none")
        assert pending.done()
        assert [one.tag for one in scorer.collect()] == ["none"]
        assert pending.outcome.source == "none"
        assert scorer([None, None], items=["d1", "d2"]) == [None, None]


@pytest.mark.parametrize(
    ("replies", "items", "said"),
    [
        ("tea", ["d1"], "replies"),
        (["tea"], "d1", "items"),
        (["tea"], ["d1", "d2"], "1 replies and 2 items"),
        (["tea", 3], ["d1", "d2"], "replies[1]"),
        (["tea", float("nan")], ["d1", "d2"], "replies[1]"),
        (["tea"], [7], "items[0]"),
        (["tea"], [None], "items[0]"),
        ([b"tea"], ["d1"], "replies[0]"),
        ({"d1": "tea"}, ["d1"], "replies"),
        (None, None, "NoneType"),
        (5, ["d1"], "replies"),
    ],
)
def test_what_cannot_be_replies_is_refused_before_anything_is_sent(replies: Any, items: Any, said: str) -> None:
    with Client("http://127.0.0.1:9") as client:
        scorer = client.scorer(reference_set=SET)
        for hand_in in (scorer, scorer.submit, scorer.corpus):
            with refusing(Usage, said):
                hand_in(replies, items)
        assert scorer.counts.submitted == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"on_unavailable": "mask"}, {"on_full": "wait"}, {"batch": 0}, {"queue": -1}, {"at_once": True}, {"batch": 1.5},
        {"max_wait_s": 0}, {"max_wait_s": "5"}, {"max_wait_s": float("nan")}, {"cache": ""}, {"cache_mib": 0},
        {"cache_entries": 0}, {"exit_wait_s": -1}, {"purpose": "fun"}, {"reference_set": ""}, {"reference_set": None},
        {"max_wait_s": float("inf")}, {"cache": 7}, {"metric": ["bleu"]}, {"language": 3}, {"percent": "no"},
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with Client("http://127.0.0.1:9") as client, pytest.raises(Usage):
        client.scorer(**{"reference_set": SET, **settings})


# ── when there is no room ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_full_queue_raises_or_drops_and_counts() -> None:
    gate = Gate()
    with scripted(gate) as server, Client(server.url) as client:
        raising = client.scorer(reference_set=SET, queue=4, on_full="raise")
        taken = [raising.submit(["a", "b"], items=["d1", "d1"]) for _ in range(2)]
        with refusing(QueueFull):
            raising.submit(["c"], items=["d1"])
        assert raising.counts.submitted == 4
        dropping = client.scorer(reference_set=SET, queue=4, on_full="drop")
        first = dropping.submit(["a", "b", "c"], items=["d1"] * 3, tag=1)
        second = dropping.submit(["d", "e"], items=["d1"] * 2, tag=2)
        third = dropping.submit(["f"], items=["d1"], tag=3)
        assert second.done()
        assert second.result() == [None, None]
        assert second.outcome.source == "dropped"
        gate.open.set()
        assert [one.tag for one in dropping.drain(30)] == [1, 3]
        assert first.result() == scored(["a", "b", "c"], ["d1"] * 3)
        assert third.outcome.source == "server"
        assert (dropping.counts.dropped, dropping.counts.scored) == (2, 4)
        assert [one.result() for one in taken] == [scored(["a", "b"], ["d1"] * 2)] * 2


def test_a_full_queue_blocks_until_there_is_room() -> None:
    gate = Gate()
    with scripted(gate) as server, Client(server.url) as client:
        scorer = client.scorer(reference_set=SET, queue=2)
        scorer.submit(["a", "b"], items=["d1", "d1"], tag=0)
        through = threading.Event()

        def more() -> None:
            scorer.submit(["c"], items=["d1"], tag=1)
            through.set()

        blocked = threading.Thread(target=more)
        blocked.start()
        server.until(1)
        assert not through.is_set()
        gate.open.set()
        assert through.wait(30)
        blocked.join()
        assert [one.tag for one in scorer.drain(30)] == [0, 1]


def test_a_full_queue_blocks_no_longer_than_a_reply_may_wait(capsys: pytest.CaptureFixture[str]) -> None:
    gate = Gate()
    with scripted(gate) as server, Client(server.url) as client:
        scorer = client.scorer(reference_set=SET, queue=1, max_wait_s=0.1, on_unavailable="skip")
        first, second = scorer.submit(["a"], items=["d1"]), scorer.submit(["b"], items=["d1"])
        assert second.result() == [None]  # there may have been room for a moment, when the first one's time was over
        assert (first.outcome.source, second.outcome.source) == ("skipped", "skipped")
        gate.open.set()
    assert "2 skipped" in capsys.readouterr().err


# ── when the server does not answer ───────────────────────────────────────────────────────────────────────────────


def test_an_error_that_passes_is_tried_again_and_counted() -> None:
    turns = iter([problem(429, retry_after=0), page(502), DROP, problem(503, retry_after=0)])
    with scripted(lambda asked: next(turns, None) or scores(asked)) as server:  # noqa: SIM117  too long for one line
        with Client(server.url, retry=Retry(first_s=0.001)) as client:
            scorer = client.scorer(reference_set=SET)
            assert scorer(["tea"], items=["d1"]) == scored(["tea"], ["d1"])
            assert (scorer.counts.requests, scorer.counts.retries) == (1, 4)
            assert "5 requests, 4 of them again" in scorer.report


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (problem(503), Unavailable),
        (page(504), BadAnswer),
        (page(200), BadAnswer),
        (DROP, ConnectionLost),
        (problem(500, "internal"), ServerFault),
    ],
)
def test_raise_raises_skip_skips_and_both_count(
    answer: Any, kind: type[Exception], capsys: pytest.CaptureFixture[str]
) -> None:
    with scripted([answer]) as server, Client(server.url, retry=0) as client:
        raising = client.scorer(reference_set=SET)
        with pytest.raises(kind):
            raising(["tea", "boats"], items=["d1", "d2"])
        pending = raising.submit(["tea"], items=["d1"])
        assert pending.outcome.source == "failed"
        assert isinstance(pending.outcome.error, kind)
        assert raising.counts.failed == 3
        skipping = client.scorer(reference_set=SET, on_unavailable="skip")
        assert skipping(["tea", None], items=["d1", "d2"]) == [None, None]
        assert (skipping.counts.skipped, skipping.counts.unscored) == (1, 1)
        assert capsys.readouterr().err == ""
        skipping.close()
        raising.close()
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "1 skipped, since nobody answered in time" in said


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(problem(401, "no_key"), NoKey), (problem(410, "withdrawn"), Withdrawn), (problem(404), NotFound)],
)
def test_a_mistake_is_never_skipped(answer: Any, kind: type[Exception]) -> None:
    with scripted([answer]) as server, Client(server.url, retry=0) as client:
        scorer = client.scorer(reference_set=SET, on_unavailable="skip")
        with pytest.raises(kind):
            scorer(["tea"], items=["d1"])
        assert scorer.counts.failed == 1


def test_last_gives_an_items_last_value_and_nothing_that_nobody_gave(capsys: pytest.CaptureFixture[str]) -> None:
    with scripted(answered_so_often(2)) as server, Client(server.url, retry=0) as client:
        scorer = client.scorer(reference_set=SET, on_unavailable="last")
        scorer(["tea", "", "x"], items=["d1", "d2", "d4"])
        scorer(["more tea"], items=["d1"])
        pending = scorer.submit(["new", "newer", "newest", "tea"], items=["d1", "d2", "d3", "d1"])
        assert pending.result() == [value_of("d1", "more tea"), None, None, value_of("d1", "tea")]
        assert pending.outcome.sources == ["last", "skipped", "skipped", "cache"]
        assert pending.outcome.source == "mixed"
        assert (scorer.counts.last, scorer.counts.skipped) == (1, 2)
    assert "1 with the item's last value instead" in capsys.readouterr().err


def test_a_corpus_score_is_skipped_or_repeated_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    for mode, expected in (("skip", None), ("last", value_of("d1", "longest reply"))):
        with scripted(answered_so_often(1)) as server, Client(server.url, retry=0) as client:
            scorer = client.scorer(reference_set=SET, on_unavailable=mode)  # type: ignore[arg-type]
            assert scorer.corpus(["longest reply", "x"], ["d1", "d2"]) == value_of("d1", "longest reply")
            assert scorer.corpus(["another", "y"], ["d1", "d2"]) == expected
            assert scorer.corpus(["another", "y"], ["d1", "d3"]) is None
            counts = scorer.counts
            assert (counts.corpora, counts.corpora_skipped, counts.corpora_last) == (
                (1, 2, 0) if mode == "skip" else (1, 1, 1)
            )
    assert capsys.readouterr().err.count("corpus scores") == 3
    with scripted([problem(503)]) as server, Client(server.url, retry=0) as client, pytest.raises(Unavailable):
        client.scorer(reference_set=SET).corpus(["tea"], ["d1"])


def test_reply_waits_no_longer_than_its_limit_and_late_answers_are_ignored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gate = Gate()
    with scripted(gate) as server, Client(server.url) as client:
        scorer = client.scorer(reference_set=SET, on_unavailable="skip", max_wait_s=0.05)
        pending = scorer.submit(["tea"], items=["d1"])
        assert pending.result() == [None]
        assert pending.outcome.source == "skipped"
        gate.open.set()
        raising = client.scorer(reference_set=SET, max_wait_s=0.05)
        gate.open.clear()
        with pytest.raises(TimedOut):
            raising(["tea"], items=["d1"])
        gate.open.set()
        scorer.close()
        raising.close()
        assert pending.outcome.scores == [None]
        assert (scorer.counts.skipped, scorer.counts.scored) == (1, 0)
        assert (raising.counts.failed, raising.counts.scored) == (1, 0)
    capsys.readouterr()


def test_an_awaited_reply_waits_no_longer_than_it_may(capsys: pytest.CaptureFixture[str]) -> None:
    gate = Gate()

    async def program(url: str) -> Any:
        async with AsyncClient(url) as client:
            scorer = client.scorer(reference_set=SET, on_unavailable="skip", max_wait_s=0.05)
            found = await scorer.submit(["tea"], items=["d1"])
            gate.open.set()
            return found

    with scripted(gate) as server:
        assert asyncio.run(program(server.url)) == [None]
    assert "1 skipped" in capsys.readouterr().err


def test_result_gives_up_and_may_be_asked_again() -> None:
    gate = Gate()
    with scripted(gate) as server, Client(server.url) as client:
        scorer = client.scorer(reference_set=SET)
        pending = scorer.submit(["tea"], items=["d1"])
        for ask in (pending.result, scorer.drain):
            with refusing(TimedOut):
                ask(0.01)
        gate.open.set()
        assert pending.result(30) == scored(["tea"], ["d1"])
        assert scorer.drain(0) == []


def test_unreachable_server_rests_so_that_the_training_loop_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    away = threading.Event()
    away.set()
    monkeypatch.setattr("refaug_client._scorer.sources.set_client._FIRST_REST_S", 1_000.0)
    monkeypatch.setattr("refaug_client._scorer.sources.set_client._LONGEST_REST_S", 1_000.0)
    with scripted(lambda asked: problem(503) if away.is_set() else scores(asked)) as server:  # noqa: SIM117  too long for one line
        with Client(server.url, retry=0) as client:
            scorer = client.scorer(reference_set=SET, on_unavailable="skip")
            for number in range(20):
                assert scorer.corpus(["tea"], items=["d1"]) is None
                assert scorer([f"{number}"], items=["d1"]) == [None]
            assert len(server.requests) == 1
            away.clear()
            scorer._server.rest.until = 0.0  # the while is over
            assert scorer(["tea"], items=["d1"]) == scored(["tea"], ["d1"])
            assert scorer(["more"], items=["d1"]) == scored(["more"], ["d1"])
            assert (scorer.counts.skipped, scorer.counts.scored) == (20, 2)
            raising = client.scorer(reference_set=SET)
            away.set()
            for _ in range(3):  # who wants errors gets the server's
                with pytest.raises(Unavailable):
                    raising(["other"], items=["d1"])
    capsys.readouterr()


@pytest.mark.parametrize(
    ("retry", "limit"), [(QUICK, {"max_wait_s": 60}), (Retry(draw=lambda: 0.0), {})], ids=["limit", "default"]
)
def test_retries_are_limited_by_time_not_by_number(retry: Retry, limit: dict[str, float]) -> None:
    turns = iter([problem(503, retry_after=0)] * 30)
    with scripted(lambda asked: next(turns, None) or scores(asked)) as server:  # noqa: SIM117  too long for one line
        with Client(server.url, retry=retry) as client:
            scorer = client.scorer(reference_set=SET, **limit)
            assert scorer(["tea"], items=["d1"]) == scored(["tea"], ["d1"])
            assert scorer.counts.retries == 30


def answered(values: list[Any], corpus: Any = 1.0) -> dict[str, Any]:
    system = {"model": {"corpus": corpus, "values": values}}
    one = {"signature": "s", "signature_full": "f", "scale": 1.0, "systems": system}
    return {"scores": [one], "set": {"id": SET, "purpose": "test"}, "problems": []}


@pytest.mark.parametrize(
    "garbage",
    [
        {},
        {"scores": []},
        {"scores": [{}]},
        [],
        answered([1.0]),
        answered([1.0, 2.0, 3.0]),
        answered([1.0, "2"]),
        answered([1.0, float("nan")]),
        answered([1.0, float("inf")]),
        answered([1.0, True]),
        answered([1.0, 2.0], corpus="1"),
        {**answered([1.0, 2.0]), "set": None},
        {**answered([1.0, 2.0]), "problems": [{"place": 2, "message": "not there"}]},
    ],
)
def test_an_answer_that_does_not_fit_is_no_score(garbage: Any) -> None:
    with scripted([ok(garbage)]) as server, Client(server.url, retry=0) as client:
        scorer = client.scorer(reference_set=SET)
        outcome = scorer.submit(["tea", "boats"], items=["d1", "d2"]).outcome
        assert outcome.scores == [None, None]
        assert outcome.sources == ["failed", "failed"]
        assert scorer.counts.scored == 0


def test_one_bad_submit_does_not_take_the_others_with_it() -> None:
    gate = Gate()

    def answer(asked: Asked) -> Any:
        gate.open.wait(30)
        texts = asked.json["replies"]["model"]
        return problem(422, "bad_input", "not this one") if "bad" in texts else scores(asked)

    with scripted(answer) as server, Client(server.url, retry=0) as client:
        scorer = client.scorer(reference_set=SET, at_once=1)
        scorer.submit(["first"], items=["d1"])
        server.until(1)
        pending = [scorer.submit([text], items=["d1"], tag=text) for text in ("a", "b", "bad", "c", "d")]
        gate.open.set()
        assert [one.outcome.source for one in pending] == ["server", "server", "failed", "server", "server"]
        with refusing(BadInput):
            pending[2].result()


def test_a_request_that_is_too_large_is_halved_until_it_is_not() -> None:
    def answer(asked: Asked) -> Any:
        return problem(413, "too_large") if len(asked.json["items"]) > 3 else scores(asked)

    texts = [f"reply {number}" for number in range(20)]
    with scripted(answer) as server, Client(server.url, retry=0) as client:
        scorer = client.scorer(reference_set=SET)
        assert scorer(texts, items=["d1"] * 20) == scored(texts, ["d1"] * 20)
        assert [text for sent in replies_of(server) if len(sent) <= 3 for text in sent] == texts
    with scripted([problem(413, "too_large")]) as server, Client(server.url, retry=0) as client:
        scorer = client.scorer(reference_set=SET)
        with pytest.raises(BadInput):
            scorer(["tea", "boats"], items=["d1", "d2"])
        assert scorer.counts.failed == 2


def test_request_too_large_for_a_proxy_is_halved_not_taken_as_outage() -> None:
    def answer(asked: Asked) -> Any:
        return page(413, "<html>Request Entity Too Large</html>") if len(asked.json["items"]) > 3 else scores(asked)

    texts = [f"reply {number}" for number in range(10)]
    with scripted(answer) as server, Client(server.url, retry=0) as client:
        scorer = client.scorer(reference_set=SET, on_unavailable="skip")
        assert scorer(texts, items=["d1"] * 10) == scored(texts, ["d1"] * 10)
    with scripted([page(413)]) as server, Client(server.url, retry=0) as client:
        scorer = client.scorer(reference_set=SET, on_unavailable="skip")
        with pytest.raises(BadAnswer):
            scorer(["tea"], items=["d1"])
        assert (scorer.counts.failed, scorer.counts.skipped) == (1, 0)


def sums(asked: Asked, rows: Optional[list[Any]] = None) -> Any:
    """The answer of a made-up server that is asked for sums."""
    items = asked.json["items"]
    system = {"items": items, "rows": [[1.0]] * len(items), "scores": [0.5] * len(items), "problems": []}
    if rows is not None:
        system.update(items=items[: len(rows)], rows=rows, scores=[0.5] * len(rows))
    sheet = {"metric": "bleu", "signature": "s", "signature_full": "s|more", "systems": {"model": system}}
    return ok({"stats": [sheet], "problems": [], "warnings": [], "data": {"items": len(items)}})


@pytest.mark.parametrize("proxy", [False, True])
def test_sums_of_a_corpus_that_are_too_large_are_not_asked_for_again(
    proxy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refaug_client._scorer.sources.groups._CORPUS_REPLIES", 8)
    too_large = page(413) if proxy else problem(413, "too_large")

    def answer(asked: Asked) -> Any:
        if asked.path == "/v1/scores/combine":
            return too_large
        if asked.json.get("return") == "values":
            return scores(asked)
        return too_large if len(asked.json["items"]) > 4 else sums(asked)

    with scripted(answer) as server, Client(server.url, retry=0) as client:
        scorer = client.scorer(reference_set=SET)
        with pytest.raises(BadAnswer if proxy else BadInput):
            scorer.corpus(["tea"] * 12, ["d1"] * 12)
        sizes = [len(asked.json["items"]) for asked in server.requests if asked.json.get("return") == "stats"]
        assert sizes == [8, 4, 4, 4]  # halved once, where that helps
        (body,) = [asked.json for asked in server.requests if asked.path == "/v1/scores/combine"]
        assert [batch["stats"][0]["systems"]["model"]["rows"] for batch in body["batches"]] == [[[1.0]] * 4] * 3
        assert "scores" not in body["batches"][0]["stats"][0]["systems"]["model"]


@pytest.mark.parametrize("garbage", [{"hello": 1}, {"scores": []}, {"stats": [], "problems": []}, "short"])
@pytest.mark.parametrize("most", [2, 8])
def test_a_corpus_score_out_of_an_answer_that_does_not_fit_is_no_score(
    garbage: Any, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refaug_client._scorer.sources.groups._CORPUS_REPLIES", most)

    def answer(asked: Asked) -> Any:
        if asked.json["items"] == [""]:
            return scores(asked)
        return sums(asked, rows=[[1.0]]) if garbage == "short" else ok(garbage)

    with scripted(answer) as server, Client(server.url, retry=0) as client:
        scorer = client.scorer(reference_set=SET, on_unavailable="skip")
        with pytest.raises(BadAnswer):
            scorer.corpus(["tea", "x", "y"], ["d1", "d2", "d3"])


@pytest.mark.parametrize("corpus", [{"model": {}}, {"model": {"corpus": "0.5"}}, {"model": {"corpus": float("nan")}}])
def test_sums_that_come_together_as_no_number_are_no_score(corpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refaug_client._scorer.sources.groups._CORPUS_REPLIES", 2)

    def answer(asked: Asked) -> Any:
        if asked.path == "/v1/scores/combine":
            return ok({"scores": [{"systems": corpus}]})
        return scores(asked) if asked.json.get("return") == "values" else sums(asked)

    with scripted(answer) as server, Client(server.url, retry=0) as client:
        scorer = client.scorer(reference_set=SET)
        with pytest.raises(BadAnswer):
            scorer.corpus(["tea", "x", "y"], ["d1", "d2", "d3"])


@pytest.mark.parametrize("settings", [{"purpose": "validation"}, {"on_unavailable": "last"}])
def test_set_of_wrong_purpose_is_refused_each_time_despite_a_cache(settings: dict[str, Any], tmp_path: Path) -> None:
    with scripted(partial(scores, purpose="train")) as server, Client(server.url) as client:
        client.scorer(reference_set=SET, cache=tmp_path / "scores.sqlite")(["tea"], items=["d1"])
        scorer = client.scorer(reference_set=SET, cache=tmp_path / "scores.sqlite", **settings)
        for _ in range(3):
            with pytest.raises(WrongPurpose):
                scorer(["tea"], items=["d1"])
            with pytest.raises(WrongPurpose):
                scorer.signature  # noqa: B018
        assert (scorer.counts.failed, scorer.counts.scored) == (3, 0)


def test_the_last_value_of_another_signature_stands_for_nothing() -> None:
    signature, away = ["1"], []
    answer = lambda asked: problem(503) if away else scores(asked, signature=signature[0])  # noqa: E731
    with scripted(answer) as server, Client(server.url, retry=0) as client:
        scorer = client.scorer(reference_set=SET, on_unavailable="last", cache=None)
        scorer(["tea", "tea"], items=["d1", "d2"])
        scorer.corpus(["tea"], ["d1"])
        signature[0] = "2"
        scorer(["boats"], items=["d2"])
        away.append(True)
        pending = scorer.submit(["x", "x"], items=["d1", "d2"])
        assert pending.outcome.sources == ["skipped", "last"]
        assert pending.outcome.scores == [None, value_of("d2", "boats")]
        assert scorer.corpus(["x"], ["d1"]) is None


def test_a_replaced_server_is_noticed_and_old_scores_are_not_used(caplog: pytest.LogCaptureFixture) -> None:
    signature = ["1"]
    with scripted(lambda asked: scores(asked, signature=signature[0])) as server, Client(server.url) as client:
        scorer = client.scorer(reference_set=SET)
        scorer(["tea", "boats"], items=["d1", "d1"])
        signature[0] = "2"
        pending = scorer.submit(["tea", "new"], items=["d1", "d1"])
        assert pending.outcome.signature == "upsilon-bleu|full:2"
        assert pending.outcome.sources == ["server", "server"]  # not one of each signature
        assert scorer(["boats"], items=["d1"]) == scored(["boats"], ["d1"])
        assert scorer.signatures == ["upsilon-bleu|full:1", "upsilon-bleu|full:2"]
        assert scorer.signature == "upsilon-bleu|full:2"
        assert (scorer.counts.signature_changes, scorer.counts.from_cache) == (1, 0)
    assert "scores change their meaning" in caplog.text


def test_a_file_of_another_servers_version_is_not_used(tmp_path: Path) -> None:
    for signature, cached in (("1", 0), ("1", 2), ("2", 0), ("2", 2), ("1", 2)):
        with scripted(partial(scores, signature=signature)) as server, Client(server.url) as client:
            scorer = client.scorer(reference_set=SET[:6], cache=tmp_path / "scores.sqlite")
            assert scorer(["tea", ""], items=["d1", "d1"]) == [value_of("d1", "tea"), None]
            assert (scorer.counts.from_cache, scorer.counts.sent) == (cached, 2 - cached)


def test_metrics_languages_and_percent_have_scores_of_their_own(tmp_path: Path) -> None:
    with scripted(scores) as server, Client(server.url) as client:
        for settings in ({}, {"metric": "bleu"}, {"metric": None}, {"language": "ja"}, {"percent": True}):
            scorer = client.scorer(reference_set=SET, cache=tmp_path / "scores.sqlite", **settings)  # type: ignore[arg-type]
            scorer(["tea"], items=["d1"])
            assert scorer.counts.from_cache == 0, settings
        asked = [one.json for one in server.requests if one.json["items"] == ["d1"]]
        assert [one.get("metrics") for one in asked] == [["upsilon-bleu"], ["bleu"], None, *[["upsilon-bleu"]] * 2]
        assert [one.get("language") for one in asked] == [None, None, None, "ja", None]
        assert [one.get("percent") for one in asked] == [None, None, None, None, True]


# ── threads, processes, the end ───────────────────────────────────────────────────────────────────────────────────


def test_every_reply_has_one_outcome_while_the_server_comes_and_goes(capsys: pytest.CaptureFixture[str]) -> None:
    """A thousand submits from four threads, each third answer lost or refused in some way."""
    kinds = [scores, scores, DROP, scores, problem(429, retry_after=0), scores, page(502), scores, problem(503)]
    turn = iter(range(10**6))

    def answer(asked: Asked) -> Any:
        kind = kinds[next(turn) % len(kinds)]
        return kind(asked) if callable(kind) else kind

    with scripted(answer) as server, Client(server.url, retry=Retry(tries=3, first_s=0.001)) as client:
        scorer = client.scorer(reference_set=SET, on_unavailable="skip", batch=16, queue=200, cache=None)
        made: dict[int, list[Any]] = {}

        def work(me: int) -> None:
            made[me] = [scorer.submit([f"{me} {n} {k}" for k in range(3)], [f"d{n}"] * 3, (me, n)) for n in range(250)]

        threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        collected = scorer.drain(60)
        assert Counter(one.tag for one in collected) == Counter((me, n) for me in range(4) for n in range(250))
        for me in range(4):
            assert [one.tag for one in collected if one.tag[0] == me] == [(me, n) for n in range(250)]
        for one in collected:
            me, n = one.tag
            expected = scored([f"{me} {n} {k}" for k in range(3)], [f"d{n}"] * 3)
            for score, source, value in zip(one.outcome.scores, one.outcome.sources, expected):
                assert (score, source) in ((value, "server"), (None, "skipped"))
        counts = scorer.counts
        assert counts.submitted == 3_000 == counts.scored + counts.skipped
        assert counts.waiting == 0
        assert counts.scored == sum(one.outcome.counts().get("server", 0) for one in collected)
    capsys.readouterr()


def test_close_fails_what_is_left_and_keeps_what_is_known() -> None:
    gate = Gate()
    with scripted(gate) as server:
        client = Client(server.url)
        scorer = client.scorer(reference_set=SET)
        pending = scorer.submit(["tea"], items=["d1"])
        server.until(1)
        scorer.close(0)
        assert [one.name for one in threading.enumerate() if one.name.startswith("refaug-scorer")] == []
        with refusing(Usage):
            pending.result()
        assert scorer.counts.failed == 1
        for ask in (scorer, scorer.submit, scorer.corpus):
            with refusing(Usage, "closed"):
                ask(["tea"], ["d1"])
        with refusing(Usage, "closed"):
            _ = scorer.signature
        scorer.close()
        gate.open.set()
        client.close()


def test_close_waits_for_running_requests_and_client_closes_its_scorers() -> None:
    gate = Gate()
    with scripted(gate) as server:
        with Client(server.url) as client:
            scorer = client.scorer(reference_set=SET, exit_wait_s=30)
            pending = scorer.submit(["tea"], items=["d1"])
            server.until(1)
            threading.Timer(0.05, gate.open.set).start()
        assert pending.result() == scored(["tea"], ["d1"])
        assert [one.outcome.source for one in scorer.collect()] == []
        with refusing(Usage, "closed"):
            scorer.submit(["tea"], items=["d1"])


def test_an_error_in_the_block_does_not_wait_for_scores() -> None:
    gate = Gate()
    with scripted(gate) as server:
        with pytest.raises(ZeroDivisionError), Client(server.url) as client:  # noqa: PT012  of the block it is about
            scorer = client.scorer(reference_set=SET, exit_wait_s=10_000)
            pending = scorer.submit(["tea"], items=["d1"])
            raise ZeroDivisionError
        assert pending.outcome.source == "failed"
        gate.open.set()


def test_a_child_that_is_forked_while_threads_work_never_hangs() -> None:
    with scripted(scores) as server, Client(server.url) as client:
        scorer = client.scorer(reference_set=SET, batch=4)
        for number in range(10):
            for step in range(20):
                scorer.submit([f"{number} {step}"], items=["d1"])
            child = os.fork()
            if child == 0:  # pragma: no cover
                code = 1
                try:
                    signal.alarm(60)
                    code = 0 if scorer([f"child {number}"], items=["d2"]) == scored([f"child {number}"], ["d2"]) else 2
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0
        assert len(scorer.drain(30)) == 200


def test_a_handed_in_http_client_is_used_and_does_not_travel() -> None:
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        said = scores(Asked(request.method, request.url.path, {}, request.content))
        seen.append(request.url.path)
        return httpx.Response(200, content=said.body, headers=said.headers)

    with httpx.Client(transport=httpx.MockTransport(answer)) as http, Client("http://there", http=http) as client:
        scorer = client.scorer(reference_set=SET)
        assert scorer(["tea"], items=["d1"]) == scored(["tea"], ["d1"])
        assert seen == [f"/v1/reference-sets/{SET}/scores"]
        with refusing(Usage):
            pickle.dumps(scorer)
        scorer.close()
        assert not http.is_closed

    async def program() -> None:
        async with httpx.AsyncClient() as http, AsyncClient("http://there", http=http) as client:
            with refusing(Usage):
                client.scorer(reference_set=SET)

    asyncio.run(program())


def test_a_scorer_that_nobody_closed_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refaug_client._scorer.workers._IDLE_S", 0.01)
    with scripted(scores) as server, Client(server.url) as client:
        scorer = client.scorer(reference_set=SET)
        scorer(["tea"], items=["d1"])
        threads = [one for one in threading.enumerate() if one.name.startswith("refaug-scorer")]
        for thread in threads:
            thread.join(30)  # idle threads end by themselves
        assert scorer(["more"], items=["d1"]) == scored(["more"], ["d1"])  # and are begun again
        for thread in [one for one in threading.enumerate() if one.name.startswith("refaug-scorer")]:
            thread.join(30)
        scorer._server.close()
        gone = weakref.ref(scorer)
        del scorer
        gc.collect()
        assert gone() is None


def test_what_was_skipped_is_said_of_a_scorer_that_nobody_closed_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("refaug_client._scorer.workers._IDLE_S", 0.01)
    with scripted([problem(503)]) as server, Client(server.url, retry=0) as client:
        scorer = client.scorer(reference_set=SET, on_unavailable="skip")
        assert scorer(["tea"], items=["d1"]) == [None]
        for thread in [one for one in threading.enumerate() if one.name.startswith("refaug-scorer")]:
            thread.join(30)
        scorer._server.close()
        del scorer
        gc.collect()
        assert capsys.readouterr().err.count("1 skipped") == 1
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_says_nothing_of_what_its_parent_skipped(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from refaug_client import Client\n"
        "scorer = Client(sys.argv[1], retry=0).scorer(reference_set='s', on_unavailable='skip')\n"
        "scorer(['tea'], items=['d1'])\n"
        "child = os.fork()\n"
        "if child:\n"
        "    os.waitpid(child, 0)\n"
    )
    with scripted([problem(503)]) as server:
        ended = subprocess.run(
            [sys.executable, "-c", program, server.url], capture_output=True, text=True, timeout=60, check=True
        )
    assert ended.stderr.count("1 skipped") == 1


def test_what_nobody_collects_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with scripted(scores) as server, Client(server.url) as client:
        scorer = client.scorer(reference_set=SET, queue=10)
        for number in range(60):
            scorer.submit(["tea", "boats"], items=["d1", "d1"], tag=number)
        with caplog.at_level(logging.WARNING):
            assert len(scorer.drain(30)) == 60
    assert caplog.text.count("nobody collects") == 1


def test_what_it_says_of_itself() -> None:
    with scripted(scores) as server, Client(server.url) as client:
        scorer = client.scorer(reference_set=SET)
        pending = scorer.submit(["tea", None], items=["d1", "d2"], tag=7)
        pending.result()
        assert repr(pending) == "<Pending 2 replies, done, tag=7>"
        assert (
            repr(scorer) == f"<Scorer upsilon-bleu against {SET}: 2 replies: 1 scored, 1 without a score; 1 requests>"
        )
        assert pending.outcome.to_dict() == {
            "scores": [value_of("d1", "tea"), None],
            "sources": ["server", "no-reply"],
            "items": ["d1", "d2"],
            "tag": 7,
            "signature": "upsilon-bleu|full:1",
            "error": None,
        }
        assert pickle.loads(pickle.dumps(pending.outcome)) == pending.outcome
        assert len(pending) == 2


def test_submitting_is_cheap_beside_a_step() -> None:
    """How much is called, which does not grow with what waits; how long it takes is for the benchmark."""
    gate = Gate()
    with scripted(gate) as server, Client(server.url) as client:
        scorer = client.scorer(reference_set=SET, queue=10**6, at_once=1)
        calls = Counter[str]()

        def count(make_frame: Any, event: str, _: Any) -> None:
            calls[event] += 1

        spent = []
        for step in range(1_000):
            calls.clear()
            sys.setprofile(count)
            scorer.submit([f"{step}"] * 64, items=["d1"] * 64)
            sys.setprofile(None)
            spent.append(calls["call"] + calls["c_call"])
        assert max(spent[10:]) < 200
        assert statistics.median(spent[-100:]) == statistics.median(
            spent[100:200]
        )  # another thread may add to single ones
        gate.open.set()
        scorer.close(0)


def test_what_one_thread_collects_no_other_is_handed() -> None:
    let_go = threading.Event()

    def answer(asked: Asked) -> Any:
        said = scores(asked)
        said.first = let_go
        return said

    with scripted(answer) as server, Client(server.url) as client:
        scorer = client.scorer(reference_set=SET, cache=None)
        submitted = [scorer.submit([f"reply {number}"], items=["d1"], tag=number) for number in range(50)]
        drained: list[Any] = []
        draining = threading.Thread(target=lambda: drained.extend(scorer.drain(60)))
        draining.start()
        collected: list[Any] = []
        let_go.set()
        while draining.is_alive() or not all(pending.done() for pending in submitted):
            collected += scorer.collect()
        draining.join()
        collected += scorer.collect()
        handed = Counter(pending.tag for pending in drained + collected)
        assert handed == dict.fromkeys(range(50), 1)
        assert [pending.tag for pending in drained] == sorted(pending.tag for pending in drained)
        scorer.close()
