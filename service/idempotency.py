"""Answers that are given again: a request that comes a second time, with the same key, does nothing a second time.

A row is written before the work begins and gets the answer when it has ended. Whether a row without an answer still
stands for work is told by a lock that its process holds: it goes with the process, so that a request whose process was
killed can be sent again at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from core.errors import Conflict, StorageFull, Unavailable, Usage
from service.database import Database, lives, living, time_text
from service.migrations.tables import IDEMPOTENCY

KEPT_HOURS: Final = 24
_LONGEST: Final = 255  # of a key
_OF: Final = IDEMPOTENCY.c


class KeyReused(Conflict):
    """The idempotency key was sent before, with something else."""

    code = "idempotency_key_reused"


class InProgress(Conflict):
    """The first request with this idempotency key is still being answered."""

    code = "in_progress"


class Idempotency:
    """The answers of the last day, by scope and key."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def remember(
        self,
        scope: str,
        key: str,
        body_sha256: str,
        make: Callable[[], tuple[int, Mapping[str, Any]]],
        *,
        at_once: bool = False,
    ) -> tuple[int, Mapping[str, Any], bool]:
        """What `make` answers, or has answered to the same before; the last value says which of the two.

        An error is not remembered: the request may be sent again. With `at_once`, what `make` writes into this database
        becomes durable together with the answer or not at all; so it must be quick, for others wait meanwhile.
        """
        _require_key(key)
        if at_once:
            with self._database.writing():  # what follows is a part of it
                return self._remembered(scope, key, body_sha256, make)
        return self._remembered(scope, key, body_sha256, make)

    def _remembered(
        self, scope: str, key: str, body_sha256: str, make: Callable[[], tuple[int, Mapping[str, Any]]]
    ) -> tuple[int, Mapping[str, Any], bool]:
        with living(self._database.home) as holder:
            with self._database.writing() as connection:
                there = self._answered(connection, scope, key, body_sha256, holder)
            if there is not None:
                return *there, True
            return *self._made(scope, key, make), False

    def _made(
        self, scope: str, key: str, make: Callable[[], tuple[int, Mapping[str, Any]]]
    ) -> tuple[int, Mapping[str, Any]]:
        try:
            status, answer = make()
        except BaseException:
            # Where even this cannot be written, the row is seen to stand for nothing by the next who comes.
            with suppress(Unavailable, StorageFull), self._database.writing() as connection:
                connection.execute(delete(IDEMPOTENCY).where(_is(scope, key), _OF.status.is_(None)))
            raise
        with self._database.writing() as connection:
            _put(connection, scope, key, status, answer)
        return status, answer

    def _answered(
        self, connection: Connection, scope: str, key: str, body_sha256: str, holder: str
    ) -> tuple[int, Mapping[str, Any]] | None:
        """The answer that was given; None where there is none, and it is ours to make."""
        self._forget(connection, _is(scope, key))
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
        found = connection.execute(select(IDEMPOTENCY).where(_is(scope, key)).with_for_update()).first()
        if found is None:  # PostgreSQL: the first one has failed at this moment, and taken its row back
            raise InProgress(f"the first request with key {key!r} has just ended", remedy="send it again")
        if found.body_sha256 != body_sha256:
            raise KeyReused(
                f"key {key!r} was sent before, with another body", remedy="a new key for everything that is new"
            )
        if found.status is not None:
            return found.status, orjson.loads(found.answer)
        if lives(self._database.home, found.holder):
            raise InProgress(f"the first request with key {key!r} is still under way", remedy="send it again later")
        connection.execute(update(IDEMPOTENCY).where(_is(scope, key)).values(row))
        return None

    def forget_older(self) -> int:
        """Remove what is older than a day; how many there were."""
        with self._database.writing() as connection:
            return self._forget(connection)

    def _forget(self, connection: Connection, *which: ColumnElement[bool]) -> int:
        then = time_text(datetime.now(UTC) - timedelta(hours=KEPT_HOURS))
        return connection.execute(delete(IDEMPOTENCY).where(_OF.created < then, *which)).rowcount


def _is(scope: str, key: str) -> ColumnElement[bool]:
    return and_(_OF.scope == scope, _OF.key == key)


def _put(connection: Connection, scope: str, key: str, status: int, answer: Mapping[str, Any]) -> None:
    row = {"status": status, "answer": orjson.dumps(answer).decode()}
    connection.execute(update(IDEMPOTENCY).where(_is(scope, key)).values(row))


def _require_key(key: str) -> None:
    if not 1 <= len(key) <= _LONGEST or not key.isprintable():
        raise Usage(
            f"{key[:40]!r} is no idempotency key", remedy=f"1 to {_LONGEST} printable characters; a UUID is a good one"
        )
