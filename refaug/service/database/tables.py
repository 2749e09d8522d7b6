"""The tables of the core, as new databases get them and as the last step leaves older ones, and those of extras.

Times are texts such as 2026-11-20T02:30:00.000000Z: both databases sort them correctly, neither converts them to
another zone, and people can read them in a backup. JSON is text as well: it is read and written whole, and PostgreSQL's
JSON type refuses the NUL that a dialogue may hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import orjson
from sqlalchemy import (
    DDL,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    delete,
    false,
    insert,
    inspect,
    select,
    text,
    true,
)
from sqlalchemy.event import listen

from refaug.core.installation import TABLES as ADDED_TABLES
from refaug.core.installation import find, registered
from refaug.service.database.stored_cells import PARSER, check_cells
from refaug.service.scopes import Scope

# Compared by bytes, whatever PostgreSQL's language: the database sorts ids and times.
PLAIN: Final = Text().with_variant(Text(collation="C"), "postgresql")

STATES: Final = ("queued", "running", "done", "failed", "cancelled")

JSON: Final = {PARSER: orjson.loads}
_SCOPES: Final = {PARSER: lambda words: [Scope(word) for word in words.split()]}


def one_of(words: Sequence[str]) -> dict[Any, Any]:
    """Return what a column says whose cells are one of a few words."""
    return {PARSER: words.index}


def new_metadata() -> MetaData:
    """Return a set of tables without tables, in which constraints have names."""
    return MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
        }
    )


TABLES: Final = new_metadata()

JOBS: Final = Table(
    "jobs",
    TABLES,
    Column("id", PLAIN, primary_key=True),  # rises with the time of creation
    Column("kind", Text, nullable=False),
    Column("order", Text, nullable=False, info=JSON),  # JSON
    Column("resources", Text, nullable=False, info=JSON),  # a JSON list, sorted: equal lists are equal texts
    Column("state", Text, nullable=False, info=one_of(STATES)),
    Column("created", PLAIN, nullable=False),
    Column("started", PLAIN),  # the last start
    Column("finished", PLAIN),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("progress", Text, info=JSON),  # JSON
    Column("result", Text, info=JSON),  # JSON
    Column("error", Text, info=JSON),  # JSON
    Column("requested_by", Text),
    Column("schedule", Text),
    Column("cancel_requested", Boolean, nullable=False, server_default=false()),
    Column("worker", Text),  # the worker that runs it, or ran it last
    Column("beat", PLAIN),  # the last heartbeat of the worker
    Column("events", Integer, nullable=False, server_default="0"),  # the number of its last event
    Column("actor", Text),  # of the audit log
    CheckConstraint(f"state IN ({', '.join(repr(state) for state in STATES)})", name="state"),
)
Index("ix_jobs_state_id", JOBS.c.state, JOBS.c.id)

# A unique index: at most one row of a resource is in use, so no two running jobs share one.
JOB_RESOURCES: Final = Table(
    "job_resources",
    TABLES,
    Column("job", PLAIN, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("resource", Text, primary_key=True),
    Column("in_use", Boolean, nullable=False, server_default=false()),
)
Index(
    "ux_job_resources_in_use",
    JOB_RESOURCES.c.resource,
    unique=True,
    sqlite_where=text("in_use"),
    postgresql_where=text("in_use"),
)

# Events are numbered within their job, from 1. The number comes from the job's row, which stays locked until the event
# is visible; so a reader that sees a number can see all smaller ones. A sequence of the whole database does not
# guarantee that: of two transactions the one with the smaller number may end later.
JOB_EVENTS: Final = Table(
    "job_events",
    TABLES,
    Column("job", PLAIN, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", PLAIN, nullable=False),
    Column("type", Text, nullable=False),
    Column("data", Text, nullable=False, info=JSON),  # JSON
)

SCHEDULES: Final = Table(
    "schedules",
    TABLES,
    Column("name", PLAIN, primary_key=True),
    Column("cron", Text, nullable=False),
    Column("timezone", Text, nullable=False),
    Column("order", Text, nullable=False, info=JSON),  # JSON
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("created", PLAIN, nullable=False),
    Column("updated", PLAIN, nullable=False),
    Column("begun", PLAIN, nullable=False),  # due times count from here
)

# Old jobs are removed and their firings stay; so there is no foreign key to jobs.
FIRINGS: Final = Table(
    "firings",
    TABLES,
    Column("schedule", PLAIN, ForeignKey("schedules.name", ondelete="CASCADE"), primary_key=True),
    Column("due", PLAIN, primary_key=True),
    Column("job", PLAIN),
    Column("note", Text),
)

KEYS: Final = Table(
    "keys",
    TABLES,
    Column("id", PLAIN, primary_key=True),
    Column("name", PLAIN, nullable=False),
    Column("hash", Text, nullable=False),
    Column("scopes", Text, nullable=False, info=_SCOPES),
    Column("rate_per_s", Float),
    Column("quota_per_day", Integer),
    Column("created", PLAIN, nullable=False),
    Column("expires", PLAIN),
    Column("revoked", PLAIN),
    UniqueConstraint("name"),
)

IDEMPOTENCY: Final = Table(
    "idempotency",
    TABLES,
    Column("scope", PLAIN, primary_key=True),
    Column("key", PLAIN, primary_key=True),
    Column("body_sha256", Text, nullable=False),
    Column("status", Integer),  # null while the first request is under way
    Column("answer", Text, info=JSON),  # JSON
    Column("created", PLAIN, nullable=False),
    Column("holder", Text, nullable=False),  # the process that handles the first request
)
Index("ix_idempotency_created", IDEMPOTENCY.c.created)

BOTS: Final = Table(
    "bots",
    TABLES,
    Column("name", PLAIN, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("spec", Text, nullable=False, info=JSON),  # JSON with sorted keys
    Column("spec_sha256", Text, nullable=False),
)

AUDIT: Final = Table(
    "audit",
    TABLES,
    Column("id", PLAIN, primary_key=True),  # rises with the time
    Column("at", PLAIN, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("details", Text, nullable=False, info=JSON),  # JSON
    Column("request", Text),
    Column("checksum", Text, nullable=False),  # over the row and the checksum before
    sqlite_with_rowid=False,  # a rowid would be a second key, by which a row could be replaced
)
_KEPT: Final = "rows of the audit log are never changed or removed"
_AUDIT_TRIGGERS: Final = {
    "sqlite": (
        *(
            f"CREATE TRIGGER audit_no_{event} BEFORE {event.upper()} ON audit BEGIN SELECT RAISE(ABORT, '{_KEPT}'); END"
            for event in ("update", "delete")
        ),
        # INSERT OR REPLACE removes the old row without the trigger of DELETE.
        "CREATE TRIGGER audit_no_replace BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id) "
        f"BEGIN SELECT RAISE(ABORT, '{_KEPT}'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION refaug_audit_is_kept() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_KEPT}'; END $$",
        *(
            f"CREATE TRIGGER audit_kept_{each.lower()} BEFORE {event} ON audit "
            f"FOR EACH {each} EXECUTE FUNCTION refaug_audit_is_kept()"
            for event, each in (("UPDATE OR DELETE", "ROW"), ("TRUNCATE", "STATEMENT"))
        ),
    ),
}
for _database, _statements in _AUDIT_TRIGGERS.items():
    for _statement in _statements:
        listen(AUDIT, "after_create", DDL(_statement).execute_if(dialect=_database))  # type: ignore[no-untyped-call]

# Notes on replies, by the place of the reply in its evaluation, which never changes.
EVALUATION_NOTES: Final = Table(
    "evaluation_notes",
    TABLES,
    Column("evaluation", PLAIN, primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("changed", PLAIN, nullable=False),
)

# A row an hour (UTC): what was counted in it by all processes, and what was measured in it once.
HOURLY_FIGURES: Final = Table(
    "hourly_figures",
    TABLES,
    Column("hour", PLAIN, primary_key=True),  # such as 2026-11-20T02
    Column("counts", Text, nullable=False, info=JSON),  # JSON: a number by name
    Column("writers", Text, nullable=False, info=JSON),  # JSON: the number of the last addition of each process
    Column("sizes", Text, info=JSON),  # JSON
)

# What a webhook is still to be sent, the oldest first.
NOTICES: Final = Table(
    "notices",
    TABLES,
    Column("id", PLAIN, primary_key=True),  # rises with the time
    Column("body", Text, nullable=False, info=JSON),  # JSON, as it is sent
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("due", PLAIN, nullable=False),  # not sent before; set ahead while a process sends it
    Column("problem", Text),  # of the last try
)

# The newest backup is looked for with each scrape.
BACKED_UP: Final = "back up"  # the action
Index(
    "ix_audit_backups",
    AUDIT.c.id,
    sqlite_where=text(f"action = '{BACKED_UP}'"),
    postgresql_where=text(f"action = '{BACKED_UP}'"),
)

# ── Sets of tables ────────────────────────────────────────────────────────────────────────────────────────────────────

SEALED: Final = "sealed"  # in a table's `info`: the cells over which its rows have a checksum


@dataclass(frozen=True, kw_only=True)
class TableSet:
    """The tables of the core or of an extra; foreign keys lead to these or to the core's.

    To change tables, change them here, and add a step that older databases take once, and that is never changed after
    its release. All steps that a database lacks are taken in one transaction: one that fails leaves it as it was.
    """

    name: str
    tables: MetaData
    steps: Sequence[Callable[[Connection], None]] = ()

    def __post_init__(self) -> None:
        check_cells(self.tables)

    @property
    def newest(self) -> int:
        """The step of new databases."""
        return 1 + len(self.steps)

    @property
    def label(self) -> str:
        """What errors say."""
        return "the database's tables" if self.name == CORE_NAME else f"the database's tables of {self.name}"

    def bring_up_to_date(self, connection: Connection, step: int | None) -> None:
        """Make the tables, or take the steps after `step`, in a transaction of the caller."""
        if step is None:
            self.tables.create_all(connection, checkfirst=False)  # refused where others have such names
        for take in self.steps[step - 1 :] if step is not None else ():
            take(connection)
        stored = _step_table(self.name)
        stored.create(connection, checkfirst=True)
        connection.execute(delete(stored))
        names = orjson.dumps([table.name for table in self.tables.sorted_tables]).decode()
        connection.execute(insert(stored).values(step=self.newest, names=names))


def _add_figures_and_notices(connection: Connection) -> None:
    """Add the tables of hourly figures and notices, and the index of backups, as step 2 has them."""
    metadata = new_metadata()
    figures = (
        Column("hour", PLAIN, primary_key=True),
        *(Column(name, Text, nullable=False) for name in ("counts", "writers")),
        Column("sizes", Text),
    )
    notices = (
        Column("id", PLAIN, primary_key=True),
        Column("body", Text, nullable=False),
        Column("tries", Integer, nullable=False, server_default="0"),
        Column("due", PLAIN, nullable=False),
        Column("problem", Text),
    )
    for name, columns in (("hourly_figures", figures), ("notices", notices)):
        Table(name, metadata, *columns).create(connection)
    connection.execute(text("CREATE INDEX ix_audit_backups ON audit (id) WHERE action = 'back up'"))


CORE_NAME: Final = "core"
CORE: Final = TableSet(name=CORE_NAME, tables=TABLES, steps=(_add_figures_and_notices,))
_PREFIX: Final = "tables_of_"


@cache
def table_sets() -> Sequence[TableSet]:
    """Return the tables of the core, then those of the extras that are installed."""
    return (CORE, *(find(ADDED_TABLES, name) for name in registered(ADDED_TABLES)))


def known_tables() -> dict[str, Table]:
    """Return all tables by name, each after those that it refers to."""
    return {table.name: table for each in table_sets() for table in each.tables.sorted_tables}


def stored_steps(connection: Connection) -> dict[str, int]:
    """Return the step of each set of tables that a database has, by its name."""
    names = sorted(name for name in inspect(connection).get_table_names() if name.startswith(_PREFIX))
    sets = [name.removeprefix(_PREFIX) for name in names]
    return {name: connection.execute(select(_step_table(name).c.step)).scalar_one() for name in sets}


def absent_sets(steps: Iterable[str]) -> list[str]:
    """Return the names, of these, of sets of tables whose extras are not installed: no one changes these."""
    return sorted({*steps} - {each.name for each in table_sets()})


def absent_tables(connection: Connection) -> list[Table]:
    """Return the tables of extras that are not installed, as the database describes them."""
    tables = list[Table]()
    for name in absent_sets(stored_steps(connection)):
        names = orjson.loads(connection.execute(select(_step_table(name).c.names)).scalar_one())
        described = MetaData()
        described.reflect(connection, only=names)
        tables += [described.tables[table] for table in names]
    return tables


def _step_table(name: str) -> Table:
    """Return the table that says which step the tables of a set have, and their names."""
    tables = MetaData()
    columns = Column("step", Integer, nullable=False), Column("names", Text, nullable=False, info=JSON)
    table = Table(f"{_PREFIX}{name}", tables, *columns)
    check_cells(tables)
    return table
