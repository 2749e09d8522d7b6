"""The database: its tables, its transactions, and what people are told when it is away."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import sqlite3
import threading
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta, timezone

import orjson
import psycopg
import pytest
from disks import small_disk
from refusals import refusing
from sqlalchemy import Column, Integer, Table, func, insert, inspect, select, text
from sqlalchemy.exc import IntegrityError

from refaug.core.errors import Conflict, Corrupt, DamagedDatabase, MissingPart, StorageFull, Unavailable, Usage
from refaug.core.home import Settings
from refaug.service.database.database import (
    FILE,
    Database,
    NewerDatabase,
    time_of,
    time_text,
)
from refaug.service.database.table_rows import read_rows, write_rows
from refaug.service.database.tables import (
    JOB_RESOURCES,
    JOBS,
    KEYS,
    PLAIN,
    TableSet,
    known_tables,
    new_metadata,
    table_sets,
)
from refaug.service.doctor import FindingState, examine

pytest_plugins = ("databases",)
ENCRYPTION, OTHER_ENCRYPTION = (number.to_bytes(4, "big") for number in (80_877_103, 80_877_104))  # TLS, GSSAPI


def put_key(connection, name, **more):
    row = {"id": name, "name": name, "hash": "", "scopes": "read", "created": time_text(), **more}
    connection.execute(insert(KEYS).values(row))


def put_keys(database, *names, then=lambda _connection: None, **more):
    """All of them in one transaction."""
    with database.writing() as connection:
        for name in names:
            put_key(connection, name, **more)
        then(connection)


def refuse(_connection):
    raise Conflict


def names(database):
    with database.reading() as connection:
        return list(connection.execute(select(KEYS.c.name).order_by(KEYS.c.name)).scalars())


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def shape(connection):
    """The names, columns and indexes of all tables."""
    found = inspect(connection)
    return {
        name: (
            [(column["name"], str(column["type"]), column["nullable"]) for column in found.get_columns(name)],
            sorted(index["name"] for index in found.get_indexes(name)),
        )
        for name in found.get_table_names()
    }


def test_a_new_database_has_the_tables_and_the_newest_steps(database):
    newest = {each.name: each.newest for each in table_sets()}
    assert database.steps() == newest
    assert "core" in newest
    with database.reading() as connection:
        assert set(shape(connection)) == {*known_tables(), *(f"tables_of_{name}" for name in newest)}


# ── steps, and tables of extras ───────────────────────────────────────────────────────────────────────────────────────


def animals(*columns, steps=()):
    """The tables of an extra that is not installed."""
    tables = new_metadata()
    Table("animals", tables, Column("name", PLAIN, primary_key=True), *columns)
    return TableSet(name="zoo", tables=tables, steps=steps)


def add_legs(connection):
    connection.execute(text("ALTER TABLE animals ADD COLUMN legs INTEGER"))
    connection.execute(text("UPDATE animals SET legs = 4"))


def add_wings(connection):
    connection.execute(text("CREATE TABLE wings (animal TEXT)"))
    raise Conflict


def with_animals(database, names=("ann",)):
    with database.writing() as connection:
        animals().bring_up_to_date(connection, None)
        connection.execute(animals().tables.tables["animals"].insert(), [{"name": name} for name in names])


def test_an_older_database_takes_the_steps_that_it_lacks_and_then_has_what_a_new_one_has(database, empty_database):
    with_animals(database)
    newer = animals(Column("legs", Integer), steps=[add_legs])
    with database.writing() as connection:
        newer.bring_up_to_date(connection, database.steps()["zoo"])
        upgraded = shape(connection)["animals"]
        assert connection.execute(text("SELECT name, legs FROM animals")).all() == [("ann", 4)]
        connection.execute(text("DROP TABLE animals"))
        newer.bring_up_to_date(connection, None)
        assert shape(connection)["animals"] == upgraded
    assert database.steps()["zoo"] == 2


def test_a_step_that_fails_leaves_the_database_as_it_was(database):
    with_animals(database)
    with database.reading() as connection:
        before = shape(connection)
    with pytest.raises(Conflict), database.writing() as connection:
        animals(steps=[add_legs, add_wings]).bring_up_to_date(connection, 1)
    with database.reading() as connection:
        assert shape(connection) == before
    assert database.steps()["zoo"] == 1


def test_tables_of_an_absent_extra_are_left_alone_and_are_in_backups(database, caplog):
    rows = [{"table": "animals", "row": {"name": name}} for name in ("ann", "bob")]
    with_animals(database, ("bob", "ann"))
    database.migrate()
    assert [record.__dict__["extra"] for record in caplog.records if "not installed" in record.message] == ["zoo"]
    database.require_current()
    lines = list(read_rows(database))
    assert [orjson.loads(line) for line in lines] == rows
    assert write_rows(database, iter(lines), "backup") == 2  # they are all there
    if database.is_sqlite:
        notes = [one for one in examine(database.home) if one.what == "database" and one.state is FindingState.NOTE]
        assert [one.found for one in notes] == [
            "has tables of zoo, which is not installed: they stay, but are not shown"
        ]


def test_rows_of_an_absent_extra_are_restored_with_it_alone(database):
    line = b'{"table":"animals","row":{"name":"ann"}}\n'
    with refusing(MissingPart, "backup:1", "animals", "zoo") as raised:
        write_rows(database, iter([line]), "backup", ["core", "zoo"])
    assert "refaug[zoo]" in str(raised.value)
    with pytest.raises(Corrupt):
        write_rows(database, iter([line]), "backup", ["core"])


@pytest.mark.parametrize("name", ["core", "studies"])
def test_tables_that_are_newer_than_what_is_installed_are_refused(database, name):
    if name not in database.steps():
        pytest.skip(f"{name} is not installed")
    with database.writing() as connection:
        connection.execute(text(f"UPDATE tables_of_{name} SET step = 9999"))
    for ask in (database.migrate, database.require_current):
        with pytest.raises(NewerDatabase) as raised:
            ask()
        assert ("9999" in str(raised.value), name in ("core", *str(raised.value).split())) == (True, True)
        assert (raised.value.code, raised.value.status, raised.value.exit_code) == ("newer_database", 503, 4)


def test_tables_of_others_are_left_alone(empty_database):
    if empty_database.is_sqlite:
        empty_database.file.parent.mkdir(parents=True, exist_ok=True)
        empty_database.file.touch()
    with empty_database.writing() as connection:
        connection.execute(text("CREATE TABLE keys (door TEXT)"))
        connection.execute(text("INSERT INTO keys VALUES ('front')"))
    with refusing(Conflict):
        empty_database.migrate()
    with empty_database.reading() as connection:
        assert connection.execute(text("SELECT door FROM keys")).scalar() == "front"


def test_without_tables_it_says_how_to_make_them(empty_database):
    with pytest.raises(Unavailable) as raised:
        empty_database.require_current()
    said = "the database is not there" if empty_database.is_sqlite else "the database has no tables yet"
    assert raised.value.message == said
    assert "start the server" in raised.value.remedy


def test_a_request_that_comes_before_the_tables_is_told_to_come_again(empty_database):
    if empty_database.is_sqlite:
        empty_database.file.parent.mkdir()
        sqlite3.connect(empty_database.file).close()
    with refusing(Unavailable):
        names(empty_database)


def test_migrating_twice_changes_nothing(database):
    with database.writing() as connection:
        put_key(connection, "one")
    database.migrate()
    database.require_current()
    assert names(database) == ["one"]


def test_four_that_migrate_at_once_make_the_tables_once(database_url, tmp_path):
    home, failed, ready = Settings(home=tmp_path / "home"), [], threading.Barrier(4)

    def migrate():
        one = Database.open(home, database_url)
        ready.wait()
        try:
            one.migrate()
            one.require_current()
        except Exception as error:  # noqa: BLE001  whatever it is, the test is to show it
            failed.append(error)
        one.close()

    threads = [threading.Thread(target=migrate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_a_database_of_something_else_is_left_as_it_is(empty_database):
    if empty_database.is_sqlite:
        empty_database.file.parent.mkdir()
        sqlite3.connect(empty_database.file).close()
    with empty_database.writing() as connection:
        connection.execute(text("CREATE TABLE firings (mine integer)"))
    with refusing(Conflict, "firings") as raised:
        empty_database.migrate()
    assert raised.value.remedy == "give refaug a database of its own"
    with empty_database.writing() as connection:
        connection.execute(text("INSERT INTO firings VALUES (1)"))
    with pytest.raises(Unavailable):  # nothing of what comes before it was made
        names(empty_database)


def test_what_belongs_to_a_job_goes_with_it(database):
    job = {"id": "a", "kind": "k", "order": "{}", "resources": "[]", "state": "done", "created": time_text()}
    with database.writing() as connection:
        connection.execute(insert(JOBS).values(job))
        connection.execute(insert(JOB_RESOURCES).values(job="a", resource="log/chat"))
    with pytest.raises(IntegrityError), database.writing() as connection:
        connection.execute(insert(JOB_RESOURCES).values(job="b", resource="log/chat"))
    with database.writing() as connection:
        connection.execute(JOBS.delete())
        assert connection.execute(select(func.count()).select_from(JOB_RESOURCES)).scalar_one() == 0


@pytest.mark.parametrize("change", [{"state": "asleep"}, {"state": None}, {"kind": None}])
def test_rows_that_make_no_sense_are_refused(database, change):
    job = {"id": "a", "kind": "k", "order": "{}", "resources": "[]", "state": "done", "created": time_text()}
    with pytest.raises((IntegrityError, DamagedDatabase)), database.writing() as connection:
        connection.execute(insert(JOBS).values({**job, **change}))


def test_texts_are_put_in_order_by_their_bytes(database):
    with database.writing() as connection:
        for name in ("b", "a", "B", "é", "_", "0"):
            put_key(connection, name)
    assert names(database) == ["0", "B", "_", "a", "b", "é"]


# ── transactions ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_writing_transaction_is_all_or_nothing(database):
    with pytest.raises(Conflict):
        put_keys(database, "one", then=refuse)
    assert names(database) == []


def test_a_part_that_fails_is_undone_and_the_whole_goes_on(database):
    with database.writing() as connection:
        put_key(connection, "one")
        put_keys(database, "two")
        with pytest.raises(Conflict):
            put_keys(database, "three", then=refuse)
        with pytest.raises(IntegrityError):
            put_keys(database, "three", "one")
        assert names(database) == ["one", "two"]  # reading inside sees what was written
    assert names(database) == ["one", "two"]


def test_a_part_is_not_kept_where_the_whole_fails(database):
    with pytest.raises(Conflict):
        put_keys(database, "two", then=lambda _: put_keys(database, "one", then=refuse))
    with pytest.raises(Conflict):
        put_keys(database, "two", then=lambda _: (put_keys(database, "one"), refuse(_)))
    assert names(database) == []


def test_each_thread_has_its_own_transaction(database):
    seen = []

    def other():
        with database.reading() as connection:
            seen.append(connection.execute(select(KEYS.c.name)).scalars().all())

    with database.writing() as connection:
        put_key(connection, "one")
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert seen == [[]]


def test_a_reading_transaction_on_sqlite_sees_one_state(tmp_path):
    database = Database.open(Settings(home=tmp_path))
    database.migrate()

    def write():
        with database.writing() as connection:
            put_key(connection, "one")

    with database.reading() as connection:
        assert connection.execute(select(KEYS.c.name)).scalars().all() == []
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()  # readers do not hold writers up
        assert connection.execute(select(KEYS.c.name)).scalars().all() == []
    assert names(database) == ["one"]
    database.close()


def test_sqlite_is_set_up_so_that_nothing_answered_is_lost(tmp_path):
    database = Database.open(Settings(home=tmp_path / "a%20b #?"))
    database.migrate()
    with database.reading() as connection:
        wanted = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in wanted]
    assert found == ["wal", 2, 1, 10_000]
    assert database.file == tmp_path / "a%20b #?" / FILE
    assert database.file.exists()
    database.close()


def test_a_process_never_uses_a_connection_of_another(database, monkeypatch):
    def used():
        with database.reading() as connection:
            return connection.connection.driver_connection

    first = used()
    assert used() is first
    monkeypatch.setattr(os, "getpid", lambda: -1)
    second = used()
    monkeypatch.undo()
    assert second is not first
    assert first.execute("SELECT 1").fetchone()[0] == 1  # it was not closed: it is the other process's
    first.close()
    third = used()
    assert third is not second
    second.close()


def test_writers_stand_in_line_where_they_ask_to(database):
    """The second gets past the line after the first has committed, and sees what it wrote."""
    order, waits = [], threading.Event()

    def second():
        waits.set()
        with database.writing() as connection:
            database.advisory_lock(connection, "enqueue")
            order.append(connection.execute(select(KEYS.c.name)).scalars().all())

    with database.writing() as connection:
        database.advisory_lock(connection, "enqueue")
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(30)
        put_key(connection, "one")
    thread.join()
    assert order == [["one"]]


# ── trouble ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_database_that_stays_locked_is_told_and_works_again(database_url, tmp_path):
    home = Settings(home=tmp_path / "home")
    database = Database.open(home, database_url, wait_s=0.2)
    database.migrate()
    if database.is_sqlite:
        other = sqlite3.connect(database.file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
    else:
        other = psycopg.connect(database_url)
        other.execute("LOCK TABLE keys")
    with pytest.raises(Unavailable) as raised, database.writing() as connection:
        put_key(connection, "one")
    assert raised.value.message == "the database is locked by another process"
    assert raised.value.retry_after_s > 0
    other.rollback()
    other.close()
    with database.writing() as connection:
        put_key(connection, "two")
    assert names(database) == ["two"]
    database.close()


def test_a_file_that_is_removed_is_missed_and_a_backup_is_taken_up(tmp_path):
    database = Database.open(Settings(home=tmp_path))
    database.migrate()
    with database.writing() as connection:
        put_key(connection, "one")
    database.close()
    shutil.copy(tmp_path / FILE, tmp_path / "backup")
    with database.writing() as connection:
        put_key(connection, "two")
    for path in (tmp_path / FILE, tmp_path / f"{FILE}-wal", tmp_path / f"{FILE}-shm"):
        path.unlink()
    for use in (database.reading, database.writing):
        with pytest.raises(Unavailable) as raised, use():
            pass
        assert "restore it from a backup" in raised.value.remedy
    (tmp_path / "backup").rename(tmp_path / FILE)
    assert names(database) == ["one"]
    database.close()


def test_a_damaged_file_is_told(tmp_path):
    (tmp_path / FILE).write_bytes(b"this is no database, and never was one" * 100)
    database = Database.open(Settings(home=tmp_path))
    for ask in (database.require_current, database.migrate):
        with pytest.raises(DamagedDatabase, match=r"refaug\.db") as raised:
            ask()
        assert "refaug admin restore" in raised.value.remedy
    database.close()


@pytest.fixture
def disk(tmp_path):
    """A file system of its own, of one megabyte."""
    with small_disk("size=1m") as folder:
        yield folder


@pytest.mark.machine
def test_a_full_disk_is_told_and_with_room_it_works_again(disk):
    database = Database.open(Settings(home=disk))
    database.migrate()
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    with pytest.raises(StorageFull), database.writing() as connection:
        put_key(connection, "one", hash="x" * 100_000)
    database.close()
    with pytest.raises(StorageFull), database.writing() as connection:
        put_key(connection, "one", hash="x" * 100_000)  # also where it has to be opened
    filler.unlink()
    with database.writing() as connection:
        put_key(connection, "two", hash="x" * 100_000)
    assert names(database) == ["two"]
    database.close()


@pytest.fixture
def on_cluster(cluster, tmp_path):
    cluster.ask("DROP DATABASE IF EXISTS away WITH (FORCE)")
    cluster.ask("CREATE DATABASE away TEMPLATE template0")
    database = Database.open(Settings(home=tmp_path), cluster.url("away"), wait_s=2)
    database.migrate()
    yield database
    database.close()
    cluster.ask("DROP DATABASE away WITH (FORCE)")


@pytest.mark.machine
def test_a_server_that_is_gone_is_told_and_works_again(on_cluster, cluster, caplog):
    with on_cluster.writing() as connection:
        put_key(connection, "one")
    cluster.stop()
    for use in (on_cluster.reading, on_cluster.writing):
        with pytest.raises(Unavailable) as raised, use():
            pass
        assert raised.value.message == "the database cannot be reached"
    cluster.start()
    assert names(on_cluster) == ["one"]
    assert {(record.message, record.levelno) for record in caplog.records} == {("database", logging.WARNING)}


@pytest.mark.machine
def test_a_connection_that_is_ended_in_a_transaction_undoes_it(on_cluster, cluster):
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'away'"
    with pytest.raises(Unavailable):
        put_keys(on_cluster, "one", then=lambda _: (cluster.ask(ended), put_keys(on_cluster, "two")))
    put_keys(on_cluster, "three")
    cluster.ask(ended)  # while no transaction is open: nobody notices
    assert names(on_cluster) == ["three"]


@contextmanager
def refusing_server(message, code):
    """A server that refuses every connection as PostgreSQL does, over its protocol: the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            with suppress(OSError):  # the end of the test
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        while connection.recv(1024)[4:8] in (ENCRYPTION, OTHER_ENCRYPTION):
                            connection.sendall(b"N")
                        fields = f"SFATAL\0C{code}\0M{message}\0\0".encode()
                        connection.sendall(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)

        thread = threading.Thread(target=answer)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    ("message", "code", "said"),
    [
        ('password authentication failed for user "me"', "28P01", "the user or the password is wrong"),
        ('no pg_hba.conf entry for host "127.0.0.1"', "28000", "does not let this user in from here"),
        ('database "chat" does not exist', "3D000", "does not exist"),
        ('role "me" does not exist', "28000", "has no such user"),
    ],
)
def test_a_refused_connection_says_why_and_what_to_look_at(tmp_path, message, code, said):
    with refusing_server(message, code) as port:
        database = Database.open(Settings(home=tmp_path), f"postgresql://me:hunter2@127.0.0.1:{port}/chat", wait_s=2)
        with pytest.raises(Unavailable) as raised, database.reading():
            pass
        database.close()
    assert said in raised.value.message
    assert "REFAUG_DATABASE" in raised.value.remedy
    assert "hunter2" not in f"{raised.value} {raised.value.remedy}"


def test_a_certificate_that_is_not_there_is_no_missing_database(tmp_path):
    absent = tmp_path / "root.crt"
    url = f"postgresql://me@127.0.0.1:{{}}/chat?sslmode=verify-full&sslrootcert={absent}"
    with refusing_server('database "chat" does not exist', "3D000") as port:
        database = Database.open(Settings(home=tmp_path), url.format(port), wait_s=2)
        with pytest.raises(Unavailable) as raised, database.reading():
            pass
        database.close()
    assert raised.value.message.endswith("cannot be reached")


def test_nothing_says_the_password_of_the_url(tmp_path, caplog):
    secret, home = "hunter2", Settings(home=tmp_path)
    database = Database.open(home, f"postgresql://me:{secret}@127.0.0.1:1/chat", wait_s=2)
    with pytest.raises(Unavailable) as raised, database.reading():
        pass
    said = [str(raised.value), repr(database), *(str(record.__dict__) for record in caplog.records)]
    for wrong in (f"mysql://me:{secret}@host/chat", f"{secret} is no url"):
        with pytest.raises(Usage) as refused:
            Database.open(home, wrong)
        assert refused.value.message.startswith("REFAUG_DATABASE is ")
        said.append(str(refused.value))
    assert [line for line in said if secret in line] == []
    assert len(caplog.records) == 1
    database.close()


def test_the_message_has_no_values_and_no_statement(database):
    with pytest.raises(IntegrityError) as raised:
        put_keys(database, "one", "one", hash="a-secret-hash")
    assert "a-secret-hash" not in str(raised.value)


# ── times ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_times_are_read_as_they_were_written_and_sort_as_texts():
    moment = datetime(2026, 3, 29, 2, 30, 0, 7, timezone(timedelta(hours=2)))
    assert time_text(moment) == "2026-03-29T00:30:00.000007Z"
    assert time_of(time_text(moment)) == moment
    whole = datetime(2026, 3, 29, tzinfo=UTC)
    moments = [whole + timedelta(microseconds=n) for n in (0, 1, 999_999, 1_000_000, 86_400_000_000)]
    assert sorted(map(time_text, moments)) == [time_text(one) for one in moments]
    before = datetime.now(UTC)
    assert before <= time_of(time_text()) <= datetime.now(UTC)


def test_every_time_in_every_table_is_a_text():
    """So that both databases agree on them; see the tables."""
    named = {"created", "started", "finished", "updated", "begun", "due", "at", "beat", "expires", "revoked"}
    kinds = {column.type.python_type for table in known_tables().values() for column in table.c if column.name in named}
    assert kinds == {str}
