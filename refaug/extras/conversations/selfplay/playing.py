"""Self-play: bots talk to themselves or to a partner, many conversations in step, and every turn is one batch.

Each reply is fed back as the next utterance. A conversation depends on its start, its number, the seed and the two bots
alone, so the size of a batch changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final

from refaug.bots.replier import BeginningBot, BotReply, Replier, ReplyRequest, timed_replies, with_times
from refaug.core.records import Item
from refaug.extras.conversations.selfplay.rules import MAX_CHARACTERS, SelfPlayRules

BOT: Final = "bot"
PARTNER: Final = "partner"
TOO_LONG: Final = "too_long"
_PIECE: Final = 256  # conversations that a bot is asked about at once, between two looks at who waits


@dataclass(frozen=True, kw_only=True)
class SelfPlayStart:
    """What a conversation begins with; without turns it begins with one empty utterance."""

    number: int
    turns: tuple[str, ...] = ()
    dialogue: str | None = None  # of a log: bots that retrieve take nothing out of it


@dataclass(kw_only=True)
class SelfPlayed:
    """A conversation: its start, the replies with the side of each, and why it ended early."""

    start: SelfPlayStart
    turns: list[tuple[str, str]] = field(default_factory=list)
    problem: str = ""
    milliseconds: list[float] = field(default_factory=list, compare=False)  # of each turn

    @property
    def replies(self) -> list[str]:
        """The texts that bots gave, without the start."""
        return [text for _, text in self.turns]


def play(
    bot: Replier,
    partner: Replier,
    starts: Sequence[SelfPlayStart],
    rules: SelfPlayRules,
    check: Callable[[], None] = lambda: None,
) -> list[SelfPlayed]:
    """Play a batch of conversations, one for each start; the bot replies first, then the two take turns.

    `check` is called between pieces of each turn, and ends the work by raising.
    """
    played = [SelfPlayed(start=start) for start in starts]
    play_on(bot, partner, played, rules, check)
    return played


def play_on(
    bot: Replier,
    partner: Replier,
    conversations: Sequence[SelfPlayed],
    rules: SelfPlayRules,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Play conversations to their end, each from the turn that it has reached."""
    for turn in range(rules.turns):
        side, replier = (BOT, bot) if turn % 2 == 0 else (PARTNER, partner)
        going = [each for each in conversations if not each.problem and len(each.turns) == turn]
        for first in range(0, len(going), _PIECE):
            check()
            piece = going[first : first + _PIECE]
            for conversation, reply in zip(piece, _replies(replier, piece, turn, rules), strict=True):
                _add(conversation, side, reply)


def _replies(replier: Replier, conversations: Sequence[SelfPlayed], turn: int, rules: SelfPlayRules) -> list[BotReply]:
    """Return the next replies; a bot that can begin a dialogue begins those that start with nothing."""
    requests = [_request(conversation, turn, rules) for conversation in conversations]
    if not isinstance(replier, BeginningBot):
        return timed_replies(replier, requests)
    replies: list[BotReply | None] = [None] * len(requests)
    begun = [bool(conversation.turns or conversation.start.turns) for conversation in conversations]
    for is_begun, ask in ((False, replier.openings), (True, replier.replies)):
        places = [place for place, flag in enumerate(begun) if flag is is_begun]
        if places:
            since = perf_counter()
            for place, reply in zip(places, with_times(ask([requests[at] for at in places]), since), strict=True):
                replies[place] = reply
    return [reply for reply in replies if reply is not None]


def _add(conversation: SelfPlayed, side: str, reply: BotReply) -> None:
    if reply.text is None:
        conversation.problem = reply.problem
    elif len(reply.text) > MAX_CHARACTERS:
        conversation.problem = TOO_LONG
    else:
        conversation.turns.append((side, reply.text))
        conversation.milliseconds.append(reply.ms or 0.0)


def _request(conversation: SelfPlayed, turn: int, rules: SelfPlayRules) -> ReplyRequest:
    start = conversation.start
    texts = [*(start.turns or ("",)), *conversation.replies]
    return ReplyRequest(
        item=Item(id=f"self-play-{start.number}/{turn}", turns=rules.seen(texts), dialogue=start.dialogue),
        seed=_turn_seed(rules.seed, start.number, turn),
        own=tuple(conversation.replies[turn % 2 :: 2]),
        begun=(tuple(text for text in start.turns if text.strip()), _turn_seed(rules.seed, start.number, -1)),
    )


def _turn_seed(seed: int, number: int, turn: int) -> int:
    digest = hashlib.blake2b(f"{seed}/{number}/{turn}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big")
