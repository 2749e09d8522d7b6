"""Jobs that are followed: every event once and in order, over broken connections, to the end of the job."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any, Optional

import pytest
from kinds import Opened
from refusals import refusing
from scripted import DROP, Asked, Said, ok, page, problem, scripted
from servers import Served

from refaug_client import (
    AsyncClient,
    BadAnswer,
    Client,
    ConnectionLost,
    JobCancelled,
    JobFailed,
    NotFound,
    Retry,
    TimedOut,
    Unavailable,
    Usage,
)
from refaug_client._core.progress import make_reporter
from refaug_client._jobs import following
from refaug_client._jobs.following import Event, Reader

WAIT_S = 60.0
ID = "01k0v6n7fvwgxp5wp2x3w7d39t"
QUICK = Retry(first_s=0.001, most_s=0.01)
DIALOGUE = {"turns": [{"text": "Where do you buy tea?"}, {"text": "At the market."}, {"text": "Thanks."}]}


# ── out of a stream ───────────────────────────────────────────────────────────────────────────────────────────────


def event(number: int, kind: str = "progress", **data: Any) -> bytes:
    told = json.dumps({"at": f"2026-11-22T08:57:{number:02}Z", **data})
    return f"id: {number}\nevent: {kind}\ndata: {told}\n\n".encode()


STORY = [
    event(1, "state", state="queued"),
    event(2, "state", state="running"),
    event(3, "stage", stage="read", total=4, unit="dialogues"),
    event(4, "progress", stage="read", total=4, done=1),
    event(5, "warning", message="half of the turns are empty – 夜"),
    event(6, "progress", stage="read", total=4, done=4),
    event(7, "state", state="done"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_events_are_put_together_however_they_are_cut(size: int, end: str) -> None:
    stream = b": hello\n\n" + b": still here\n\n".join(STORY)
    stream = "\ufeff".encode() + stream.replace(b"\n", end.encode())
    reader, found = Reader(), []
    for at in range(0, len(stream), size):
        found += reader.feed(stream[at : at + size])
    found += reader.feed(b"\n") if end == "\r" else []  # a lone CR may be the first half of a line's end
    assert [one.id for one in found] == [1, 2, 3, 4, 5, 6, 7]
    assert [one.kind for one in found] == ["state", "state", "stage", "progress", "warning", "progress", "state"]
    assert found[4].data["message"] == "half of the turns are empty – 夜"
    assert [one.state for one in found] == ["queued", "running", None, None, None, None, "done"]
    assert [one.share for one in found] == [None, None, None, 0.25, None, 1.0, None]
    assert [one.stage for one in found] == [None, None, "read", "read", None, "read", None]
    assert found[3].at == "2026-11-22T08:57:04Z"
    assert found[0].to_dict() == {"id": 1, "kind": "state", "data": {"at": "2026-11-22T08:57:01Z", "state": "queued"}}


def test_data_of_several_lines_is_one_and_comments_are_nothing() -> None:
    reader = Reader()
    assert reader.feed(b'id: 3\ndata: {"message":\ndata:  "two lines"}\n: a comment\nretry: 5\n\n') == [
        Event(3, "message", {"message": "two lines"})
    ]
    assert reader.feed(b"event: lonely\n\n\n\n") == []  # without data there is no event
    assert reader.feed(b'data: {"half":') == []


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"id: 1\ndata: nothing\n\n", "JSONDecodeError"),
        (b"id: 1\ndata: [1]\n\n", "a JSON list"),
        (b"id: one\ndata: {}\n\n", "ValueError"),
        (b"data: {}\n\n", "KeyError"),
        (b"id: 1\ndata: " + b"[" * 100_000 + b"\n\n", "RecursionError"),
    ],
)
def test_events_that_are_not_refaugs_are_no_answer(said: bytes, why: str) -> None:
    with refusing(BadAnswer, why) as caught:
        Reader().feed(said)
    assert len(caught.value.excerpt) <= 200


def test_an_event_without_an_end_is_given_up() -> None:
    reader = Reader()
    assert [reader.feed(b"x" * 1024 * 1024) for _ in range(16)] == [[]] * 16
    with refusing(BadAnswer):
        reader.feed(b"x")


# ── following ─────────────────────────────────────────────────────────────────────────────────────────────────────


def stream(*pieces: Any, cut: bool = False) -> Said:
    return Said(200, headers={"content-type": "text/event-stream"}, pieces=pieces, cut=0 if cut else None)


def job(state: str, **more: Any) -> Said:
    return ok({"id": ID, "kind": "ingest", "state": state, "order": {}, "resources": ["log/chat"], **more})


def streams(server: Any) -> list[Asked]:
    return [asked for asked in server.requests if asked.path.endswith("/events")]


def test_a_job_is_followed_to_its_end(opened: Opened) -> None:
    with scripted([stream(*STORY)]) as server:
        found = list(opened(server.url).jobs.events(ID))
    assert [one.id for one in found] == [1, 2, 3, 4, 5, 6, 7]
    assert [(asked.path, asked.headers["accept"]) for asked in server.requests] == [
        (f"/v1/jobs/{ID}/events", "text/event-stream")
    ]


def test_a_stream_that_breaks_goes_on_after_the_last_event(opened: Opened) -> None:
    """However it breaks: in the middle of an event, before the first byte, with a 503, with a proxy's page."""
    answers = [
        stream(STORY[0], STORY[1], STORY[2][:20], cut=True),
        DROP,
        problem(503, "unavailable", retry_after=0),
        page(502),
        stream(b": still here\n\n", *STORY[2:5], cut=True),
        stream(b": hello\n\n", cut=True),
        stream(*STORY[4:]),  # once more what was had already: it does not come twice
    ]
    with scripted(answers) as server:
        found = list(opened(server.url, retry=QUICK).jobs.events(ID))
        assert [one.id for one in found] == [1, 2, 3, 4, 5, 6, 7]
        assert [asked.headers["last-event-id"] for asked in streams(server)] == ["0", "2", "2", "2", "2", "5", "5"]


def test_a_stream_that_ends_before_the_job_is_asked_for_again(opened: Opened) -> None:
    """A server that stops ends its streams in good order."""
    turns = iter([stream(*STORY[:3]), job("running"), stream(*STORY[3:])])
    with scripted(lambda asked: next(turns)) as server:
        assert [one.id for one in opened(server.url, retry=QUICK).jobs.events(ID)] == [1, 2, 3, 4, 5, 6, 7]
        assert [asked.path.rpartition("/")[2] for asked in server.requests] == ["events", ID, "events"]


def test_events_after_the_last_one_are_none(opened: Opened) -> None:
    with scripted([stream(), job("done")]) as server:
        assert list(opened(server.url).jobs.events(ID, after=7)) == []
        assert streams(server)[0].headers["last-event-id"] == "7"


def test_a_server_that_never_gives_an_event_is_given_up(opened: Opened) -> None:
    with scripted(lambda asked: stream(b": hello\n\n", cut=True)) as server:
        with pytest.raises(ConnectionLost):
            list(opened(server.url, retry=Retry(first_s=0.001, most_s=0.01, total_s=0.2)).jobs.events(ID))
        assert len(server.requests) > 3
        with pytest.raises(ConnectionLost):
            list(opened(server.url, retry=0).jobs.events(ID))


def test_what_is_no_stream_is_no_answer(opened: Opened) -> None:
    with scripted([page(200)]) as server, refusing(BadAnswer, "text/html"):
        list(opened(server.url, retry=0).jobs.events(ID))


def test_a_job_that_is_not_there_is_an_error(opened: Opened) -> None:
    with scripted([problem(404, "not_found", "no job of this id")]) as server:
        client = opened(server.url)
        with refusing(NotFound):
            list(client.jobs.events(ID))
        with refusing(NotFound):
            client.jobs.wait(ID)


def test_leaving_the_loop_ends_the_stream() -> None:
    never = threading.Event()
    with scripted([stream(STORY[0], STORY[1], never)]) as server, Client(server.url) as client:
        for one in client.jobs.events(ID):
            if one.id == 2:
                break
        assert len(server.requests) == 1

    async def first(url: str) -> int:
        async with AsyncClient(url) as client:
            events = client.jobs.events(ID)
            found = (await events.__anext__()).id
            await events.aclose()
            return found

    with scripted([stream(STORY[0], STORY[1], never)]) as server:
        assert asyncio.run(first(server.url)) == 1


@pytest.mark.parametrize("after", [-1, True, "7", 1.0, None])
def test_ids_of_events_are_whole_numbers(opened: Opened, after: Any) -> None:
    with refusing(Usage, "after="):
        list(opened("http://127.0.0.1:9").jobs.events(ID, after=after))


# ── waiting ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Server:
    """A job whose story is told in pieces; what else is asked gets its state."""

    def __init__(self, *told: Any, last: Said, before: str = "running", events: Optional[Any] = None) -> None:
        self.told, self.last, self.before, self.events = told, last, before, events
        self.is_over = False

    def __call__(self, asked: Asked) -> Any:
        if not asked.path.endswith("/events"):
            return self.last if self.is_over else job(self.before, progress={"stage": "read", "done": 1, "total": 2})
        self.is_over = True
        return self.events if self.events is not None else stream(*self.told)


def test_a_job_is_waited_for(opened: Opened) -> None:
    with scripted(Server(*STORY, last=job("done", result={"dialogues": 4}))) as server:
        found = opened(server.url).jobs.wait(ID)
    assert (found.state, found.result) == ("done", {"dialogues": 4})


def test_a_job_that_has_ended_is_not_followed(opened: Opened) -> None:
    with scripted([job("done")]) as server:
        assert opened(server.url).jobs.wait(ID).state == "done"
        assert [asked.path for asked in server.requests] == [f"/v1/jobs/{ID}"]


def test_how_a_job_ended_is_an_error_that_has_the_job(opened: Opened) -> None:
    error = {"code": "no_source", "message": "nothing was posted", "remedy": "post it", "exit_code": 3}
    with scripted([job("failed", error=error)]) as server:
        with refusing(JobFailed, "nothing was posted") as caught:
            opened(server.url).jobs.wait(ID)
        assert caught.value.job.error["code"] == "no_source"
        assert not isinstance(caught.value, JobCancelled)
    with scripted([job("failed", error=None)]) as server, refusing(JobFailed, "nobody knows why"):
        opened(server.url).jobs.wait(ID)
    with scripted([job("cancelled")]) as server:
        with refusing(JobCancelled, "01k0v6n7fvwgxp5wp2x3w7d39t") as caught:
            opened(server.url).jobs.wait(ID)
        assert caught.value.job.state == "cancelled"


def test_progress_has_stage_and_share(opened: Opened) -> None:
    told: list[tuple[int, Optional[int]]] = []
    with scripted(Server(*STORY, last=job("done"))) as server:
        opened(server.url).jobs.wait(ID, progress=lambda done, total: told.append((done, total)))
    assert told == [(0, 4), (1, 4), (4, 4)]


def test_progress_is_lines_with_stages_where_nobody_looks(opened: Opened, capsys: pytest.CaptureFixture[str]) -> None:
    with scripted(Server(*STORY, last=job("done"))) as server:
        opened(server.url).jobs.wait(ID, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert [line.rpartition(",")[0] for line in lines] == ["read: 0 of 4 (0 %)", "read: 4 of 4 (100 %)"]


def test_progress_without_a_total_counts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with make_reporter(True, None, "job") as told:
        told.event("stage", {"stage": "train", "total": None})
        told.event("progress", {"stage": "train", "done": 1_200, "total": None})
        told.event("progress", {"stage": "write", "done": 1, "total": "?"})  # its stage was not told
        told.event("note", {"message": "x"})
    lines = capsys.readouterr().err.splitlines()
    assert [line.rpartition(",")[0] or line for line in lines] == ["train …", "train: 1,200", "write …", "write: 1"]


@pytest.mark.parametrize(
    "events", [page(200), problem(503, "overloaded", "too many streams", retry_after=0), stream(b"id: x\ndata: {}\n\n")]
)
def test_a_job_is_looked_at_where_its_events_cannot_be_had(
    opened: Opened, events: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_FIRST_LOOK_S", 0.001)
    looked = []

    def answer(asked: Asked) -> Said:
        if asked.path.endswith("/events"):
            return events
        looked.append(asked)
        states = ["queued", "running", "running", "done"]
        return job(states[min(len(looked), 4) - 1], progress={"stage": "read", "done": len(looked), "total": 4})

    told: list[tuple[int, Optional[int]]] = []
    with scripted(answer) as server:
        client = opened(server.url, retry=Retry(tries=2, first_s=0.001))
        assert client.jobs.wait(ID, progress=lambda done, total: told.append((done, total))).state == "done"
    assert told == [(0, 4), (2, 4), (3, 4), (4, 4)]


def test_a_job_that_takes_longer_than_one_waits_is_left_alone(opened: Opened) -> None:
    never = threading.Event()
    with scripted(Server(*STORY[:4], never, last=job("running"))) as server:
        client = opened(server.url, retry=QUICK)
        began = time.monotonic()
        with refusing(TimedOut, "0.3"):
            client.jobs.wait(ID, timeout_s=0.3)
        assert time.monotonic() - began >= 0.3
        found = []
        with refusing(TimedOut, "01k0v6n7fvwgxp5wp2x3w7d39t"):
            found.extend(one.id for one in client.jobs.events(ID, timeout_s=0.3))
        assert found == [1, 2, 3, 4]
        assert {asked.method for asked in server.requests} == {"GET"}  # nobody stopped it


def test_signs_of_life_do_not_make_a_wait_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that says `still here` is no reason to wait beyond the time."""
    monkeypatch.setattr(following, "_SIGN_S", 0.4)
    monkeypatch.setattr(following, "_SILENT_S", 0.4)
    found = following.JobFollower(Client("http://127.0.0.1:9")._connection.settings, ID, 0, timeout_s=1_000.0)
    assert found.silence_limit_s() == 0.4
    assert not found.must_reopen()
    found._deadline = time.monotonic() + 0.3
    found._within_s = 2.0  # it was opened when there was more time
    assert found.must_reopen()
    found._deadline = time.monotonic() - 1.0
    with pytest.raises(TimedOut):
        found.must_reopen()


@pytest.mark.parametrize("timeout_s", [0, -1])
def test_a_time_to_wait_is_more_than_nothing(opened: Opened, timeout_s: float) -> None:
    with refusing(Usage, "timeout_s="):
        opened("http://127.0.0.1:9").jobs.wait(ID, timeout_s=timeout_s)


def test_a_dead_server_does_not_keep_a_wait(opened: Opened) -> None:
    client = opened("http://127.0.0.1:9", retry=QUICK)
    for ask in (lambda: client.jobs.wait(ID, timeout_s=5.0), lambda: list(client.jobs.events(ID, timeout_s=0.2))):
        with pytest.raises((TimedOut, ConnectionLost, Unavailable, Exception)) as caught:
            ask()
        assert type(caught.value).__name__ in ("CannotConnect", "TimedOut")


def test_closing_the_client_ends_a_wait() -> None:
    never, arrived = threading.Event(), threading.Event()

    def answer(asked: Asked) -> Said:
        if asked.path.endswith("/events"):
            arrived.set()
            return stream(*STORY[:2], never)
        return job("running")

    with scripted(answer) as server:
        client = Client(server.url)

        def close() -> None:
            arrived.wait(WAIT_S)
            client.close()

        closer = threading.Thread(target=close)
        closer.start()
        with refusing((Usage, ConnectionLost)):
            client.jobs.wait(ID)
        closer.join()


# ── the real service ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_real_job_is_started_followed_and_waited_for(opened: Opened, url: str) -> None:
    client = opened(url)
    log = f"sdk-{opened.kind}"
    client.logs.post(log, [{"id": f"d{number}", **DIALOGUE} for number in range(5)])
    started = client.jobs.start("ingest", log=log, posted=True)
    told: list[tuple[int, Optional[int]]] = []
    done = client.jobs.wait(started.id, progress=lambda done, total: told.append((done, total)), timeout_s=WAIT_S)
    assert (done.id, done.state, done.kind) == (started.id, "done", "ingest")
    assert done.result
    found = list(client.jobs.events(started.id))
    assert [one.id for one in found] == sorted({one.id for one in found})
    states = [one.state for one in found if one.kind == "state"]
    assert (states[0], states[-1]) == ("queued", "done")
    assert all(one.at.startswith("20") for one in found)
    middle = found[len(found) // 2].id
    assert list(client.jobs.events(started.id, after=middle)) == [one for one in found if one.id > middle]
    assert list(client.jobs.events(started.id, after=found[-1].id)) == []


def test_a_real_job_that_fails_says_why(opened: Opened, url: str) -> None:
    client = opened(url)
    started = client.jobs.start("index-update", index=f"none-{opened.kind}")
    with pytest.raises(JobFailed) as caught:
        client.jobs.wait(started.id, timeout_s=WAIT_S)
    assert caught.value.job.id == started.id
    assert f"none-{opened.kind}" in caught.value.job.error["message"]
    assert caught.value.job.error["message"] in str(caught.value)
    assert [one.state for one in client.jobs.events(started.id) if one.kind == "state"][-1] == "failed"


def lasting(found: list[Event]) -> list[Event]:
    """All but progress, of which the server keeps the last word alone; ids rise."""
    assert [one.id for one in found] == sorted({one.id for one in found})
    return [one for one in found if one.kind != "progress"]


def test_a_real_job_is_watched_by_several_at_once(url: str) -> None:
    async def all_of_them() -> list[list[Event]]:
        async with AsyncClient(url) as client:
            await client.logs.post("watched", [{"id": "d1", **DIALOGUE}])
            job = await client.jobs.start("ingest", log="watched", posted=True)

            async def watched() -> list[Event]:
                return [one async for one in client.jobs.events(job.id, timeout_s=WAIT_S)]

            return list(await asyncio.gather(*(watched() for _ in range(5))))

    found = [lasting(one) for one in asyncio.run(all_of_them())]
    assert len(found[0]) > 2
    assert found == [found[0]] * 5


@pytest.mark.slow
def test_a_real_server_that_is_killed_meanwhile_loses_no_event(server: Served, url: str) -> None:
    """Its process is begun anew while the job goes on; who follows sees every event once, and the end."""
    with Client(url) as client:
        client.logs.post("survives", [{"id": f"d{number}", **DIALOGUE} for number in range(5)])
        job = client.jobs.start("ingest", log="survives", posted=True)
        events = client.jobs.events(job.id, timeout_s=4 * WAIT_S)
        found = [next(events)]
        assert server.kill("web")
        found += events
        assert client.jobs.wait(job.id, timeout_s=WAIT_S).state == "done"
        assert lasting(found) == lasting(list(client.jobs.events(job.id)))
        assert (found[0].state, found[-1].state) == ("queued", "done")
    server.until(lambda: server.ask("GET", "/readyz").status_code == 200, "the service to be ready again")
