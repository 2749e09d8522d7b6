"""Read rated conversations from JSONL, a conversation a line, compressed or not.

    {"id": "c1", "bot": "b2", "participant": "p7",
     "turns": [{"role": "participant", "text": "…"}, {"role": "bot", "text": "…"}],
     "ratings": {"quality": 4, "repetitive": 2}, "scale": [1, 7], "reversed": ["repetitive"]}

A turn of the bot may have a `vote` of the person: -1, 0 or 1. `messages` and `conversations` stand for `turns`,
`content` and `value` for `text`, `from` for `role`. System prompts and calls of tools are no turns.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from refaug.core.errors import BadInput, DamagedSource
from refaug.core.text.content_shapes import short_repr
from refaug.core.text.normalisation import normalise
from refaug.extras.conversations.metrics.exchanges import (
    AnsweredTurn,
    Side,
    human_exchanges,
    joined_turns,
    self_play_exchanges,
)
from refaug.logs.reading.containers import json_rows
from refaug.logs.reading.shapes import chat_turns
from refaug.logs.reading.sources import DAMAGED, BadRow, LineReader, Source, require_readable

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

    def joined(self) -> list[tuple[Side, str]]:
        """Return the turns, those of one side in a row as one; a bot that talks to itself has each by itself."""
        return list(self.turns) if self.is_alone else joined_turns(self.turns)

    def replies(self) -> list[ContextReply]:
        """Return the bot's replies that have something before them; turns of one side in a row are one turn."""
        turns = self.joined()
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


_TURNS: Final = ("turns", "messages", "conversations")
_TEXTS: Final = ("text", "content", "value")
_ROLES: Final = ("role", "from", "speaker")
_SIDES: Final[Mapping[str, Side]] = {
    **dict.fromkeys(("participant", "person", "human", "user"), Side.PERSON),
    **dict.fromkeys(("bot", "assistant", "system", "model", "gpt", "chatgpt", "agent", "ai"), Side.BOT),
}


class _InvalidConversation(Exception):
    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


def read_conversations(path: Path, *, bot: str | None = None) -> Iterator[Conversation | BadConversation]:
    """Yield the conversations of a file in order, and in its place each line that holds none.

    `bot` is the bot of conversations that name none, such as those of data sets for training.
    A compressed file that breaks off is refused at its end.
    """
    require_readable(path)
    lines_of = dict[str, int]()
    for block in LineReader(Source.of(path)):
        for row in json_rows(block) if block.bad is None else (block.bad,):
            if isinstance(row, BadRow):
                if row.reason == DAMAGED:
                    raise DamagedSource(f"{path}, line {row.line}: {row.message}", remedy="copy the file again")
                yield BadConversation(row.line, "", row.message)
                continue
            line, fields = row
            yield usable_conversation(fields, line, lines_of, bot=bot)


def usable_conversation(
    fields: Mapping[str, Any], line: int, lines_of: dict[str, int], *, bot: str | None = None
) -> Conversation | BadConversation:
    """Return the conversation of some fields, or what is wrong with it; `lines_of` has the ids so far, and gets its."""
    try:
        conversation = _require_new(_conversation_of(fields, fallback_id=f"line-{line}", bot=bot), lines_of)
    except _InvalidConversation as invalid:
        return BadConversation(line, invalid.field, invalid.message)
    lines_of[conversation.id] = line
    return conversation


def _conversation_of(fields: Mapping[str, Any], *, fallback_id: str, bot: str | None = None) -> Conversation:
    """Check every field of one conversation; raise for the first wrong one. A null is no field."""
    fields = {name: content for name, content in fields.items() if content is not None}
    scale = _scale(fields.get("scale"))
    ratings = _ratings(fields.get("ratings", {}), scale)
    names = fields.get("reversed", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _InvalidConversation("reversed", f"{_shown(names)} is not a list of questions")
    if unknown := [name for name in names if name not in ratings]:
        raise _InvalidConversation("reversed", f"no rating is called {unknown[0]!r}")
    if names and scale is None:
        raise _InvalidConversation("scale", "reversed ratings cannot be turned round without the ends of their scale")
    return Conversation(
        id=_name(fields, "id", fallback_id),
        bot=_name(fields, "model" if "model" in fields and "bot" not in fields else "bot", bot or None),
        turns=_turns(fields),
        votes=_votes(fields),
        ratings=ratings,
        scale=scale,
        reversed=frozenset(names),
        participant=_name(fields, "participant", ""),
    )


def _require_new(conversation: Conversation, lines_of: Mapping[str, int]) -> Conversation:
    if conversation.id in lines_of:
        raise _InvalidConversation("id", f"{conversation.id!r} was used in line {lines_of[conversation.id]}")
    return conversation


def require_one_scale(conversations: Sequence[Conversation]) -> None:
    """Refuse ratings on several scales, whose numbers do not compare."""
    scales = dict[tuple[float, float] | None, str]()  # and the first conversation of each
    for conversation in conversations:
        scales.setdefault(conversation.scale, conversation.id)
    if len(scales) > 1:
        shown = " and ".join(
            f"{'none' if scale is None else f'{scale[0]:g} to {scale[1]:g}'} ({first[:80]})"
            for scale, first in list(scales.items())[:3]
        )
        raise BadInput(
            f"ratings on {len(scales)} scales: {shown}", remedy="map them to one scale, and name it in every line"
        )


def _name(fields: Mapping[str, Any], field: str, fallback: str | None) -> str:
    name = fields.get(field, fallback)
    if isinstance(name, int) and not isinstance(name, bool):
        name = str(name)
    if not isinstance(name, str) or (field in {"id", "bot", "model"} and not name):
        raise _InvalidConversation(field, "is missing" if name is None else f"{_shown(name)} is not a name")
    return name


def _turns(fields: Mapping[str, Any]) -> tuple[tuple[Side, str], ...]:
    field = next((name for name in _TURNS if name in fields), None)
    if field is None:
        raise _InvalidConversation("turns", "is missing: a list of objects with role and text")
    messages = fields[field]
    if not isinstance(messages, list):
        raise _InvalidConversation(field, f"{_shown(messages)} is not a list of turns")
    turns = tuple(_turn(field, place, message) for place, message in chat_turns(messages).turns)
    sides = {side for side, text in turns if text.strip()}
    if len(turns) < 2:
        raise _InvalidConversation(field, f"a conversation has two turns at least, and this has {len(turns)}")
    for side in Side:
        if side not in sides:
            raise _InvalidConversation(field, f"the {side.value} says nothing")
    return turns


def _votes(fields: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the votes on the bot's turns; a turn without one, or with null, has none."""
    field = next(name for name in _TURNS if name in fields)
    votes = list[int]()
    for place, message in chat_turns(fields[field]).turns:
        vote = fields[field][place].get("vote") if isinstance(fields[field][place], Mapping) else None
        if vote is None:
            continue
        if _turn(field, place, message)[0] is not Side.BOT:
            raise _InvalidConversation(f"{field}[{place}].vote", "a vote on a turn of the person: votes are on replies")
        if not _is_number(vote) or vote not in (-1, 0, 1):
            raise _InvalidConversation(f"{field}[{place}].vote", f"{_shown(vote)} is not a vote: -1, 0 or 1")
        votes.append(int(vote))
    return tuple(votes)


def _turn(field: str, place: int, message: Any) -> tuple[Side, str]:
    if not isinstance(message, Mapping):
        raise _InvalidConversation(f"{field}[{place}]", f"{_shown(message)} is not an object with role and text")
    role = next((message[name] for name in _ROLES if name in message), None)
    side = side_of(role)
    if side is None:
        roles = ", ".join(sorted(_SIDES))
        raise _InvalidConversation(f"{field}[{place}].role", f"{_shown(role)} is none of the roles {roles}")
    text = next((message[name] for name in _TEXTS if name in message), None)
    if not isinstance(text, str):
        raise _InvalidConversation(f"{field}[{place}].text", f"{_shown(text)} is not a text")
    return side, text


def side_of(role: Any) -> Side | None:
    """Return who a role is; None for what is no role."""
    return _SIDES.get(role.strip().lower()) if isinstance(role, str) else None


def _scale(ends: Any) -> tuple[float, float] | None:
    if ends is None:
        return None
    if not isinstance(ends, list) or len(ends) != 2 or not all(map(_is_number, ends)) or ends[0] >= ends[1]:
        raise _InvalidConversation("scale", f"{_shown(ends)} is not the two ends of a scale, such as [1, 7]")
    return float(ends[0]), float(ends[1])


def _ratings(ratings: Any, scale: tuple[float, float] | None) -> dict[str, float]:
    if not isinstance(ratings, Mapping):
        raise _InvalidConversation("ratings", f"{_shown(ratings)} is not an object of questions and numbers")
    for question, answer in ratings.items():
        if answer is None:
            continue
        if not _is_number(answer):
            raise _InvalidConversation(f"ratings.{question}", f"{_shown(answer)} is not a number")
        if scale is not None and not scale[0] <= answer <= scale[1]:
            raise _InvalidConversation(
                f"ratings.{question}", f"{answer:g} is outside of the scale {scale[0]:g} to {scale[1]:g}"
            )
    return {question: float(answer) for question, answer in ratings.items() if answer is not None}


def _is_number(number: Any) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)


def _shown(content: Any) -> str:
    return short_repr(content, 58)
