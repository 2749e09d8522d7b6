"""Every table, as the last step in `versions/` leaves it; the same on SQLite and on PostgreSQL.

Times are texts such as 2026-11-20T02:30:00.000000Z: both databases sort them rightly, none of them shifts them to a
zone of its own, and people who look into a backup can read them. JSON is text as well: it is read and written whole,
and PostgreSQL's own type refuses the NUL that a dialogue may hold.
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

# Compared by bytes, also where PostgreSQL was set up for a language: ids and times are put in order by the database.
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
    Column("started", PLAIN),  # the last time that it was begun
    Column("finished", PLAIN),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("progress", Text),  # JSON
    Column("result", Text),  # JSON
    Column("error", Text),  # JSON
    Column("requested_by", Text),
    Column("schedule", Text),
    Column("cancel_requested", Boolean, nullable=False, server_default=false()),
    Column("worker", Text),  # who runs it; who ran it last, once it has ended
    Column("beat", PLAIN),  # when the worker was last heard of
    Column("events", Integer, nullable=False, server_default="0"),  # the number of its last event
    CheckConstraint(f"state IN ({', '.join(repr(state) for state in STATES)})", name="state"),
)
Index("ix_jobs_state_id", JOBS.c.state, JOBS.c.id)

# No two rows of one resource can be in use: that no two running jobs share one is a property of the data.
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

# Events are numbered within their job, from 1. The number is taken from the job's row, which stays locked until the
# event is there for all to see; so who has seen a number has seen, or can see, all smaller ones. A sequence of the
# whole database does not promise that: of two transactions the one with the smaller number may end later.
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

# A job that is removed after its time leaves its firing without one; so no foreign key to jobs.
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
    Column("status", Integer),  # none while the first request is still under way
    Column("answer", Text),  # JSON
    Column("created", PLAIN, nullable=False),
    Column("holder", Text, nullable=False),  # the process that has the first request
)
Index("ix_idempotency_created", IDEMPOTENCY.c.created)
