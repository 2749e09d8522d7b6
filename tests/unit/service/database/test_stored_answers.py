"""Requests that are sent again: done once, answered alike; and what was left unfinished is done anew."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from refusals import refusing
from sqlalchemy import func, select, update

from refaug.core.errors import BadInput, Usage
from refaug.core.home import Settings
from refaug.service.database.database import Database, time_text
from refaug.service.database.row_ids import RowHolders
from refaug.service.database.stored_answers import IdempotencyStore, InProgress, KeyReused
from refaug.service.database.tables import IDEMPOTENCY
from refaug.service.jobs.store import JobStore

pytest_plugins = ("databases",)

ROOT = Path(__file__).resolve().parents[4]


class Maker:
    """Answers with how often it was asked."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return 201, {"n": self.calls, "text": "東京"}


@pytest.fixture(params=[False, True], ids=["apart", "at once"])
def at_once(request):
    return request.param


@pytest.fixture
def once(database, at_once):
    answers = IdempotencyStore(database)
    return lambda scope, key, body, make: answers.get_or_create(scope, key, body, make, at_once=at_once)


def rows(database):
    with database.reading() as connection:
        return connection.execute(select(func.count()).select_from(IDEMPOTENCY)).scalar_one()


def test_the_same_request_gets_the_first_answer(once):
    make = Maker()
    assert once("jobs", "k", "sha", make) == (201, {"n": 1, "text": "東京"}, False)
    assert once("jobs", "k", "sha", make) == (201, {"n": 1, "text": "東京"}, True)
    assert make.calls == 1


def test_another_key_or_scope_is_another_request(once):
    make = Maker()
    answers = [once(scope, key, "sha", make) for scope, key in (("jobs", "a"), ("jobs", "b"), ("sets", "a"))]
    assert [(answer["n"], is_again) for _, answer, is_again in answers] == [(1, False), (2, False), (3, False)]


def test_the_same_key_with_another_body_is_refused(once):
    make = Maker()
    once("jobs", "k", "sha", make)
    with refusing(KeyReused, "'k'") as raised:
        once("jobs", "k", "other", make)
    assert (raised.value.code, raised.value.status, make.calls) == ("idempotency_key_reused", 409, 1)


def test_while_the_first_is_under_way_the_second_is_told_so(database):
    answers, begun, go_on, got = IdempotencyStore(database), threading.Event(), threading.Event(), []

    def slow():
        begun.set()
        assert go_on.wait(30)
        return 201, {"by": "first"}

    thread = threading.Thread(target=lambda: got.append(answers.get_or_create("jobs", "k", "sha", slow)))
    thread.start()
    assert begun.wait(30)
    with refusing(InProgress, "'k'") as raised:
        answers.get_or_create("jobs", "k", "sha", Maker())
    assert (raised.value.code, raised.value.status) == ("in_progress", 409)
    with pytest.raises(KeyReused):
        answers.get_or_create("jobs", "k", "other", Maker())
    go_on.set()
    thread.join()
    assert got == [(201, {"by": "first"}, False)]
    assert answers.get_or_create("jobs", "k", "sha", Maker()) == (201, {"by": "first"}, True)


def test_many_at_once_are_made_once(once):
    ready, make, got, told = threading.Barrier(8), Maker(), [], []

    def ask():
        ready.wait()
        try:
            got.append(once("jobs", "k", "sha", make))
        except InProgress as error:
            told.append(error.code)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert make.calls == 1
    assert [is_again for _, _, is_again in got].count(False) == 1
    assert {answer["n"] for _, answer, _ in got} == {1}
    assert len(got) + len(told) == 8


@pytest.mark.parametrize(
    "error", [BadInput("no"), KeyboardInterrupt(), MemoryError()], ids=lambda one: type(one).__name__
)
def test_an_error_is_not_remembered(once, database, error):
    def fails():
        raise error

    with pytest.raises(type(error)):
        once("jobs", "k", "sha", fails)
    assert rows(database) == 0
    assert once("jobs", "k", "another body", Maker()) == (201, {"n": 1, "text": "東京"}, False)


# A process that dies while it makes an answer, with what it had queued before.
DIES = """if True:
    import os, signal, sys
    from pathlib import Path
    from refaug.service.database.database import Database
    from refaug.service.database.stored_answers import IdempotencyStore
    from refaug.service.jobs.store import JobStore
    from refaug.core.home import Settings

    database = Database.open(Settings(home=Path(sys.argv[1])), sys.argv[2])

    def make():
        JobStore(database).enqueue("ingest", {}, ["log/chat"])
        os.kill(os.getpid(), signal.SIGKILL)

    IdempotencyStore(database).get_or_create("jobs", "k", "sha", make, at_once=sys.argv[3] == "True")
"""


def test_what_a_killed_process_left_is_done_anew_at_once(database, database_url, once, at_once):
    done = subprocess.run(
        [sys.executable, "-c", DIES, database.home.home, database_url, str(at_once)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    queued = JobStore(database).list()[0]
    assert len(queued) == (0 if at_once else 1)  # at once: the job and the answer are there together or not at all
    assert rows(database) == (0 if at_once else 1)
    make = Maker()
    assert once("jobs", "k", "sha", make) == (201, {"n": 1, "text": "東京"}, False)
    assert once("jobs", "k", "sha", make) == (201, {"n": 1, "text": "東京"}, True)


def test_at_once_the_job_and_the_answer_are_there_together(database):
    jobs, answers = JobStore(database), IdempotencyStore(database)

    def queue():
        job = jobs.enqueue("ingest", {}, ["log/chat"])
        return 202, {"job": job.id}

    status, answer, is_again = answers.get_or_create("jobs", "k", "sha", queue, at_once=True)
    assert (status, is_again) == (202, False)
    assert jobs.get(answer["job"]).id == answer["job"]
    assert answers.get_or_create("jobs", "k", "sha", queue, at_once=True) == (202, answer, True)

    def fails():
        jobs.enqueue("ingest", {}, ["log/other"])
        raise BadInput("no")

    with pytest.raises(BadInput):
        answers.get_or_create("jobs", "other", "sha", fails, at_once=True)
    assert [job.id for job in jobs.list()[0]] == [answer["job"]]


def test_after_a_day_the_key_is_free_again(once, database):
    make = Maker()
    for key in ("old", "new"):
        once("jobs", key, "sha", make)
    age(database, "old", hours=24, seconds=1)
    age(database, "new", hours=24, seconds=-60)
    assert once("jobs", "old", "other", make) == (201, {"n": 3, "text": "東京"}, False)
    assert once("jobs", "new", "sha", make)[2] is True


def test_what_is_older_than_a_day_is_removed(once, database):
    for key in ("old", "older", "new"):
        once("jobs", key, "sha", Maker())
    age(database, "old", hours=25)
    age(database, "older", hours=250)
    assert IdempotencyStore(database).delete_expired() == 2
    assert rows(database) == 1
    assert once("jobs", "new", "sha", Maker())[2] is True


def age(database, key, **by):
    then = time_text(datetime.now(UTC) - timedelta(**by))
    with database.writing() as connection:
        connection.execute(update(IDEMPOTENCY).where(IDEMPOTENCY.c.key == key).values(created=then))


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "a\u0000b"])
def test_a_key_that_is_none_is_refused(tmp_path, key):
    answers = IdempotencyStore(Database.open(Settings(home=tmp_path)))
    with refusing(Usage):
        answers.get_or_create("jobs", key, "sha", Maker())


def test_nothing_is_left_of_requests_that_have_ended(once, database):
    once("jobs", "k", "sha", Maker())
    with database.reading() as connection:
        holder = connection.execute(select(IDEMPOTENCY.c.holder)).scalar_one()
    assert not RowHolders(database.home).is_held(holder)
    assert list((database.home.home / "workers").iterdir()) == []
