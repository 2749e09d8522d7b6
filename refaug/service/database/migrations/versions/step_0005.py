"""Studies: protocols, bots, items, invites, participants, tasks, messages, answers, actions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_PLAIN = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables of studies."""
    _make_studies()
    _make_participants()
    _make_tasks()


def _make_studies() -> None:
    op.create_table(
        "studies",
        sa.Column("id", _PLAIN, nullable=False),
        sa.Column("name", _PLAIN, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("protocol", sa.Text, nullable=False),
        sa.Column("protocol_sha256", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("created", _PLAIN, nullable=False),
        sa.Column("opened", _PLAIN),
        sa.Column("closed", _PLAIN),
        sa.PrimaryKeyConstraint("id", name="pk_studies"),
        sa.CheckConstraint(
            "state IN ('draft', 'pilot', 'open', 'paused', 'closed')",
            name="ck_studies_state",
        ),
        sa.UniqueConstraint("name", name="uq_studies_name"),
    )
    op.create_table(
        "study_protocols",
        sa.Column("study", _PLAIN, nullable=False),
        sa.Column("number", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("protocol", sa.Text, nullable=False),
        sa.Column("at", _PLAIN, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("study", "number", name="pk_study_protocols"),
        sa.ForeignKeyConstraint(["study"], ["studies.id"], ondelete="CASCADE", name="fk_study_protocols_study"),
    )
    op.create_table(
        "study_bots",
        sa.Column("study", _PLAIN, nullable=False),
        sa.Column("slot", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("bot", sa.Text, nullable=False),
        sa.Column("spec_sha256", sa.Text),
        sa.Column("target", sa.Integer),
        sa.Column("is_degraded", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
        sa.Column("failed_at", _PLAIN),
        sa.PrimaryKeyConstraint("study", "slot", name="pk_study_bots"),
        sa.ForeignKeyConstraint(["study"], ["studies.id"], ondelete="CASCADE", name="fk_study_bots_study"),
    )
    op.create_table(
        "study_items",
        sa.Column("study", _PLAIN, nullable=False),
        sa.Column("unit", _PLAIN, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("shuffled", sa.Integer, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("load", sa.Integer, nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("study", "unit", name="pk_study_items"),
        sa.ForeignKeyConstraint(["study"], ["studies.id"], ondelete="CASCADE", name="fk_study_items_study"),
    )
    op.create_index("ix_study_items_load", "study_items", ["study", "load", "shuffled"])
    op.create_table(
        "study_invites",
        sa.Column("id", _PLAIN, nullable=False),
        sa.Column("study", _PLAIN, nullable=False),
        sa.Column("hash", _PLAIN, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("uses_max", sa.Integer),
        sa.Column("uses", sa.Integer, nullable=False, server_default="0"),
        sa.Column("created", _PLAIN, nullable=False),
        sa.Column("expires", _PLAIN),
        sa.Column("revoked", _PLAIN),
        sa.PrimaryKeyConstraint("id", name="pk_study_invites"),
        sa.ForeignKeyConstraint(["study"], ["studies.id"], ondelete="CASCADE", name="fk_study_invites_study"),
        sa.UniqueConstraint("hash", name="uq_study_invites_hash"),
    )
    op.create_index("ix_study_invites_study", "study_invites", ["study"])


def _make_participants() -> None:
    op.create_table(
        "study_participants",
        sa.Column("id", _PLAIN, nullable=False),
        sa.Column("study", _PLAIN, nullable=False),
        sa.Column("code", _PLAIN, nullable=False),
        sa.Column("external_hash", _PLAIN),
        sa.Column("invite", _PLAIN),
        sa.Column("is_pilot", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("language", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("consent_sha256", sa.Text),
        sa.Column("consented", _PLAIN),
        sa.Column("screening", sa.Text),
        sa.Column("training", sa.Text),
        sa.Column("square_row", sa.Integer),
        sa.Column("plan", sa.Text),
        sa.Column("sequence", sa.Text),
        sa.Column("seed", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False, server_default="0"),
        sa.Column("completion_code", sa.Text),
        sa.Column("excluded_reason", sa.Text),
        sa.Column("excluded_by", sa.Text),
        sa.Column("active_ms", sa.Integer, nullable=False, server_default="0"),
        sa.Column("created", _PLAIN, nullable=False),
        sa.Column("seen", _PLAIN, nullable=False),
        sa.Column("ended", _PLAIN),
        sa.PrimaryKeyConstraint("id", name="pk_study_participants"),
        sa.ForeignKeyConstraint(["study"], ["studies.id"], ondelete="CASCADE", name="fk_study_participants_study"),
        sa.UniqueConstraint("study", "code", name="uq_study_participants_code"),
        sa.UniqueConstraint("study", "external_hash", name="uq_study_participants_external"),
    )
    op.create_index("ix_study_participants_state", "study_participants", ["study", "state"])
    op.create_table(
        "study_sessions",
        sa.Column("hash", _PLAIN, nullable=False),
        sa.Column("participant", _PLAIN, nullable=False),
        sa.Column("created", _PLAIN, nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_study_sessions"),
        sa.ForeignKeyConstraint(
            ["participant"], ["study_participants.id"], ondelete="CASCADE", name="fk_study_sessions_participant"
        ),
    )
    op.create_index("ix_study_sessions_participant", "study_sessions", ["participant"])


def _make_tasks() -> None:
    op.create_table(
        "study_tasks",
        sa.Column("id", _PLAIN, nullable=False),
        sa.Column("study", _PLAIN, nullable=False),
        sa.Column("participant", _PLAIN, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("check_kind", sa.Text),
        sa.Column("attention", sa.Text),
        sa.Column("slot_a", sa.Integer),
        sa.Column("slot_b", sa.Integer),
        sa.Column("left_slot", sa.Integer),
        sa.Column("unit", _PLAIN),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("skip_reason", sa.Text),
        sa.Column("protocol_sha256", sa.Text, nullable=False),
        sa.Column("is_pilot", sa.Boolean, nullable=False),
        sa.Column("seed", sa.Integer, nullable=False),
        sa.Column("reserved_until", _PLAIN, nullable=False),
        sa.Column("active_ms", sa.Integer, nullable=False, server_default="0"),
        sa.Column("started", _PLAIN),
        sa.Column("ended", _PLAIN),
        sa.PrimaryKeyConstraint("id", name="pk_study_tasks"),
        sa.CheckConstraint(
            "state IN ('reserved', 'started', 'done', 'skipped', 'expired', 'withdrawn')",
            name="ck_study_tasks_state",
        ),
        sa.ForeignKeyConstraint(
            ["participant"], ["study_participants.id"], ondelete="CASCADE", name="fk_study_tasks_participant"
        ),
        sa.ForeignKeyConstraint(["study"], ["studies.id"], ondelete="CASCADE", name="fk_study_tasks_study"),
        sa.UniqueConstraint("participant", "number", name="uq_study_tasks_number"),
    )
    op.create_index("ix_study_tasks_live", "study_tasks", ["study", "state", "reserved_until"])
    op.create_index("ix_study_tasks_slots", "study_tasks", ["study", "slot_a", "slot_b", "state"])
    op.create_table(
        "study_messages",
        sa.Column("task", _PLAIN, nullable=False),
        sa.Column("side", _PLAIN, nullable=False),
        sa.Column("n", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("text", sa.Text),
        sa.Column("vote", sa.Integer),
        sa.Column("problem", sa.Text),
        sa.Column("ms", sa.Float),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        sa.Column("holder", sa.Text),
        sa.Column("names_bot", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("at", _PLAIN, nullable=False),
        sa.PrimaryKeyConstraint("task", "side", "n", name="pk_study_messages"),
        sa.ForeignKeyConstraint(["task"], ["study_tasks.id"], ondelete="CASCADE", name="fk_study_messages_task"),
    )
    op.create_table(
        "study_answers",
        sa.Column("task", _PLAIN, nullable=False),
        sa.Column("side", _PLAIN, nullable=False),
        sa.Column("turn", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("question", _PLAIN, nullable=False),
        sa.Column("answer", sa.Text, nullable=False),
        sa.Column("at", _PLAIN, nullable=False),
        sa.PrimaryKeyConstraint("task", "side", "turn", "question", name="pk_study_answers"),
        sa.ForeignKeyConstraint(["task"], ["study_tasks.id"], ondelete="CASCADE", name="fk_study_answers_task"),
    )
    op.create_table(
        "study_actions",
        sa.Column("participant", _PLAIN, nullable=False),
        sa.Column("action", _PLAIN, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("task", _PLAIN),
        sa.Column("body_sha256", sa.Text, nullable=False),
        sa.Column("answer", sa.Text, nullable=False),
        sa.Column("undo", sa.Text),
        sa.Column("at", _PLAIN, nullable=False),
        sa.PrimaryKeyConstraint("participant", "action", name="pk_study_actions"),
        sa.ForeignKeyConstraint(
            ["participant"], ["study_participants.id"], ondelete="CASCADE", name="fk_study_actions_participant"
        ),
        sa.UniqueConstraint("participant", "number", name="uq_study_actions_number"),
    )
