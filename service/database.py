"""The database of a home: SQLite in the home, or PostgreSQL by a URL; its transactions, and what can go wrong with it.

Tables are in `service.migrations.tables`; who asks writes SQLAlchemy expressions that both databases understand. A
reading transaction sees one state of everything. Writing ones follow each other on SQLite; on PostgreSQL they run side
by side, and whoever needs an order among them takes a lock with `in_turn`.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, QueuePool, create_engine, event, exc, text
from sqlalchemy.engine import URL, make_url

from core.errors import Conflict, RefaugError, StorageFull, Unavailable, Usage
from core.files import hold, is_held, make_folder, storage_errors, unique
from core.version import VERSION
from service.settings import Settings

log = logging.getLogger(__name__)

FILE: Final = "refaug.db"
_STEPS: Final = Path(__file__).parent / "migrations"
_WAIT_S: Final = 10.0  # for a lock, a connection of the pool, a server that does not answer
_STATEMENT_S: Final = 30.0  # no statement of ours takes seconds; one that does is stuck
_MIGRATION_S: Final = 600.0  # a step may rewrite a table, and a second server waits for the first
_NO_ROOM: Final = 1 << 20  # SQLite reports a disk that fills while it writes as any other trouble with a file
_WRITES: Final = "refaug_writes"  # the execution option that tells a writing transaction
_LOCKS: Final = {"migrate": 7_302_001, "enqueue": 7_302_002}  # PostgreSQL's advisory locks are numbers

_ONE_AT_A_TIME: Final = threading.Lock()  # Alembic keeps what it is doing in a global

# What SQLSTATE's class says of an operational error of PostgreSQL.
_BY_STATE: Final = {
    "08": "cannot be reached",
    "28": "does not let us in",
    "3D": "does not exist",
    "40": "has stopped one of two transactions that stood in each other's way",
    "53": "has no room for this now",
    "55": "is locked by another process",
    "57": "has ended the connection, or did not answer in time",
}


class NewerDatabase(Conflict):
    """The database was brought up to date by a newer version, whose tables this one does not know."""

    code, status = "newer_database", 503


class Database:
    """Transactions of one process on one database; a pool of connections that never leaves the process."""

    def __init__(self, engine: Engine, home: Settings) -> None:
        self._engine, self._home = engine, home
        self._open = threading.local()  # the transaction that this thread is in

    @classmethod
    def open(cls, home: Settings, url: str = "", *, wait_s: float = _WAIT_S) -> Self:
        """The database of this home, or the one of the URL; nothing is connected yet."""
        if url:
            return cls(_postgresql(_url(url), wait_s), home)
        return cls(_sqlite(home.home / FILE, wait_s), home)

    @property
    def home(self) -> Settings:
        """The home whose jobs, schedules and keys these are."""
        return self._home

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file in the home."""
        return self._engine.dialect.name == "sqlite"

    @property
    def file(self) -> Path | None:
        """Where it lies, if it is a file."""
        return self._home.home / FILE if self.is_sqlite else None

    # ── transactions ──────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads; inside of a writing one, that one."""
        if self._writing is not None:
            yield self._writing
            return
        with self._errors(), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction, committed at the end of the block; inside of another one of this thread, a part of it.

        What fails in a part undoes the part; the whole can go on, and is committed by its own block.
        """
        outer = self._writing
        if outer is not None:
            with self._errors(), outer.begin_nested():
                yield outer
            return
        with self._errors(), self._engine.connect() as connected:
            connection = connected.execution_options(**{_WRITES: True})
            with connection.begin():
                self._open.connection = connection
                try:
                    yield connection
                finally:
                    self._open.connection = None

    def in_turn(self, connection: Connection, what: str) -> None:
        """Until this transaction ends, no other gets past the same line; on SQLite writers take turns anyway."""
        if not self.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCKS[what]})

    @property
    def _writing(self) -> Connection | None:
        return getattr(self._open, "connection", None)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """What can go wrong with a database, as errors that neither show the URL nor what was asked."""
        try:
            yield
        except exc.SQLAlchemyError as error:
            told = _told(error, self.file)
            if told is None:
                raise
            log.warning("database", extra={"why": _reason(error)})
            raise told from None

    # ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────

    def migrate(self) -> None:
        """Make the tables, or bring them up to date: all of it or nothing, and by one process at a time."""
        if self.file is not None:
            make_folder(self.file.parent)
            with self._errors():
                _make_file(self.file)
        try:
            with self.writing() as connection:
                self._wait_longer(connection)
                self.in_turn(connection, "migrate")
                _require_known(_revision(connection))
                config = Config()
                config.set_main_option("script_location", str(_STEPS).replace("%", "%%"))
                config.attributes["connection"] = connection
                with _ONE_AT_A_TIME:
                    command.upgrade(config, "head")
        except (exc.ProgrammingError, exc.OperationalError) as error:
            raise Conflict(
                f"the tables cannot be made: {_reason(error)}", remedy="give refaug a database of its own"
            ) from error

    def require_current(self) -> None:
        """Unavailable where the tables are not those of this version; NewerDatabase where they are of a newer one."""
        with self.reading() as connection:
            found = _revision(connection)
        _require_known(found)
        if found != _head():
            raise Unavailable(
                "the database has no tables yet" if found is None else f"the database's tables are of step {found}",
                remedy="start the server, or run any `refaug jobs` command: both bring it up to date",
            )

    def _wait_longer(self, connection: Connection) -> None:
        if not self.is_sqlite:
            connection.execute(text(f"SET LOCAL statement_timeout = {_MIGRATION_S * 1000:.0f}"))
            connection.execute(text(f"SET LOCAL lock_timeout = {_MIGRATION_S * 1000:.0f}"))

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()


# ── times ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def time_text(moment: datetime | None = None) -> str:
    """A time as the tables have it; without one, now."""
    moment = datetime.now(UTC) if moment is None else moment
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def time_of(written: str) -> datetime:
    """The time of such a text."""
    return datetime.fromisoformat(written)


# ── processes that rows name ──────────────────────────────────────────────────────────────────────────────────────

_FORGOTTEN_S: Final = 3600.0  # locks of processes that were killed; one that was just made may not be held yet


@contextmanager
def living(home: Settings) -> Iterator[str]:
    """A name for rows, by which everybody can see whether this process is still in the block: a lock goes with it."""
    folder, name = _lives_in(home), unique()
    with storage_errors(folder):
        make_folder(folder)
        lock = hold(folder / f"{name}.lock")
    with lock:
        try:
            yield name
        finally:
            (folder / f"{name}.lock").unlink(missing_ok=True)


def lives(home: Settings, name: str) -> bool:
    """Whether the process that got this name is still in its block."""
    path = _lives_in(home) / f"{name}.lock"
    return path.exists() and is_held(path)


def remove_dead(home: Settings) -> None:
    """Remove the locks of processes that were killed."""
    for path in _lives_in(home).glob("*.lock"):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _FORGOTTEN_S and not is_held(path):
                path.unlink()


def _lives_in(home: Settings) -> Path:
    return home.home / "workers"


# ── connecting ────────────────────────────────────────────────────────────────────────────────────────────────────


def _sqlite(path: Path, wait_s: float) -> Engine:
    # Absolute now: a process may change its folder. mode=rw: only `migrate` makes the file, so that one that was
    # removed is missed, and not replaced by an empty one.
    address = f"file:{quote(str(path.absolute()))}?mode=rw"

    def connect() -> sqlite3.Connection:
        # Without the driver's own idea of transactions: it would begin them late, and not before everything.
        connection = sqlite3.connect(address, uri=True, timeout=wait_s, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")  # readers and the writer do not wait for each other
            connection.execute("PRAGMA synchronous = FULL")  # what was answered survives a power cut
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    engine = create_engine(
        "sqlite+pysqlite://", creator=connect, poolclass=QueuePool, pool_timeout=wait_s, hide_parameters=True
    )

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # IMMEDIATE: a transaction that reads first and wants to write then could not wait for another writer.
        is_writing = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")

    @event.listens_for(engine, "connect")
    def connected(_connection: Any, record: Any) -> None:
        record.info["file"] = _identity(path)

    @event.listens_for(engine, "checkout")
    def checkout(_connection: Any, record: Any, _proxy: Any) -> None:
        # Of a file that was removed or restored from a backup, an open connection would go on with what is gone.
        if record.info["file"] != _identity(path):
            raise exc.DisconnectionError("the file is another one")

    _keep_in_process(engine)
    return engine


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _make_file(path: Path) -> None:
    """An empty database, where there is none."""
    with _closing(sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")


@contextmanager
def _closing(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """The driver's errors as SQLAlchemy would tell them."""
    try:
        yield connection
    except sqlite3.DatabaseError as error:
        raise exc.DBAPIError.instance(None, None, error, sqlite3.Error) from error
    finally:
        connection.close()


def _url(given: str) -> URL:
    remedy = "postgresql://USER:PASSWORD@HOST/NAME, or nothing for SQLite in the home"
    try:
        url = make_url(given)
    except exc.ArgumentError:
        raise Usage("REFAUG_DATABASE is no URL", remedy=remedy) from None
    if url.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise Usage(f"REFAUG_DATABASE is a URL of {url.drivername[:40]!r}", remedy=remedy)
    return url.set(drivername="postgresql+psycopg")


def _postgresql(url: URL, wait_s: float) -> Engine:
    wanted = {
        "application_name": "refaug",
        "connect_timeout": max(2, round(wait_s)),  # seconds; libpq takes no fewer
        "tcp_user_timeout": round(wait_s * 1000),  # a server that vanished is missed after this
    }
    engine = create_engine(
        url,
        connect_args={name: value for name, value in wanted.items() if name not in url.query},
        pool_pre_ping=True,
        pool_timeout=wait_s,
        hide_parameters=True,
    )

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET statement_timeout = {_STATEMENT_S * 1000:.0f}")
            cursor.execute(f"SET lock_timeout = {wait_s * 1000:.0f}")
            cursor.execute(f"SET idle_in_transaction_session_timeout = {_STATEMENT_S * 1000:.0f}")
        connection.commit()

    _keep_in_process(engine)
    return engine


def _keep_in_process(engine: Engine) -> None:
    """A process that was begun by this one gets connections of its own."""

    @event.listens_for(engine, "connect")
    def connected(_connection: Any, record: Any) -> None:
        record.info["pid"] = os.getpid()

    @event.listens_for(engine, "checkout")
    def checkout(_connection: Any, record: Any, proxy: Any) -> None:
        if record.info["pid"] != os.getpid():
            record.dbapi_connection = proxy.dbapi_connection = None  # not closed: it is still the other one's
            raise exc.DisconnectionError("a connection of another process")


# ── what went wrong ───────────────────────────────────────────────────────────────────────────────────────────────


def _told(error: exc.SQLAlchemyError, file: Path | None) -> RefaugError | None:
    """The error for people; None where the trouble is with what was asked, which is a matter of who asked."""
    if isinstance(error, exc.TimeoutError):
        return _unavailable("is busy: all connections are in use")
    if not isinstance(error, exc.DBAPIError):
        return None
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        return _told_by_sqlite(cause, file)
    if isinstance(cause, psycopg.Error):
        return _told_by_postgresql(cause)
    return None


def _told_by_sqlite(cause: sqlite3.Error, file: Path | None) -> RefaugError | None:
    name = getattr(cause, "sqlite_errorname", "") or ""
    if name == "SQLITE_FULL" or (name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN")) and _is_full(file)):
        return StorageFull(f"{FILE}: the disk is full", remedy="free some room; then the same request goes through")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return _unavailable("is locked by another process")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return _unavailable("is damaged", f"stop the server and restore {FILE} from a backup")
    if name == "SQLITE_CANTOPEN" and file is not None and not file.exists():
        return _unavailable("is not there", f"start the server, which makes {FILE}; or restore it from a backup")
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_NOMEM")):
        return _unavailable("cannot be opened, read or written", f"look at {FILE} in the home")
    if "no such table" in str(cause) or "no such column" in str(cause):
        return _no_tables()
    if "no such savepoint" in str(cause):  # trouble such as a full disk has undone the whole transaction
        return _unavailable("has undone what was begun")
    return None


def _is_full(file: Path | None) -> bool:
    try:
        room = os.statvfs(file.parent) if file is not None else None
    except OSError:
        return False
    return room is not None and room.f_bavail * room.f_frsize < _NO_ROOM


def _told_by_postgresql(cause: psycopg.Error) -> RefaugError | None:
    state = cause.sqlstate or ""
    if isinstance(cause, psycopg.errors.DiskFull):
        return StorageFull("the disk of the database is full", remedy="free some room on the database's machine")
    if isinstance(cause, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn):
        return _no_tables()
    if isinstance(cause, psycopg.errors.ReadOnlySqlTransaction):
        return _unavailable("only lets us read", "name the server that takes writes")
    if isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError):
        return _unavailable(_BY_STATE.get(state[:2], "cannot be reached"))
    return None


def _no_tables() -> Unavailable:
    return _unavailable("has not the tables of this version", "start the server, which brings it up to date")


def _unavailable(what: str, remedy: str = "it is tried again with the next request") -> Unavailable:
    return Unavailable(f"the database {what}", remedy=remedy, retry_after_s=2.0)


def _reason(error: exc.SQLAlchemyError) -> str:
    """What the driver says, for the log: the first line, without values, and without a URL."""
    cause = error.orig if isinstance(error, exc.DBAPIError) else error
    first = (str(cause).strip() or type(cause).__name__).splitlines()[0]
    return re.sub(r"\w+://\S+", "URL", first)[:200]


# ── versions of the tables ────────────────────────────────────────────────────────────────────────────────────────


def _revision(connection: Connection) -> str | None:
    """The last step that was run on the database."""
    return MigrationContext.configure(connection).get_current_revision()


def _head() -> str | None:
    return ScriptDirectory(_STEPS).get_current_head()


def _require_known(revision: str | None) -> None:
    known = {step.revision for step in ScriptDirectory(_STEPS).walk_revisions()}
    if revision is not None and revision not in known:
        raise NewerDatabase(
            f"the database's tables are of step {revision}, which refaug {VERSION} does not know",
            remedy="use the newer version that has made them, or restore the backup from before the upgrade",
        )
