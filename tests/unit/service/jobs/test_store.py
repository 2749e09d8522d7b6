"""Jobs as rows: every change of state with its event, claims that never share anything, and nothing lost."""

from __future__ import annotations

import random
import re
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from refusals import refusing
from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from refaug.core.errors import Conflict, NotFound, Overloaded, Usage
from refaug.core.home import Settings
from refaug.service.database import row_ids
from refaug.service.database.database import Database, time_of, time_text
from refaug.service.database.tables import JOB_RESOURCES, JOBS, STATES
from refaug.service.jobs.store import ENDED, Job, JobState, JobStore, LostJob, NewEvent

pytest_plugins = ("databases",)

QUEUED, RUNNING, DONE, FAILED, CANCELLED = JobState


@pytest.fixture
def jobs(database):
    return JobStore(database, waiting_jobs=5, tries=2)


def told(jobs, job):
    """A job's events as pairs, with their numbers checked."""
    events = jobs.events(job)
    assert [event.id for event in events] == sorted({event.id for event in events})
    assert {event.job for event in events} <= {job}
    return [(event.type, event.data) for event in events]


def states(jobs, job):
    return [data["state"] for kind, data in told(jobs, job) if kind == "state"]


def in_use(database):
    with database.reading() as connection:
        return sorted(connection.execute(select(JOB_RESOURCES.c.resource).where(JOB_RESOURCES.c.in_use)).scalars())


# ── asking ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_is_read_as_it_was_ordered(jobs):
    before = time_text()
    order = {"kind": "ingest", "log": "chat", "words": ["naïve", "\u0000", "東京"], "many": {"deep": [1, 2.5, None]}}
    job = jobs.enqueue("ingest", order, ["log/chat", "index/chat", "log/chat"], requested_by="ann", schedule="night")
    assert before <= job.created <= time_text()
    assert job == Job(
        id=job.id,
        kind="ingest",
        order=order,
        resources=("index/chat", "log/chat"),
        state=QUEUED,
        created=job.created,
        started=None,
        finished=None,
        tries=0,
        progress=None,
        result=None,
        error=None,
        requested_by="ann",
        schedule="night",
        cancel_requested=False,
        worker=None,
        beat=None,
        actor="schedule night",
    )
    assert jobs.get(job.id) == job
    assert told(jobs, job.id) == [("state", {"state": "queued", "requested_by": "ann"})]


def test_a_second_job_of_the_same_kind_and_resources_is_told_of_the_first(jobs):
    first = jobs.enqueue("ingest", {}, ["log/chat", "index/chat"])
    with pytest.raises(Conflict) as raised:
        jobs.enqueue("ingest", {"other": 1}, ["index/chat", "log/chat"])
    assert raised.value.message == f"job {first.id} of kind ingest on index/chat, log/chat waits already"
    others = [jobs.enqueue("ingest", {}, ["log/chat"]), jobs.enqueue("vectors", {}, ["index/chat", "log/chat"])]
    assert jobs.claim("w").id == first.id
    again = jobs.enqueue("ingest", {}, ["index/chat", "log/chat"])  # the first runs, and may be past what is new
    assert [job.id for job in jobs.list()[0]] == [again.id, others[1].id, others[0].id, first.id]


def test_a_job_comes_after_one_that_a_process_queued_whose_clock_was_ahead(database, jobs, monkeypatch):
    ahead = row_ids._digits(time.time_ns() // 1_000 + 3_600_000_000, 12) + "0" * 14
    with monkeypatch.context() as patch:
        patch.setattr("refaug.service.jobs.store.new_row_id", lambda after: ahead)
        jobs.enqueue("ingest", {}, ["log/a"])
    later = jobs.enqueue("ingest", {}, ["log/b"])
    assert [job.id for job in jobs.list()[0]] == [later.id, ahead]
    assert jobs.claim("w").id == ahead


def test_jobs_without_resources_are_told_apart_by_their_kind(jobs):
    first = jobs.enqueue("gc", {}, [])
    with refusing(Conflict, first.id, "gc"):
        jobs.enqueue("gc", {}, [])
    assert jobs.claim("w").id == first.id
    second = jobs.enqueue("gc", {}, [])
    assert jobs.claim("w").id == second.id  # nothing is shared


def test_no_more_jobs_wait_than_allowed(jobs):
    for n in range(5):
        jobs.enqueue("ingest", {}, [f"log/{n}"])
    with pytest.raises(Overloaded, match="5") as raised:
        jobs.enqueue("ingest", {}, ["log/5"])
    assert raised.value.retry_after_s > 1
    jobs.claim("w")
    jobs.enqueue("ingest", {}, ["log/5"])
    assert jobs.counts() == {"queued": 5, "running": 1, "done": 0, "failed": 0, "cancelled": 0}


def test_many_that_ask_at_once_get_one_job_and_no_more_than_the_limit(database):
    jobs, ready = JobStore(database, waiting_jobs=3), threading.Barrier(8)
    made, refused = [], []

    def ask(n):
        ready.wait()
        for resource in random.Random(n).sample(range(4), 4):
            try:
                made.append(jobs.enqueue("ingest", {}, [f"log/{resource}"]).resources)
            except (Conflict, Overloaded) as error:
                refused.append(type(error))

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == len(set(made)) == 3
    assert len(refused) == 29
    assert jobs.counts()["queued"] == 3


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_ids_rise_with_time_and_say_nothing_else():
    ids = row_ids._Ids()  # others of this process may stand after a clock of another test
    made = [ids.new() for _ in range(10_000)]
    assert made == sorted(set(made))
    assert {len(one) for one in made} == {26}
    assert re.fullmatch("[0-9a-hjkmnp-tv-z]+", "".join(made)) is not None
    chance = {one[12:] for one in made}
    assert len(chance) == 10_000
    wanted = time.time_ns() // 1000
    found = 0
    for digit in made[-1][:12]:
        found = found * 32 + "0123456789abcdefghjkmnpqrstvwxyz".index(digit)
    assert 0 <= wanted - found < 60_000_000


def test_ids_rise_also_where_the_clock_goes_back(monkeypatch):
    ids, clock = row_ids._Ids(), [2_000_000_000_000_000_000]
    monkeypatch.setattr(row_ids.time, "time_ns", lambda: clock[0])
    made = [ids.new()]
    for step in (0, -5_000_000_000, 1_000_000_000):
        clock[0] += step
        made.append(ids.new())
    assert made == sorted(made)


def test_pages_have_every_job_once_newest_first(database):
    jobs = JobStore(database)
    ids = [jobs.enqueue(("ingest", "gc")[n % 2], {"n": n}, [f"log/{n}"]).id for n in range(11)]
    found, after = [], None
    for size in (4, 4, 3):
        page, after = jobs.list(after=after, limit=4)
        assert len(page) == size
        found += [job.id for job in page]
        if after is not None:
            jobs.enqueue("ingest", {}, [f"late/{after}"])  # what is new does not move the pages
    assert after is None
    assert found == ids[::-1]
    assert [job.order["n"] for job in jobs.list(kind="gc", limit=3)[0]] == [9, 7, 5]
    running = jobs.claim("w")
    assert jobs.list(state=RUNNING) == ([running], None)
    assert jobs.running() == [running]
    assert jobs.list(state=DONE) == ([], None)


@pytest.mark.parametrize("after", ["", "x", "0" * 25, "U" * 26, "0" * 27])
def test_a_place_in_the_list_that_is_none_is_refused(jobs, after):
    with refusing(Usage):
        jobs.list(after=after)


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_a_page_of_no_sense_is_refused(jobs, limit):
    with refusing(Usage, limit):
        jobs.list(limit=limit)


def test_a_job_that_is_not_there_is_named(jobs):
    for ask in (jobs.get, jobs.cancel):
        with refusing(NotFound, "nothing"):
            ask("nothing")
    with pytest.raises(NotFound):
        jobs.heartbeat("nothing", "w")
    assert jobs.events("nothing") == []


@pytest.mark.parametrize("text", ["", "\0", "a\0b", "\ud800", "'; --", "0" * 25, "0" * 27, "i" * 26, "9" * 100_000])
def test_a_text_that_can_be_no_id_is_the_id_of_no_job(jobs, text):
    for ask in (jobs.get, jobs.cancel):
        with refusing(NotFound):
            ask(text)
    assert jobs.events(text) == []
    with refusing(Usage):
        jobs.list(after=text)


# ── working ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_from_its_order_to_its_result(jobs, database):
    job = jobs.enqueue("ingest", {}, ["log/chat"])
    assert in_use(database) == []
    mine = jobs.claim("w1")
    assert (mine.id, mine.state, mine.worker, mine.tries) == (job.id, RUNNING, "w1", 1)
    assert job.created <= mine.started == mine.beat <= time_text()
    assert in_use(database) == ["log/chat"]
    assert jobs.claim("w2") is None
    assert jobs.heartbeat(job.id, "w1") is False
    jobs.progress(job.id, "w1", {"stage": "reading", "done": 3}, [NewEvent(type="stage", data={"stage": "reading"})])
    jobs.progress(job.id, "w1", None, [NewEvent(type="warning", data={"message": "odd"})])
    assert jobs.get(job.id).progress == {"stage": "reading", "done": 3}
    assert jobs.get(job.id).beat > mine.beat
    jobs.finish(job.id, "w1", DONE, outcome={"pairs": 7})
    ended = jobs.get(job.id)
    assert (ended.state, ended.result, ended.error, ended.worker) == (DONE, {"pairs": 7}, None, "w1")
    assert mine.started <= ended.finished <= time_text()
    assert in_use(database) == []
    assert told(jobs, job.id) == [
        ("state", {"state": "queued"}),
        ("state", {"state": "running", "try": 1}),
        ("stage", {"stage": "reading"}),
        ("warning", {"message": "odd"}),
        ("state", {"state": "done"}),
    ]


def test_an_error_stands_in_the_job_and_in_its_last_event(jobs):
    job, error = jobs.enqueue("ingest", {}, []), {"code": "no_source", "message": "nothing there"}
    jobs.claim("w")
    jobs.finish(job.id, "w", FAILED, outcome={"drift": 0.5}, error=error)
    ended = jobs.get(job.id)
    assert (ended.state, ended.result, ended.error) == (FAILED, {"drift": 0.5}, error)
    assert told(jobs, job.id)[-1] == ("state", {"state": "failed", "error": error})


def test_oldest_job_goes_first_except_those_whose_resources_are_taken(jobs):
    a, b, c, d = (
        jobs.enqueue(kind, {}, resources).id
        for kind, resources in (("1", ["x"]), ("2", ["x", "y"]), ("3", ["z"]), ("4", ["y"]))
    )
    assert [jobs.claim("w").id for _ in range(3)] == [a, c, d]
    assert jobs.claim("w") is None
    jobs.finish(a, "w", DONE)
    assert jobs.claim("w") is None
    jobs.finish(d, "w", DONE)
    assert jobs.claim("w").id == b


def test_that_nothing_is_shared_is_a_property_of_the_data(jobs, database):
    for kind in ("1", "2"):
        jobs.enqueue(kind, {}, ["log/chat"])
    jobs.claim("w")
    with pytest.raises(IntegrityError), database.writing() as connection:
        connection.execute(update(JOB_RESOURCES).values(in_use=True))


def test_newer_progress_takes_the_place_of_older(jobs):
    job = jobs.enqueue("ingest", {}, []).id
    jobs.claim("w")
    for done in range(50):
        jobs.progress(job, "w", {"done": done}, [NewEvent(type="progress", data={"done": done})])
    jobs.progress(job, "w", None, [NewEvent(type="warning", data={})])
    jobs.finish(job, "w", DONE)
    assert [(event.id, event.type) for event in jobs.events(job)] == [
        (1, "state"),
        (2, "state"),
        (52, "progress"),
        (53, "warning"),
        (54, "state"),
    ]
    assert jobs.events(job, after=2, limit=1)[0].data == {"done": 49}
    assert [event.id for event in jobs.events(job, after=52)] == [53, 54]
    assert jobs.events(job, after=54) == []


def test_whoever_reads_on_from_the_last_number_misses_nothing(database):
    """Writers of one job from several threads, and a reader that asks for what is newer than the last it saw."""
    jobs = JobStore(database)
    job = jobs.enqueue("ingest", {}, []).id
    jobs.claim("w")
    writing = [0] * 4

    def write(n):
        for count in range(15):
            jobs.progress(
                job, "w", None, [NewEvent(type="note", data={"of": n, "n": count, "part": p}) for p in (0, 1)]
            )
        writing[n] = 1

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    seen, is_over = [], False
    while not is_over:
        is_over = sum(writing) == 4
        seen += jobs.events(job, after=seen[-1].id if seen else 0, limit=7)
    while rest := jobs.events(job, after=seen[-1].id, limit=7):
        seen += rest
    for thread in threads:
        thread.join()
    assert [event.id for event in seen] == list(range(1, 2 + 4 * 15 * 2 + 1))
    for n in range(4):
        mine = [(event.data["n"], event.data["part"]) for event in seen[2:] if event.data["of"] == n]
        assert mine == [(count, part) for count in range(15) for part in (0, 1)]


@pytest.mark.slow
def test_eight_workers_run_200_jobs_once_each_and_share_no_resource(database, database_url):
    """Each worker has connections of its own; whether resources are shared is looked at from outside of the rows."""
    rng = random.Random(7)
    store = JobStore(database)
    wanted = {
        store.enqueue(f"kind{n}", {"n": n}, [f"r{one}" for one in rng.sample(range(12), rng.randrange(4))]).id: n
        for n in range(200)
    }
    lock, busy, done, shared = threading.Lock(), set[str](), list[str](), list[tuple[str, ...]]()

    def work(name):
        mine = Database.open(database.home, database_url)
        jobs = JobStore(mine)
        while len(done) < 200:
            job = jobs.claim(name)
            if job is None:
                continue
            with lock:
                shared.extend([job.resources] if busy.intersection(job.resources) else [])
                busy.update(job.resources)
            jobs.heartbeat(job.id, name)  # it takes a while
            with lock:
                busy.difference_update(job.resources)
                done.append(job.id)
            jobs.finish(job.id, name, DONE, outcome={"n": job.order["n"]})
        mine.close()

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shared == []
    assert sorted(done) == sorted(wanted)
    assert store.counts() == {"queued": 0, "running": 0, "done": 200, "failed": 0, "cancelled": 0}
    assert in_use(database) == []
    for job, n in random.Random(1).sample(sorted(wanted.items()), 20):
        assert (store.get(job).result, store.get(job).tries) == ({"n": n}, 1)
        assert states(store, job) == ["queued", "running", "done"]


@pytest.mark.machine
def test_two_workers_that_reach_for_one_resource_at_the_same_moment(cluster, tmp_path):
    """PostgreSQL: the second has read that the resource is free, and learns at the index that it is not."""
    cluster.ask("DROP DATABASE IF EXISTS race WITH (FORCE)")
    cluster.ask("CREATE DATABASE race TEMPLATE template0")
    database = Database.open(Settings(home=tmp_path), cluster.url("race"))
    database.migrate()
    jobs = JobStore(database)
    first, second, third = (jobs.enqueue(f"{n}", {}, resources).id for n, resources in enumerate((["x"], ["x"], [])))
    found, begins = [], threading.Event()

    def claim():
        begins.set()
        found.append(jobs.claim("other"))

    with database.writing():
        assert jobs.claim("one").id == first  # not committed yet: the other one skips the row, and takes the second
        thread = threading.Thread(target=claim)
        thread.start()
        assert begins.wait(30)
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'race' AND wait_event_type = 'Lock'"
        deadline = time.monotonic() + 9
        while not _count(database, waiting):  # it waits for the first's transaction to end
            assert time.monotonic() < deadline
    thread.join()
    assert [job.id for job in found] == [third]
    assert jobs.get(second).state is QUEUED
    database.close()
    cluster.ask("DROP DATABASE race WITH (FORCE)")


def _count(database, statement):
    with database._engine.connect() as connection:
        return connection.exec_driver_sql(statement).scalar_one()


# ── ends ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_end_that_is_told_twice_counts_once(jobs):
    job = jobs.enqueue("ingest", {}, []).id
    jobs.claim("w")
    for _ in range(2):
        jobs.finish(job, "w", DONE, outcome={"n": 1})
    assert states(jobs, job) == ["queued", "running", "done"]
    with refusing(LostJob, job, "done"):
        jobs.finish(job, "w", FAILED, error={"code": "x"})
    assert jobs.get(job).state is DONE


@pytest.mark.parametrize("act", ["beat", "progress", "finish", "requeue"])
def test_a_worker_that_was_taken_for_dead_can_do_nothing_more(jobs, act):
    job = jobs.enqueue("ingest", {}, ["log/chat"]).id
    jobs.claim("slow")
    assert [one.id for one in jobs.recover(lambda _: False)] == [job]
    assert jobs.claim("quick").id == job
    acts = {
        "beat": lambda: jobs.heartbeat(job, "slow"),
        "progress": lambda: jobs.progress(job, "slow", {"done": 9}, [NewEvent(type="note", data={})]),
        "finish": lambda: jobs.finish(job, "slow", DONE, outcome={"of": "slow"}),
        "requeue": lambda: jobs.requeue(job, "slow", "stopped"),
    }
    before = told(jobs, job)
    with refusing(LostJob, job, "running", "slow") as raised:
        acts[act]()
    assert (raised.value.code, raised.value.status) == ("not_your_job", 409)
    assert told(jobs, job) == before
    assert (jobs.get(job).worker, jobs.get(job).progress) == ("quick", None)


def test_a_waiting_job_is_cancelled_at_once(jobs):
    job = jobs.enqueue("ingest", {}, ["log/chat"]).id
    for _ in range(2):  # the second time, nothing is left to do
        cancelled = jobs.cancel(job)
        assert (cancelled.state, cancelled.cancel_requested) == (CANCELLED, True)
    assert cancelled.finished is not None
    assert states(jobs, job) == ["queued", "cancelled"]
    assert jobs.claim("w") is None
    assert jobs.enqueue("ingest", {}, ["log/chat"]).state is QUEUED


def test_a_running_job_hears_that_it_is_to_stop(jobs):
    job = jobs.enqueue("ingest", {}, []).id
    jobs.claim("w")
    for _ in range(2):
        asked = jobs.cancel(job)
        assert (asked.state, asked.cancel_requested, asked.finished) == (RUNNING, True, None)
    assert jobs.heartbeat(job, "w") is True
    jobs.finish(job, "w", CANCELLED)
    assert [kind for kind, _ in told(jobs, job)] == ["state", "state", "note", "state"]
    assert states(jobs, job) == ["queued", "running", "cancelled"]


@pytest.mark.parametrize("state", [DONE, FAILED])
def test_what_has_ended_cannot_be_cancelled(jobs, state):
    job = jobs.enqueue("ingest", {}, []).id
    jobs.claim("w")
    jobs.finish(job, "w", state)
    before = told(jobs, job)
    assert (jobs.cancel(job).state, jobs.cancel(job).cancel_requested) == (state, False)
    assert told(jobs, job) == before


def test_a_job_that_is_put_back_goes_first_and_its_try_does_not_count(jobs, database):
    job = jobs.enqueue("ingest", {}, ["log/chat"]).id
    for _ in range(5):
        assert jobs.claim("w").tries == 1
        jobs.enqueue(f"later{_}", {}, ["log/chat"]) if _ == 0 else None
        jobs.requeue(job, "w", "its worker was stopped")
        put = jobs.get(job)
        assert (put.state, put.tries, put.worker, put.beat) == (QUEUED, 0, None, None)
        assert in_use(database) == []
    assert told(jobs, job)[-1] == ("state", {"state": "queued", "why": "its worker was stopped"})
    assert jobs.claim("w").id == job


@pytest.mark.parametrize("how", ["requeue", "recover"])
def test_a_job_that_was_to_stop_is_not_begun_again(jobs, database, how):
    job = jobs.enqueue("ingest", {}, ["log/chat"]).id
    jobs.claim("w")
    jobs.cancel(job)
    if how == "requeue":
        jobs.requeue(job, "w", "its worker was stopped")
    else:
        jobs.recover(lambda _: False)
    assert jobs.get(job).state is CANCELLED
    assert jobs.get(job).finished is not None
    assert in_use(database) == []


def test_jobs_of_dead_workers_go_on_until_too_many_have_died(jobs, database):
    dies, lives = jobs.enqueue("ingest", {}, ["log/a"]).id, jobs.enqueue("ingest", {}, ["log/b"]).id
    assert (jobs.claim("dead").id, jobs.claim("alive").id) == (dies, lives)
    found = jobs.recover(lambda worker: worker == "alive")
    assert [(job.id, job.state, job.tries) for job in found] == [(dies, QUEUED, 1)]
    assert told(jobs, dies)[-1] == ("state", {"state": "queued", "why": "its worker died"})
    assert jobs.recover(lambda worker: worker == "alive") == []
    assert jobs.claim("dead").tries == 2
    assert [job.state for job in jobs.recover(lambda worker: worker == "alive")] == [FAILED]
    ended = jobs.get(dies)
    assert ended.error["code"] == "worker_died"
    assert ended.error["message"] == "the process that ran the job died, 2 times"
    assert ended.error["exit_code"] == 1
    assert states(jobs, dies) == ["queued", "running", "queued", "running", "failed"]
    assert jobs.get(lives).state is RUNNING
    assert in_use(database) == ["log/b"]


def test_many_that_recover_at_once_put_a_job_back_once(database):
    jobs, ready = JobStore(database, tries=9), threading.Barrier(4)
    ids = [jobs.enqueue(f"{n}", {}, []).id for n in range(5)]
    assert [jobs.claim("dead").id for _ in ids] == ids
    found = []

    def recover():
        ready.wait()
        found.extend(job.id for job in jobs.recover(lambda _: False))

    threads = [threading.Thread(target=recover) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == ids
    assert [states(jobs, job) for job in ids] == [["queued", "running", "queued"]] * 5


def test_old_jobs_are_removed_with_their_events_and_nothing_else_is(database):
    jobs = JobStore(database)
    ids = [jobs.enqueue(f"{n}", {}, [f"log/{n}"]).id for n in range(5)]
    for state in (DONE, FAILED, CANCELLED):
        jobs.finish(jobs.claim("w").id, "w", state)
    jobs.claim("w")
    old = time_text(datetime.now(UTC) - timedelta(days=91))
    with database.writing() as connection:
        for job in (ids[0], ids[1], ids[3], ids[4]):
            connection.execute(update(JOBS).where(JOBS.c.id == job).values(created=old, finished=old))
    assert jobs.remove_older(90) == 2
    assert [job.id for job in jobs.list()[0]] == [ids[4], ids[3], ids[2]]
    assert jobs.events(ids[0]) == []
    with database.reading() as connection:
        left = connection.execute(select(JOB_RESOURCES.c.job).order_by(JOB_RESOURCES.c.job)).scalars().all()
    assert left == ids[2:]


def test_the_states_are_those_of_the_table():
    assert tuple(JobState) == STATES
    assert [state for state in JobState if state.is_ended] == [DONE, FAILED, CANCELLED]
    assert set(ENDED) == {DONE, FAILED, CANCELLED}


def test_a_job_and_what_began_it_are_written_together_or_not_at_all(jobs, database):
    def with_a_row_that_cannot_be():
        with database.writing() as connection:
            jobs.enqueue("ingest", {}, ["log/chat"])
            connection.execute(insert(JOB_RESOURCES).values(job="nothing", resource="x"))

    with pytest.raises(IntegrityError):
        with_a_row_that_cannot_be()
    assert jobs.list() == ([], None)
    with database.writing() as connection:
        job = jobs.enqueue("ingest", {}, ["log/chat"])
        with refusing(Conflict, job.id):
            jobs.enqueue("ingest", {}, ["log/chat"])
        assert connection.execute(select(JOBS.c.id)).scalars().all() == [job.id]
    assert jobs.get(job.id) == job


def test_times_of_a_job_are_times(jobs):
    job = jobs.enqueue("ingest", {}, [])
    assert abs(time_of(job.created) - datetime.now(UTC)) < timedelta(minutes=1)
    assert abs(time_of(jobs.events(job.id)[0].at) - time_of(job.created)) < timedelta(minutes=1)
