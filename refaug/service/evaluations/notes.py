"""Notes that people write on replies of an evaluation, in the database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from sqlalchemy import delete, insert, select

from refaug.core.errors import TooLarge
from refaug.core.options.decoding import made_of
from refaug.service.database.database import Database, time_text
from refaug.service.database.tables import EVALUATION_NOTES

MAX_NOTES: Final = 10_000  # of an evaluation
MAX_NOTE_CHARS: Final = 4_000


@dataclass(frozen=True, kw_only=True)
class ReplyNote:
    """A note on the reply at a place of an evaluation."""

    place: int
    text: str
    author: str
    changed: str

    def as_json(self) -> dict[str, object]:
        """Return the note as answers have it."""
        return asdict(self)


class NoteStore:
    """The notes in the database: one a reply, replaced when it is written again."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self, evaluation: str) -> Sequence[ReplyNote]:
        """Return the notes of an evaluation, by their places."""
        columns = EVALUATION_NOTES.c
        query = select(EVALUATION_NOTES).where(columns.evaluation == evaluation).order_by(columns.place)
        with self._database.reading() as connection:
            return [made_of(ReplyNote, row) for row in connection.execute(query)]

    def put(self, evaluation: str, place: int, *, text: str, author: str) -> ReplyNote:
        """Store a note in place of the one before; an empty text removes it. TooLarge where there are too many."""
        note = ReplyNote(place=place, text=text, author=author, changed=time_text())
        columns = EVALUATION_NOTES.c
        with self._database.writing() as connection:
            self._database.advisory_lock(connection, "evaluation notes")
            connection.execute(delete(EVALUATION_NOTES).where(columns.evaluation == evaluation, columns.place == place))
            if not text:
                return note
            places = connection.execute(select(columns.place).where(columns.evaluation == evaluation)).all()
            if len(places) >= MAX_NOTES:
                raise TooLarge(f"{len(places):,} notes on one evaluation", remedy="remove some first")
            connection.execute(insert(EVALUATION_NOTES).values(evaluation=evaluation, **asdict(note)))
        return note

    def remove_orphans(self, is_there: Callable[[str], bool]) -> int:
        """Remove the notes of evaluations that are no longer there, and return how many evaluations these were."""
        with self._database.reading() as connection:
            names = connection.execute(select(EVALUATION_NOTES.c.evaluation).distinct()).scalars().all()
        orphans = [name for name in names if not is_there(name)]
        if orphans:
            self.remove_all(orphans)
        return len(orphans)

    def remove_all(self, evaluations: Sequence[str]) -> None:
        """Remove the notes of evaluations that are removed."""
        with self._database.writing() as connection:
            for evaluation in evaluations:
                connection.execute(delete(EVALUATION_NOTES).where(EVALUATION_NOTES.c.evaluation == evaluation))
