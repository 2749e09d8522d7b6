"""Participants: the links by which they go on elsewhere, what opened their link first, and when they first answered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_PLAIN = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the columns and the table; who has tasks already keeps their place."""
    op.add_column("study_participants", sa.Column("opening", _PLAIN))
    op.add_column("study_participants", sa.Column("answered", _PLAIN))
    op.execute("UPDATE study_participants SET answered = created WHERE state IN ('training', 'active', 'done')")
    op.create_table(
        "study_resume_links",
        sa.Column("hash", _PLAIN, nullable=False),
        sa.Column("participant", _PLAIN, nullable=False),
        sa.Column("created", _PLAIN, nullable=False),
        sa.ForeignKeyConstraint(
            ["participant"], ["study_participants.id"], name="fk_study_resume_links_participant", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("hash", name="pk_study_resume_links"),
    )
    op.create_index("ix_study_resume_links_participant", "study_resume_links", ["participant"])
