"""What counts where participants disagree: decided by an operator, with a reason, and kept beside the answers."""

from __future__ import annotations

from typing import Any

import orjson
from sqlalchemy import delete, insert, select

from refaug.service.audit import add_row
from refaug.service.database.database import Database, time_text
from refaug.service.database.migrations.tables import STUDY_ADJUDICATIONS
from refaug.service.studies.study_rows import StoredStudy, json_text, storable, storable_json


def adjudications(database: Database, study: StoredStudy) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what was decided, by item and question."""
    query = select(STUDY_ADJUDICATIONS).where(STUDY_ADJUDICATIONS.c.study == study.id)
    with database.reading() as connection:
        rows = connection.execute(query).all()
    return {
        (row.item, row.question): {
            "value": orjson.loads(row.answer),
            "note": row.note,
            "by": row.actor,
            "at": row.at,
        }
        for row in rows
    }


def adjudicate(
    database: Database,
    study: StoredStudy,
    *,
    item: str,
    question: str,
    answer: float | str,
    note: str,
    actor: str,
    request: str | None = None,
) -> dict[str, Any]:
    """Keep what counts for a question of an item; a later decision takes the place of an earlier one."""
    columns = STUDY_ADJUDICATIONS.c
    row = {
        "study": study.id,
        "item": storable(item),
        "question": question,
        "answer": json_text(storable_json(answer)),
        "note": storable(note.strip()),
        "actor": actor,
        "at": time_text(),
    }
    place = (columns.study == study.id, columns.item == row["item"], columns.question == question)
    with database.writing() as connection:
        connection.execute(delete(STUDY_ADJUDICATIONS).where(*place))
        connection.execute(insert(STUDY_ADJUDICATIONS).values(row))
        facts = {"item": row["item"], "question": question}
        add_row(connection, actor, "adjudicate", f"study {study.name}", request=request, **facts)
    return {"value": answer, "note": row["note"], "by": actor, "at": row["at"]}
