"""Adjudications: what counts where participants of a study disagree, with who decided it and why."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_PLAIN = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "study_adjudications",
        sa.Column("study", _PLAIN, sa.ForeignKey("studies.id", ondelete="CASCADE"), nullable=False),
        sa.Column("item", _PLAIN, nullable=False),
        sa.Column("question", _PLAIN, nullable=False),
        sa.Column("answer", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("at", _PLAIN, nullable=False),
        sa.PrimaryKeyConstraint("study", "item", "question", name="pk_study_adjudications"),
    )
