"""Answers on disk, each under the hash of its request: what has been answered once is not asked again.

Beside them lie the questions that show whether a judge has changed since it got its passport.

An answer is stored before the next step, so that nothing is lost when the process is killed. Faults are not stored.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import orjson

from refaug.bots.endpoint.chat import ChatAnswer
from refaug.core.errors import Corrupt, NoAccess, StorageFull

_BATCH: Final = 500
_WAIT_S: Final = 30.0  # for another process that writes
_SCHEMA: Final = (
    "create table if not exists answers (id text primary key, answer blob not null) without rowid",
    "create table if not exists questions (id text primary key, question blob not null) without rowid",
)


def copy_answers(path: Path, target: Path) -> None:
    """Copy a file of answers as it is at one moment, also while answers are stored in it."""
    target.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(path, timeout=_WAIT_S)) as source, closing(sqlite3.connect(target)) as copied:
            source.backup(copied)
    except sqlite3.DatabaseError as error:
        raise Corrupt(
            f"{path} cannot be copied: {error}", remedy="move it away: its answers are asked again"
        ) from error


class AnswerStore:
    """A SQLite file of answers; several processes may use it at once.

    With `only`, answers of other versions of the model are neither read nor stored.
    """

    def __init__(self, path: Path, *, only: str = "") -> None:
        self._path, self._only = path, only
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
            self._connection.execute("pragma journal_mode = wal")
            self._connection.execute("pragma synchronous = normal")
            for statement in _SCHEMA:
                self._connection.execute(statement)
        except (sqlite3.Error, OSError) as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> Exception:
        if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
            return StorageFull(f"{self._path}: {error}", remedy="make room: answers so far are stored")
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            return Corrupt(f"{self._path} is damaged: {error}", remedy="move it away: its answers are asked again")
        return NoAccess(f"{self._path}: {error}", remedy="give this user the right to it")

    def get_all(self, ids: Sequence[str]) -> dict[str, ChatAnswer]:
        """Return the stored answers among these requests; one that cannot be read counts as absent."""
        answers = dict[str, ChatAnswer]()
        for first in range(0, len(ids), _BATCH):
            batch = ids[first : first + _BATCH]
            marks = ",".join("?" * len(batch))
            try:
                rows = self._connection.execute(
                    f"select id, answer from answers where id in ({marks})", batch
                ).fetchall()
            except sqlite3.Error as error:
                raise self._error(error) from error
            for request_id, content in rows:
                try:
                    answer = ChatAnswer.of_json(orjson.loads(content))
                except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
                    continue
                if self._counts(answer):
                    answers[request_id] = answer
        return answers

    def put(self, request_id: str, answer: ChatAnswer) -> None:
        """Store an answer; it is on disk when this returns, as far as a kill of the process is concerned."""
        if not self._counts(answer):
            return
        try:
            self._connection.execute(
                "insert or replace into answers values (?, ?)", (request_id, orjson.dumps(answer.as_json()))
            )
        except sqlite3.Error as error:
            raise self._error(error) from error

    def _counts(self, answer: ChatAnswer) -> bool:
        return self._only in ("", answer.version)

    def put_questions(self, questions: Mapping[str, object]) -> None:
        """Store questions that are to be asked again some day, as JSON by id."""
        rows = [(name, orjson.dumps(question)) for name, question in questions.items()]
        try:
            self._connection.executemany("insert or replace into questions values (?, ?)", rows)
        except sqlite3.Error as error:
            raise self._error(error) from error

    def questions(self, ids: Sequence[str]) -> dict[str, Any]:
        """Return the stored ones among these questions."""
        marks = ",".join("?" * len(ids))
        try:
            rows = self._connection.execute(f"select id, question from questions where id in ({marks})", list(ids))
            return {name: orjson.loads(question) for name, question in rows}
        except (sqlite3.Error, orjson.JSONDecodeError) as error:
            raise self._error(error) from error

    def __len__(self) -> int:
        return int(self._connection.execute("select count(*) from answers").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
