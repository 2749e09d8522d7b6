"""Clients and scorers in worker processes, forked and spawned, and at the end of a process, wanted or not."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Optional

import httpx
import plain_set
import pytest
import workers
from plain_set import SET, score_of, scores_of
from refusals import refusing
from scripted import Asked, Said, Scripted, problem, scripted

from refaug_client import Client, NotFound, Retry, Usage

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # of 3.12 on

NEVER = threading.Event()  # nobody sets it
DEADLINE_S = 120.0
NEEDS_FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
WAYS = [pytest.param("fork", marks=NEEDS_FORK), "spawn"]


@pytest.fixture
def server() -> Iterator[Scripted]:
    """The stand-in with its set."""
    with scripted(plain_set.answer) as found:
        yield found


def in_process(way: str, do: Any, *arguments: Any) -> tuple[int, Any, list[str]]:
    """What a worker process makes of it: its id, the result, and its threads; it has to end by itself."""
    context: Any = multiprocessing.get_context(way)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=workers.report, args=(theirs, do, *arguments))
    process.start()
    theirs.close()
    try:
        assert ours.poll(DEADLINE_S), "the worker said nothing"
        found: tuple[int, Any, list[str]] = ours.recv()
        process.join(DEADLINE_S)
        assert process.exitcode == 0
    finally:
        if process.is_alive():
            process.kill()
        process.join()
        ours.close()
        process.close()
    assert found[0] != os.getpid()
    return found


# ── clients ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way", WAYS)
def test_every_worker_has_connections_of_its_own_and_the_parent_keeps_its(way: str, server: Scripted) -> None:
    items, replies = workers.texts(20)
    expected = scores_of(items, replies)
    with Client(server.url, key="k", headers={"x-team": "a"}) as client:
        assert workers.score(client, items, replies) == [expected]
        assert server.connections == 1
        for number in range(2):
            _, found, _ = in_process(way, workers.score, client, items, replies, 3)
            assert found == [expected] * 3
            assert server.connections >= 2 + number
            assert workers.score(client, items, replies) == [expected]
    assert {(asked.headers["authorization"], asked.headers["x-team"]) for asked in server.requests} == {
        ("Bearer k", "a")
    }


def test_a_fork_in_the_middle_of_a_request_disturbs_nobody() -> None:
    hold = threading.Event()

    def answer(asked: Asked) -> Said:
        said = plain_set.answer(asked)
        if asked.json["items"][0] == "d7":
            said.first = hold
        return said

    with scripted(answer) as server, Client(server.url) as client, ThreadPoolExecutor() as threads:
        held = threads.submit(workers.score, client, ["d7"], ["held"])
        server.until(1)
        _, found, _ = in_process("fork", workers.score, client, ["d1"], ["free"], 2)
        assert found == [[score_of("d1", "free")]] * 2
        hold.set()
        assert held.result(DEADLINE_S) == [[score_of("d7", "held")]]


def test_a_lock_that_another_thread_held_does_not_stop_the_child(server: Scripted) -> None:
    with Client(server.url) as client:
        with client._connection._lock:
            _, found, _ = in_process("fork", workers.score, client, ["d1"], ["x"])
        assert found == [[score_of("d1", "x")]]


@pytest.mark.parametrize("way", WAYS)
def test_an_error_comes_whole_out_of_a_worker(way: str) -> None:
    refused = problem(404, "not_found", detail="no such set", errors=[{"item": None, "field": "id", "message": "?"}])
    context = multiprocessing.get_context(way)
    with scripted([refused]) as server, Client(server.url) as client, ProcessPoolExecutor(1, context) as pool:
        asked = pool.submit(workers.ask_wrongly, client)
        with pytest.raises(NotFound) as caught:
            asked.result(DEADLINE_S)
    assert (caught.value.code, caught.value.status, caught.value.message) == ("not_found", 404, "no such set")
    assert caught.value.errors == [{"item": None, "field": "id", "message": "?"}]
    assert caught.value.request_id == "theirs"


def test_an_httpx_client_of_ones_own_goes_into_no_other_process(server: Scripted) -> None:
    with httpx.Client() as http:
        client = Client(server.url, http=http)
        assert workers.score(client, ["d1"], ["x"]) == [[score_of("d1", "x")]]
        _, found, _ = in_process("fork", workers.score, client, ["d1"], ["x"])
        assert isinstance(found, Usage)
        assert "forked process" in str(found)
        with refusing(Usage):
            pickle.dumps(client)
        assert workers.score(client, ["d1"], ["x"]) == [[score_of("d1", "x")]]


def test_a_closed_client_is_closed_in_a_fork_too(server: Scripted) -> None:
    client = Client(server.url)
    client.close()
    _, found, _ = in_process("fork", workers.score, client, ["d1"], ["x"])
    assert isinstance(found, Usage)
    assert "this client is closed" in str(found)


# ── scorers ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way", WAYS)
def test_a_scorer_begins_empty_in_a_worker_and_scores_there(way: str, server: Scripted) -> None:
    items, replies = workers.texts(64)
    expected = scores_of(items, replies)
    with Client(server.url) as client, client.scorer(reference_set=SET, cache=None) as scorer:
        assert scorer(replies, items=items) == expected
        _, found, _ = in_process(way, workers.submit, scorer, items, replies)
        assert found == (0, expected, 64)
        assert scorer.counts.submitted == 64
        assert scorer(replies, items=items) == expected


def test_what_waits_at_a_fork_stays_the_parents() -> None:
    hold = threading.Event()

    def answer(asked: Asked) -> Said:
        said = plain_set.answer(asked)
        if asked.method == "POST" and "held" in asked.json["replies"]["model"][0]:
            said.first = hold
        return said

    with scripted(answer) as server, Client(server.url) as client:  # noqa: SIM117  one line would be too long
        with client.scorer(reference_set=SET, at_once=1, cache=None) as scorer:
            waiting = [scorer.submit([f"held {number}"], items=["d1"], tag=number) for number in range(5)]
            server.until(1)
            _, found, _ = in_process("fork", workers.submit, scorer, ["d2"], ["of the child"])
            assert found == (0, [score_of("d2", "of the child")], 1)
            _, refused, _ = in_process("fork", workers.look_at, waiting[0])
            assert isinstance(refused, Usage)
            assert "another process" in str(refused)
            assert [pending.done() for pending in waiting] == [False] * 5
            hold.set()
            assert [pending.tag for pending in scorer.drain(DEADLINE_S)] == [0, 1, 2, 3, 4]
            assert [pending.result() for pending in waiting] == [
                [score_of("d1", f"held {number}")] for number in range(5)
            ]
            assert scorer.counts.submitted == scorer.counts.scored == 5


@pytest.mark.parametrize("way", WAYS)
def test_a_cache_file_is_shared_by_workers(way: str, server: Scripted, tmp_path: Path) -> None:
    items, replies = workers.texts(30)
    expected = scores_of(items, replies)
    with Client(server.url) as client, client.scorer(reference_set=SET, cache=tmp_path / "scores.sqlite") as scorer:
        _, found, _ = in_process(way, workers.submit, scorer, items, replies)
        assert found == (0, expected, 30)
        before = len(server.requests)
        assert scorer(replies, items=items) == expected
        assert scorer.counts.from_cache == 30
        sent = [asked.json["replies"]["model"] for asked in server.requests[before:]]
        assert sent in ([], [[None]])  # at most which signature the scores have now


@pytest.mark.parametrize(
    ("way", "batch"), [pytest.param("fork", 1, marks=NEEDS_FORK), pytest.param("spawn", 5, marks=pytest.mark.slow)]
)
def test_workers_of_a_data_loader_score_each_for_itself(way: str, batch: int, server: Scripted) -> None:
    torch = pytest.importorskip("torch")
    items, replies = workers.texts(20)
    expected = scores_of(items, replies)
    with Client(server.url) as client, client.scorer(reference_set=SET) as scorer:
        assert scorer(replies[:3], items=items[:3]) == expected[:3]  # it has threads and connections when they begin
        loader = torch.utils.data.DataLoader(
            workers.Scored(scorer, items, replies),
            batch_size=batch,
            num_workers=2,
            multiprocessing_context=way,
            collate_fn=list,
            timeout=DEADLINE_S,
        )
        rows = [row for rows in loader for row in rows]
    assert [at for at, _, _ in rows] == list(range(20))
    assert [value for _, value, _ in rows] == expected
    pids = {pid for _, _, pid in rows}
    assert len(pids) == 2
    assert os.getpid() not in pids


# ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────────

_BEGIN = """
import sys, threading
from refaug_client import Client, Retry
items, replies = ["d1"] * 64, [f"reply {n}" for n in range(64)]
with Client(sys.argv[1]) as client:
    client.health()  # what is imported for the first request only
loaded = set()
def left():
    return sorted(one.name for one in threading.enumerate() if one is not threading.main_thread())
def late():
    return sorted(set(sys.modules) - loaded)
def ready():
    loaded.update(sys.modules)
    print("ready", flush=True)
"""


class Script:
    """A Python program of its own, which ends by itself or is told to."""

    def __init__(self, source: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", _BEGIN + source, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until_ready(self) -> None:
        """Wait until it says so."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n", self.process.communicate()[1]

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def ended(self) -> tuple[Optional[int], str, str]:
        """How it ended, and what it said; it is not waited for without an end."""
        try:
            said, wrong = self.process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            pytest.fail(f"it does not end: {self.process.communicate()}")
        return self.process.returncode, said, wrong

    def close(self) -> None:
        """End it if it has not, as after a test that failed."""
        with self.process:
            self.process.kill()


@pytest.fixture
def run() -> Iterator[Callable[..., Script]]:
    """Starts programs, of which none outlives the test."""
    started = list[Script]()

    def start(source: str, *arguments: str) -> Script:
        started.append(Script(source, *arguments))
        return started[-1]

    yield start
    for script in started:
        script.close()


@pytest.fixture
def silent() -> Iterator[Scripted]:
    """A server that knows its set, and never answers what replies are worth."""

    def answer(asked: Asked) -> Said:
        said = plain_set.answer(asked)
        said.first = NEVER if asked.method == "POST" else None
        return said

    with scripted(answer) as found:
        yield found


INTERRUPTED = {
    "a request": """
try:
    with Client(sys.argv[1]) as client:
        ready()
        client.sets.score(sys.argv[2], replies, items=items)
except KeyboardInterrupt:
    print("interrupted", left(), late())
""",
    "many requests at once": """
try:
    with Client(sys.argv[1]) as client:
        ready()
        client.score([{"id": str(n), "utterance": "u", "references": ["r"], "replies": {"a": "x"}} for n in range(64)],
                     metric="bleu", batch=5)
except KeyboardInterrupt:
    print("interrupted", left(), late())
""",
    "a generator": """
try:
    with Client(sys.argv[1]) as client:
        ready()
        for one in client.references_iter(({"id": str(n), "utterance": "u"} for n in range(10**9)), batch=5):
            pass
except KeyboardInterrupt:
    print("interrupted", left(), late())
""",
    "a scorer": """
try:
    with Client(sys.argv[1]) as client, client.scorer(reference_set=sys.argv[2]) as scorer:
        ready()
        scorer(replies, items=items)
except KeyboardInterrupt:
    print("interrupted", left(), late(), scorer.counts.waiting)
""",
    "a drain": """
try:
    with Client(sys.argv[1]) as client, client.scorer(reference_set=sys.argv[2]) as scorer:
        for step in range(100):
            scorer.submit(replies, items=items, tag=step)
        ready()
        scorer.drain()
except KeyboardInterrupt:
    print("interrupted", left(), late(), scorer.counts.waiting)
""",
    "a full queue": """
try:
    with Client(sys.argv[1]) as client, client.scorer(reference_set=sys.argv[2], queue=64) as scorer:
        scorer.submit(replies, items=items)
        ready()
        scorer.submit(replies, items=items)
except KeyboardInterrupt:
    print("interrupted", left(), late(), scorer.counts.waiting)
""",
    "the end of a scorer": """
try:
    with Client(sys.argv[1]) as client, client.scorer(reference_set=sys.argv[2], exit_wait_s=1e6) as scorer:
        scorer.submit(replies, items=items)
        ready()
except KeyboardInterrupt:
    print("interrupted", left(), late(), scorer.counts.waiting)
""",
    "a pause between tries": """
def ready_for_long():
    ready()
    return 1.0
try:
    with Client("http://127.0.0.1:9", retry=Retry(first_s=1e5, most_s=1e5, total_s=1e6, draw=ready_for_long)) as client:
        client.health()
except KeyboardInterrupt:
    print("interrupted", left(), late())
""",
}


@pytest.mark.parametrize("source", INTERRUPTED.values(), ids=INTERRUPTED)
def test_ctrl_c_leaves_no_threads(source: str, silent: Scripted, run: Callable[..., Script]) -> None:
    """The signal comes when nothing is left to import: an interrupted import leaves a file open, and Python says so."""
    script = run(source, silent.url, SET)
    script.until_ready()
    if "127.0.0.1:9" not in source:
        silent.until(1, "POST")
    script.interrupt()
    status, said, wrong = script.ended()
    assert said in ("interrupted [] []\n", "interrupted [] [] 0\n"), wrong
    assert (status, wrong) == (0, "")


def test_a_process_that_closes_nothing_ends_by_itself(server: Scripted, run: Callable[..., Script]) -> None:
    script = run(
        """
client = Client(sys.argv[1])
scorer = client.scorer(reference_set=sys.argv[2])
scorer(replies, items=items)
client.health()
ready()
""",
        server.url,
        SET,
    )
    assert script.ended() == (0, "ready\n", "")


def test_what_is_on_its_way_at_the_end_of_a_process_is_waited_for(
    server: Scripted, tmp_path: Path, run: Callable[..., Script]
) -> None:
    cache = tmp_path / "scores.sqlite"
    script = run(
        """
scorer = Client(sys.argv[1]).scorer(reference_set=sys.argv[2], cache=sys.argv[3], exit_wait_s=100)
for step in range(20):
    scorer.submit([f"{step} {reply}" for reply in replies], items=items, tag=step)
""",
        server.url,
        SET,
        str(cache),
    )
    status, _, wrong = script.ended()
    assert status == 0, wrong
    replies = [asked.json["replies"]["model"] for asked in server.requests if asked.method == "POST"]
    assert sorted(text for texts in replies for text in texts if text is not None) == sorted(
        f"{step} reply {number}" for step in range(20) for number in range(64)
    )
    with Client(server.url) as client, client.scorer(reference_set=SET, cache=cache) as scorer:
        expected = [score_of("d1", f"7 reply {number}") for number in range(64)]
        assert scorer([f"7 reply {number}" for number in range(64)], items=["d1"] * 64) == expected
        assert scorer.counts.from_cache == 64


@pytest.mark.parametrize("ending", ["", "raise SystemExit(3)", "1 / 0"])
def test_a_silent_server_keeps_no_process_from_ending(
    ending: str, silent: Scripted, run: Callable[..., Script]
) -> None:
    script = run(
        f"""
scorer = Client(sys.argv[1]).scorer(reference_set=sys.argv[2], exit_wait_s=0.1)
scorer.submit(replies, items=items)
{ending}
""",
        silent.url,
        SET,
    )
    status, _, wrong = script.ended()
    assert status == {"": 0, "raise SystemExit(3)": 3, "1 / 0": 1}[ending]
    assert ("ZeroDivisionError" in wrong) is (ending == "1 / 0")


def test_closing_leaves_no_threads_while_the_server_is_silent(silent: Scripted) -> None:
    before = set(threading.enumerate())
    client = Client(silent.url, retry=Retry(tries=1))
    scorer = client.scorer(reference_set=SET, exit_wait_s=0.0, at_once=3, batch=10)
    pending = scorer.submit([f"reply {number}" for number in range(64)], items=["d1"] * 64)
    silent.until(2)
    scorer.close()
    client.close()
    mine = [one for one in threading.enumerate() if one not in before and one.name.startswith("refaug")]
    assert mine == []
    assert set(pending.outcome.sources) == {"failed"}
