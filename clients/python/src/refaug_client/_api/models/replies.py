"""What bots replied, and scores of whole conversations with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Optional, Union

from refaug_client._core.frames import make_frame

from .base import Model, record
from .server import FieldProblem


@record
class RepliedItem(Model):
    """An item with the replies of bots beside its own; it can be sent again, as an item of `score`."""

    id: str
    replies: dict[str, str] = field(default_factory=dict)  # of each system, by its name
    reply_provenance: dict[str, str] = field(default_factory=dict)  # by system: which bot made its reply
    no_reply: dict[str, str] = field(default_factory=dict)  # by system: why the bot has none


@record
class BotReplies(Model):
    """Items with the replies of bots, in the order sent; those under `problems` and left out are not among them."""

    items: list[RepliedItem]
    bots: dict[str, str] = field(default_factory=dict)  # by system: its bot, with the version that it replied from
    reply_provenance: dict[str, str] = field(default_factory=dict)  # by system: what made its replies
    problems: list[FieldProblem] = field(default_factory=list)  # items that were left out, with on_error="report"
    warnings: list[str] = field(default_factory=list)  # what one should know of the others

    def __iter__(self) -> Iterator[RepliedItem]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, which: Union[int, str]) -> RepliedItem:
        """Return an item by its place or its id."""
        if isinstance(which, int):
            return self.items[which]
        for replied_item in self.items:
            if replied_item.id == which:
                return replied_item
        raise KeyError(which)

    def to_frame(self, kind: str = "pandas") -> Any:
        """Return a frame with a row for each reply of a bot, missing ones included."""
        rows = [
            {
                "item": replied_item.id,
                "system": system,
                "reply": replied_item.replies.get(system),
                "no_reply": replied_item.no_reply.get(system),
            }
            for replied_item in self.items
            for system in self.bots
        ]
        return make_frame(rows, kind, columns=("item", "system", "reply", "no_reply"))


@record
class StoredBot(Model):
    """A bot by name."""

    name: str
    kind: str  # retrieval, openai, http, replay, degraded or neural
    sha256: str  # of its specification; the name is not in it
    specification: Mapping[str, Any] = field(default_factory=dict)


@record
class PutBot(StoredBot):
    """A bot as it was stored."""

    before: Optional[str] = None  # the hash of the specification that it replaces; None for the same or none


@record
class BotFailure(Model):
    """How a bot failed the last time."""

    at: str
    problem: str  # why there was no reply: timeout, connection, ...
    detail: str = ""  # more of it, for people; nothing that an endpoint answered


@record
class BotDay(Model):
    """What a bot was asked in a day, and what that cost."""

    day: str  # UTC
    requests: int = 0
    failures: int = 0
    tokens: int = 0
    money: float = 0.0


@record
class BotUse(Model):
    """What a bot was asked by the service under its name, and what it cost."""

    name: str
    used: Optional[str] = None  # when it was asked last; None for never
    replied: Optional[str] = None  # when it replied last, as it is stored now
    failure: Optional[BotFailure] = None  # the last one, of the bot as it is stored now
    requests: int = 0
    unanswered: int = 0  # requests without a reply, for whatever reason
    failures: int = 0
    stored: int = 0  # requests that it had answered before
    prompt_tokens: int = 0
    answer_tokens: int = 0
    lost_tokens: int = 0  # that tries which broke off may have cost
    money: Optional[float] = None  # paid in the currency that its prices have now; None: it has none
    currency: Optional[str] = None
    mean_ms: Optional[float] = None  # of a reply that was asked for
    days: list[BotDay] = field(default_factory=list)  # of the last 30, those in which it was asked


@record
class BotUses(Model):
    """What all bots were asked, and the limit that they share."""

    bots: list[BotUse]
    tokens_today: Optional[int] = 0  # of all endpoints (UTC), with those of requests under way; None: unreadable
    tokens_a_day: int = 0  # the most that they may cost


@record
class RetrievedReply(Model):
    """A response that a bot might have replied."""

    text: str
    utterance: Optional[str] = None  # what it answered in its log
    similarity: Optional[float] = None
    log: Optional[str] = None


@record
class DialogueReply(Model):
    """A bot's reply to one dialogue, or why there is none."""

    reply: Optional[str] = None
    problem: Optional[str] = None  # why there is no reply: timeout, refusal, empty, ...
    detail: Optional[str] = None  # more of the problem, for people
    prompt_tokens: Optional[int] = None  # as the endpoint counted them
    answer_tokens: Optional[int] = None
    stored: bool = False  # whether it was answered before, and not asked again
    ms: Optional[float] = None  # milliseconds until the whole answer was there
    retrieved: list[RetrievedReply] = field(default_factory=list)  # with `retrieved=True`: the best candidates


@record
class DialogueReplies(Model):
    """A bot's replies, in the order of the dialogues."""

    bot: str  # name#hash
    replies: list[DialogueReply]
    reply_provenance: str = ""
    problems: dict[str, int] = field(default_factory=dict)  # how many dialogues have no reply, by problem
    remarks: list[str] = field(default_factory=list)  # what was asked and what it cost

    def __iter__(self) -> Iterator[DialogueReply]:
        return iter(self.replies)

    def __len__(self) -> int:
        return len(self.replies)

    def __getitem__(self, place: int) -> DialogueReply:
        return self.replies[place]


@record
class ConversationScore(Model):
    """The score of one conversation."""

    id: str
    bot: str
    score: float  # points above or below the mean of the conversations that the hybrid was fitted to


@record
class HybridBot(Model):
    """The mean score of a bot's conversations."""

    bot: str
    conversations: int
    mean: float
    standard_error: Optional[float] = None  # of the mean; None for one conversation
    fit: str = ""  # "without it": by the fit that has seen none of its conversations; "all bots": others
    rated: Optional[float] = None  # the mean of people's ratings, where the hybrid was fitted to the bot


@record
class HybridScores(Model):
    """Scores of whole conversations by a hybrid, in the order sent."""

    hybrid: str  # name@version#content
    signature: str
    conversations: list[ConversationScore]
    bots: list[HybridBot] = field(default_factory=list)  # their means, best first
    signature_full: str = ""
    scored: int = 0
    trained_on: list[str] = field(default_factory=list)  # ids without a score: the hybrid was fitted to them
    missing: dict[str, int] = field(default_factory=dict)  # by column: how many conversations lack it
    agreement: Mapping[str, Any] = field(default_factory=dict)  # of the means with people's, over bots that were rated
    problems: list[FieldProblem] = field(default_factory=list)  # conversations left out, with on_error="report"
    warnings: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[ConversationScore]:
        return iter(self.conversations)

    def __len__(self) -> int:
        return len(self.conversations)

    def __getitem__(self, place: int) -> ConversationScore:
        return self.conversations[place]
