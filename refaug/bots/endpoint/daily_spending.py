"""Tokens that all processes of a server may spend on endpoints in a day, counted on disk.

A request's reservation is added to the day's count before it is sent, in one statement, so that several processes
together stay below the limit. What a killed process had reserved stays counted: the count is never too low.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from refaug.bots.endpoint.chat import ChatAnswer, ChatRequest
from refaug.bots.endpoint.spending import Budget, Price, Reservation, Spending
from refaug.core.errors import NoAccess

_WAIT_S: Final = 30.0  # for another process that writes
_SCHEMA: Final = "create table if not exists days (day text primary key, tokens integer not null) without rowid"
_ADD: Final = """
insert into days values (:day, :tokens) on conflict (day) do update set tokens = tokens + :tokens
where tokens + :tokens <= :limit
"""


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


class DailyTokens:
    """The tokens of each day (UTC), in a SQLite file that several processes share."""

    def __init__(self, path: Path, limit: int, day: Callable[[], str] = _today) -> None:
        self._path, self._limit, self._day = path, limit, day
        path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, tokens: int) -> bool:
        """Count tokens of today; False, and nothing is counted, where they exceed the limit."""
        if tokens > self._limit:
            return False
        named = {"day": self._day(), "tokens": tokens, "limit": self._limit}
        return self._changed(_ADD, named) == 1

    def take_back(self, tokens: int) -> None:
        """Count so many tokens less."""
        named = {"day": self._day(), "tokens": tokens}
        self._changed("update days set tokens = max(0, tokens - :tokens) where day = :day", named)

    def _changed(self, statement: str, named: Mapping[str, object]) -> int:
        try:
            with closing(self._connected()) as connection:
                return connection.execute(statement, dict(named)).rowcount
        except sqlite3.Error as error:
            raise NoAccess(f"{self._path}: {error}", remedy="give this user the right to it, and room") from error

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=_WAIT_S, isolation_level=None)
        connection.execute(_SCHEMA)
        return connection


class DailySpending(Spending):
    """Counts what one request of a server spends, below its own budget and below the limit of the day."""

    def __init__(self, days: DailyTokens, price: Price | None = None, budget: Budget | None = None) -> None:
        super().__init__(price, budget)
        self._days = days

    def reserve(self, request: ChatRequest) -> Reservation | None:
        """Reserve what the request may cost; None where the budget or the day does not allow it."""
        reservation = super().reserve(request)
        if reservation is None or self._days.add(_size(reservation)):
            return reservation
        super().settle(reservation, None)
        return None

    def settle(self, reservation: Reservation, answer: ChatAnswer | None) -> None:
        """Replace the reservation by what the answer cost."""
        before = self.tokens
        super().settle(reservation, answer)
        difference = self.tokens - before - _size(reservation)
        if difference < 0:
            self._days.take_back(-difference)


def _size(reservation: Reservation) -> int:
    return reservation.prompt_tokens + reservation.answer_tokens
