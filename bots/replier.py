"""What every bot can do: requests in, replies out, in the order of the requests.

A bot is deterministic: an equal request gets an equal reply, in whatever batch and order it comes. All chance comes
from the seed of the request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from refaug.core.records import TestPair


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyRequest:
    """A dialogue to reply to: the turns of `pair`, of which the last one is the utterance.

    Everything else in `pair` says what a reply must not come from: its references, its dialogue, excluded dialogues.
    """

    pair: TestPair
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BotReply:
    """The reply of a bot, or a code that says why there is none, such as `no_utterance` or `nothing_retrieved`."""

    text: str | None
    problem: str = ""


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

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return one reply for each request, in their order."""
