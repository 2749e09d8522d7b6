"""What bots were asked is counted by day and by name, and nothing of an answer is kept."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from refaug.bots.endpoint.spending import Price, Spending
from refaug.bots.replier import BotReply, Replier, ReplyRequest
from refaug.bots.stored.specification import StoredBot
from refaug.core.errors import BadInput
from refaug.core.records import Item
from refaug.service.bots.bot_use import AskedBatch, BotUse, BotUseStore, CountedBot

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
FIXED = StoredBot.of("fixed", {"kind": "replay", "replies": ["Hello."]})
CHANGED = StoredBot.of("fixed", {"kind": "replay", "replies": ["Good evening."]})


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


def said(text: str, ms: float = 2.0) -> BotReply:
    return BotReply(text=text, ms=ms)


def test_a_batch_counts_replies_failures_and_those_that_lie_in_the_message() -> None:
    replies = [
        said("a", 4.0),
        BotReply(text="b", ms=900.0, is_stored=True),
        BotReply(text=None, problem="no_known_word", ms=2.0),
        BotReply(text=None, problem="server", detail="status 500: my dialogue was tea", ms=6.0),
    ]
    batch = AskedBatch.of(replies, None, None)
    assert (batch.requests, batch.unanswered, batch.failures, batch.stored) == (4, 2, 1, 1)
    assert (batch.timed, batch.ms) == (3, 12.0), "a stored answer took its time on another day"
    assert (batch.problem, batch.detail) == ("server", "status 500"), "what an endpoint quotes may be a dialogue"


@pytest.mark.parametrize(
    ("problem", "detail", "kept"),
    [
        ("timeout", "no complete answer within 60 s", "no complete answer within 60 s"),
        ("connection", "no connection: refused", "no connection: refused"),
        ("not_json", "it does not answer JSON: I love you", "it does not answer JSON"),
        ("given_up", "not sent: faults in a row, such as: status 500: tea", "not sent"),
    ],
)
def test_only_messages_that_quote_nothing_are_kept_whole(problem: str, detail: str, kept: str) -> None:
    assert AskedBatch.of([BotReply(text=None, problem=problem, detail=detail)], None, None).detail == kept


def test_tokens_and_money_are_those_of_the_endpoint() -> None:
    price, spending = Price(input=1.0, output=2.0, currency="EUR"), Spending()
    spending.prompt_tokens, spending.answer_tokens, spending.lost_prompt = 500_000, 250_000, 30
    batch = AskedBatch.of([said("a")], spending, price)
    assert (batch.prompt_tokens, batch.answer_tokens, batch.lost_tokens, batch.money) == (500_000, 250_000, 30, 1.0)
    assert batch.since(batch).money == 0.0


def test_days_add_up_under_a_name_and_the_last_end_is_of_the_bot_as_it_is(tmp_path: Path) -> None:
    clock = Clock()
    uses = BotUseStore(tmp_path / "judgements" / "bot-use.db", clock)
    assert uses.of_bots([FIXED]) == {"fixed": BotUse()}
    uses.add("fixed", FIXED.sha256, AskedBatch.of([said("a"), said("b")], None, None))
    clock.now += timedelta(days=1)
    broken = BotReply(text=None, problem="timeout", detail="no complete answer within 60 s")
    uses.add("fixed", FIXED.sha256, AskedBatch.of([broken], None, None))
    use = uses.of_bots([FIXED])["fixed"]
    assert (use.requests, use.failures, use.mean_ms) == (3, 1, 2.0)
    assert [(day.day, day.requests, day.failures) for day in use.days] == [("2026-11-20", 2, 0), ("2026-11-21", 1, 1)]
    assert (use.replied, use.used) == ("2026-11-20T12:00:00.000000Z", "2026-11-21T12:00:00.000000Z")
    assert use.failure is not None
    assert (use.failure.at, use.failure.problem) == ("2026-11-21T12:00:00.000000Z", "timeout")
    clock.now += timedelta(days=40)
    changed = uses.of_bots([CHANGED])["fixed"]
    assert (changed.requests, changed.failure, changed.replied, list(changed.days)) == (3, None, None, [])
    uses.add("fixed", CHANGED.sha256, AskedBatch.of([said("c")], None, None))
    changed = uses.of_bots([CHANGED])["fixed"]
    assert (changed.failure, changed.replied) == (None, "2026-12-31T12:00:00.000000Z")


def test_money_of_another_currency_is_left_out(tmp_path: Path) -> None:
    uses, spending = BotUseStore(tmp_path / "bot-use.db", Clock()), Spending()
    spending.prompt_tokens = 1_000_000
    for currency, price in (("JPY", 150.0), ("USD", 1.0), ("USD", 1.0)):
        uses.add("model", "a" * 64, AskedBatch.of([said("a")], spending, Price(input=price, currency=currency)))
    plain = {"kind": "openai", "url": "http://127.0.0.1:1/v1", "model": "small"}
    for price, money in (({"price": {"input": 1.0, "currency": "USD"}}, 2.0), ({}, 0.0)):
        use = uses.of_bots([StoredBot.of("model", {**plain, **price})])["model"]
        assert (use.money, use.requests, use.prompt_tokens) == (money, 3, 3_000_000)
        assert [(day.money, day.requests, day.tokens) for day in use.days] == [(money, 3, 3_000_000)]


def test_nobody_waits_for_a_count_that_is_written_apart(tmp_path: Path) -> None:
    path = tmp_path / "bot-use.db"
    uses = BotUseStore(path, Clock())
    uses.add("fixed", FIXED.sha256, AskedBatch.of([said("a")], None, None))
    with closing(sqlite3.connect(path)) as other:
        other.execute("begin exclusive")
        for text in ("b", "c"):
            uses.add_soon("fixed", FIXED.sha256, AskedBatch.of([said(text)], None, None))
        other.rollback()
    assert uses.of_bots([FIXED])["fixed"].requests == 3


def test_a_bot_that_cannot_be_opened_has_failed(tmp_path: Path) -> None:
    uses = BotUseStore(tmp_path / "bot-use.db", Clock())
    uses.add("fixed", FIXED.sha256, AskedBatch.failed(2, BadInput("the variable BOT_KEY is not set")))
    use = uses.of_bots([FIXED])["fixed"]
    assert use.failure is not None
    assert (use.requests, use.failures, use.failure.problem) == (2, 2, "bad_input")
    assert use.failure.detail == "the variable BOT_KEY is not set"


def test_a_count_that_cannot_be_written_costs_no_reply(tmp_path: Path) -> None:
    (tmp_path / "bot-use.db").write_bytes(b"no database at all, but long enough to be read as one" * 40)
    uses = BotUseStore(tmp_path / "bot-use.db")
    uses.add("fixed", FIXED.sha256, AskedBatch.of([said("a")], None, None))
    assert uses.of_bots([FIXED]) is None


class Echo(Replier):
    """A bot whose endpoint counts a token for each request."""

    def __init__(self, spending: Spending) -> None:
        self.spending = spending

    @property
    def provenance(self) -> dict[str, str]:
        return {"kind": "echo"}

    def replies(self, requests):
        self.spending.prompt_tokens += len(requests)
        if requests[0].item.turns == ("stop",):
            raise BadInput("it was stopped")
        return [said(request.item.turns[-1]) for request in requests]


def test_a_counted_bot_counts_each_batch_once(tmp_path: Path) -> None:
    spending, uses = Spending(), BotUseStore(tmp_path / "bot-use.db", Clock())
    bot = CountedBot(inner=Echo(spending), name="fixed", sha256=FIXED.sha256, price=None, spending=spending, uses=uses)
    requests = [ReplyRequest(item=Item(id=str(place), turns=("Hi!",)), seed=1) for place in range(3)]
    assert [reply.text for reply in bot.replies(requests)] == ["Hi!"] * 3
    bot.replies(requests[:1])
    use = uses.of_bots([FIXED])["fixed"]
    assert (use.requests, use.prompt_tokens) == (4, 4)
    with pytest.raises(BadInput):
        bot.replies([ReplyRequest(item=Item(id="last", turns=("stop",)), seed=1)])
    use = uses.of_bots([FIXED])["fixed"]
    assert (use.requests, use.unanswered, use.failures, use.prompt_tokens) == (5, 1, 0, 5), "what was asked is paid"
