"""The turns of a conversation, paired as its components need them: an utterance, the reply, the answer to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise


class Side(StrEnum):
    """The two sides of a conversation."""

    PERSON = "person"
    BOT = "bot"


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """An utterance u_t, the bot's reply b_t, and u_{t+1}, which answers that reply; None after the last reply."""

    utterance: str
    reply: str
    answer: str | None


def human_exchanges(turns: Sequence[tuple[Side, str]]) -> list[AnsweredTurn]:
    """Pair the turns of a person with a bot's.

    Turns of one side that follow each other are joined with a space. A bot that begins answers nothing, so its
    opening makes no exchange; a person's last turn without a reply is only the answer to the reply before it.
    """
    joined = joined_turns(turns)
    if joined and joined[0][0] is Side.BOT:
        joined = joined[1:]
    exchanges = []
    for place in range(0, len(joined) - 1, 2):
        answer = joined[place + 2][1] if place + 2 < len(joined) else None
        exchanges.append(AnsweredTurn(joined[place][1], joined[place + 1][1], answer))
    return exchanges


def self_play_exchanges(utterances: Sequence[str]) -> list[AnsweredTurn]:
    """Pair the utterances of a bot that talks to itself: each is the reply to the one before, and answers itself.

    The released code stores rows of message and response; the person's answer to a response is the message of the
    next row, which is that response. So the figures of the person's side and of the bot's side are the same.
    """
    return [AnsweredTurn(utterance, reply, reply) for utterance, reply in pairwise(utterances)]


def joined_turns(turns: Sequence[tuple[Side, str]]) -> list[tuple[Side, str]]:
    """Join the turns of one side that follow each other with a space."""
    joined: list[tuple[Side, str]] = []
    for side, text in turns:
        if joined and joined[-1][0] is side:
            joined[-1] = (side, f"{joined[-1][1]} {text}".strip())
        else:
            joined.append((side, text))
    return joined
