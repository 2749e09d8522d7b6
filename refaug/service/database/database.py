"""The database of a home: SQLite in the home, or PostgreSQL by URL; its transactions and its errors.

Tables are in `refaug.service.database.tables`; callers write SQLAlchemy expressions that both databases understand. A
reading transaction sees one consistent state. Writing transactions follow each other on SQLite; on PostgreSQL they run
at the same time, and `advisory_lock` puts them in order where that is needed.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event, exc, text
from sqlalchemy.engine import URL, make_url

from refaug.core.backoff import Backoff, retry
from refaug.core.errors import Conflict, RefaugError, StorageFull, Unavailable, Usage
from refaug.core.files import make_folder
from refaug.core.home import Settings
from refaug.core.version import VERSION
from refaug.service.database.stored_cells import FILE, damaged_database
from refaug.service.database.tables import TableSet, absent_sets, known_tables, stored_steps, table_sets

log = logging.getLogger(__name__)

_NOT_UTF8: Final = "Could not decode to UTF-8"
_LACKING: Final = re.compile(r"NOT NULL constraint failed: (\w+)\.(\w+)")
_TABLE: Final = re.compile(r'(?:FROM|INTO|UPDATE) "?([a-z_]+)')
_WAIT_S: Final = 10.0  # for a lock, for a connection of the pool, or for a server
_SWITCH_S: Final = 0.01  # between two attempts at a new file's journal
_STATEMENT_S: Final = 30.0  # our statements take less than a second; a longer one is stuck
_MIGRATION_S: Final = 600.0  # a migration may rewrite a table, and a second server waits for it
_NO_ROOM: Final = 1 << 20  # SQLite reports a disk that fills up during a write like any file error
_WRITES: Final = "refaug_writes"  # the execution option of writing transactions
# PostgreSQL's advisory locks are numbers.
_LOCKS: Final = {
    "migrate": 7_302_001,
    "enqueue": 7_302_002,
    "evaluation notes": 7_302_003,
    "audit": 7_302_004,
    "targets": 7_302_005,
}

# The meaning of an operational error of PostgreSQL, by the class of its SQLSTATE.
_STATE_CLASSES: Final = {
    "08": "cannot be reached",
    "28": "does not let us in",
    "3D": "does not exist",
    "40": "has stopped one of two transactions that stood in each other's way",
    "53": "has no room for this now",
    "55": "is locked by another process",
    "57": "has ended the connection, or did not answer in time",
}

# What PostgreSQL, or libpq itself, says where a new connection is refused for what REFAUG_DATABASE names.
_REFUSALS: Final = {
    "password authentication failed": "does not let us in: the user or the password is wrong",
    "no password supplied": "does not let us in without a password",
    "no pg_hba.conf entry": "does not let this user in from here",
    "is not permitted to log in": "does not let this user in",
    'FATAL:  database "': "does not exist",
    'FATAL:  role "': "has no such user",
}


class NewerDatabase(Conflict):
    """The database was brought up to date by a newer version, whose tables this one does not know."""

    code, status = "newer_database", 503


class Database:
    """The transactions of one process on one database, over a pool of connections that never leaves the process."""

    def __init__(self, engine: Engine, home: Settings) -> None:
        self._engine, self._home = engine, home
        self._open = threading.local()  # the current transaction of each thread

    @classmethod
    def open(cls, home: Settings, url: str = "", *, wait_s: float = _WAIT_S) -> Self:
        """Return the database of this home, or of the URL; this does not connect yet."""
        if url:
            return cls(_postgresql_engine(_parse_url(url), wait_s), home)
        return cls(_sqlite_engine(home.home / FILE, wait_s), home)

    @property
    def home(self) -> Settings:
        """The home of these jobs, schedules and keys."""
        return self._home

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is a file in the home."""
        return self._engine.dialect.name == "sqlite"

    @property
    def file(self) -> Path | None:
        """The path of the file, if it is one."""
        return self._home.home / FILE if self.is_sqlite else None

    def size(self) -> int:
        """Return the bytes that the database takes on its disk."""
        if self.file is not None:
            names = (f"{self.file.name}{end}" for end in ("", "-wal"))
            paths = (self.file.with_name(name) for name in names)
            return sum(path.stat().st_size for path in paths if path.exists())
        with self.reading() as connection:
            return int(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one())

    # ── transactions ──────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Begin a transaction that only reads; inside a writing transaction, use that one."""
        if self._writing is not None:
            yield self._writing
            return
        with self._errors(), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Begin a transaction, committed at the end of the block; inside another one of this thread, a savepoint.

        An error inside a savepoint undoes only that part; the whole transaction can go on and commits at its own end.
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

    def run_outside_transactions(self, statement: str) -> None:
        """Run a statement of maintenance that no transaction may hold, such as VACUUM."""
        with self._errors():
            raw = self._engine.raw_connection()
            try:
                driver: Any = raw.driver_connection
                if self.is_sqlite:
                    driver.execute(statement).fetchall()
                else:
                    driver.autocommit = True
                    driver.execute(statement)
            except sqlite3.Error as error:
                raise exc.DBAPIError.instance(None, None, error, sqlite3.Error) from error
            finally:
                raw.invalidate()  # its settings are not those of the pool
                raw.close()

    @staticmethod
    def advisory_lock(connection: Connection, what: str) -> None:
        """Let one transaction at a time pass this line until it ends; writers on SQLite take turns anyway."""
        if connection.dialect.name != "sqlite":
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCKS[what]})

    @property
    def _writing(self) -> Connection | None:
        return getattr(self._open, "connection", None)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Translate database errors into ours, which show neither the URL nor the statement."""
        try:
            yield
        except exc.SQLAlchemyError as error:
            public_error = _public_error(error, self.file)
            if public_error is None:
                raise
            log.warning("database", extra={"why": _reason(error)})
            raise public_error from None
        except UnicodeDecodeError:  # of the driver, whose message about a damaged file has bytes of it
            raise damaged_database("") from None

    # ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def migrate(self) -> None:
        """Create the tables or upgrade them, completely or not at all, by one process at a time."""
        if self.file is not None:
            make_folder(self.file.parent)
            with self._errors():
                _make_file(self.file)
        try:
            with self.writing() as connection:
                self._extend_timeouts(connection)
                self.advisory_lock(connection, "migrate")
                steps = stored_steps(connection)
                for each in table_sets():
                    if _known_step(each, steps) != each.newest:
                        each.bring_up_to_date(connection, steps.get(each.name))
        except (exc.ProgrammingError, exc.OperationalError) as error:
            raise Conflict(
                f"the tables cannot be made: {_reason(error)}", remedy="give refaug a database of its own"
            ) from error
        for name in absent_sets(steps):
            log.warning("tables of an extra that is not installed stay as they are", extra={"extra": name})

    def require_current(self) -> None:
        """Raise Unavailable if the tables are not those of this version, NewerDatabase if they are newer."""
        steps = self.steps()
        for each in table_sets():
            if (step := _known_step(each, steps)) != each.newest:
                raise Unavailable(
                    "the database has no tables yet"
                    if not steps
                    else f"{each.label} are missing"
                    if step is None
                    else f"{each.label} are of step {step}",
                    remedy="start the server, or run any `refaug admin jobs` command: both bring it up to date",
                )

    def steps(self) -> dict[str, int]:
        """Return the step of each set of tables that the database has, those of absent extras among them."""
        with self.reading() as connection:
            return stored_steps(connection)

    def _extend_timeouts(self, connection: Connection) -> None:
        if not self.is_sqlite:
            connection.execute(text(f"SET LOCAL statement_timeout = {_MIGRATION_S * 1000:.0f}"))
            connection.execute(text(f"SET LOCAL lock_timeout = {_MIGRATION_S * 1000:.0f}"))

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


# ── Times ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def time_text(moment: datetime | None = None) -> str:
    """Return a time in the form of the tables; by default now."""
    moment = datetime.now(UTC) if moment is None else moment
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def time_of(written: str) -> datetime:
    """Return the time of such a text; DamagedDatabase for another one."""
    try:
        return datetime.fromisoformat(written)
    except ValueError:
        raise damaged_database("a time cannot be read") from None


# ── Connecting ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _sqlite_engine(path: Path, wait_s: float) -> Engine:
    # Absolute, since a process may change its folder. mode=rw: only `migrate` creates the file, so that a removed one
    # is reported and not replaced by an empty one.
    address = f"file:{quote(str(path.absolute()))}?mode=rw"

    def connect() -> sqlite3.Connection:
        # isolation_level=None: the driver would begin transactions late, and not before every statement.
        connection = sqlite3.connect(address, uri=True, timeout=wait_s, isolation_level=None, check_same_thread=False)
        try:
            _write_ahead(connection, wait_s)
            connection.execute("PRAGMA synchronous = FULL")  # committed transactions survive a power cut
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
        # IMMEDIATE: a transaction that reads before it writes could not wait for another writer.
        is_writing = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")

    @event.listens_for(engine, "connect")
    def connected(_connection: Any, record: Any) -> None:
        record.info["file"] = _identity(path)

    @event.listens_for(engine, "checkout")
    def checkout(_connection: Any, record: Any, _proxy: Any) -> None:
        # After the file was removed or restored from a backup, an open connection would still use the old one.
        if record.info["file"] != _identity(path):
            raise exc.DisconnectionError("the file is another one")

    _forbid_sharing_with_children(engine)
    return engine


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _make_file(path: Path) -> None:
    """Create an empty database, if there is none."""
    with _sqlite_errors(sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)) as connection:
        _write_ahead(connection, _WAIT_S)


def _write_ahead(connection: sqlite3.Connection, wait_s: float) -> None:
    """Let readers and the writer not wait for each other.

    Of several processes that switch a new file at once, SQLite refuses all but one without waiting for its timeout.
    """

    def is_busy(error: Exception) -> bool:
        return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY

    retry(
        lambda: connection.execute("PRAGMA journal_mode = WAL"),
        on=sqlite3.OperationalError,
        backoff=Backoff(_SWITCH_S, _SWITCH_S),
        within_s=wait_s,
        is_transient=is_busy,
    )


@contextmanager
def _sqlite_errors(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Raise the driver's errors as SQLAlchemy does, and close the connection."""
    try:
        yield connection
    except sqlite3.DatabaseError as error:
        raise exc.DBAPIError.instance(None, None, error, sqlite3.Error) from error
    finally:
        connection.close()


def _parse_url(url_text: str) -> URL:
    remedy = "postgresql://USER:PASSWORD@HOST/NAME, or nothing for SQLite in the home"
    try:
        url = make_url(url_text)
    except exc.ArgumentError:
        raise Usage("REFAUG_DATABASE is not a URL", remedy=remedy) from None
    if url.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise Usage(f"REFAUG_DATABASE is a URL of {url.drivername[:40]!r}", remedy=remedy)
    return url.set(drivername="postgresql+psycopg")


def _postgresql_engine(url: URL, wait_s: float) -> Engine:
    options = {
        "application_name": "refaug",
        "connect_timeout": max(2, round(wait_s)),  # seconds; the minimum of libpq
        "tcp_user_timeout": round(wait_s * 1000),  # after which an unreachable server is noticed
    }
    engine = create_engine(
        url,
        connect_args={name: value for name, value in options.items() if name not in url.query},
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

    _forbid_sharing_with_children(engine)
    return engine


def _forbid_sharing_with_children(engine: Engine) -> None:
    """Give a forked process new connections, since it must not use those of its parent."""

    @event.listens_for(engine, "connect")
    def connected(_connection: Any, record: Any) -> None:
        record.info["pid"] = os.getpid()

    @event.listens_for(engine, "checkout")
    def checkout(_connection: Any, record: Any, proxy: Any) -> None:
        if record.info["pid"] != os.getpid():
            record.dbapi_connection = proxy.dbapi_connection = None  # not closed: the parent still uses it
            raise exc.DisconnectionError("a connection of another process")


# ── Errors ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _public_error(error: exc.SQLAlchemyError, file: Path | None) -> RefaugError | None:
    """Return an error for people; None for a faulty statement, which the caller handles."""
    if isinstance(error, exc.TimeoutError):
        return _unavailable_error("is busy: all connections are in use")
    if not isinstance(error, exc.DBAPIError):
        return None
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        return _public_sqlite_error(cause, file, error.statement or "")
    return _public_postgresql_error(cause)


def _public_sqlite_error(cause: sqlite3.Error, file: Path | None, statement: str) -> RefaugError | None:
    name = getattr(cause, "sqlite_errorname", "") or ""
    if name == "SQLITE_FULL" or (name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN")) and _is_full(file)):
        return StorageFull(f"{FILE}: the disk is full", remedy="free some room; then the same request goes through")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return _unavailable_error("is locked by another process")
    if _is_damage(str(cause), name, statement):
        tables = _TABLE.findall(statement)
        return damaged_database(f"table {tables[0]}, or what refers to it" if tables else "")
    if name == "SQLITE_CANTOPEN" and file is not None and not file.exists():
        return _unavailable_error("is not there", f"start the server, which makes {FILE}; or restore it from a backup")
    if (
        file is not None
        and name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM"))
        and _is_read_only(file)
    ):
        return _unavailable_error(
            f"cannot be written: {FILE}, or its folder, is read-only for this user",
            "give this user the right to write to both, or name another home: --home, REFAUG_HOME",
        )
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_NOMEM")):
        return _unavailable_error("cannot be opened, read or written", f"look at {FILE} in the home")
    if any(words in str(cause) for words in ("no such table", "no such column", "has no column named")):
        return _no_tables_error()
    if "no such savepoint" in str(cause):  # an error such as a full disk has rolled back the whole transaction
        return _unavailable_error("has undone what was begun")
    return None


def _is_damage(message: str, name: str, statement: str) -> bool:
    """Whether an error says that the file is damaged: where it has other bytes, or breaks what no statement can."""
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_CONSTRAINT_CHECK")) or _NOT_UTF8 in message:
        return True
    if lacking := _LACKING.fullmatch(message):
        return known_tables()[lacking[1]].c[lacking[2]].server_default is not None
    return name == "SQLITE_CONSTRAINT_FOREIGNKEY" and statement.startswith("DELETE")  # which takes along what refers


def _is_read_only(file: Path) -> bool:
    return not all(os.access(path, os.W_OK) for path in (file, file.parent))  # SQLite writes even to read


def _is_full(file: Path | None) -> bool:
    try:
        room = os.statvfs(file.parent) if file is not None else None
    except OSError:
        return False
    return room is not None and room.f_bavail * room.f_frsize < _NO_ROOM


def _public_postgresql_error(cause: BaseException | None) -> RefaugError | None:
    if not type(cause).__module__.startswith("psycopg"):  # it is not even installed everywhere
        return None
    import psycopg  # noqa: PLC0415

    state = getattr(cause, "sqlstate", None) or ""
    if isinstance(cause, psycopg.errors.DiskFull):
        return StorageFull("the disk of the database is full", remedy="free some room on the database's machine")
    if isinstance(cause, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn):
        return _no_tables_error()
    if isinstance(cause, psycopg.errors.ReadOnlySqlTransaction):
        return _unavailable_error("only lets us read", "name the server that takes writes")
    if isinstance(cause, psycopg.OperationalError) and not state:  # a connection that was refused has no state
        for words, what in _REFUSALS.items():
            if words in str(cause):
                return _unavailable_error(what, "look at the user, the password and the name in REFAUG_DATABASE")
    if isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError):
        return _unavailable_error(_STATE_CLASSES.get(state[:2], "cannot be reached"))
    return None


def _no_tables_error() -> Unavailable:
    return _unavailable_error("has not the tables of this version", "start the server, which brings it up to date")


def _unavailable_error(what: str, remedy: str = "it is tried again with the next request") -> Unavailable:
    return Unavailable(f"the database {what}", remedy=remedy, retry_after_s=2.0)


def _reason(error: exc.SQLAlchemyError) -> str:
    """Return the driver's message for the log: the first line, without values and URLs."""
    cause = error.orig if isinstance(error, exc.DBAPIError) else error
    first = (str(cause).strip() or type(cause).__name__).splitlines()[0]
    return re.sub(r"\w+://\S+", "URL", first.partition(_NOT_UTF8)[0] or _NOT_UTF8)[:200]


# ── Steps of the tables ───────────────────────────────────────────────────────────────────────────────────────────────


def _known_step(tables: TableSet, steps: Mapping[str, int]) -> int | None:
    """Return the step of these tables in a database; NewerDatabase where a newer version has made it."""
    step = steps.get(tables.name)
    if step is not None and step > tables.newest:
        raise NewerDatabase(
            f"{tables.label} are of step {step}, which refaug {VERSION} does not know",
            remedy="use the newer version that has made them, or restore the backup from before the upgrade",
        )
    return step


# ── What a database still holds of erased texts in its files: free space of pages, and the log of writes ──────────────


def overwrite_removed(connection: Connection, *, is_sqlite: bool) -> None:
    """Let SQLite overwrite what the transaction of the caller removes."""
    if is_sqlite:
        connection.exec_driver_sql("PRAGMA secure_delete = ON")


def remove_old_copies(database: Database, tables: Sequence[str], *, rewrites: bool) -> bool:
    """Empty the log of writes, and overwrite or write anew what was removed; False where the database is busy."""
    try:
        for statement in _statements(database, tables, rewrites=rewrites):
            database.run_outside_transactions(statement)
    except (Unavailable, StorageFull) as error:
        log.warning("erased texts may be in free pages until the next erasure", extra={"why": error.message})
        return False
    return True


def _statements(database: Database, tables: Sequence[str], *, rewrites: bool) -> list[str]:
    if not database.is_sqlite:
        return [f"VACUUM {'(FULL) ' if rewrites else ''}{table}" for table in tables]
    return [*(["VACUUM"] if rewrites else []), "PRAGMA wal_checkpoint(TRUNCATE)"]
