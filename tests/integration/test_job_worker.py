"""The process that runs jobs: how they end, how they are stopped, and what a kill or a lost database leaves."""

from __future__ import annotations

import errno
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest
from safeguards import POSTGRESQL
from sqlalchemy import update

from refaug.core.errors import BadInput, CheckFailed, Unavailable
from refaug.core.files import lock_file
from refaug.core.home import Settings
from refaug.service.database.database import Database, time_text
from refaug.service.database.tables import JOBS
from refaug.service.jobs import interruption
from refaug.service.jobs import worker as job_worker
from refaug.service.jobs.schedules import ScheduleStore
from refaug.service.jobs.store import JobState, JobStore
from refaug.service.jobs.worker import STALE_S, JobProgress, LiveWorkers, run_worker
from refaug.service.server_settings import ServeSettings

pytest_plugins = ("databases",)

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0


@pytest.fixture
def serve(database_url):
    return ServeSettings(database=database_url)


@pytest.fixture
def jobs(database):
    return JobStore(database)


@pytest.fixture
def run_once(database, serve):
    """One round of a worker whose jobs do what the test says."""
    return lambda run, **more: run_worker(database.home, serve, once=True, run=run, **more)


def timeless(data):
    """What is told without since when a stage goes on."""
    return {name: value for name, value in data.items() if name != "since"}


def states(jobs, job):
    return [event.data["state"] for event in jobs.events(job) if event.type == "state"]


def wait_for(condition):
    """What the condition finds, as soon as it finds something."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def in_background(act):
    thread = threading.Thread(target=act)
    thread.start()
    return thread


def waits(*_, **__):
    """A job that ends when it is told to, and not before: it waits where no line of Python runs."""
    threading.Event().wait(PATIENCE_S)
    return {"waited": "too long"}


# ── ends ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_jobs_are_done_in_their_order_with_what_they_need(jobs, database, serve, run_once):
    seen = []

    def run(order, home, given, progress, *, job):
        running = jobs.get(job)
        seen.append((order, home, given, running.state, jobs.events(job)[-1].data))
        progress.stage("counting", 10, "pairs")
        progress.advance(4)
        progress.advance(3)
        progress.warn("one is odd")
        return {"n": order["n"], "deep": {1: [0.5]}}

    ids = [jobs.enqueue(f"kind{n}", {"n": n}, ["log/chat"]).id for n in range(3)]
    assert run_once(run) == 0
    running = {"state": "running", "try": 1}
    assert seen == [({"n": n}, database.home, serve, JobState.RUNNING, running) for n in range(3)]
    for n, job in enumerate(ids):
        ended = jobs.get(job)
        assert (ended.state, ended.result, ended.error) == (JobState.DONE, {"n": n, "deep": {"1": [0.5]}}, None)
        assert timeless(ended.progress) == {"stage": "counting", "total": 10, "unit": "pairs", "done": 7}
        assert [(event.type, timeless(event.data)) for event in jobs.events(job)[2:]] == [
            ("stage", {"stage": "counting", "total": 10, "unit": "pairs"}),
            ("warning", {"message": "one is odd"}),
            ("progress", {"stage": "counting", "total": 10, "unit": "pairs", "done": 7}),
            ("state", {"state": "done"}),
        ]
    assert list((database.home.home / "workers").iterdir()) == []


class Odd(BaseException):
    """What a library of another language may raise: it is no Exception."""


def test_an_error_of_ours_is_told_without_our_paths(jobs, database, run_once):
    home = database.home.home.resolve()

    def run(order, *_, **__):
        if order["n"] == 0:
            raise BadInput(f"{home}/inbox/a.jsonl cannot be read", remedy=f"look into {home}/inbox")
        error = CheckFailed("recall is 0.5", remedy="build it anew")
        error.result = {"recall": 0.5}
        raise error

    ids = [jobs.enqueue(f"{n}", {"n": n}, []).id for n in range(2)]
    assert run_once(run) == 0
    assert [jobs.get(job).state for job in ids] == [JobState.FAILED] * 2
    first = {
        "code": "bad_input",
        "message": "HOME/inbox/a.jsonl cannot be read",
        "remedy": "look into HOME/inbox",
        "exit_code": 3,
    }
    second = {"code": "check_failed", "message": "recall is 0.5", "remedy": "build it anew", "exit_code": 6}
    assert [jobs.get(job).error for job in ids] == [first, second]
    assert [jobs.get(job).result for job in ids] == [None, {"recall": 0.5}]
    assert jobs.events(ids[0])[-1].data == {"state": "failed", "error": first}


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ValueError("secret words"), "internal", "something went wrong that was not foreseen (ValueError)"),
        (MemoryError(), "internal", "something went wrong that was not foreseen (MemoryError)"),
        (SystemExit(0), "internal", "something went wrong that was not foreseen (SystemExit)"),
        (KeyboardInterrupt(), "internal", "something went wrong that was not foreseen (KeyboardInterrupt)"),
        (Odd("secret words"), "internal", "something went wrong that was not foreseen (Odd)"),
        (PermissionError(errno.EACCES, "Permission denied", "a.bin"), "no_access", "a.bin: permission denied"),
        (OSError(errno.ENOSPC, "No space left on device"), "storage_full", "HOME: the disk is full"),
        (OSError("secret words"), "internal", "something went wrong that was not foreseen (OSError)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_whatever_a_job_raises_is_its_end_and_not_the_workers(jobs, run_once, caplog, error, code, said):
    def run(order, *_, **__):
        if order["n"] == 0:
            raise error
        return {}

    ids = [jobs.enqueue(f"{n}", {"n": n}, ["log/chat"]).id for n in range(2)]
    assert run_once(run) == 0
    failed = jobs.get(ids[0])
    assert (failed.state, failed.error["code"], failed.error["message"]) == (JobState.FAILED, code, said)
    assert failed.error.get("kind") == (type(error).__name__ if code == "internal" else None)
    assert "secret words" not in str(failed)
    traces = [record.exc_info for record in caplog.records if record.message == "job failed"]
    assert [found and found[1] for found in traces] == [error if code == "internal" else None]
    assert jobs.get(ids[1]).state is JobState.DONE


def test_a_file_whose_name_is_no_utf8_is_named_and_ends_no_worker(jobs, run_once):
    name = os.fsdecode(b"bad\xff.jsonl")

    def run(order, home, serve, progress, *, job):
        progress.stage(f"reading {name}")
        progress.warn(f"{name} is odd")
        raise BadInput(f"{name} cannot be read", remedy=f"take {name} away")

    job = jobs.enqueue("ingest", {}, []).id
    assert run_once(run) == 0
    failed = jobs.get(job)
    assert (failed.state, failed.error["message"]) == (JobState.FAILED, "bad\\udcff.jsonl cannot be read")
    assert failed.error["remedy"] == "take bad\\udcff.jsonl away"
    texts = [event.data.get("stage") or event.data.get("message") for event in jobs.events(job)[2:]]
    assert [text for text in texts if text][:2] == ["reading bad\\udcff.jsonl", "bad\\udcff.jsonl is odd"]


def test_a_result_that_is_no_json_is_a_fault_of_ours(jobs, run_once):
    job = jobs.enqueue("ingest", {}, []).id
    run_once(lambda *_, **__: {"set": {1, 2}})
    assert (jobs.get(job).state, jobs.get(job).error["code"]) == (JobState.FAILED, "internal")


# ── stopping ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_cancelled_job_is_stopped_where_it_is(jobs, run_once):
    job, after = jobs.enqueue("1", {}, ["log/chat"]).id, jobs.enqueue("2", {}, ["log/chat"]).id

    def run(order, home, serve, progress, *, job):
        return waits() if job != after else {"done": True}

    def cancel():
        wait_for(lambda: jobs.get(job).state is JobState.RUNNING)
        jobs.cancel(job)

    thread = in_background(cancel)
    assert run_once(run) == 0
    thread.join()
    assert (jobs.get(job).state, jobs.get(job).result, jobs.get(job).error) == (JobState.CANCELLED, None, None)
    assert states(jobs, job) == ["queued", "running", "cancelled"]
    assert jobs.get(after).result == {"done": True}


def send_to_this_thread(number):
    """As when a signal comes just before the job's thread begins to wait: the wait is not interrupted by it."""
    signal.pthread_kill(threading.get_ident(), number)


def send_to_the_process(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("send", [send_to_the_process, send_to_this_thread])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_stopped_puts_its_job_back(jobs, run_once, number, send):
    job, other = jobs.enqueue("1", {}, ["log/chat"]).id, jobs.enqueue("2", {}, []).id
    before = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)]

    released, ended, rescues = threading.Event(), threading.Event(), []

    def waits_for_release(*_, **__):
        released.wait()
        return {}

    def stop():
        wait_for(lambda: jobs.get(job).state is JobState.RUNNING)
        send(number)
        if not ended.wait(PATIENCE_S):
            rescues.append("the signal was not heard while the job waited")
            released.set()

    thread = in_background(stop)
    assert run_once(waits_for_release) == 0
    ended.set()
    thread.join()
    assert rescues == []
    assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)] == before
    put = jobs.get(job)
    assert (put.state, put.tries, put.worker) == (JobState.QUEUED, 0, None)
    assert jobs.events(job)[-1].data == {"state": "queued", "why": "its worker was stopped"}
    assert states(jobs, other) == ["queued"]  # no other was begun
    assert run_once(lambda *_, **__: {"n": 1}) == 0
    assert (jobs.get(job).state, jobs.get(job).tries) == (JobState.DONE, 1)


def test_an_error_that_came_of_stopping_is_no_failure(jobs, run_once):
    """As when Ctrl-C has reached a child process of the job first."""
    job = jobs.enqueue("1", {}, []).id

    def run(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError

    def swallowed(*given, **named):
        try:
            waits()
        except KeyboardInterrupt:
            raise BadInput("a worker process ended by signal 2") from None

    def stop():
        wait_for(lambda: jobs.get(job).state is JobState.RUNNING)
        os.kill(os.getpid(), signal.SIGTERM)

    for one in (run, swallowed):
        thread = in_background(stop) if one is swallowed else None
        assert run_once(one) == 0
        if thread is not None:
            thread.join()
        assert (jobs.get(job).state, jobs.get(job).error) == (JobState.QUEUED, None)


def test_an_interrupt_that_is_swallowed_is_sent_again(jobs, run_once, monkeypatch):
    """The clock stands except where the job waits, so that no interrupt comes where none is swallowed.

    The signal itself is repeated until the first interrupt: one that arrives just before the thread begins to wait
    is handled only when the wait is over.
    """
    clock, begun, first, swallowed = [1000.0], threading.Event(), threading.Event(), []
    monkeypatch.setattr(interruption, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def run(*_, **__):
        for _ in range(2):
            try:
                begun.set()  # a signal before this line puts the job back unbegun
                clock[0] += interruption._REPEAT_INTERRUPT_S
                waits()
            except KeyboardInterrupt:
                first.set()
                swallowed.append(jobs.get(job).state)
        clock[0] += interruption._REPEAT_INTERRUPT_S
        return waits()

    def stop():
        assert begun.wait(PATIENCE_S)
        while not first.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
            first.wait(0.02)

    job = jobs.enqueue("1", {}, []).id
    thread = in_background(stop)
    assert run_once(run) == 0
    thread.join()
    assert swallowed == [JobState.RUNNING, JobState.RUNNING]
    assert jobs.get(job).state is JobState.QUEUED


def test_a_stop_between_claim_and_begin_puts_the_job_back(jobs, run_once, monkeypatch):
    job, begun, claim = jobs.enqueue("1", {}, []).id, [], JobStore.claim

    def claim_and_stop(store, worker):
        claimed = claim(store, worker)
        os.kill(os.getpid(), signal.SIGTERM)
        return claimed

    monkeypatch.setattr(JobStore, "claim", claim_and_stop)
    assert run_once(lambda *_, **__: begun.append(True)) == 0
    assert begun == []
    assert (jobs.get(job).state, jobs.get(job).tries, jobs.get(job).worker) == (JobState.QUEUED, 0, None)
    assert states(jobs, job) == ["queued", "running", "queued"]


def test_a_job_that_ends_although_it_was_cancelled_is_done(jobs, run_once):
    job = jobs.enqueue("1", {}, []).id

    def run(*_, **__):
        jobs.cancel(job)
        return {"n": 1}

    run_once(run)
    assert (jobs.get(job).state, jobs.get(job).result) == (JobState.DONE, {"n": 1})


def test_in_another_thread_a_job_is_stopped_at_its_next_word(jobs, database, serve):
    first, second, until = jobs.enqueue("1", {}, []).id, jobs.enqueue("2", {}, []).id, threading.Event()

    def run(order, home, given, progress, *, job):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            progress.advance(1)
            time.sleep(0.01)

    codes = []
    thread = in_background(lambda: codes.append(run_worker(database.home, serve, until=until, run=run)))
    wait_for(lambda: jobs.get(first).state is JobState.RUNNING)
    jobs.cancel(first)
    wait_for(lambda: jobs.get(second).state is JobState.RUNNING)
    assert jobs.get(first).state is JobState.CANCELLED
    until.set()
    thread.join()
    assert codes == [0]
    assert (jobs.get(second).state, states(jobs, second)) == (JobState.QUEUED, ["queued", "running", "queued"])


def test_a_job_that_was_taken_away_is_left_alone(jobs, database, run_once):
    """Another worker thought that this one was dead; what this one's run does after that counts for nothing."""
    job, runs = jobs.enqueue("1", {}, ["log/chat"]).id, []

    def run(order, home, serve, progress, *, job):
        runs.append(jobs.get(job).started)
        if len(runs) > 1:
            return {"run": len(runs)}
        assert [one.id for one in jobs.recover(lambda _: False)] == [job]
        return waits()

    assert run_once(run) == 0
    assert len(set(runs)) == 2
    assert jobs.get(job).result == {"run": 2}
    assert states(jobs, job) == ["queued", "running", "queued", "running", "done"]


# ── who looks after the queue ─────────────────────────────────────────────────────────────────────────────────────


def test_a_worker_begins_what_schedules_say_and_what_is_asked_for_later(jobs, database, serve):
    until, seen = threading.Event(), []
    order = {"kind": "gc", "artefact": "index", "name": "chat"}
    then = datetime.now(UTC) - timedelta(minutes=2)
    ScheduleStore(database).put("each-minute", cron="* * * * *", timezone="UTC", order=order, now=then)

    def run(order, home, given, progress, *, job):
        seen.append((jobs.get(job).schedule, order["name"]))
        return {}

    thread = in_background(lambda: run_worker(database.home, serve, until=until, run=run))
    wait_for(lambda: ("each-minute", "chat") in seen)
    jobs.enqueue("gc", {"name": "late"}, ["log/late"])
    wait_for(lambda: (None, "late") in seen)
    until.set()
    thread.join()


def test_what_cannot_be_tidied_keeps_no_job_waiting(jobs, database, run_once):
    database.home.home.mkdir(parents=True, exist_ok=True)  # a database elsewhere makes none
    (database.home.home / "evaluations").write_text("no folder")
    job = jobs.enqueue("kind", {}, [])
    assert run_once(lambda *_, **__: {}) == 0
    assert jobs.get(job.id).state is JobState.DONE


def test_old_jobs_go_when_their_time_is_over(jobs, database, serve):
    old, new = (jobs.enqueue(f"{n}", {}, []).id for n in range(2))
    run_worker(database.home, serve, once=True, run=lambda *_, **__: {})
    then = time_text(datetime.now(UTC) - timedelta(days=serve.keep_jobs_days + 1))
    with database.writing() as connection:
        connection.execute(update(JOBS).where(JOBS.c.id == old).values(finished=then))
    run_worker(database.home, serve, once=True, run=lambda *_, **__: {})
    assert [job.id for job in jobs.list()[0]] == [new]


def test_worker_is_dead_without_its_lock_or_after_a_silent_minute(jobs, database):
    clock = [1000.0]
    name = "123-abcd"
    pulse = LiveWorkers(database.home, "own", clock=lambda: clock[0])
    job = jobs.enqueue("1", {}, []).id
    jobs.claim(name)
    pulse.observe(jobs.running())
    assert (pulse.is_alive("own"), pulse.is_alive(name)) == (True, False)
    folder = database.home.home / "workers"
    folder.mkdir(exist_ok=True, parents=True)
    with lock_file(folder / f"{name}.lock"):
        alive = []
        for seconds, act in (
            (STALE_S - 1, None),
            (2, None),
            (0, "beat"),
            (STALE_S - 1, None),
            (2, None),
            (0, "forget"),
        ):
            clock[0] += seconds
            if act == "beat":
                jobs.heartbeat(job, name)
            if act == "forget":
                pulse.reset()
            pulse.observe(jobs.running())
            alive.append(pulse.is_alive(name))
        assert alive == [True, False, True, True, False, True]
    assert not pulse.is_alive(name)


# ── progress ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_progress_is_written_twice_a_second_at_most_and_at_the_end(jobs):
    job, clock = jobs.enqueue("1", {}, []).id, [50.0]
    jobs.claim("w")
    progress = JobProgress(jobs, job, "w", clock=lambda: clock[0])
    progress.stage("reading", 640, "lines")
    written = []
    for _ in range(640):
        progress.advance(1)
        progress.write()
        if jobs.get(job).progress["done"] not in written:
            written.append(jobs.get(job).progress["done"])
        clock[0] += 1 / 64
    assert written == [1 + 32 * n for n in range(20)]  # each half second of ten
    progress.write(last=True)
    assert timeless(jobs.get(job).progress) == {"stage": "reading", "total": 640, "unit": "lines", "done": 640}
    last = jobs.events(job)[-1]
    assert (last.type, last.data["done"]) == ("progress", 640)
    progress.write(last=True)
    assert jobs.events(job)[-1] == last  # nothing new, nothing written


def test_what_cannot_be_written_waits_and_keeps_its_order(tmp_path):
    database = Database.open(Settings(home=tmp_path / "home"))
    database.migrate()
    jobs = JobStore(database)
    job = jobs.enqueue("1", {}, []).id
    jobs.claim("w")
    progress = JobProgress(jobs, job, "w")
    progress.stage("first", 10)
    back = away(database)
    for n in range(1_200):
        progress.warn(f"warning {n}")
    for _ in range(2):
        with pytest.raises(Unavailable):
            progress.write(last=True)
    progress.advance(5)
    progress.stage("too late to be kept")
    back()
    progress.write(last=True)
    events = [(event.type, timeless(event.data)) for event in jobs.events(job, limit=2000)[2:]]
    assert events[0][1]["stage"] == "first"
    assert events[1:1000] == [("warning", {"message": f"warning {n}"}) for n in range(999)]
    assert events[1000] == ("note", {"message": "202 events were not written"})
    assert events[1001] == ("progress", {"stage": "too late to be kept", "total": None, "unit": "", "done": 0})
    assert len(events) == 1002
    database.close()


def test_a_message_is_cleaned_before_it_is_written(jobs):
    job = jobs.enqueue("1", {}, []).id
    jobs.claim("w")
    progress = JobProgress(jobs, job, "w", clean=lambda text: text.replace("/data/home", "HOME"))
    progress.warn("/data/home/logs is full")
    progress.write(last=True)
    assert jobs.events(job)[-1].data == {"message": "HOME/logs is full"}


# ── a database that is away ───────────────────────────────────────────────────────────────────────────────────────


def away(database):
    """Take the file away; what comes back puts it where it was."""
    database.close()
    moved = database.file.with_name("moved.db")
    database.file.rename(moved)
    return lambda: moved.rename(database.file)


@pytest.fixture(params=["sqlite", POSTGRESQL])
def losable(request, tmp_path):
    """A database, its settings, and how to lose it: with what gives it back."""
    home = Settings(home=tmp_path / "home")
    if request.param == "sqlite":
        database = Database.open(home)
        database.migrate()
        yield database, ServeSettings(), lambda: away(database)
    else:
        cluster = request.getfixturevalue("cluster")
        cluster.ask("DROP DATABASE IF EXISTS losable WITH (FORCE)")
        cluster.ask("CREATE DATABASE losable TEMPLATE template0")
        database = Database.open(home, cluster.url("losable"))
        database.migrate()

        def lose():
            cluster.stop()
            return cluster.start

        yield database, ServeSettings(database=cluster.url("losable")), lose
    database.close()


def test_job_runs_on_without_the_database_and_stores_its_end_later(losable, caplog):
    database, serve, lose = losable
    jobs = JobStore(database)
    job, back = jobs.enqueue("1", {}, ["log/chat"]).id, []

    def run(order, home, given, progress, *, job):
        progress.stage("before", 2)
        wait_for(lambda: jobs.get(job).progress)
        back.append(lose())
        progress.stage("while it is away", 3)
        progress.advance(3)
        progress.warn("nobody hears this now")
        return {"done": "nevertheless"}

    def give_back():
        lost = "waiting for the database"
        wait_for(lambda: [record for record in caplog.records if record.message == lost and hasattr(record, "job")])
        back[0]()

    thread = in_background(give_back)
    assert run_worker(database.home, serve, once=True, run=run) == 0
    thread.join()
    ended = jobs.get(job)
    assert (ended.state, ended.result, ended.tries) == (JobState.DONE, {"done": "nevertheless"}, 1)
    told = [(event.type, event.data.get("stage") or event.data.get("message")) for event in jobs.events(job)]
    assert [one for one in told if one[0] in ("stage", "warning")] == [
        ("stage", "before"),
        ("stage", "while it is away"),
        ("warning", "nobody hears this now"),
    ]
    assert states(jobs, job) == ["queued", "running", "done"]


def test_worker_stopped_without_database_leaves_its_job_to_the_next(losable, monkeypatch):
    monkeypatch.setattr(job_worker, "_STOP_WAIT_S", 0.3)
    database, serve, lose = losable
    jobs = JobStore(database)
    job, back = jobs.enqueue("1", {}, ["log/chat"]).id, []

    def run(*_, **__):
        back.append(lose())
        os.kill(os.getpid(), signal.SIGTERM)
        return waits()

    assert run_worker(database.home, serve, once=True, run=run) == 0
    back[0]()
    assert jobs.get(job).state is JobState.RUNNING
    assert run_worker(database.home, serve, once=True, run=lambda *_, **__: {"by": "the next"}) == 0
    assert (jobs.get(job).result, jobs.get(job).tries) == ({"by": "the next"}, 2)


def test_a_worker_waits_for_a_database_that_is_not_there_yet(empty_database, database_url, caplog):
    until, serve = threading.Event(), ServeSettings(database=database_url)
    thread = in_background(lambda: run_worker(empty_database.home, serve, until=until, run=lambda *_, **__: {"n": 1}))
    wait_for(lambda: [record for record in caplog.records if record.message == "waiting for the database"])
    empty_database.migrate()
    jobs = JobStore(empty_database)
    job = jobs.enqueue("1", {}, []).id
    wait_for(lambda: jobs.get(job).state is JobState.DONE)
    until.set()
    thread.join()


# ── kills ─────────────────────────────────────────────────────────────────────────────────────────────────────────

# Runs workers, each in a process forked for it, that are killed at the n-th of the places where something changes: in
# the job, and before, within and after every transaction of the main thread. It answers with the exit code and how
# many places there were. The job makes three files, one after the other, and does none that is there a second time.
DRIVER = """if True:
    import os, signal, sys, threading
    from pathlib import Path

    import orjson

    from refaug.service.jobs import store as job_store
    from refaug.service.jobs.worker import run_worker
    from refaug.service.server_settings import ServeSettings
    from refaug.core.home import Settings

    class Places:
        def __init__(self, kill_at):
            self.kill_at, self.seen = kill_at, 0

        def here(self):
            if threading.current_thread() is threading.main_thread():
                self.seen += 1
                if self.seen == self.kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)

        def around(self, owner, name):
            real = getattr(owner, name)

            def watched(*given, **named):
                self.here()
                found = real(*given, **named)
                self.here()
                return found

            setattr(owner, name, watched)

    def main(order):
        places = Places(order["kill_at"])

        def run(wanted, home, serve, progress, *, job):
            folder = Path(wanted["folder"])
            for n in range(3):
                progress.stage(f"file {n}", 1)
                if not (folder / f"{n}").exists():
                    places.here()
                    with (folder / "made").open("a") as made:
                        made.write(f"{n}")
                    (folder / f"{n}.aside").write_text(str(n * n))
                    places.here()
                    (folder / f"{n}.aside").rename(folder / f"{n}")
                    places.here()
                progress.advance(1)
            return {"squares": [int((folder / f"{n}").read_text()) for n in range(3)]}

        for name in ("claim", "_claim", "recover", "finish", "_requeue"):
            places.around(job_store.JobStore, name)
        for name in ("_add_events", "_free_resources", "_update_job"):
            places.around(job_store, name)
        serve = ServeSettings(database=order["url"], job_tries=9)
        run_worker(Settings(home=Path(order["home"])), serve, once=True, run=run)
        return places.seen

    for line in sys.stdin.buffer:
        order = orjson.loads(line)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, str(main(order)).encode())
            os._exit(0)
        os.close(write)
        seen = os.read(read, 100)
        os.close(read)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(orjson.dumps([code, int(seen or b"0")]).decode(), flush=True)
"""


@pytest.fixture(scope="session")
def forked():
    """Run a worker and kill it somewhere."""
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )

    def run(home, url, kill_at=0):
        process.stdin.write(orjson.dumps({"home": str(home), "url": url, "kill_at": kill_at}) + b"\n")
        process.stdin.flush()
        return orjson.loads(process.stdout.readline())

    yield run
    process.stdin.close()
    process.wait()
    process.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, pytest.param(10_000, marks=pytest.mark.faults)])
def test_a_kill_at_any_place_loses_nothing_and_does_nothing_twice(
    forked, database, database_url, jobs, tmp_path, kills
):
    def begin(name):
        folder = tmp_path / name
        folder.mkdir()
        return folder, jobs.enqueue("squares", {"folder": str(folder)}, ["log/chat"]).id

    begin("whole")
    code, places = forked(database.home.home, database_url)
    assert code == 0
    assert places > 25
    for kill_at in random.Random(3).sample(range(1, places + 1), min(kills, places)):
        folder, job = begin(f"{kill_at}")
        assert forked(database.home.home, database_url, kill_at)[0] == -signal.SIGKILL
        assert jobs.get(job).state in (JobState.QUEUED, JobState.RUNNING, JobState.DONE)
        before = jobs.get(job).state
        assert forked(database.home.home, database_url)[0] == 0
        ended = jobs.get(job)
        assert (ended.state, ended.result) == (JobState.DONE, {"squares": [0, 1, 4]})
        told = states(jobs, job)
        assert re.fullmatch("queued running (queued running )?done", " ".join(told))
        assert (before is JobState.RUNNING) == (told.count("running") == 2)
        ids = [event.id for event in jobs.events(job)]
        assert ids == sorted(set(ids))
        assert re.fullmatch("0{1,2}1{1,2}2{1,2}", (folder / "made").read_text())  # at most what was half done, again
        assert len((folder / "made").read_text()) <= 4


def test_a_worker_that_kills_itself_each_time_is_not_begun_for_ever(forked, database, database_url, jobs, tmp_path):
    job = jobs.enqueue("squares", {"folder": str(tmp_path / "missing")}, ["log/chat"]).id
    with database.writing() as connection:  # as if it had died eight times
        connection.execute(update(JOBS).where(JOBS.c.id == job).values(tries=8))
    begun = jobs.claim("a worker that is dead")
    assert begun.tries == 9
    assert forked(database.home.home, database_url)[0] == 0
    assert (jobs.get(job).state, jobs.get(job).error["code"]) == (JobState.FAILED, "worker_died")


# A worker as a process of its own, which says when its job is under way.
PROCESS = """if True:
    import sys, time
    from pathlib import Path
    from refaug.service.jobs.worker import run_worker
    from refaug.service.server_settings import ServeSettings
    from refaug.core.home import Settings

    def run(order, home, serve, progress, *, job):
        print("under way", flush=True)
        time.sleep(60)

    sys.exit(run_worker(Settings(home=Path(sys.argv[1])), ServeSettings(database=sys.argv[2]), run=run))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_process_that_ends_gives_its_job_to_the_next(database, database_url, jobs, run_once, number):
    job = jobs.enqueue("1", {}, ["log/chat"]).id
    process = subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(database.home.home), database_url],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"under way\n"
    assert run_once(waits) == 0  # a second worker finds nothing to do: the first has the job, and lives
    process.send_signal(number)
    process.communicate()
    assert process.returncode == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    assert jobs.get(job).state is (JobState.QUEUED if number == signal.SIGTERM else JobState.RUNNING)
    assert run_once(lambda *_, **__: {"n": 2}) == 0
    assert (jobs.get(job).result, jobs.get(job).tries) == ({"n": 2}, 1 if number == signal.SIGTERM else 2)
    assert states(jobs, job) == ["queued", "running", "queued", "running", "done"]
