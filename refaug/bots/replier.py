"""What every bot can do: requests in, replies out, in the order of the requests.

A bot is deterministic: an equal request gets an equal reply, in whatever batch and order it comes. All chance comes
from the seed of the request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from refaug.core.records import Item


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyRequest:
    """A dialogue to reply to: the turns of `item`, of which the last one is the utterance.

    Everything else in `item` says what a reply must not come from: its references, its dialogue, excluded dialogues.
    The turns alternate: the bot's own earlier replies are the last but one, the last but three, and so on. `id` names
    the request to bots behind an address; bots in this process do not read it. `own` has the bot's replies so far as it
    gave them, the newest last, where `turns` are cut or changed; without it they are those in `turns`.
    """

    item: Item
    seed: int
    id: str = ""
    own: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BotReply:
    """The reply of a bot, or a code that says why there is none, such as `no_utterance` or `nothing_retrieved`.

    A reply is never empty. `detail` says more of the problem, for people. An endpoint counts tokens, and `ms` is how
    long it took for the answer, whenever that was; bots in this process do not time single replies.
    """

    text: str | None
    problem: str = ""
    detail: str = ""
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    is_stored: bool = False  # whether it was answered before, and not asked again
    ms: float | None = field(default=None, compare=False)


class Replier(Protocol):
    """A bot."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """What makes the replies, except for the seed: the kind, versions with their hashes, settings."""

    @property
    def is_random(self) -> bool:
        """Whether the seed of a request can change its reply."""

    @property
    def warnings(self) -> Sequence[str]:
        """What to know of all replies."""

    @property
    def remarks(self) -> Sequence[str]:
        """What the replies so far have cost, where they cost something."""

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return one reply for each request, in their order."""


@runtime_checkable
class BeginningBot(Protocol):
    """A bot that can also begin a dialogue; requests have one empty turn, or none."""

    def openings(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return what the bot begins each dialogue with, in the order of the requests."""


def openings_of(bot: Replier, requests: Sequence[ReplyRequest]) -> list[BotReply]:
    """Return what a bot begins dialogues with; one that cannot begin gets the requests as they are."""
    return bot.openings(requests) if isinstance(bot, BeginningBot) else bot.replies(requests)
