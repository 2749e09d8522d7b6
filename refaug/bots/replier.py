"""What every bot can do: requests in, replies out, in the order of the requests.

A bot is deterministic: an equal request gets an equal reply, in whatever batch and order it comes. All chance comes
from the seed of the request.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import Final, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from refaug.core.records import Item, Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyRequest:
    """A dialogue to reply to: the turns of `item`, of which the last one is the utterance.

    Everything else in `item` says what a reply must not come from: its references, its dialogue, excluded dialogues.
    The turns alternate: the bot's own earlier replies are the last but one, the last but three, and so on. `id` names
    the request to bots behind an address; bots in this process do not read it. `own` has the bot's replies so far as it
    gave them, the newest last, where `turns` are cut or changed; without it they are those in `turns`. `begun` has the
    turns before the bot's first reply, and a seed of the whole conversation, where turns are cut or seeds change.
    """

    item: Item
    seed: int
    id: str = ""
    own: tuple[str, ...] | None = None
    begun: tuple[tuple[str, ...], int] | None = None


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
    retrieved: tuple[Reference, ...] = field(default=(), compare=False)


class Replier(Protocol):
    """A bot; one that derives from this has no chance, no warnings and no remarks unless it says so."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """What makes the replies, except for the seed: the kind, versions with their hashes, settings."""

    @property
    def is_random(self) -> bool:
        """Whether the seed of a request can change its reply."""
        return False

    @property
    def warnings(self) -> Sequence[str]:
        """What to know of all replies."""
        return ()

    @property
    def remarks(self) -> Sequence[str]:
        """What the replies so far have cost, where they cost something."""
        return ()

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


@dataclass(frozen=True, eq=False, kw_only=True)
class WrappedBot(Replier):
    """A bot that replies by another one; what a subclass does not say is as the other one has it."""

    inner: Replier

    @property
    def provenance(self) -> Mapping[str, str]:
        """What makes the replies."""
        return self.inner.provenance

    @property
    def is_random(self) -> bool:
        """Whether the seed of a request can change its reply."""
        return self.inner.is_random

    @property
    def warnings(self) -> Sequence[str]:
        """What to know of all replies."""
        return self.inner.warnings

    @property
    def remarks(self) -> Sequence[str]:
        """What the replies so far have cost."""
        return self.inner.remarks

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return one reply for each request, in their order."""
        return self.inner.replies(requests)

    def openings(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        """Return what the bot begins each dialogue with, if it can."""
        return openings_of(self.inner, requests)


# ── How long replies took: a mean, and the times below which half and 95 % of them lie ────────────────────────────────

_STEP_MS: Final = 0.01  # times are counted by such steps
_FINE: Final = 1 << 16  # steps of which each is counted by itself: up to 655 ms
_GROWTH: Final = math.log(1.001)  # of the coarser steps beyond
_COARSE: Final = 1 << 14  # up to 8,500 s; longer times count as that


@dataclass(frozen=True, kw_only=True)
class Latency:
    """The milliseconds of the replies of a bot; a bot that times no single reply has the share of its batches."""

    replies: int
    mean_ms: float
    median_ms: float
    p95_ms: float

    @classmethod
    def of(cls, milliseconds: Sequence[float]) -> Self | None:
        """Return the latency of replies, or None where no time is known."""
        if not len(milliseconds):
            return None
        times = np.asarray(milliseconds, np.float64)
        median, p95 = np.quantile(times, (0.5, 0.95))
        return cls(
            replies=len(times),
            mean_ms=round(float(times.mean()), 3),
            median_ms=round(float(median), 3),
            p95_ms=round(float(p95), 3),
        )

    def as_json(self) -> dict[str, object]:
        """Return the figures."""
        return asdict(self)

    @property
    def line(self) -> str:
        """The figures in a line."""
        return f"{self.median_ms:,.1f} ms a reply in the median, {self.p95_ms:,.1f} at the 95th percentile"


class LatencyTally:
    """Counts of times, in the same memory for any number of them.

    Times below 655 ms are counted to a hundredth of a millisecond, as they are written; longer ones to a thousandth of
    themselves.
    """

    def __init__(self) -> None:
        self._counts = np.zeros(_FINE + _COARSE, np.int64)
        self._total_ms = 0.0

    def add(self, milliseconds: Iterable[float]) -> None:
        """Count times; those of a bot that answers within a step count as 0."""
        for ms in milliseconds:
            self._counts[_place(ms)] += 1
            self._total_ms += ms

    def latency(self) -> Latency | None:
        """Return the latency of the replies that were counted, or None where there are none."""
        ends = np.cumsum(self._counts)
        count = int(ends[-1])
        if not count:
            return None
        median, p95 = (_quantile(ends, count, share) for share in (0.5, 0.95))
        mean = self._total_ms / count
        return Latency(replies=count, mean_ms=round(mean, 3), median_ms=round(median, 3), p95_ms=round(p95, 3))


def _place(ms: float) -> int:
    step = round(max(ms, 0.0) / _STEP_MS)
    if step < _FINE:
        return step
    return _FINE + min(_COARSE - 1, int(math.log(min(step, 1 << 62) / _FINE) / _GROWTH))


def _time(place: int) -> float:
    if place < _FINE:
        return place * _STEP_MS
    return _FINE * _STEP_MS * math.exp((place - _FINE + 0.5) * _GROWTH)


def _quantile(ends: NDArray[np.int64], count: int, share: float) -> float:
    """Return a quantile between the two times nearest to it, as `numpy.quantile` does."""
    rank = share * (count - 1)
    below, above = (_time(int(np.searchsorted(ends, math.floor(at), side="right"))) for at in (rank, math.ceil(rank)))
    return below + (above - below) * (rank - math.floor(rank))


def timed_replies(replier: Replier, requests: Sequence[ReplyRequest]) -> list[BotReply]:
    """Return the replies of a bot, those without a time with their share of the time of all."""
    began = perf_counter()
    return with_times(replier.replies(requests), began)


def with_times(replies: Sequence[BotReply], began: float) -> list[BotReply]:
    """Return replies that were asked for together at `began`; those without a time get their share of it."""
    share_ms = round((perf_counter() - began) * 1000 / max(1, len(replies)), 3)
    return [reply if reply.ms is not None else replace(reply, ms=share_ms) for reply in replies]
