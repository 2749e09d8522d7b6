"""A database with a flipped bit: whatever is read of it or written to it ends well, or in an error of ours."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from refusals import refusing
from safeguards import mostly_slow
from serving import client_of

from refaug.cli.main import main
from refaug.core.errors import DamagedDatabase, RefaugError
from refaug.core.home import Settings
from refaug.service.audit import AuditLog
from refaug.service.bots.bot_store import BotStore
from refaug.service.database.database import Database
from refaug.service.database.row_ids import new_row_id
from refaug.service.database.stored_answers import IdempotencyStore
from refaug.service.database.stored_cells import FILE
from refaug.service.doctor import FindingState, examine
from refaug.service.jobs.job_order import parse_order
from refaug.service.jobs.schedules import ScheduleStore
from refaug.service.jobs.store import JobState, JobStore, NewEvent
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope

FLIPS = 20  # of one test
UPDATE = {"kind": "index-update", "index": "chat"}
SCORE = {"kind": "score", "items": "upload:0gk2xv7q3m9t00d4z8r1c5w6ab", "metrics": ["chrf"], "owner": "ann"}


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a database with a few rows in each table of jobs, keys, schedules and the audit log."""
    home = Settings(home=tmp_path_factory.mktemp("whole"))
    with closing(Database.open(home)) as database:
        database.migrate()
        jobs = JobStore(database)
        for number in range(8):
            KeyStore(database).create(f"key-{number}", [Scope.READ, Scope.SCORE])
            order = parse_order({**SCORE, "name": f"evaluation {number}"}).as_order()
            job = jobs.enqueue("score", order, [f"score/{number}"], requested_by="ann")
            if number % 2:
                claimed = jobs.claim("worker")
                assert claimed is not None
                jobs.progress(claimed.id, "worker", {"done": 1}, [NewEvent(type="note", data={"message": "one"})])
                jobs.finish(claimed.id, "worker", JobState.DONE, outcome={"scores": {"chrf": 0.5}, "job": job.id})
        ScheduleStore(database).put("night", cron="30 2 * * *", timezone="UTC", order=UPDATE)
        BotStore(database, home).put("mine", {"kind": "replay", "replies": ["yes"]})
        database.run_outside_transactions("PRAGMA wal_checkpoint(TRUNCATE)")
    return (home.home / FILE).read_bytes()


def uses(database: Database) -> Iterator[Callable[[], object]]:
    """What servers, workers and commands do with a database."""
    jobs, keys, audit, schedules = JobStore(database), KeyStore(database), AuditLog(database), ScheduleStore(database)
    yield database.require_current
    yield database.migrate
    yield jobs.list
    yield lambda: jobs.list(state=JobState.QUEUED, kind="score", resource="score/2")
    yield lambda: [(jobs.get(job.id), jobs.events(job.id), parse_order(job.order)) for job in jobs.list()[0]]
    yield jobs.counts
    yield jobs.running
    yield keys.list
    yield lambda: list(audit.entries())
    yield audit.verify
    yield schedules.failing
    yield BotStore(database, database.home).list
    yield lambda: KeyStore(database).create("later", [Scope.STUDY])
    yield lambda: jobs.enqueue("gc", {"kind": "gc"}, ["index/a"], requested_by="ann")
    yield lambda: [jobs.claim("worker") for _ in range(3)]
    yield lambda: [jobs.finish(job.id, "worker", JobState.FAILED, error={"code": "x"}) for job in jobs.running()]
    yield lambda: jobs.remove_older(0.0)
    yield lambda: IdempotencyStore(database).get_or_create("jobs", "a", "b", lambda: (200, {}), at_once=True)


def flipped(content: bytes, seed: int) -> bytes:
    """The file with one bit flipped, in bytes that are not empty space."""
    place = random.Random(seed).choice([place for place, byte in enumerate(content) if byte])
    bit = 1 << random.Random(seed).randrange(8)
    return content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :]


def error_of(use: Callable[[], object]) -> RefaugError | None:
    """The error of ours that a use ends in; any other one is raised."""
    try:
        use()
    except RefaugError as error:
        return error
    return None


@contextmanager
def opened(content: bytes, folder: Path) -> Iterator[Database]:
    folder.mkdir()
    (folder / FILE).write_bytes(content)
    with closing(Database.open(Settings(home=folder))) as database:
        yield database


OFTEN = [pytest.param(part, marks=pytest.mark.faults) for part in range(6, 20)]


@pytest.mark.parametrize("part", [*mostly_slow(range(6), quick=[0, 1]), *OFTEN])
def test_a_flipped_bit_ends_in_no_error_but_ours(content: bytes, tmp_path: Path, part: int) -> None:
    codes = set[str]()
    for seed in range(part * FLIPS, (part + 1) * FLIPS):
        with opened(flipped(content, seed), tmp_path / str(seed)) as database:
            codes.update(error.code for use in uses(database) if (error := error_of(use)) is not None)
    assert "damaged_database" in codes
    assert "internal" not in codes


@pytest.mark.parametrize(
    ("table", "column", "cell"),
    [
        ("jobs", "order", "{"),
        ("jobs", "kind", b"score"),
        ("jobs", "tries", "twice"),
        ("jobs", "state", "quezed"),
        ("jobs", "result", '{"a" 1}'),
        ("job_events", "data", ""),
        ("keys", "scopes", "reae score"),
        ("keys", "rate_per_s", "fast"),
        ("schedules", "order", "{'kind': 1}"),
        ("audit", "details", "{"),
    ],
)
def test_a_damaged_cell_is_named_with_its_table(
    content: bytes, tmp_path: Path, table: str, column: str, cell: str | bytes
) -> None:
    with opened(content, tmp_path / "home") as database:
        altered(database, f'UPDATE {table} SET "{column}" = ?', cell)
        errors = [error for use in uses(database) if (error := error_of(use)) is not None]
    assert f"table {table}, column {column}" in " ".join(error.message for error in errors)
    assert {type(error) for error in errors} == {DamagedDatabase}
    for error in errors:
        assert FILE in error.message
        assert "refaug admin restore" in error.remedy


def test_a_time_that_is_none_is_damage(content: bytes, tmp_path: Path) -> None:
    with opened(content, tmp_path / "home") as database:
        altered(database, "UPDATE keys SET created = ?", "2026-11-31T00:00:00.000000Z")
        assert isinstance(error_of(KeyStore(database).list), DamagedDatabase)


def altered(database: Database, statement: str, *cells: object) -> None:
    """Change rows behind the back of refaug: without its checks and triggers."""
    assert database.file is not None
    with closing(sqlite3.connect(database.file)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for trigger in ("update", "delete", "replace"):
            connection.execute(f"DROP TRIGGER audit_no_{trigger}")
        connection.execute(statement, cells)
        connection.commit()


@pytest.mark.parametrize("column", ["id", "at", "actor", "action", "subject", "details", "request", "checksum"])
def test_an_altered_row_of_the_audit_log_is_noticed(content: bytes, tmp_path: Path, column: str) -> None:
    with opened(content, tmp_path / "home") as database:
        ids = [entry.id for entry in AuditLog(database).entries()]
        assert AuditLog(database).verify() == len(ids) == 17
        cell = "{}" if column == "details" else f"{ids[5][:-1]}{'0' if ids[5][-1] != '0' else '1'}"
        altered(database, f"UPDATE audit SET {column} = ? WHERE id = ?", cell, ids[5])
        with refusing(DamagedDatabase):
            AuditLog(database).verify()


@pytest.mark.parametrize("row", [0, 7, 14])
def test_a_row_that_is_missing_in_the_audit_log_is_noticed(content: bytes, tmp_path: Path, row: int) -> None:
    with opened(content, tmp_path / "home") as database:
        ids = [entry.id for entry in AuditLog(database).entries()]
        altered(database, "DELETE FROM audit WHERE id = ?", ids[row])
        with refusing(DamagedDatabase, ids[row + 1]):
            AuditLog(database).verify()


def test_rows_of_processes_whose_clocks_differ_are_one_chain(content: bytes, tmp_path: Path) -> None:
    with opened(content, tmp_path / "home") as database:
        later = new_row_id(after="7zzzzzzzzzzz" + "0" * 14)  # of a process whose clock is centuries ahead
        altered(database, "UPDATE audit SET id = ? WHERE id = (SELECT max(id) FROM audit)", later)
        AuditLog(database).add("key ann", "publish", "index chat@1")
        newest = list(AuditLog(database).entries())[-1]
        assert (newest.subject, newest.id > later) == ("index chat@1", True)


def test_over_http_a_damaged_database_is_a_problem_like_others(content: bytes, tmp_path: Path) -> None:
    with opened(content, tmp_path / "home") as database:
        altered(database, 'UPDATE jobs SET "order" = ?', "{")
    with client_of(Settings(home=tmp_path / "home"), ready=False) as client:
        answer = client.get("/v1/jobs")
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (503, "damaged_database")
    assert "refaug.db" in problem["detail"]
    assert "Traceback" not in answer.text


def test_doctor_and_audit_find_an_altered_row(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(content, tmp_path / "home") as database:
        altered(database, "UPDATE audit SET actor = 'key bob' WHERE actor = 'key ann'")
    settings = Settings(home=tmp_path / "home")
    findings = [finding for finding in examine(settings, verify=True) if finding.state is FindingState.WRONG]
    assert [finding.what for finding in findings] == ["database"]
    assert "table audit, row" in findings[0].found
    assert main(["--home", str(settings.home), "admin", "audit", "--verify"]) == DamagedDatabase.exit_code
    assert "table audit, row" in capsys.readouterr().err
