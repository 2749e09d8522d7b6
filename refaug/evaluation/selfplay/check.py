"""What conversations of self-play share, with each other and with a log, and how varied they are, bot by bot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TypedDict

from refaug.core.progress import Progress, Silent
from refaug.core.text.tokenizers import get_tokenizer
from refaug.evaluation.selfplay.distinct_counts import DistinctCount
from refaug.evaluation.selfplay.stored import StoredConversation, StoredSelfPlay
from refaug.evaluation.selfplay.windows.log_windows import LogOverlap, count_in_log
from refaug.evaluation.selfplay.windows.shared_windows import SharedWindows
from refaug.logs.store import StoredLog
from refaug.metrics.conversations.variety import repeated_share
from refaug.metrics.conversations.windows import Overlap, utterance_hashes

AMONG_WINDOWS: Final = (2, 3, 5)
LOG_WINDOWS: Final = (2, 3, 5)


@dataclass(frozen=True, kw_only=True)
class SelfPlayCheck:
    """The figures of one bot."""

    bot: str
    conversations: int
    ended_early: int
    among: Sequence[Overlap]
    with_log: Sequence[Overlap]  # empty without a log
    distinct_1: float
    distinct_2: float
    repeated: float  # the share of replies that equal an earlier one of their conversation
    looping: float  # the share of conversations whose last replies repeat one or two texts
    words_by_turn: Sequence[float]
    latency: Mapping[str, Any] | None  # of its replies, where it was measured

    def as_json(self) -> dict[str, object]:
        """Return the figures, with overlaps as counts and per cent."""
        return {
            "bot": self.bot,
            "conversations": self.conversations,
            "ended_early": self.ended_early,
            "overlap_among": list(map(_overlap_json, self.among)),
            "overlap_with_log": list(map(_overlap_json, self.with_log)),
            "distinct_1": self.distinct_1,
            "distinct_2": self.distinct_2,
            "repeated": self.repeated,
            "looping": self.looping,
            "words_by_turn": list(self.words_by_turn),
            "latency": None if self.latency is None else dict(self.latency),
        }


def check_self_play(
    played: StoredSelfPlay,
    log: StoredLog | None,
    *,
    scratch: Path,
    tokenizer: str = "word",
    progress: Progress | None = None,
) -> list[SelfPlayCheck]:
    """Return the figures of every bot of a version; what begins a conversation counts nowhere.

    Conversations are read one after another, any number of them; what has to be sorted lies in files in `scratch`.
    """
    progress = progress or Silent()
    progress.stage("conversations", len(played.bots) * int(played.manifest["conversations_per_bot"]), "conversations")
    measured = dict[str, _Figures]()
    for bot, conversations in groupby(played.conversations(), key=lambda conversation: conversation.bot):
        with ExitStack() as stack:
            tally = _Tally(scratch, get_tokenizer(tokenizer).tokenize, stack)
            for conversation in conversations:
                tally.add(conversation)
                progress.advance(1)
            measured[bot] = tally.figures()
    in_log = dict[str, LogOverlap]()
    if log is not None:
        pairs = ((conversation.bot, conversation.replies) for conversation in played.conversations())
        in_log = count_in_log(log, pairs, LOG_WINDOWS, scratch, progress)
    return [
        SelfPlayCheck(
            bot=bot,
            with_log=_with_log(in_log.get(bot, LogOverlap())) if log is not None else [],
            latency=played.manifest["latency"][bot],
            **measured.get(bot, _NOTHING),
        )
        for bot in played.bots
    ]


def _with_log(overlap: LogOverlap) -> list[Overlap]:
    return [Overlap(window, overlap.overlapping[window], overlap.conversations) for window in LOG_WINDOWS]


class _Figures(TypedDict):
    """The figures of a bot's conversations by themselves."""

    conversations: int
    ended_early: int
    among: Sequence[Overlap]
    distinct_1: float
    distinct_2: float
    repeated: float
    looping: float
    words_by_turn: Sequence[float]


_NOTHING: Final = _Figures(
    conversations=0,
    ended_early=0,
    among=[Overlap(window, 0, 0) for window in AMONG_WINDOWS],
    distinct_1=0.0,
    distinct_2=0.0,
    repeated=0.0,
    looping=0.0,
    words_by_turn=(),
)


class _Tally:
    """Sums over the conversations of one bot."""

    def __init__(self, scratch: Path, tokenize: Callable[[str], Sequence[str]], stack: ExitStack) -> None:
        self._tokenize = tokenize
        self._among = [stack.enter_context(SharedWindows(scratch, window)) for window in AMONG_WINDOWS]
        self._distinct = [stack.enter_context(DistinctCount(scratch, order)) for order in (1, 2)]
        self._conversations = self._ended_early = self._looping = self._with_replies = 0
        self._repeated = 0.0
        self._words, self._replies = list[int](), list[int]()  # by turn

    def add(self, conversation: StoredConversation) -> None:
        """Add a conversation."""
        replies = conversation.replies
        tokens = [self._tokenize(text) for text in replies]
        hashes = utterance_hashes(replies)
        for shared in self._among:
            shared.add(hashes)
        for distinct in self._distinct:
            distinct.add(tokens)
        self._conversations += 1
        self._ended_early += bool(conversation.problem)
        self._looping += is_looping(replies)
        if replies:
            self._with_replies += 1
            self._repeated += repeated_share(replies)
        for turn, words in enumerate(tokens):
            if turn == len(self._words):
                self._words.append(0)
                self._replies.append(0)
            self._words[turn] += len(words)
            self._replies[turn] += 1

    def figures(self) -> _Figures:
        """Return the figures of all that were added."""
        distinct_1, distinct_2 = (distinct.share for distinct in self._distinct)
        return _Figures(
            conversations=self._conversations,
            ended_early=self._ended_early,
            among=[shared.overlap() for shared in self._among],
            distinct_1=distinct_1,
            distinct_2=distinct_2,
            repeated=self._repeated / self._with_replies if self._with_replies else 0.0,
            looping=self._looping / self._conversations if self._conversations else 0.0,
            words_by_turn=[words / count for words, count in zip(self._words, self._replies, strict=True)],
        )


def is_looping(replies: Sequence[str]) -> bool:
    """Return whether the last four replies are one text, or two in turn."""
    last = list(replies[-4:])
    return len(last) == 4 and last[:2] == last[2:]


def _overlap_json(overlap: Overlap) -> dict[str, object]:
    return {
        "window": overlap.window,
        "overlapping": overlap.overlapping,
        "possible": overlap.possible,
        "percent": overlap.percent,
    }
