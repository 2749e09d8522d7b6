"""What conversations of self-play share, with each other and with a log, and how varied they are, bot by bot."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from refaug.core.files import make_folder, remove_tree, storage_errors, unique_suffix
from refaug.core.progress import Progress, Silent
from refaug.core.text.tokenizers import get_tokenizer
from refaug.extras.conversations.metrics.variety import Overlap, repeated_share, utterance_hashes
from refaug.extras.conversations.selfplay.log_windows import LogOverlap, count_in_log
from refaug.extras.conversations.selfplay.shared_windows import SharedWindows
from refaug.extras.conversations.selfplay.stored import StoredConversation, StoredSelfPlay
from refaug.logs.store import StoredLog

# ── How many different n-grams there are among many, in bounded memory: sorted runs of hashes, merged at the end ──────

_RUN: Final = 1 << 14  # hashes that are sorted at a time
_MOST_RUNS: Final = 16  # of a level, before they are merged into one of the next

Hashes = NDArray[np.uint64]


class DistinctCount:
    """Counts all n-grams and the different ones; a context manager, for its files."""

    def __init__(self, folder: Path, order: int) -> None:
        self.total = 0
        self._order, self._folder = order, folder / f"self-play-words-{unique_suffix()}"
        make_folder(folder)
        make_folder(self._folder)
        self._new, self._levels, self._written = array("Q"), list[list[Path]](), 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        remove_tree(self._folder)

    def add(self, texts: Iterable[Sequence[str]]) -> None:
        """Add the n-grams of texts, given as words; none crosses two texts."""
        for words in texts:
            count = len(words) - self._order + 1
            self.total += max(0, count)
            for first in range(count):
                gram = "\x1f".join(words[first : first + self._order]).encode("utf-8", "surrogatepass")
                self._new.append(int.from_bytes(blake2b(gram, digest_size=8).digest(), "little"))
            if len(self._new) >= _RUN:
                self._write(np.unique(np.array(self._new, np.uint64)))

    @property
    def share(self) -> float:
        """The different n-grams over all of them; 0 where there are none."""
        if not self.total:
            return 0.0
        newest = np.unique(np.array(self._new, np.uint64))
        if not self._levels:
            return len(newest) / self.total
        self._write(newest)
        return sum(map(len, _merged([run for runs in self._levels for run in runs]))) / self.total

    def _write(self, hashes: Hashes) -> None:
        self._new = array("Q")
        path = self._next_path()
        with storage_errors(path):
            hashes.tofile(path)
        self._add(path, 0)

    def _add(self, run: Path, level: int) -> None:
        """Add a run to a level; a level that is full becomes a run of the next, so that each hash moves few times."""
        if level == len(self._levels):
            self._levels.append([])
        runs = self._levels[level]
        runs.append(run)
        if len(runs) < _MOST_RUNS:
            return
        merged = self._next_path()
        with storage_errors(merged), merged.open("wb") as file:
            for block in _merged(runs):
                block.tofile(file)
        for merged_run in runs:
            merged_run.unlink()
        runs.clear()
        self._add(merged, level + 1)

    def _next_path(self) -> Path:
        self._written += 1
        return self._folder / str(self._written)


def _merged(runs: Sequence[Path]) -> Iterable[Hashes]:
    """Yield the different hashes of sorted runs in order, block after block."""
    mapped = [np.memmap(run, np.uint64, "r") if run.stat().st_size else np.zeros(0, np.uint64) for run in runs]
    at = [0] * len(mapped)
    step = max(1, _RUN // max(1, len(mapped)))
    while any(place < len(run) for place, run in zip(at, mapped, strict=True)):
        # All hashes up to the least of the blocks' ends are in these blocks.
        limit = min(
            run[min(place + step, len(run)) - 1] for place, run in zip(at, mapped, strict=True) if place < len(run)
        )
        pieces = list[Hashes]()
        for number, run in enumerate(mapped):
            piece = np.asarray(run[at[number] : at[number] + step])
            count = int(np.searchsorted(piece, limit, side="right"))
            pieces.append(piece[:count])
            at[number] += count
        yield np.unique(np.concatenate(pieces))


# ── What conversations of self-play share, with each other and with a log, and how varied they are, bot by bot ────────

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

    What is shared are runs of both sides' replies; the other figures are of the bot's own.
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
        replies = conversation.own
        tokens = [self._tokenize(text) for text in replies]
        hashes = utterance_hashes(conversation.replies)
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
    return {**asdict(overlap), "percent": overlap.percent}
