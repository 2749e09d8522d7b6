"""The audit log: rows that are only added, in the order of their time, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlalchemy import delete, exc, text, update

from refaug.core.errors import RefaugError
from refaug.service.audit import AuditLog, actor_of, user_of_machine
from refaug.service.database.database import Database
from refaug.service.database.migrations.tables import AUDIT
from refaug.service.jobs.audited_jobs import acts_of
from refaug.service.jobs.store import JobState, JobStore
from refaug.service.keys import KeyStore, Scope

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


def test_a_jobs_acts_are_written_once_with_its_end(database: Database) -> None:
    jobs = JobStore(database)
    job = jobs.enqueue("index-update", {"index": "chat"}, ["index/chat"], requested_by="ann")
    jobs.claim("worker")
    outcome = {"index": "chat", "version": "2026-11-20.2", "published": True, "removed": ["2026-11-19.1"]}
    for _ in range(2):  # the first answer may have been lost
        jobs.finish(job.id, "worker", JobState.DONE, outcome=outcome)
    assert rows(database) == [
        ("key ann", "queue", f"job {job.id}"),
        ("key ann", "publish", "index chat@2026-11-20.2"),
        ("key ann", "remove", "index chat"),
    ]
    details = [entry.details for entry in AuditLog(database).entries()]
    assert details[1:] == [{"job": job.id}, {"job": job.id, "versions": ["2026-11-19.1"]}]


@pytest.mark.parametrize(
    ("kind", "order", "outcome", "acts"),
    [
        ("rater-train", {}, {"rater": "base", "version": "v", "published": False}, []),
        ("rater-train", {}, {"rater": "base", "version": "v", "published": True}, [("publish", "rater base@v")]),
        ("vectors", {}, {"vectors": "glove", "version": "v", "published": True}, [("publish", "vectors glove@v")]),
        ("gc", {}, {"artefact": "rater", "name": "base", "removed": ["v"]}, [("remove", "rater base")]),
        ("nightly", {}, {"index": "chat", "log": "chat", "version": None, "published": False, "removed": []}, []),
        (
            "index-update",
            {},
            {"index": "chat", "version": "v", "published": False, "removed": ["u"]},
            [("remove", "index chat")],
        ),
        ("ingest", {}, {"log": "chat", "pairs_added": 3}, []),
        (
            "erase",
            {"log": "chat", "dialogues": ["d1", "d2"], "speakers": ["a name"]},
            {
                "indexes": [
                    {"index": "chat", "version": "v", "published": True, "changed": 2, "removed": ["u"]},
                    {"index": "other", "version": "w", "published": True, "removed": []},
                ],
                "sets": [{"set": "4011ff", "references": 1}],
            },
            [
                ("erase", "log chat"),
                ("publish", "index chat@v"),
                ("remove", "index chat"),
                ("withdraw", "set 4011ff"),
            ],
        ),
    ],
)
def test_what_a_job_has_done(
    kind: str, order: dict[str, object], outcome: dict[str, object], acts: list[tuple[str, str]]
) -> None:
    found = list(acts_of(kind, order, outcome))
    assert [(act.action, act.subject) for act in found] == acts
    assert "a name" not in str(found)


def test_the_actor_of_a_job_is_its_key_its_schedule_or_the_user() -> None:
    assert actor_of("ann") == "key ann"
    assert actor_of("anonymous") == "anonymous"
    assert actor_of(None, "nightly") == "schedule nightly"
    assert actor_of(None) == user_of_machine()
