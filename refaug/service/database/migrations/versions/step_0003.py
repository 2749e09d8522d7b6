"""Bots by name, with their specifications and the hashes of these."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_PLAIN = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "bots",
        sa.Column("name", _PLAIN, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("spec_sha256", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_bots"),
    )
