"""Stored answers of requests with an idempotency key: the same request sent again gets the same answer.

A row is written before the work begins and gets the answer at its end. A row without an answer stands for running work
only while its process holds a lock on its name: so a request whose process was killed can be sent again at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from refaug.core.errors import Conflict, StorageFull, Unavailable, Usage
from refaug.service.database.database import Database, time_text
from refaug.service.database.row_ids import RowHolders
from refaug.service.database.tables import IDEMPOTENCY

KEPT_HOURS: Final = 24
_MAX_KEY_CHARS: Final = 255  # of a key
_COLUMNS: Final = IDEMPOTENCY.c


class KeyReused(Conflict):
    """The idempotency key was sent before, with something else."""

    code = "idempotency_key_reused"


class InProgress(Conflict):
    """The first request with this idempotency key is still being answered."""

    code = "in_progress"


class IdempotencyStore:
    """The answers of the last day, by scope and key."""

    def __init__(self, database: Database) -> None:
        self._database, self._holders = database, RowHolders(database.home)

    def get_or_create(
        self,
        scope: str,
        key: str,
        body_sha256: str,
        make: Callable[[], tuple[int, Mapping[str, Any]]],
        *,
        at_once: bool = False,
    ) -> tuple[int, Mapping[str, Any], bool]:
        """Return the answer of `make`, or the stored one of the same request, and whether it was stored.

        An error is not stored: the request may be sent again. With `at_once`, the rows that `make` writes are committed
        together with the answer; it must be quick, since it holds the transaction.
        """
        _require_key(key)
        if at_once:
            with self._database.writing():  # the calls below join this transaction
                return self._get_or_create(scope, key, body_sha256, make)
        return self._get_or_create(scope, key, body_sha256, make)

    def _get_or_create(
        self, scope: str, key: str, body_sha256: str, make: Callable[[], tuple[int, Mapping[str, Any]]]
    ) -> tuple[int, Mapping[str, Any], bool]:
        with self._holders.hold() as holder:
            with self._database.writing() as connection:
                answer = self._find_answer(connection, scope, key, body_sha256, holder)
            if answer is not None:
                return *answer, True
            return *self._create(scope, key, make), False

    def _create(
        self, scope: str, key: str, make: Callable[[], tuple[int, Mapping[str, Any]]]
    ) -> tuple[int, Mapping[str, Any]]:
        try:
            status, answer = make()
        except BaseException:
            # If this fails too, the next request sees that the holder of the row is gone.
            with suppress(Unavailable, StorageFull), self._database.writing() as connection:
                connection.execute(delete(IDEMPOTENCY).where(_is_key(scope, key), _COLUMNS.status.is_(None)))
            raise
        with self._database.writing() as connection:
            _store_answer(connection, scope, key, status, answer)
        return status, answer

    def _find_answer(
        self, connection: Connection, scope: str, key: str, body_sha256: str, holder: str
    ) -> tuple[int, Mapping[str, Any]] | None:
        """Return the stored answer; None where there is none and this process is to make it."""
        self._delete_expired(connection, _is_key(scope, key))
        row = {
            "scope": scope,
            "key": key,
            "body_sha256": body_sha256,
            "created": time_text(),
            "holder": holder,
        }
        try:
            with connection.begin_nested():
                connection.execute(insert(IDEMPOTENCY).values(row))
        except IntegrityError:
            pass
        else:
            return None
        row_found = connection.execute(select(IDEMPOTENCY).where(_is_key(scope, key)).with_for_update()).first()
        if row_found is None:  # PostgreSQL: the first request has just failed and removed its row
            raise InProgress(f"the first request with key {key!r} has just ended", remedy="send it again")
        if row_found.body_sha256 != body_sha256:
            raise KeyReused(
                f"key {key!r} was sent before, with another body", remedy="a new key for everything that is new"
            )
        if row_found.status is not None:
            return row_found.status, orjson.loads(row_found.answer)
        if self._holders.is_held(row_found.holder):
            raise InProgress(f"the first request with key {key!r} is still under way", remedy="send it again later")
        connection.execute(update(IDEMPOTENCY).where(_is_key(scope, key)).values(row))
        return None

    def delete_expired(self) -> int:
        """Remove answers older than a day, and return their number."""
        with self._database.writing() as connection:
            return self._delete_expired(connection)

    def _delete_expired(self, connection: Connection, *which: ColumnElement[bool]) -> int:
        then = time_text(datetime.now(UTC) - timedelta(hours=KEPT_HOURS))
        return connection.execute(delete(IDEMPOTENCY).where(_COLUMNS.created < then, *which)).rowcount


def _is_key(scope: str, key: str) -> ColumnElement[bool]:
    return and_(_COLUMNS.scope == scope, _COLUMNS.key == key)


def _store_answer(connection: Connection, scope: str, key: str, status: int, answer: Mapping[str, Any]) -> None:
    row = {"status": status, "answer": orjson.dumps(answer).decode()}
    connection.execute(update(IDEMPOTENCY).where(_is_key(scope, key)).values(row))


def _require_key(key: str) -> None:
    if not 1 <= len(key) <= _MAX_KEY_CHARS or not key.isprintable():
        raise Usage(
            f"{key[:40]!r} is not an idempotency key",
            remedy=f"1 to {_MAX_KEY_CHARS} printable characters; a UUID is a good one",
        )
