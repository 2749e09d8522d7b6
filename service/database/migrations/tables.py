"""Every table, as the last migration in `versions/` leaves it; the same on SQLite and on PostgreSQL.

Times are texts such as 2026-11-20T02:30:00.000000Z: both databases sort them correctly, neither converts them to
another zone, and people can read them in a backup. JSON is text as well: it is read and written whole, and PostgreSQL's
JSON type refuses the NUL that a dialogue may hold.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
    true,
)

# Compared by bytes, whatever PostgreSQL's language: the database sorts ids and times.
PLAIN: Final = Text().with_variant(Text(collation="C"), "postgresql")

STATES: Final = ("queued", "running", "done", "failed", "cancelled")

TABLES: Final = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

JOBS: Final = Table(
    "jobs",
    TABLES,
    Column("id", PLAIN, primary_key=True),  # rises with the time of creation
    Column("kind", Text, nullable=False),
    Column("order", Text, nullable=False),  # JSON
    Column("resources", Text, nullable=False),  # a JSON list, sorted: equal lists are equal texts
    Column("state", Text, nullable=False),
    Column("created", PLAIN, nullable=False),
    Column("started", PLAIN),  # the last start
    Column("finished", PLAIN),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("progress", Text),  # JSON
    Column("result", Text),  # JSON
    Column("error", Text),  # JSON
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
    Column("data", Text, nullable=False),  # JSON
)

SCHEDULES: Final = Table(
    "schedules",
    TABLES,
    Column("name", PLAIN, primary_key=True),
    Column("cron", Text, nullable=False),
    Column("timezone", Text, nullable=False),
    Column("order", Text, nullable=False),  # JSON
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
    Column("scopes", Text, nullable=False),
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
    Column("answer", Text),  # JSON
    Column("created", PLAIN, nullable=False),
    Column("holder", Text, nullable=False),  # the process that handles the first request
)
Index("ix_idempotency_created", IDEMPOTENCY.c.created)

BOTS: Final = Table(
    "bots",
    TABLES,
    Column("name", PLAIN, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("spec", Text, nullable=False),  # JSON with sorted keys
    Column("spec_sha256", Text, nullable=False),
)

# Triggers of the migration refuse to change or remove a row.
AUDIT: Final = Table(
    "audit",
    TABLES,
    Column("id", PLAIN, primary_key=True),  # rises with the time
    Column("at", PLAIN, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("details", Text, nullable=False),  # JSON
    Column("request", Text),
    sqlite_with_rowid=False,
)

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
