"""The audit log: rows that are only added, in the order of their time, on both databases."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path

import pytest
from refusals import refusing
from serving import migrated
from sqlalchemy import delete, exc, text, update

from refaug.core.artefacts.versions import Change
from refaug.core.errors import BadInput, RefaugError
from refaug.core.home import Settings
from refaug.service.audit import AuditLog, actor_of, user_of_machine
from refaug.service.database.database import Database
from refaug.service.database.tables import AUDIT
from refaug.service.jobs.audited_jobs import JobActs
from refaug.service.jobs.store import ENDED, JobState, JobStore
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope

pytest_plugins = ("databases",)


def rows(database: Database) -> list[tuple[str, str, str]]:
    return [(entry.actor, entry.action, entry.subject) for entry in AuditLog(database).entries()]


def test_rows_come_back_in_pages_in_the_order_of_their_time(database: Database) -> None:
    audit = AuditLog(database)
    for number in range(7):
        audit.add("key ann", "publish", f"index chat@{number}", request="r1", job=number)
    page, following = audit.page(limit=3)
    assert [entry.subject for entry in page] == ["index chat@0", "index chat@1", "index chat@2"]
    assert following == page[-1].id
    rest, end = audit.page(after=following, limit=4)
    assert [entry.details for entry in rest] == [{"job": number} for number in range(3, 7)]
    assert end is None
    assert {entry.request for entry in rest} == {"r1"}
    assert audit.page(after="no id of a row, and \0")[0] == []
    assert [entry.id for entry in audit.entries()] == sorted(entry.id for entry in [*page, *rest])


def test_the_last_whole_backup_has_no_damaged_file(database: Database) -> None:
    audit = AuditLog(database)
    audit.add("user ann", "back up", "backup one", damaged=2)
    assert audit.last_whole_backup() is None
    audit.add("user ann", "back up", "backup two", damaged=0)
    audit.add("user ann", "back up", "backup three", damaged=1)
    whole = audit.last_whole_backup()
    assert whole is not None
    assert whole.subject == "backup two"
    assert [entry.subject for entry in audit.last_backups(1)] == ["backup three"]


def test_rows_since_a_time(database: Database) -> None:
    audit = AuditLog(database)
    audit.add("key ann", "publish", "before")
    moment = datetime.now(UTC)
    audit.add("key ann", "publish", "after")
    assert [entry.subject for entry in audit.entries(moment)] == ["after"]


def test_a_row_can_neither_be_changed_nor_removed(database: Database) -> None:
    AuditLog(database).add("key ann", "publish", "index chat@1")
    statements = [update(AUDIT).values(actor="key bob"), delete(AUDIT)]
    if not database.is_sqlite:
        statements.append(text("TRUNCATE audit"))
    for statement in statements:
        with (
            pytest.raises((exc.DBAPIError, RefaugError)),
            database.writing() as connection,
        ):
            connection.execute(statement)
    assert rows(database) == [("key ann", "publish", "index chat@1")]


def test_rows_that_the_database_cannot_take_wait_for_it_with_their_time(tmp_path: Path) -> None:
    home = migrated(Settings(home=tmp_path))
    database = Database.open(home)
    audit, file, aside = AuditLog(database), tmp_path / "refaug.db", tmp_path / "aside.db"
    file.rename(aside)
    before = datetime.now(UTC)
    assert [
        audit.try_to_add("key ann", "publish", f"index chat@{number}", request="r1", n=number) for number in range(2)
    ] == [False, False]
    after = datetime.now(UTC)
    aside.rename(file)
    audit.try_to_add("key ann", "publish", "index chat@2", request="r1", n=2)  # it does not overtake them
    audit.close()
    entries = list(audit.entries())
    database.close()
    assert [(entry.subject, entry.request, entry.details) for entry in entries] == [
        (f"index chat@{number}", "r1", {"n": number}) for number in range(3)
    ]
    assert all(before <= datetime.fromisoformat(entry.at) <= after for entry in entries[:2])


def test_writers_at_once_make_one_chain(database: Database) -> None:
    audit = AuditLog(database)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: audit.add("key ann", "publish", f"index chat@{number}"), range(20)))
    assert audit.verify() == 20


def test_a_row_cannot_be_replaced(database: Database) -> None:
    AuditLog(database).add("key ann", "publish", "index chat@1")
    entry = next(AuditLog(database).entries())
    columns = "id, at, actor, action, subject, details"
    row = f"VALUES ('{entry.id}', '{entry.at}', 'key bob', 'publish', 'index chat@1', '{{}}')"
    statements = [f"INSERT INTO audit ({columns}) {row} ON CONFLICT (id) DO UPDATE SET actor = 'key bob'"]
    if database.is_sqlite:
        other = row.replace(entry.id, "0" * 26)
        statements += [
            f"INSERT OR REPLACE INTO audit ({columns}) {row}",
            f"REPLACE INTO audit ({columns}) {row}",
            f"INSERT OR REPLACE INTO audit (rowid, {columns}) {other.replace('(', '(1, ', 1)}",
            "UPDATE OR REPLACE audit SET actor = 'key bob'",
        ]
    for statement in statements:
        with pytest.raises((exc.DBAPIError, RefaugError)), database.writing() as connection:
            connection.execute(text(statement))
    assert list(AuditLog(database).entries()) == [entry]


def test_what_is_undone_is_in_no_row(database: Database) -> None:
    audit = AuditLog(database)

    def begin_and_undo() -> None:
        with database.writing():
            audit.add("key ann", "publish", "index chat@1")
            raise ValueError("undone")

    with pytest.raises(ValueError, match="undone"):
        begin_and_undo()
    assert rows(database) == []


def test_keys_are_made_and_revoked_by_the_user_of_the_machine(database: Database) -> None:
    keys = KeyStore(database)
    _, key = keys.create("ann", [Scope.READ, Scope.ADMIN])
    for _ in range(2):
        keys.revoke("ann")  # the second one changes nothing
    user = user_of_machine()
    assert rows(database) == [(user, "create", "key ann"), (user, "revoke", "key ann")]
    assert next(AuditLog(database).entries()).details == {"id": key.id, "scopes": ["admin", "read"]}


PUBLISHED = Change(action="publish", subject="index chat@2026-11-20.2")


@pytest.fixture
def acts(database: Database) -> JobActs:
    return JobActs(database.home)


@pytest.fixture
def jobs(database: Database, acts: JobActs) -> JobStore:
    return JobStore(database, tries=1, acts=acts)


def begin(jobs: JobStore, acts: JobActs) -> str:
    """A running job that has published a version, and removed two."""
    job = jobs.enqueue("index-update", {"index": "chat"}, ["index/chat"], requested_by="ann").id
    jobs.claim("worker")
    note = acts.observer(job)
    note(PUBLISHED)
    for version in ("2026-11-18.1", "2026-11-19.1"):
        note(Change(action="remove", subject="index chat", details={"versions": [version]}))
    acts.observer(job)(PUBLISHED)  # a later try finds it published
    return job


def finish_twice(jobs: JobStore, job: str, state: JobState) -> None:
    for _ in range(2):  # the first answer may have been lost
        jobs.finish(job, "worker", state)


def cancel_and_recover(jobs: JobStore, job: str) -> None:
    jobs.cancel(job, actor="key ann")
    jobs.recover(lambda _worker: False)


def put_back_and_cancel(jobs: JobStore, job: str) -> None:
    jobs.requeue(job, "worker", "its worker was stopped")
    jobs.cancel(job, actor="key ann")


@pytest.mark.parametrize(
    ("end", "state"),
    [
        *((partial(finish_twice, state=state), state) for state in sorted(ENDED)),
        (lambda jobs, _job: jobs.recover(lambda _worker: False), JobState.FAILED),
        (cancel_and_recover, JobState.CANCELLED),
        (put_back_and_cancel, JobState.CANCELLED),
    ],
)
def test_a_jobs_acts_are_written_with_every_end(
    database: Database, jobs: JobStore, acts: JobActs, end: Callable[[JobStore, str], None], state: JobState
) -> None:
    job = begin(jobs, acts)
    end(jobs, job)
    assert jobs.get(job).state is state
    entries = [entry for entry in AuditLog(database).entries() if entry.action != "cancel"]
    assert [(entry.actor, entry.action, entry.subject) for entry in entries] == [
        ("key ann", "queue", f"job {job}"),
        ("key ann", "publish", "index chat@2026-11-20.2"),
        ("key ann", "remove", "index chat"),
    ]
    assert [entry.details for entry in entries[1:]] == [
        {"job": job},
        {"job": job, "versions": ["2026-11-18.1", "2026-11-19.1"]},
    ]


def test_half_a_note_is_none_and_spoils_no_other(acts: JobActs) -> None:
    acts.observer("a")(PUBLISHED)
    path = acts.home.home / "jobs" / "a.acts.jsonl"
    path.write_bytes(path.read_bytes() + b'\n{"action": "publi')
    withdrawn = Change(action="withdraw", subject="set 4011ff")
    acts.observer("a")(withdrawn)
    assert acts.of_job("a") == [PUBLISHED, withdrawn]
    assert acts.of_job("b") == []


def test_an_act_without_a_place_for_its_note_is_in_the_log(acts: JobActs, caplog: pytest.LogCaptureFixture) -> None:
    acts.home.home.mkdir(exist_ok=True)
    (acts.home.home / "jobs").write_text("no folder")
    acts.observer("a")(PUBLISHED)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"][-1] == "not in the audit log"


def test_cancelling_is_written_where_it_changes_the_job(database: Database, jobs: JobStore) -> None:
    first = jobs.enqueue("index-update", {"index": "chat"}, ["index/chat"], requested_by="ann").id
    jobs.claim("worker")
    second = jobs.enqueue("gc", {}, [], requested_by="ann").id
    for job in (first, first, second, second):
        jobs.cancel(job, actor="key bob", request="r1")
    jobs.finish(first, "worker", JobState.CANCELLED)
    jobs.cancel(first)
    cancelled = [entry for entry in AuditLog(database).entries() if entry.action == "cancel"]
    assert [(entry.actor, entry.subject, entry.request) for entry in cancelled] == [
        ("key bob", f"job {first}", "r1"),
        ("key bob", f"job {second}", "r1"),
    ]


def test_the_acts_of_a_job_are_those_of_who_queued_it(
    database: Database, jobs: JobStore, acts: JobActs, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = user_of_machine()
    job = jobs.enqueue("gc", {}, []).id
    jobs.claim("worker")
    acts.observer(job)(PUBLISHED)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)  # the worker runs as another user
    assert user_of_machine() == "user #4000000000"
    jobs.finish(job, "worker", JobState.DONE)
    assert rows(database)[1:] == [(user, "publish", "index chat@2026-11-20.2")]


def test_the_user_of_the_machine_is_not_believed_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "bob")
    assert user_of_machine() == f"user {pwd.getpwuid(os.getuid()).pw_name}"


def test_times_outside_of_utc_years_limit_as_they_say(database: Database) -> None:
    audit = AuditLog(database)
    audit.add("key ann", "publish", "index chat@1")
    east, west = timezone(timedelta(hours=5)), timezone(timedelta(hours=-5))
    early = [datetime.min.replace(tzinfo=east), datetime(800, 1, 1, tzinfo=UTC), datetime.min.replace(tzinfo=west)]
    late = [datetime.max.replace(tzinfo=west), datetime.max.replace(tzinfo=east)]
    assert [len(audit.page(since=moment)[0]) for moment in (*early, *late)] == [1, 1, 1, 0, 0]


def test_no_key_is_called_anonymous(database: Database) -> None:
    with refusing(BadInput, "anonymous"):
        KeyStore(database).create("anonymous", [Scope.READ])
    assert rows(database) == []


def test_the_actor_of_a_job_is_its_key_its_schedule_or_the_user() -> None:
    assert actor_of("ann") == "key ann"
    assert actor_of("anonymous") == "anonymous"
    assert actor_of(None, "nightly") == "schedule nightly"
    assert actor_of(None) == user_of_machine()
