"""What conversations of self-play share, with each other and with a log, and how varied they are, bot by bot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from refaug.core.progress import Progress
from refaug.core.text.tokenizers import get_tokenizer
from refaug.evaluation.selfplay.log_windows import conversations_in_log
from refaug.evaluation.selfplay.stored import StoredConversation, StoredSelfPlay
from refaug.logs.store import StoredLog
from refaug.metrics.conversations.variety import variety
from refaug.metrics.conversations.windows import Overlap, overlap_among

AMONG_WINDOWS: Final = (2, 3, 5)
LOG_WINDOWS: Final = (2, 3, 5)
MAX_AMONG: Final = 2_000  # conversations of a bot that are compared with each other: two million pairs


@dataclass(frozen=True, kw_only=True)
class SelfPlayCheck:
    """The figures of one bot."""

    bot: str
    conversations: int
    ended_early: int
    compared: int  # of the conversations, in the overlaps among them
    among: Sequence[Overlap]
    with_log: Sequence[Overlap]  # empty without a log
    distinct_1: float
    distinct_2: float
    repeated: float  # the share of replies that equal an earlier one of their conversation
    looping: float  # the share of conversations whose last replies repeat one or two texts
    words_by_turn: Sequence[float]

    def as_json(self) -> dict[str, Any]:
        """Return the figures, with overlaps as counts and per cent."""
        return {
            "bot": self.bot,
            "conversations": self.conversations,
            "ended_early": self.ended_early,
            "compared": self.compared,
            "overlap_among": list(map(_overlap_json, self.among)),
            "overlap_with_log": list(map(_overlap_json, self.with_log)),
            "distinct_1": self.distinct_1,
            "distinct_2": self.distinct_2,
            "repeated": self.repeated,
            "looping": self.looping,
            "words_by_turn": list(self.words_by_turn),
        }


def check_self_play(
    played: StoredSelfPlay, log: StoredLog | None, *, tokenizer: str = "word", progress: Progress | None = None
) -> list[SelfPlayCheck]:
    """Return the figures of every bot of a version; what begins a conversation counts nowhere."""
    by_bot: dict[str, list[StoredConversation]] = {bot: [] for bot in played.bots}
    for conversation in played.conversations():
        by_bot[conversation.bot].append(conversation)
    every = [conversation.replies for conversations in by_bot.values() for conversation in conversations]
    in_log = conversations_in_log(log, every, LOG_WINDOWS, progress) if log is not None else {}
    checks, first = list[SelfPlayCheck](), 0
    for bot, conversations in by_bot.items():
        numbers = range(first, first + len(conversations))
        with_log = [
            Overlap(window, len(present.intersection(numbers)), len(conversations))
            for window, present in in_log.items()
        ]
        checks.append(_check(bot, conversations, with_log, tokenizer))
        first += len(conversations)
    return checks


def _check(
    bot: str, conversations: Sequence[StoredConversation], with_log: Sequence[Overlap], tokenizer: str
) -> SelfPlayCheck:
    replies = [conversation.replies for conversation in conversations]
    tokenize = get_tokenizer(tokenizer).tokenize
    tokens = [[tokenize(text) for text in texts] for texts in replies]
    compared = replies[:MAX_AMONG]
    every = variety([text for texts in replies for text in texts], [words for texts in tokens for words in texts])
    shares = [variety(texts, words).repeated for texts, words in zip(replies, tokens, strict=True) if texts]
    return SelfPlayCheck(
        bot=bot,
        conversations=len(conversations),
        ended_early=sum(bool(conversation.problem) for conversation in conversations),
        compared=len(compared),
        among=[overlap_among(compared, window) for window in AMONG_WINDOWS],
        with_log=with_log,
        distinct_1=every.distinct_1,
        distinct_2=every.distinct_2,
        repeated=sum(shares) / len(shares) if shares else 0.0,
        looping=sum(map(is_looping, replies)) / len(replies) if replies else 0.0,
        words_by_turn=_words_by_turn(tokens),
    )


def is_looping(replies: Sequence[str]) -> bool:
    """Return whether the last four replies are one text, or two in turn."""
    last = list(replies[-4:])
    return len(last) == 4 and last[:2] == last[2:]


def _words_by_turn(tokens: Sequence[Sequence[Sequence[str]]]) -> list[float]:
    longest = max(map(len, tokens), default=0)
    by_turn = [[len(words[turn]) for words in tokens if turn < len(words)] for turn in range(longest)]
    return [sum(lengths) / len(lengths) for lengths in by_turn]


def _overlap_json(overlap: Overlap) -> dict[str, Any]:
    return {
        "window": overlap.window,
        "overlapping": overlap.overlapping,
        "possible": overlap.possible,
        "percent": overlap.percent,
    }
