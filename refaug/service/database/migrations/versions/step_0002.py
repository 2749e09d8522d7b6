"""The audit log, whose rows are only added."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_PLAIN = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_REFUSAL: Final = "rows of the audit log are never changed or removed"


def upgrade() -> None:
    """Create the table, and the triggers that keep its rows; jobs name the actor of their rows."""
    op.add_column("jobs", sa.Column("actor", sa.Text))
    op.create_table(
        "audit",
        sa.Column("id", _PLAIN, nullable=False),
        sa.Column("at", _PLAIN, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        sa.Column("request", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
        sqlite_with_rowid=False,  # a rowid would be a second key, by which a row could be replaced
    )
    if op.get_bind().dialect.name == "sqlite":
        for event in ("update", "delete"):
            op.execute(
                f"CREATE TRIGGER audit_no_{event} BEFORE {event.upper()} ON audit "
                f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
            )
        # INSERT OR REPLACE removes the old row without the trigger of DELETE.
        op.execute(
            "CREATE TRIGGER audit_no_replace BEFORE INSERT ON audit "
            "WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id) "
            f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
        )
        return
    op.execute(
        "CREATE FUNCTION refaug_audit_is_kept() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$"
    )
    for event, each in (("UPDATE OR DELETE", "ROW"), ("TRUNCATE", "STATEMENT")):
        op.execute(
            f"CREATE TRIGGER audit_kept_{each.lower()} BEFORE {event} ON audit "
            f"FOR EACH {each} EXECUTE FUNCTION refaug_audit_is_kept()"
        )
