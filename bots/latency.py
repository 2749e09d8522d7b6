"""How long replies took: a mean, and the times below which half and 95 % of them lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Self

import numpy as np

from refaug.bots.replier import BotReply, Replier, ReplyRequest


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

    def as_json(self) -> dict[str, Any]:
        """Return the figures."""
        return {
            "replies": self.replies,
            "mean_ms": self.mean_ms,
            "median_ms": self.median_ms,
            "p95_ms": self.p95_ms,
        }

    @property
    def line(self) -> str:
        """The figures in a line."""
        return f"{self.median_ms:,.1f} ms a reply in the median, {self.p95_ms:,.1f} at the 95th percentile"


def timed_replies(replier: Replier, requests: Sequence[ReplyRequest]) -> list[BotReply]:
    """Return the replies of a bot, those without a time with their share of the time of all."""
    began = perf_counter()
    return with_times(replier.replies(requests), began)


def with_times(replies: Sequence[BotReply], began: float) -> list[BotReply]:
    """Return replies that were asked for together at `began`; those without a time get their share of it."""
    share_ms = round((perf_counter() - began) * 1000 / max(1, len(replies)), 3)
    return [reply if reply.ms is not None else replace(reply, ms=share_ms) for reply in replies]
