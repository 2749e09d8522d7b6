"""What requests cost, counted in tokens and money, and kept below a budget.

A request reserves what it may cost before it is sent: so many tokens as its texts may have, and as many as the answer
may get. When the answer is there, the reservation gives way to what the endpoint counted. So a budget is not exceeded
by the requests that are under way.

A try that breaks off after it was sent may have been answered and charged all the same: it counts as much as it may
have cost, and is not repeated where the budget does not allow that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from refaug.bots.endpoint.chat import ChatAnswer, ChatRequest
from refaug.core.errors import NoAccess

_BYTES_PER_TOKEN: Final = 3  # an estimate on the high side for English; scripts of three bytes have about one a letter
_TOKENS_PER_MESSAGE: Final = 8  # roles and separators
_MILLION: Final = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Price:
    """Prices of a million tokens."""

    input: float = 0.0
    output: float = 0.0
    currency: str = "USD"

    def of(self, prompt_tokens: int, answer_tokens: int) -> float:
        """Return the price of so many tokens."""
        return (self.input * prompt_tokens + self.output * answer_tokens) / _MILLION


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The most that one command may spend; None: no limit."""

    tokens: int | None = None
    money: float | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """The tokens that a request may cost."""

    prompt_tokens: int
    answer_tokens: int
    day: str = ""  # that they are counted on, where days have a limit


class Spending:
    """Counts requests, tokens and money."""

    def __init__(self, price: Price | None = None, budget: Budget | None = None) -> None:
        self.price, self.budget = price, budget or Budget()
        self.requests = self.stored = self.retries = 0
        self.prompt_tokens = self.answer_tokens = self.estimated = 0
        self.lost_tries = self.lost_prompt = self.lost_answer = 0  # sent, and possibly charged, without an answer
        self._reserved_prompt = self._reserved_answer = 0

    @property
    def tokens(self) -> int:
        """The tokens of all answers so far."""
        return self.prompt_tokens + self.answer_tokens

    @property
    def money(self) -> float | None:
        """The price of all answers so far; None without prices."""
        return None if self.price is None else self.price.of(self.prompt_tokens, self.answer_tokens)

    def reserve(self, request: ChatRequest) -> Reservation | None:
        """Reserve what the request may cost; None where the budget does not allow it."""
        reservation = _estimate(request)
        if not self._allows(reservation):
            return None
        self._reserved_prompt += reservation.prompt_tokens
        self._reserved_answer += reservation.answer_tokens
        return reservation

    def _allows(self, further: Reservation) -> bool:
        """Whether the budget has room for this beside all that is spent, lost and reserved."""
        prompt = self.prompt_tokens + self.lost_prompt + self._reserved_prompt + further.prompt_tokens
        answer = self.answer_tokens + self.lost_answer + self._reserved_answer + further.answer_tokens
        if self.budget.tokens is not None and prompt + answer > self.budget.tokens:
            return False
        return self.budget.money is None or (self.price or Price()).of(prompt, answer) <= self.budget.money

    def lose(self, reservation: Reservation) -> bool:
        """Count a try that was sent and not answered; return whether the budget allows another one."""
        self.lost_tries += 1
        self.lost_prompt += reservation.prompt_tokens
        self.lost_answer += reservation.answer_tokens
        return self._allows(Reservation(0, 0))

    def settle(self, reservation: Reservation, answer: ChatAnswer | None) -> None:
        """Count what the answer cost, or nothing where there is none; tokens that are not told are estimated."""
        self._reserved_prompt -= reservation.prompt_tokens
        self._reserved_answer -= reservation.answer_tokens
        if answer is None:
            return
        self.requests += 1
        is_told = answer.prompt_tokens is not None and answer.answer_tokens is not None
        self.estimated += not is_told
        self.prompt_tokens += reservation.prompt_tokens if answer.prompt_tokens is None else answer.prompt_tokens
        self.answer_tokens += (
            -(-len(answer.text.encode()) // _BYTES_PER_TOKEN) if answer.answer_tokens is None else answer.answer_tokens
        )

    def as_json(self) -> dict[str, object]:
        """Return all counts."""
        money = {} if self.price is None else {"money": self.money, "currency": self.price.currency}
        return {
            "requests": self.requests,
            "stored": self.stored,
            "retries": self.retries,
            "prompt_tokens": self.prompt_tokens,
            "answer_tokens": self.answer_tokens,
            "estimated": self.estimated,
            "lost_tries": self.lost_tries,
            "lost_tokens": self.lost_prompt + self.lost_answer,
            **money,
        }

    @property
    def line(self) -> str:
        """The counts in a line."""
        parts = [f"{self.requests:,} asked", f"{self.stored:,} from stored answers"]
        if self.retries:
            parts.append(f"{self.retries:,} tries again")
        if self.requests:
            about = "about " if self.estimated else ""
            parts.append(f"{about}{self.prompt_tokens:,} tokens in and {self.answer_tokens:,} out")
        if self.lost_tries:
            tokens = self.lost_prompt + self.lost_answer
            parts.append(f"{self.lost_tries:,} tries broke off and may have cost {tokens:,} tokens more")
        if self.price is not None and self.requests:
            parts.append(f"{self.money:.4f} {self.price.currency}")
        return ", ".join(parts)


def _estimate(request: ChatRequest) -> Reservation:
    sizes = (len(message.content.encode("utf-8", "replace")) for message in request.messages)
    prompt = sum(_TOKENS_PER_MESSAGE + -(-size // _BYTES_PER_TOKEN) for size in sizes)
    return Reservation(prompt, request.max_tokens)


# ── Tokens that all processes of a server may spend on endpoints in a day, counted on disk ────────────────────────────
#
# A request's reservation is added to the day's count before it is sent, in one statement, so that several processes
# together stay below the limit. What a killed process had reserved stays counted: the count is never too low.

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

    def add(self, tokens: int) -> str | None:
        """Count tokens of today, and return the day; None, and nothing is counted, where they exceed the limit."""
        if tokens > self._limit:
            return None
        named = {"day": self._day(), "tokens": tokens, "limit": self._limit}
        return str(named["day"]) if self._changed(_ADD, named) == 1 else None

    def correct(self, day: str, tokens: int) -> bool:
        """Count so many tokens more on a day, or less where they are below 0; return whether it keeps its limit."""
        named = {"day": day, "tokens": tokens}
        self._changed("update days set tokens = max(0, tokens + :tokens) where day = :day", named)
        return self._count(day) <= self._limit

    def today(self) -> int:
        """Return the tokens of today so far, with those that are reserved."""
        return self._count(self._day())

    def _count(self, day: str) -> int:
        if not self._path.exists():
            return 0
        try:
            with closing(self._connected()) as connection:
                row = connection.execute("select tokens from days where day = ?", (day,)).fetchone()
        except sqlite3.Error as error:
            raise NoAccess(f"{self._path}: {error}", remedy="give this user the right to it, and room") from error
        return 0 if row is None else int(row[0])

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
        if reservation is None:
            return None
        day = self._days.add(_size(reservation))
        if day is not None:
            return replace(reservation, day=day)
        super().settle(reservation, None)
        return None

    def lose(self, reservation: Reservation) -> bool:
        """Count a try that was sent and not answered; return whether the budget and the day allow another one."""
        is_allowed = super().lose(reservation)
        return self._days.correct(reservation.day, _size(reservation)) and is_allowed

    def settle(self, reservation: Reservation, answer: ChatAnswer | None) -> None:
        """Replace the reservation by what the answer cost, on the day of the reservation."""
        before = self.tokens
        super().settle(reservation, answer)
        self._days.correct(reservation.day, self.tokens - before - _size(reservation))


def _size(reservation: Reservation) -> int:
    return reservation.prompt_tokens + reservation.answer_tokens
