"""Checksums of the messages, votes and answers of participants."""

from __future__ import annotations

import hashlib

import orjson
import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_CELLS = {
    "study_messages": ("task", "side", "n", "role", "text", "vote"),
    "study_answers": ("task", "side", "turn", "question", "answer", "at"),
}
_KEYS = {"study_messages": ("task", "side", "n"), "study_answers": ("task", "side", "turn", "question")}


def upgrade() -> None:
    """Add the columns; rows that are there are taken for right."""
    connection = op.get_bind()
    for name, cells in _CELLS.items():
        op.add_column(name, sa.Column("checksum", sa.Text))
        table = sa.table(name, *(sa.column(cell) for cell in (*cells, "checksum")))
        keys = [table.c[key] for key in _KEYS[name]]
        fill = sa.update(table).where(*(key == sa.bindparam(f"of_{key.name}") for key in keys))
        rows = [
            {
                **{f"of_{key}": row[key] for key in _KEYS[name]},
                "sum": hashlib.sha256(orjson.dumps([row[cell] for cell in cells])).hexdigest(),
            }
            for row in connection.execute(sa.select(*(table.c[cell] for cell in cells))).mappings()
        ]
        if rows:
            connection.execute(fill.values(checksum=sa.bindparam("sum")), rows)
