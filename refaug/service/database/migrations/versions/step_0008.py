"""Checksums of the rows of the audit log, each over the one before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the column; rows that are there stay without a checksum, since no row is ever changed."""
    op.add_column("audit", sa.Column("checksum", sa.Text))
