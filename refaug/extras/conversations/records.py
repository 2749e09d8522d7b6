"""A conversation between a person and a bot, or of a bot with itself, and what a person said of it as a whole."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from refaug.core.text.normalisation import normalise
from refaug.extras.conversations.metrics.exchanges import (
    AnsweredTurn,
    Side,
    human_exchanges,
    joined_turns,
    self_play_exchanges,
)

_JOINT = "\x1f"  # stands in no normalised text


@dataclass(frozen=True, slots=True)
class ContextReply:
    """A reply of the bot with all turns before it; the last of them is the utterance."""

    context: tuple[str, ...]
    reply: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """Turns in order, and ratings by the name of their question."""

    id: str
    bot: str
    turns: tuple[tuple[Side, str], ...]
    ratings: Mapping[str, float] = field(default_factory=dict)
    scale: tuple[float, float] | None = None  # the ends that all its ratings lie between
    reversed: frozenset[str] = frozenset()  # questions where a low number is good
    participant: str = ""
    is_played: bool = False  # by bots alone, with themselves or with a partner
    votes: tuple[int, ...] = ()  # of the person on single replies, as far as there are any: -1, 0 or 1
    start: tuple[str, ...] = ()  # what such a conversation began with, which neither side has said

    @property
    def is_alone(self) -> bool:
        """Whether the bot talks to itself: every turn is its own."""
        return all(side is Side.BOT for side, _ in self.turns)

    def texts(self, side: Side) -> list[str]:
        """Return the turns of a side; a bot that talks to itself is both."""
        return [text for own, text in self.turns if own is side or self.is_alone]

    def exchanges(self) -> list[AnsweredTurn]:
        """Return the turns, paired as the components of the hybrid metric need them."""
        if self.is_alone:
            return self_play_exchanges(self.texts(Side.BOT))
        return human_exchanges(self.turns)

    def replies(self) -> list[ContextReply]:
        """Return the bot's replies that have something before them; turns of one side in a row are one turn."""
        turns = list(self.turns) if self.is_alone else joined_turns(self.turns)
        texts = [*self.start, *(text for _, text in turns)]
        sides = [*([Side.PERSON] * len(self.start)), *(side for side, _ in turns)]
        return [
            ContextReply(tuple(texts[:place]), text)
            for place, (side, text) in enumerate(zip(sides, texts, strict=True))
            if side is Side.BOT and place
        ]

    def rating(self, question: str | None) -> float | None:
        """Return the answer to one question, or the mean over all; reversed questions are turned round.

        None where the person did not answer.
        """
        names = list(self.ratings) if question is None else [question]
        answers = [self._turned(name) for name in names if name in self.ratings]
        return math.fsum(answers) / len(answers) if answers else None

    @property
    def vote_mean(self) -> float | None:
        """The mean of the votes; None without any."""
        return sum(self.votes) / len(self.votes) if self.votes else None

    def digest(self, *, with_bot: bool = False) -> bytes:
        """Return a hash of the normalised turns with their sides, and of the bot's name if that counts."""
        parts = [f"{side.value} {normalise(text)}" for side, text in self.turns]
        key = _JOINT.join([self.bot if with_bot else "", *parts])
        return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()[:16]

    def _turned(self, question: str) -> float:
        answer = self.ratings[question]
        if question not in self.reversed or self.scale is None:
            return answer
        return self.scale[0] + self.scale[1] - answer


@dataclass(frozen=True, slots=True)
class BadConversation:
    """A line that holds no usable conversation: where it is, and what is wrong."""

    line: int
    field: str
    message: str
