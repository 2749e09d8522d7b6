"""Notes on the replies of evaluations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_PLAIN = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table of notes."""
    op.create_table(
        "evaluation_notes",
        sa.Column("evaluation", _PLAIN, nullable=False),
        sa.Column("place", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("changed", _PLAIN, nullable=False),
        sa.PrimaryKeyConstraint("evaluation", "place", name="pk_evaluation_notes"),
    )
