"""What the bots of a home were asked and what it cost, day by day, and how each did the last time.

Counted in a SQLite file of the home, which all processes of a server share; commands are not counted. A count that
cannot be written never costs a reply. Of what an endpoint answered nothing is kept: it may repeat what people wrote.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Self

from refaug.bots.endpoint.chat import FaultKind
from refaug.bots.endpoint.judge_files import spending_path
from refaug.bots.endpoint.spending import Price, Spending
from refaug.bots.replier import BotReply, ReplyRequest, WrappedBot
from refaug.bots.stored.specification import StoredBot
from refaug.core.errors import RefaugError
from refaug.core.home import Settings
from refaug.service.database.database import time_text

log = logging.getLogger(__name__)

SHOWN_DAYS: Final = 30
_WAIT_S: Final = 5.0  # for another process that writes
_SOON_S: Final = 1.0  # that figures wait for counts which are under way
_WRITER: Final = ThreadPoolExecutor(1, thread_name_prefix="bot-use")
_MOST_DETAIL: Final = 300  # characters
_FAULTS: Final = frozenset(kind.value for kind in FaultKind)
# Faults whose message quotes nothing that was answered; of others the words before the first colon are kept.
_UNQUOTED: Final = frozenset({FaultKind.TIMEOUT, FaultKind.CONNECTION, FaultKind.CUT_OFF, FaultKind.ADDRESS})
_SCHEMA: Final = (
    "create table if not exists bot_days (bot text, day text, currency text, requests integer not null,"
    " unanswered integer not null, failures integer not null, stored integer not null, prompt_tokens integer not null,"
    " answer_tokens integer not null, lost_tokens integer not null, money real not null, timed integer not null,"
    " ms real not null, primary key (bot, day, currency)) without rowid",
    "create table if not exists bot_ends (bot text primary key, sha256 text not null, used text not null, replied text,"
    " failed text, problem text, detail text) without rowid",
)
_ADD: Final = """
insert into bot_days values (:bot, :day, :currency, :requests, :unanswered, :failures, :stored, :prompt_tokens,
  :answer_tokens, :lost_tokens, :money, :timed, :ms)
on conflict (bot, day, currency) do update set requests = requests + :requests, unanswered = unanswered + :unanswered,
  failures = failures + :failures, stored = stored + :stored, prompt_tokens = prompt_tokens + :prompt_tokens,
  answer_tokens = answer_tokens + :answer_tokens, lost_tokens = lost_tokens + :lost_tokens, money = money + :money,
  timed = timed + :timed, ms = ms + :ms
"""
# Of a bot that was changed, how it did before says nothing.
_END: Final = """
insert into bot_ends values (:bot, :sha256, :used, :replied, :failed, :problem, :detail)
on conflict (bot) do update set used = :used,
  replied = coalesce(:replied, case when sha256 = :sha256 then replied end),
  problem = case when :failed is not null or sha256 != :sha256 then :problem else problem end,
  detail = case when :failed is not null or sha256 != :sha256 then :detail else detail end,
  failed = coalesce(:failed, case when sha256 = :sha256 then failed end), sha256 = :sha256
"""
# What was paid in another currency than the bot's present one is no part of its money.
_PAID: Final = "total(case when currency = :currency then money end)"
_TOTALS: Final = f"""
select total(requests), total(unanswered), total(failures), total(stored), total(prompt_tokens), total(answer_tokens),
  total(lost_tokens), {_PAID}, total(timed), total(ms) from bot_days where bot = :bot
"""
_DAYS: Final = f"""
select day, sum(requests), sum(failures), sum(prompt_tokens + answer_tokens + lost_tokens), {_PAID} from bot_days
where bot = :bot and day > :since group by day order by day
"""


@dataclass(frozen=True, kw_only=True)
class BotFailure:
    """The last time that a bot failed."""

    at: str
    problem: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class BotDay:
    """What a bot was asked in a day, and what that cost."""

    day: str
    requests: int
    failures: int
    tokens: int  # with those of tries that broke off
    money: float


@dataclass(frozen=True, kw_only=True)
class BotUse:
    """What a bot was asked under its name so far; how it did the last time is of the bot as it is stored now."""

    used: str | None = None  # when it was asked last
    replied: str | None = None  # when it replied last
    failure: BotFailure | None = None
    requests: int = 0
    unanswered: int = 0
    failures: int = 0
    stored: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    lost_tokens: int = 0
    money: float = 0.0
    mean_ms: float | None = None
    days: Sequence[BotDay] = ()

    def as_json(self) -> dict[str, object]:
        """Return all figures."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class AskedBatch:
    """What one batch of requests to a bot came to."""

    requests: int
    unanswered: int = 0
    failures: int = 0
    stored: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    lost_tokens: int = 0
    currency: str = ""  # of the money; none where there are no prices
    money: float = 0.0
    timed: int = 0
    ms: float = 0.0
    problem: str = ""  # of the last failure
    detail: str = ""

    @classmethod
    def of(
        cls, replies: Sequence[BotReply], spending: Spending | None, price: Price | None, requests: int | None = None
    ) -> Self:
        """Count replies; tokens and tries are as the endpoint's `spending` has them, if it has an endpoint.

        Where an error ended the wait there are fewer replies than `requests`, and what came till then is paid.
        """
        count = len(replies) if requests is None else requests
        faults = [reply for reply in replies if reply.text is None and reply.problem in _FAULTS]
        times = [reply.ms for reply in replies if reply.ms is not None and not reply.is_stored]
        spent = spending or Spending(price)
        return cls(
            requests=count,
            unanswered=count - sum(reply.text is not None for reply in replies),
            failures=len(faults),
            stored=sum(reply.is_stored for reply in replies),
            prompt_tokens=spent.prompt_tokens,
            answer_tokens=spent.answer_tokens,
            lost_tokens=spent.lost_prompt + spent.lost_answer,
            currency="" if price is None else price.currency,
            money=0.0 if price is None else price.of(spent.prompt_tokens, spent.answer_tokens),
            timed=len(times),
            ms=sum(times),
            problem=faults[-1].problem if faults else "",
            detail=_without_quotation(faults[-1]) if faults else "",
        )

    def since(self, before: AskedBatch) -> AskedBatch:
        """Return this batch without the tokens that were spent before it."""
        return replace(
            self,
            prompt_tokens=self.prompt_tokens - before.prompt_tokens,
            answer_tokens=self.answer_tokens - before.answer_tokens,
            lost_tokens=self.lost_tokens - before.lost_tokens,
            money=self.money - before.money,
        )

    @classmethod
    def failed(cls, requests: int, error: RefaugError) -> Self:
        """Count requests to a bot that could not be opened."""
        detail = error.message[:_MOST_DETAIL]
        return cls(requests=requests, unanswered=requests, failures=requests, problem=error.code, detail=detail)


def _without_quotation(reply: BotReply) -> str:
    detail = reply.detail if reply.problem in _UNQUOTED else reply.detail.partition(":")[0]
    return detail[:_MOST_DETAIL]


def _now() -> datetime:
    return datetime.now(UTC)


class BotUseStore:
    """The counts of a home."""

    def __init__(self, path: Path, now: Callable[[], datetime] = _now) -> None:
        self._path, self._now = path, now
        self._waiting = deque[tuple[str, str, AskedBatch]]()

    @classmethod
    def of(cls, home: Settings) -> Self:
        """Return the counts of the bots of a home."""
        return cls(spending_path(home).with_name("bot-use.db"))

    def add(self, name: str, sha256: str, batch: AskedBatch) -> None:
        """Count a batch of a stored bot; where that is impossible a line of the log says why, and that is all."""
        self._write([(name, sha256, batch)])

    def add_soon(self, name: str, sha256: str, batch: AskedBatch) -> None:
        """Count a batch of a stored bot in a thread apart, so that no request waits for the disk."""
        self._waiting.append((name, sha256, batch))
        _WRITER.submit(self._write_waiting)

    def _write_waiting(self) -> None:
        """Write all that waits at once; what cannot be written is let go, so that the line stays short."""
        batches = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if batches:
            self._write(batches)

    def _write(self, batches: Sequence[tuple[str, str, AskedBatch]]) -> None:
        try:
            with closing(self._connected()) as connection, connection:
                for name, sha256, batch in batches:
                    _add(connection, self._now(), name, sha256, batch)
        except (sqlite3.Error, OSError) as error:
            log.warning("bot use", extra={"bots": sorted({name for name, *_ in batches}), "why": str(error)})

    def of_bots(self, bots: Sequence[StoredBot]) -> dict[str, BotUse] | None:
        """Return the use of bots by their names; None where the file cannot be read."""
        wait([_WRITER.submit(self._write_waiting)], _SOON_S)
        if not self._path.exists():
            return {bot.name: BotUse() for bot in bots}
        since = (self._now().date() - timedelta(days=SHOWN_DAYS)).isoformat()
        try:
            with closing(self._connected()) as connection:
                return {bot.name: _use(connection, bot, since) for bot in bots}
        except (sqlite3.Error, OSError) as error:
            log.warning("bot use", extra={"why": str(error)})
            return None

    def _connected(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self._path, timeout=_WAIT_S)
        connection.execute("pragma synchronous = normal")
        for statement in _SCHEMA:
            connection.execute(statement)
        return connection


def _add(connection: sqlite3.Connection, now: datetime, name: str, sha256: str, batch: AskedBatch) -> None:
    at, is_failed, has_replied = time_text(now), batch.failures > 0, batch.requests > batch.unanswered
    counts = {name: count for name, count in asdict(batch).items() if name not in ("problem", "detail")}
    end = {
        "sha256": sha256,
        "used": at,
        "replied": at if has_replied else None,
        "failed": at if is_failed else None,
        "problem": batch.problem if is_failed else None,
        "detail": batch.detail if is_failed else None,
    }
    connection.execute(_ADD, {"bot": name, "day": now.date().isoformat(), **counts})
    connection.execute(_END, {"bot": name, **end})


def _use(connection: sqlite3.Connection, bot: StoredBot, since: str) -> BotUse:
    end = connection.execute("select * from bot_ends where bot = ?", (bot.name,)).fetchone()
    if end is None:
        return BotUse()
    _, sha256, used, replied, failed, problem, detail = end
    is_same = sha256 == bot.sha256
    named = {"bot": bot.name, "since": since, "currency": "" if bot.price is None else bot.price.currency}
    requests, unanswered, failures, stored, prompt, answer, lost, money, timed, ms = connection.execute(
        _TOTALS, named
    ).fetchone()
    return BotUse(
        used=used,
        replied=replied if is_same else None,
        failure=BotFailure(at=failed, problem=problem or "", detail=detail or "") if is_same and failed else None,
        requests=int(requests),
        unanswered=int(unanswered),
        failures=int(failures),
        stored=int(stored),
        prompt_tokens=int(prompt),
        answer_tokens=int(answer),
        lost_tokens=int(lost),
        money=money,
        mean_ms=round(ms / timed, 3) if timed else None,
        days=[
            BotDay(day=day, requests=requests, failures=failures, tokens=tokens, money=money)
            for day, requests, failures, tokens, money in connection.execute(_DAYS, named)
        ],
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class CountedBot(WrappedBot):
    """A stored bot whose requests are counted as they are made; for those that are asked many times."""

    name: str
    sha256: str
    price: Price | None
    spending: Spending | None  # of its endpoint
    uses: BotUseStore
    _counted: list[AskedBatch] = field(default_factory=list)  # the last batch, whose tokens are those of all so far

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return the replies of the bot, and count them."""
        return self._count(self.inner.replies, requests)

    def openings(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return what the bot begins dialogues with, and count it."""
        return self._count(super().openings, requests)

    def _count(
        self, ask: Callable[[Sequence[ReplyRequest]], list[BotReply]], requests: Sequence[ReplyRequest]
    ) -> list[BotReply]:
        replies = list[BotReply]()
        try:
            replies = ask(requests)
        finally:
            batch = AskedBatch.of(replies, self.spending, self.price, len(requests))
            self.uses.add(self.name, self.sha256, batch.since(self._counted[-1]) if self._counted else batch)
            self._counted[:] = [batch]
        return replies
