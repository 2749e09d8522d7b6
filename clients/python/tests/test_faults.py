"""What a day brings: servers that die, answers that are late, halved or nobody's, keys that end.

Whatever happens, every reply has exactly one outcome, in its place, and a score is the score that it always was.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Optional

import httpx
import plain_set
import pytest
from known_items import ITEMS
from plain_set import SET, Mortal, score_of, scores_of
from refusals import refusing
from scripted import DROP, Asked, Said, ok, page, problem, scripted
from servers import ROOT, Served, served
from serving import small_home

from refaug_client import BadAnswer, Client, NoKey, Retry, TimedOut, TooMany, Unavailable

NEVER = threading.Event()  # nobody sets it
DEADLINE_S = 120.0
PATIENT = Retry(tries=100_000, first_s=0.01, most_s=0.1, total_s=DEADLINE_S)
SUBMITS = 1_000
Step = tuple[list[str], list[Optional[str]]]  # items and replies
TEXTS = [
    "we like red boats",
    "At the market.",
    "I do not know.",
    "日本語で話す",
    "",
    "boats boats boats",
    "A long " * 40,
]


def steps(count: int = SUBMITS, seed: int = 0, of: Sequence[str] = plain_set.ITEMS) -> list[Step]:
    """What a training hands in, step by step: some of it as before, some of it no reply at all."""
    drawn = random.Random(seed)
    made = list[Step]()
    for step in range(count):
        size = drawn.choice((1, 1, 2, 3, 8))
        ids = [drawn.choice(of) for _ in range(size)]
        texts = [f"{drawn.choice(TEXTS)} {drawn.randrange(step + 1)}" for _ in range(size)]
        made.append((ids, [None if drawn.random() < 0.02 else text for text in texts]))
    return made


@contextmanager
def scoring(url: str, retry: Retry = PATIENT, timeout_s: float = 60.0, **settings: Any) -> Iterator[Any]:
    """A scorer of the stand-in's set, without a cache unless one is named."""
    settings = {"reference_set": SET, "cache": None, "queue": 100_000, **settings}
    with Client(url, key="k", retry=retry, timeout_s=timeout_s) as client, client.scorer(**settings) as scorer:
        yield scorer


def require_one_outcome_each(scorer: Any, given: Sequence[Step], expected: Sequence[list[Optional[float]]]) -> None:
    """Nothing lost, nothing doubled, everything in its place, and all of it counted."""
    found = scorer.drain(DEADLINE_S)
    assert [pending.tag for pending in found] == list(range(len(given)))
    assert [pending.result() for pending in found] == expected
    for pending, (ids, _) in zip(found, given):
        outcome = pending.outcome
        assert outcome.items == ids
        assert set(outcome.sources) <= {"server", "cache", "no-reply"}
    total = sum(len(ids) for ids, _ in given)
    without = sum(score is None for scores in expected for score in scores)
    counts = scorer.counts
    assert (counts.submitted, counts.scored, counts.unscored, counts.waiting) == (total, total - without, without, 0)
    assert (counts.skipped, counts.last, counts.failed, counts.dropped) == (0, 0, 0, 0)
    assert list(scorer.collect()) == []
    assert scorer.drain() == []


def test_the_stand_in_answers_as_the_real_one_does(url: str, sets: dict[str, str]) -> None:
    def shape(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shape(one) for key, one in value.items() if key != "parts"}
        return [shape(one) for one in value[:1]] if isinstance(value, list) and value else type(value).__name__

    def asked(address: str, which: str) -> Any:
        body = {"items": ["d0"], "replies": {"model": ["At the market."]}, "return": "values"}
        answer = httpx.post(f"{address}/v1/reference-sets/{which}/scores", json=body, timeout=60).json()
        return shape({**answer, "warnings": []})

    with scripted(plain_set.answer) as standing:
        assert asked(standing.url, SET) == asked(url, sets["train"])


# ── a server that dies ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize(("cache", "at_once"), [("memory", 2), (None, 1), (None, 4)])
def test_server_restarts_among_a_thousand_submits_lose_no_reply(cache: Optional[str], at_once: int) -> None:
    given = steps()
    with Mortal([10, 25, 40]) as server, scoring(server.url, cache=cache, batch=16, at_once=at_once) as scorer:
        for step, (ids, replies) in enumerate(given):
            scorer.submit(replies, items=ids, tag=step)
        require_one_outcome_each(scorer, given, [scores_of(ids, replies) for ids, replies in given])
        assert server.deaths == 3
        assert scorer.counts.retries >= 3


@pytest.mark.slow
def test_collecting_trainer_gets_everything_in_order_through_restarts() -> None:
    given = steps(seed=1)
    found = list[Any]()
    with Mortal([15, 15]) as server, scoring(server.url, batch=16, queue=50) as scorer:
        for step, (ids, replies) in enumerate(given):
            scorer.submit(replies, items=ids, tag=step)  # now and then there is no room, and it waits
            found += [(pending.tag, pending.result()) for pending in scorer.collect()]
        found += [(pending.tag, pending.result()) for pending in scorer.drain(DEADLINE_S)]
    assert found == [(step, scores_of(ids, replies)) for step, (ids, replies) in enumerate(given)]
    assert server.deaths == 2


@pytest.mark.slow
def test_a_real_server_whose_process_is_killed_costs_no_reply(server: Served, sets: dict[str, str]) -> None:
    url, given = str(server.client.base_url).rstrip("/"), steps(of=[item["id"] for item in ITEMS])
    with Client(url, retry=PATIENT) as client:
        with client.scorer(reference_set=sets["train"], cache=None) as undisturbed:
            expected = [undisturbed(replies, items=ids) for ids, replies in _gathered(given)]
        with client.scorer(reference_set=sets["train"], cache=None, batch=8, at_once=2, queue=100_000) as scorer:
            total = sum(len(ids) for ids, _ in given)
            for step, (ids, replies) in enumerate(given):
                scorer.submit(replies, items=ids, tag=step)
            killed = 0
            for share in (0.1, 0.5):
                server.until(lambda share=share: scorer.counts.scored > share * total, "scores")  # type: ignore[misc]
                assert scorer.counts.waiting > 0
                killed += len(server.kill("web"))
            require_one_outcome_each(scorer, given, _scattered(given, expected))
            assert killed == 2
            assert scorer.counts.retries >= 1
    server.until(lambda: server.ask("GET", "/readyz").status_code == 200, "the service to be ready again")


def _gathered(given: Sequence[Step], size: int = 500) -> Iterator[Step]:
    """The same replies in few requests."""
    ids = [one for step in given for one in step[0]]
    replies = [one for step in given for one in step[1]]
    for at in range(0, len(ids), size):
        yield ids[at : at + size], replies[at : at + size]


def _scattered(given: Sequence[Step], scores: Sequence[list[Optional[float]]]) -> list[list[Optional[float]]]:
    """Their scores step by step again."""
    waiting = iter([one for some in scores for one in some])
    return [[next(waiting) for _ in ids] for ids, _ in given]


# ── storms, and what is not an answer ─────────────────────────────────────────────────────────────────────────────────


class Weather:
    """A server that has something else in the place of an answer, by seed, as often as is said."""

    def __init__(self, seed: int, share: float, kinds: Sequence[str]) -> None:
        self.happened: Counter[str] = Counter()
        self._drawn, self._share, self._kinds = random.Random(seed), share, kinds
        self._lock = threading.Lock()

    def __call__(self, asked: Asked) -> Any:
        said = plain_set.answer(asked)
        with self._lock:
            if self._drawn.random() >= self._share:
                return said
            kind = self._drawn.choice(self._kinds)
            self.happened[kind] += 1
            at = self._drawn.randrange(len(said.body))
        return {
            "429": lambda: problem(429, retry_after=0),
            "503": lambda: problem(503, "overloaded", retry_after=0),
            "expired": lambda: problem(503, "expired", retry_after=0),
            "dropped": lambda: DROP,
            "half": lambda: Said(200, said.body, said.headers, cut=at),
            "half, and well ended": lambda: Said(200, said.body[:at], said.headers),
            "page, 200": lambda: page(200, "<html>Please log in</html>"),
            "page, 504": lambda: page(504),
            "page, 502 as JSON": lambda: ok({"message": "Bad gateway"}, status=502),
            "rubbish": lambda: b"\x00\x01 rubbish\r\n\r\n",
            "nothing": lambda: Said(200, b"", {"content-type": "application/json"}),
            "late": lambda: Said(200, said.body, said.headers, first=NEVER),
        }[kind]()


ALL_KINDS = [
    *["429", "503", "expired", "dropped", "half", "half, and well ended"],
    *["page, 200", "page, 504", "page, 502 as JSON", "rubbish", "nothing"],
]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_whatever_comes_in_the_place_of_answers_every_reply_gets_its_score(seed: int) -> None:
    given, weather = steps(seed=seed), Weather(seed, 0.4, ALL_KINDS)
    with scripted(weather) as server, scoring(server.url, batch=16, at_once=3) as scorer:
        for step, (ids, replies) in enumerate(given):
            scorer.submit(replies, items=ids, tag=step)
        require_one_outcome_each(scorer, given, [scores_of(ids, replies) for ids, replies in given])
        assert scorer.counts.retries == sum(weather.happened.values())
    assert set(weather.happened) == set(ALL_KINDS)


@pytest.mark.slow
def test_a_storm_of_429_is_sat_out_by_every_thread() -> None:
    weather = Weather(7, 0.7, ["429"])
    with scripted(weather) as server, Client(server.url, retry=PATIENT) as client:

        def one(number: int) -> Any:
            items = [plain_set.ITEMS[number % 50]] * 4
            return client.sets.score(SET, [f"{number}.{place}" for place in range(4)], items=items).replies

        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(one, range(100)))
    assert found == [[score_of(plain_set.ITEMS[n % 50], f"{n}.{place}") for place in range(4)] for n in range(100)]
    assert weather.happened["429"] > 100


def test_a_slow_server_is_given_up_and_asked_again() -> None:
    given, weather = steps(count=60), Weather(3, 0.3, ["late"])
    with scripted(weather) as server, scoring(server.url, timeout_s=0.2, batch=8) as scorer:
        for step, (ids, replies) in enumerate(given):
            scorer.submit(replies, items=ids, tag=step)
        require_one_outcome_each(scorer, given, [scores_of(ids, replies) for ids, replies in given])
    assert weather.happened["late"] > 0


@pytest.mark.slow
def test_many_replies_at_once_come_in_order_through_all_of_it() -> None:
    weather = Weather(11, 0.4, ALL_KINDS)
    items = [plain_set.ITEMS[number % 50] for number in range(2_000)]
    replies = [f"reply {number}" for number in range(2_000)]
    with scripted(weather) as server, scoring(server.url, batch=50) as scorer:
        assert scorer(replies, items=items) == scores_of(items, replies)
    assert sum(weather.happened.values()) > 5


# ── when it does not end ──────────────────────────────────────────────────────────────────────────────────────────

UNAVAILABLE: list[tuple[str, Callable[[], Any], type[Exception]]] = [
    ("429", lambda: problem(429, retry_after=0), TooMany),
    ("503", lambda: problem(503, retry_after=0), Unavailable),
    ("page", lambda: page(504), BadAnswer),
    ("late", lambda: Said(200, first=NEVER), TimedOut),
]


@pytest.mark.parametrize(("kind", "made", "error"), UNAVAILABLE, ids=[one[0] for one in UNAVAILABLE])
@pytest.mark.parametrize(
    "on_unavailable", ["raise", *(pytest.param(how, marks=pytest.mark.slow) for how in ("skip", "last"))]
)
def test_lost_server_is_waited_for_no_longer_than_the_limit(
    on_unavailable: Any, kind: str, made: Callable[[], Any], error: type[Exception]
) -> None:
    answers = iter([plain_set.answer])

    def answer(asked: Asked) -> Any:
        first = next(answers, None)
        return made() if first is None else first(asked)

    settings: Any = {"on_unavailable": on_unavailable, "max_wait_s": DEADLINE_S, "exit_wait_s": 0.0}
    with scripted(answer) as server, scoring(server.url, **settings) as scorer:
        assert scorer(["good"], items=["d1"]) == [score_of("d1", "good")]
        scorer.max_wait_s = 0.3
        pending = scorer.submit(["new", None, "other"], items=["d1", "d1", "d2"])
        outcome, counts = pending.outcome, scorer.counts
    if on_unavailable == "raise":
        assert outcome.sources == ["failed", "no-reply", "failed"]
        assert isinstance(outcome.error, (error, TimedOut))
        with pytest.raises((error, TimedOut)):
            pending.result()
        assert counts.failed == 2
    elif on_unavailable == "skip":
        assert (outcome.scores, outcome.sources) == ([None] * 3, ["skipped", "no-reply", "skipped"])
        assert counts.skipped == 2
    else:
        assert outcome.scores == [score_of("d1", "good"), None, None]
        assert outcome.sources == ["last", "no-reply", "skipped"]
        assert (counts.last, counts.skipped) == (1, 1)
    assert counts.waiting == 0


def test_another_programs_good_answer_is_not_asked_for_again() -> None:
    with scripted([ok({"items": 5})]) as server, Client(server.url, retry=PATIENT) as client:
        with refusing(BadAnswer, "200"):
            client.sets.score(SET, ["x"], items=["d1"])
        assert sum(asked.method == "POST" for asked in server.requests) == 1


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_that_ends_in_the_middle_is_said_at_once_and_not_skipped() -> None:
    ended = threading.Event()

    def answer(asked: Asked) -> Any:
        return problem(401, "no_key", detail="the key has expired") if ended.is_set() else plain_set.answer(asked)

    settings: Any = {"cache": "memory", "on_unavailable": "skip", "max_wait_s": DEADLINE_S}
    with scripted(answer) as server, scoring(server.url, **settings) as scorer:
        assert scorer(["x"], items=["d1"]) == [score_of("d1", "x")]
        ended.set()
        before = len(server.requests)
        pending = scorer.submit(["y", "z"], items=["d1", "d2"])
        with refusing(NoKey):
            pending.result(DEADLINE_S)
        assert len(server.requests) == before + 1
        assert scorer(["x"], items=["d1"]) == [score_of("d1", "x")]  # what is known needs no key
        assert (scorer.counts.failed, scorer.counts.skipped) == (2, 0)


@pytest.mark.slow
def test_a_key_of_a_real_server_that_is_revoked_opens_nothing_any_more(tmp_path_factory: Any) -> None:
    home = small_home(tmp_path_factory.mktemp("keyed"), raters=0).home

    def keys(*arguments: str) -> Any:
        start = "import sys; from refaug.cli import start; sys.exit(start())"
        command = [sys.executable, "-c", start, "--home", str(home), "admin", "keys", *arguments, "--json"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=DEADLINE_S)
        return json.loads(done.stdout)

    key = keys("create", "trainer", "--scope", "admin")
    with served(home, "--keys") as keyed:
        url = str(keyed.client.base_url).rstrip("/")
        with Client(url) as nobody, pytest.raises(NoKey):
            nobody.sets.list()
        with Client(url, key=key["token"], retry=PATIENT) as client:
            made = client.sets.freeze(
                [{key: item[key] for key in ("id", "utterance", "references")} for item in ITEMS],
                purpose="train",
                references="given",
            )
            with client.scorer(reference_set=made.id, metric="bleu", cache=None, on_unavailable="skip") as scorer:
                assert scorer([ITEMS[0]["references"][0]], items=["d0"]) != [None]
                keys("revoke", "trainer")

                def refused() -> bool:
                    try:
                        scorer(["we like red boats"], items=["d0"])
                    except NoKey:
                        return True
                    return False

                keyed.until(refused, "the key to end")
                assert scorer.counts.failed == 1
