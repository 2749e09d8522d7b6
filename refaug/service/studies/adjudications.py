"""What counts where participants disagree: decided by an operator, with a reason, and kept beside the answers."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from sqlalchemy import Connection, delete, insert, select

from refaug.core.errors import NotFound
from refaug.evaluation.studies.protocol.study_items import StudyUnit
from refaug.evaluation.studies.records import TaskDecision
from refaug.service.audit import add_row
from refaug.service.database.database import Database, time_text
from refaug.service.database.migrations.tables import STUDY_ADJUDICATIONS, STUDY_ITEMS
from refaug.service.studies.study_rows import StoredStudy, json_text, storable, storable_json


def adjudications(database: Database, study: StoredStudy) -> dict[tuple[str, str], TaskDecision]:
    """Return what was decided, by item and question."""
    with database.reading() as connection:
        return stored_decisions(connection, study)


def stored_decisions(connection: Connection, study: StoredStudy) -> dict[tuple[str, str], TaskDecision]:
    """Return what was decided, by item and question in order."""
    columns = STUDY_ADJUDICATIONS.c
    query = select(STUDY_ADJUDICATIONS).where(columns.study == study.id).order_by(columns.item, columns.question)
    return {
        (row.item, row.question): TaskDecision(value=orjson.loads(row.answer), note=row.note, by=row.actor, at=row.at)
        for row in connection.execute(query)
    }


def unit_systems(database: Database, study: StoredStudy, unit: str) -> Sequence[str]:
    """Return the systems of what tasks of the study are about; NotFound names a thing that none is about."""
    columns = STUDY_ITEMS.c
    query = select(columns.content).where(columns.study == study.id, columns.unit == storable(unit))
    with database.reading() as connection:
        content = connection.execute(query).scalar_one_or_none()
    if content is None:
        raise NotFound(f"study {study.name} has no item {unit[:60]!r}", remedy="one of its disagreements")
    return StudyUnit.stored(content).systems


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
) -> TaskDecision:
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
    return TaskDecision(value=answer, note=row["note"], by=actor, at=row["at"])
