"""`refaug admin jobs` as a command: queued, followed, cancelled, done by a worker, with the job's exit code."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from refaug.cli.server.jobs import _event_text, _follow_events, brief_order
from refaug.core.errors import CheckFailed
from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.jobs.store import Event, JobState, JobStore
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings

ROOT = Path(__file__).parents[2]
GC = {"artefact": "index", "name": "chat"}
DIALOGUES = '{"id": "d1", "turns": ["Is the shop open?", "Yes, until six.", "Good."]}\n'


@pytest.fixture
def order(tmp_path):
    path = tmp_path / "order.json"
    path.write_text(json.dumps(GC), "utf-8")
    return path


@pytest.fixture
def ingest(home, tmp_path):
    """A source in the inbox, and the order that takes it."""
    inbox = home.path / "inbox"
    inbox.mkdir(parents=True)
    (inbox / "shop.jsonl").write_text(DIALOGUES, "utf-8")
    path = tmp_path / "ingest.json"
    path.write_text(json.dumps({"log": "shop", "sources": ["shop.jsonl"], "workers": 0}), "utf-8")
    return path


def worked(home, **given) -> None:
    """What waits is done, as `admin jobs work --once` does it."""
    assert run_worker(Settings(home=home.path), ServeSettings(), once=True, **given) == 0


def while_another_works(home, **given):
    """A worker in a thread of this process, until the block ends."""

    class Working:
        def __enter__(self):
            self.until = threading.Event()
            settings = Settings(home=home.path)
            self.thread = threading.Thread(
                target=run_worker, args=(settings, ServeSettings()), kwargs={"until": self.until, **given}
            )
            self.thread.start()

        def __exit__(self, *_):
            self.until.set()
            self.thread.join()

    return Working()


def test_a_worker_has_a_moment_before_its_first_job_and_after_each(home, order) -> None:
    for name in ("chat", "other"):
        order.write_text(json.dumps({**GC, "name": name}), "utf-8")
        assert home("admin", "jobs", "start", "gc", "--json-order", order, "--json").code == 0
    moments = list[str]()

    def run(_order, _home, _serve, _progress, *, job) -> dict[str, str]:
        moments.append("job")
        return {"job": job}

    worked(home, run=run, between_jobs=lambda: moments.append("between"))
    assert moments == ["between", "job", "between", "job", "between"]


# ── queueing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_is_queued_with_its_whole_order_and_not_twice(home, order) -> None:
    started = home("admin", "jobs", "start", "gc", "--json-order", order, "--json")
    assert started.code == 0
    job = started.json
    assert (job["kind"], job["state"], job["order"], job["resources"], job["tries"]) == (
        "gc",
        "queued",
        {"kind": "gc", **GC, "keep": 3, "even_pinned": False},
        ["index/chat"],
        0,
    )
    again = home("admin", "jobs", "start", "gc", "--json-order", order, "--json")
    assert (again.code, again.error["message"]) == (4, f"job {job['id']} of kind gc on index/chat waits already")
    assert [row["id"] for row in home("admin", "jobs", "list", "--json").json["jobs"]] == [job["id"]]
    assert home("admin", "jobs", "show", job["id"], "--json").json == job


def test_an_order_comes_from_stdin_as_well(home, monkeypatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(json.dumps({"kind": "gc", **GC}).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert home("admin", "jobs", "start", "gc", "--json-order", "-", "--json").json["order"]["name"] == "chat"


def test_orders_that_make_no_sense_are_refused(home, order) -> None:
    other = home("admin", "jobs", "start", "ingest", "--json-order", order, "--json")
    assert other.code == 3
    order.write_text('{"kind": "nightly"}', "utf-8")
    wrong = home("admin", "jobs", "start", "gc", "--json-order", order, "--json")
    assert (wrong.code, wrong.error["message"]) == (2, "the order is of kind 'nightly', not 'gc'")
    unknown = home("admin", "jobs", "start", "dust", "--json")
    assert unknown.code == 3
    assert "gc" in unknown.error["remedy"]
    assert home("admin", "jobs", "list", "--json").json == {"jobs": [], "next": None}


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_list_is_turned_page_by_page_and_by_state(home) -> None:
    with closing(Database.open(Settings(home=home.path))) as database:
        database.migrate()
        jobs = JobStore(database)
        ids = [jobs.enqueue("gc", {"n": number}, [f"index/i{number}"]).id for number in range(7)]
        jobs.cancel(ids[2])
    seen, after = [], []
    while True:
        page = home("admin", "jobs", "list", "--limit", "3", *after, "--json").json
        seen += [job["id"] for job in page["jobs"]]
        if page["next"] is None:
            break
        after = ["--after", page["next"]]
    assert seen == ids[::-1]
    cancelled = home("admin", "jobs", "list", "--state", "cancelled", "--json").json["jobs"]
    assert [job["id"] for job in cancelled] == [ids[2]]
    assert home("admin", "jobs", "list", "--kind", "meta", "--json").json["jobs"] == []
    assert home("admin", "jobs", "list", "--limit", "2").out.splitlines()[-1] == f"there are more: --after {ids[5]}"


def test_cancelling_one_that_waits_ends_it_at_once(home, order) -> None:
    job = home("admin", "jobs", "start", "gc", "--json-order", order, "--json").json["id"]
    assert home("admin", "jobs", "cancel", job).out == f"job {job} is cancelled\n"
    assert home("admin", "jobs", "show", job, "--json").json["state"] == "cancelled"
    unknown = home("admin", "jobs", "cancel", "nobody", "--json")
    assert (unknown.code, unknown.error["code"]) == (3, "not_found")


# ── doing ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_that_is_waited_for_is_done_and_tells_what_happened(home, ingest) -> None:
    with while_another_works(home):
        ended = home("admin", "jobs", "start", "ingest", "--json-order", ingest, "--wait", "--json")
    assert ended.code == 0
    assert (ended.json["state"], ended.json["error"]) == ("done", None)
    assert home.open("shop").manifest.totals["pairs"] == 2
    told = [line.split()[2:] for line in ended.err.splitlines()]
    assert told[0] == ["state", "queued"]
    assert told[-1] == ["state", "done"]
    events = [json.loads(line) for line in home("admin", "jobs", "events", ended.json["id"], "--json").out.splitlines()]
    assert [event["data"]["state"] for event in events if event["type"] == "state"] == ["queued", "running", "done"]
    assert [event["id"] for event in events] == sorted({event["id"] for event in events})
    shown = home("admin", "jobs", "show", ended.json["id"]).out
    assert "state      done" in shown
    assert "result\n" in shown


def test_waiting_ends_with_the_exit_code_and_the_error_of_the_job(home, order) -> None:
    with while_another_works(home):
        failed = home("admin", "jobs", "start", "gc", "--json-order", order, "--wait", "--json")
    assert failed.code == 3
    assert failed.json["state"] == "failed"
    assert failed.error == {name: failed.json["error"][name] for name in ("code", "message", "remedy", "exit_code")}
    assert (failed.error["code"], failed.error["message"]) == ("not_found", "no index 'chat' in HOME/indexes")


def test_built_and_not_published_is_exit_code_6(home, order) -> None:
    def run(*_arguments, **_given):
        raise CheckFailed("recall is 0.71", remedy="look at it")

    with while_another_works(home, run=run):
        failed = home("admin", "jobs", "start", "gc", "--json-order", order, "--wait")
    assert failed.code == 6
    assert failed.err.endswith("error [check_failed]: recall is 0.71\n  look at it\n")


def test_waiting_for_one_that_is_cancelled_is_an_interruption(home, order) -> None:
    def run(_order, _home, _serve, progress, *, job):
        with closing(Database.open(Settings(home=home.path))) as database:
            JobStore(database).cancel(job)
        progress.stage("until it is told to stop")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            progress.advance(1)
            time.sleep(0.01)
        return {}

    with while_another_works(home, run=run):
        ended = home("admin", "jobs", "start", "gc", "--json-order", order, "--wait", "--json")
    assert (ended.code, ended.json["state"], ended.error["code"]) == (5, "cancelled", "interrupted")
    assert ended.error["message"] == f"job {ended.json['id']} was cancelled"


def test_following_goes_on_to_the_last_event_and_leaves_none_out(home) -> None:
    with closing(Database.open(Settings(home=home.path))) as database:
        database.migrate()
        jobs = JobStore(database)
        job = jobs.enqueue("gc", {}, ["index/chat"]).id
        following = _follow_events(jobs, job, 0)
        assert next(following).data == {"state": "queued"}
        jobs.claim("worker")
        assert next(following).data["state"] == "running"
        jobs.finish(job, "worker", JobState.DONE, outcome={})
        assert [event.data["state"] for event in following] == ["done"]


def test_events_of_a_job_that_there_is_not_are_not_found(home) -> None:
    found = home("admin", "jobs", "events", "nobody", "--follow", "--json")
    assert (found.code, found.error["code"]) == (3, "not_found")


def _refaug(home, *arguments) -> list[str]:
    return [sys.executable, "-m", "refaug", "--home", str(home.path), *arguments]


def test_a_worker_does_what_waits_and_ends(home, ingest) -> None:
    job = home("admin", "jobs", "start", "ingest", "--json-order", ingest, "--json").json["id"]
    ended = subprocess.run(
        _refaug(home, "admin", "jobs", "work", "--once"),
        cwd=ROOT,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0
    assert home("admin", "jobs", "show", job, "--json").json["state"] == "done"
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [line["job"] for line in lines if line["event"] in ("job begun", "job ended")] == [job, job]


def test_a_job_that_was_put_back_says_why() -> None:
    put_back = Event(id=1, job="j", at="", type="state", data={"state": "queued", "why": "its worker was stopped"})
    assert _event_text(put_back) == "queued; its worker was stopped"
    assert (
        _event_text(Event(id=2, job="j", at="", type="state", data={"state": "running", "try": 1})) == "running; try 1"
    )


def test_a_worker_works_until_it_is_told_to_end(home, ingest) -> None:
    with subprocess.Popen(
        _refaug(home, "--quiet", "admin", "jobs", "work"), cwd=ROOT, stderr=subprocess.PIPE
    ) as process:
        job = home("admin", "jobs", "start", "ingest", "--json-order", ingest, "--wait", "--json")
        assert job.json["state"] == "done"
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == 0


def test_ctrl_c_ends_the_waiting_and_not_the_job(home, order) -> None:
    with subprocess.Popen(
        _refaug(home, "admin", "jobs", "start", "gc", "--json-order", str(order), "--wait", "--json"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert b"queued" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    [job] = home("admin", "jobs", "list", "--json").json["jobs"]
    error = json.loads(said.splitlines()[-1])["error"]
    assert (process.returncode, job["state"]) == (5, "queued")
    assert error["message"] == f"no longer waiting; job {job['id']} goes on"
    assert error["remedy"] == f"refaug admin jobs events {job['id']} --follow, or refaug admin jobs cancel {job['id']}"


def test_brief_order_shows_zeros_and_leaves_out_unset_options() -> None:
    order = {"kind": "nightly", "seed": 0, "set": None, "no_rules": [], "publish": False, "log": "chat"}
    limits = {"recall": None, "references_changed": 0.0}
    assert brief_order({**order, "limits": limits}) == {"seed": 0, "log": "chat", "limits": {"references_changed": 0.0}}
    assert brief_order({**order, "limits": {"recall": None}}) == {"seed": 0, "log": "chat"}
