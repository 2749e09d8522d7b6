"""Jobs, their resources and events; schedules and firings; keys; stored answers of requests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_PLAIN = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create all tables."""
    _make_jobs()
    _make_schedules()
    op.create_table(
        "keys",
        sa.Column("id", _PLAIN, nullable=False),
        sa.Column("name", _PLAIN, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("rate_per_s", sa.Float),
        sa.Column("quota_per_day", sa.Integer),
        sa.Column("created", _PLAIN, nullable=False),
        sa.Column("expires", _PLAIN),
        sa.Column("revoked", _PLAIN),
        sa.PrimaryKeyConstraint("id", name="pk_keys"),
        sa.UniqueConstraint("name", name="uq_keys_name"),
    )
    op.create_table(
        "idempotency",
        sa.Column("scope", _PLAIN, nullable=False),
        sa.Column("key", _PLAIN, nullable=False),
        sa.Column("body_sha256", sa.Text, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("answer", sa.Text),
        sa.Column("created", _PLAIN, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("scope", "key", name="pk_idempotency"),
    )
    op.create_index("ix_idempotency_created", "idempotency", ["created"])


def _make_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", _PLAIN, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("order", sa.Text, nullable=False),
        sa.Column("resources", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("created", _PLAIN, nullable=False),
        sa.Column("started", _PLAIN),
        sa.Column("finished", _PLAIN),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        sa.Column("progress", sa.Text),
        sa.Column("result", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("requested_by", sa.Text),
        sa.Column("schedule", sa.Text),
        sa.Column("cancel_requested", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("worker", sa.Text),
        sa.Column("beat", _PLAIN),
        sa.Column("events", sa.Integer, nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.CheckConstraint("state IN ('queued', 'running', 'done', 'failed', 'cancelled')", name=op.f("ck_jobs_state")),
    )
    op.create_index("ix_jobs_state_id", "jobs", ["state", "id"])
    op.create_table(
        "job_resources",
        sa.Column("job", _PLAIN, nullable=False),
        sa.Column("resource", sa.Text, nullable=False),
        sa.Column("in_use", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.PrimaryKeyConstraint("job", "resource", name="pk_job_resources"),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_job_resources_job", ondelete="CASCADE"),
    )
    in_use = sa.text("in_use")
    op.create_index(
        "ux_job_resources_in_use",
        "job_resources",
        ["resource"],
        unique=True,
        sqlite_where=in_use,
        postgresql_where=in_use,
    )
    op.create_table(
        "job_events",
        sa.Column("job", _PLAIN, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("at", _PLAIN, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("job", "number", name="pk_job_events"),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_job_events_job", ondelete="CASCADE"),
    )


def _make_schedules() -> None:
    op.create_table(
        "schedules",
        sa.Column("name", _PLAIN, nullable=False),
        sa.Column("cron", sa.Text, nullable=False),
        sa.Column("timezone", sa.Text, nullable=False),
        sa.Column("order", sa.Text, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("created", _PLAIN, nullable=False),
        sa.Column("updated", _PLAIN, nullable=False),
        sa.Column("begun", _PLAIN, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_schedules"),
    )
    op.create_table(
        "firings",
        sa.Column("schedule", _PLAIN, nullable=False),
        sa.Column("due", _PLAIN, nullable=False),
        sa.Column("job", _PLAIN),
        sa.Column("note", sa.Text),
        sa.PrimaryKeyConstraint("schedule", "due", name="pk_firings"),
        sa.ForeignKeyConstraint(["schedule"], ["schedules.name"], name="fk_firings_schedule", ondelete="CASCADE"),
    )
