"""What `Scorer.submit` returns, and what it tells: the outcome of every reply, and the counts of all."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Literal, Optional

from refaug_client._core import errors

if TYPE_CHECKING:
    from collections.abc import Generator

    from .waiting import Waiter

# ── The record of one submit: its replies, and the outcome of each as far as it is known ──────────────────────────────

Source = Literal["server", "copied", "cache", "no-reply", "skipped", "last", "failed", "dropped"]
Text = tuple[str, str]  # an item's id and a reply to it


class Submission:
    """The replies of one call or submit; the ledger's lock guards every change."""

    __slots__ = (
        "callbacks",
        "deadline",
        "errors",
        "items",
        "max_wait_s",
        "missing",
        "number",
        "pid",
        "replies",
        "scores",
        "signatures",
        "sources",
    )

    def __init__(
        self,
        replies: list[Optional[str]],
        items: list[str],
        number: int,
        *,
        deadline: Optional[float] = None,
        max_wait_s: Optional[float] = None,
    ) -> None:
        self.replies: list[Optional[str]] = replies
        self.items: list[str] = items
        self.number: int = number
        self.deadline: Optional[float] = deadline
        self.max_wait_s: Optional[float] = max_wait_s
        self.pid: int = os.getpid()
        self.scores: list[Optional[float]] = [None] * len(replies)
        self.sources: list[Optional[Source]] = [None] * len(replies)
        self.missing: int = len(replies)  # replies without an outcome
        self.errors: dict[int, errors.RefaugError] = {}  # by place, the first first
        self.signatures: list[str] = []
        self.callbacks: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self.items)

    @property
    def error(self) -> Optional[errors.RefaugError]:
        """The error that `result()` raises; None where no reply failed."""
        return next(iter(self.errors.values()), None)

    def places(self) -> list[Place]:
        """Return the place of every reply."""
        return [(self, place) for place in range(len(self))]


Place = tuple[Submission, int]


# ── What `Scorer.submit` returns, and what it tells: the outcome of every reply, and the counts of all ────────────────


@dataclass(frozen=True)
class Outcome:
    """What became of the replies of one call or submit, in the order they were given.

    `sources` has the source of each score: the server or the cache (None there: the server says that it has no score),
    `copied` (from the server, which says that the reply repeats the utterance),
    `no-reply` (it was None), `skipped` or `last` (not scored in time; `last` is the item's value of an earlier reply),
    `failed` (`error` says why) or `dropped` (there was no room for it).
    """

    scores: list[Optional[float]]
    sources: list[Source]
    items: list[str]
    tag: Any = None
    signature: Optional[str] = None  # None: no score of them is from a server
    error: Optional[errors.RefaugError] = None
    errors: dict[int, errors.RefaugError] = field(default_factory=dict)  # of every reply that failed, by its place

    @property
    def source(self) -> str:
        """The source of all of them; `mixed` where sources differ, `none` where there are no replies."""
        sources = set(self.sources)
        return sources.pop() if len(sources) == 1 else "mixed" if sources else "none"

    def counts(self) -> dict[str, int]:
        """Return the number of replies by source."""
        return dict(Counter(self.sources))

    def __repr__(self) -> str:
        error = "" if self.error is None else f", error={self.error!r}"
        return f"Outcome({len(self.scores)} replies, sources={self.counts()}, tag={self.tag!r}{error})"

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain values."""
        return {
            "scores": list(self.scores),
            "sources": list(self.sources),
            "items": list(self.items),
            "tag": self.tag,
            "signature": self.signature,
            "error": None if self.error is None else str(self.error),
        }


@dataclass(frozen=True)
class Counts:
    """What became of all replies of a scorer so far.

    Each reply is counted once: as scored, unscored, skipped, last, failed or dropped; the others are `waiting`.
    """

    submitted: int = 0
    scored: int = 0
    unscored: int = 0  # the server says that there is no score, or there was no reply
    skipped: int = 0
    last: int = 0
    failed: int = 0
    dropped: int = 0
    from_cache: int = 0  # of those scored or unscored
    sent: int = 0  # replies in requests; the same reply to the same item goes once
    requests: int = 0
    retries: int = 0  # requests that were sent again
    corpora: int = 0  # corpus scores
    corpora_skipped: int = 0
    corpora_last: int = 0
    signature_changes: int = 0  # the server was replaced by one that scores by another signature

    @property
    def waiting(self) -> int:
        """Replies that have no outcome yet."""
        return self.submitted - self.scored - self.unscored - self.skipped - self.last - self.failed - self.dropped

    def to_dict(self) -> dict[str, int]:
        """Return the counts as plain values."""
        return {**asdict(self), "waiting": self.waiting}

    def __str__(self) -> str:
        cached = f" ({self.from_cache:,} from the cache)" if self.from_cache else ""
        parts = [f"{self.scored:,} scored{cached}"]
        names = (
            ("unscored", "without a score"),
            ("skipped", "skipped, since nobody answered in time"),
            ("last", "with the item's last value instead"),
            ("failed", "failed"),
            ("dropped", "dropped"),
            ("waiting", "waiting"),
            ("corpora_skipped", "corpus scores skipped"),
            ("corpora_last", "corpus scores repeated"),
            ("signature_changes", "times by another signature than before"),
        )
        parts += [f"{count:,} {name}" for key, name in names if (count := getattr(self, key))]
        again = f", {self.retries:,} of them again" if self.retries else ""
        return f"{self.submitted:,} replies: {', '.join(parts)}; {self.requests + self.retries:,} requests{again}"


class Pending:
    """Replies that were submitted; their scores come later.

    pending = scorer.submit(replies, items=ids, tag=step)
    …
    scores = pending.result()      # or, in a coroutine: await pending
    """

    __slots__ = ("__weakref__", "_submission", "_waiter", "tag")

    def __init__(self, waiter: Waiter, submission: Submission, tag: Any) -> None:
        self.tag: Any = tag
        self._waiter, self._submission = waiter, submission

    def __len__(self) -> int:
        return len(self._submission)

    def done(self) -> bool:
        """Whether every reply has its outcome."""
        return self._submission.missing == 0 or self._waiter.is_finished(self._submission)

    def result(self, timeout_s: Optional[float] = None) -> list[Optional[float]]:
        """Return the scores, in the order of the replies; None where there is none.

        Waits for them, at most `timeout_s` (then TimedOut, and `result` may be called again). Where a reply failed, its
        error is raised; `outcome` has the scores of the others.
        """
        submission = self._submission
        self._waiter.wait(submission, timeout_s)
        self._waiter.mark_collected(submission)
        if submission.error is not None:
            raise submission.error.with_traceback(None)
        return list(submission.scores)

    @property
    def outcome(self) -> Outcome:
        """What became of each reply, failures too; waits until that is known."""
        submission = self._submission
        self._waiter.wait(submission, None)
        self._waiter.mark_collected(submission)
        return Outcome(
            scores=list(submission.scores),
            sources=[source for source in submission.sources if source is not None],
            items=list(submission.items),
            tag=self.tag,
            signature=", ".join(submission.signatures) or None,
            error=submission.error,
            errors=dict(submission.errors),
        )

    def __await__(self) -> Generator[Any, None, list[Optional[float]]]:
        return self._wait().__await__()

    async def _wait(self) -> list[Optional[float]]:
        loop, is_done, submission = asyncio.get_running_loop(), asyncio.Event(), self._submission

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(is_done.set)
            except RuntimeError:  # the loop has ended, and with it the coroutine that waited
                return

        self._waiter.when_done(submission, wake)
        remaining_s = None if submission.deadline is None else max(0.0, submission.deadline - time.monotonic())
        try:
            await asyncio.wait_for(is_done.wait(), remaining_s)
        except asyncio.TimeoutError:
            self._waiter.is_finished(submission)
        return self.result()

    def __repr__(self) -> str:
        missing = self._submission.missing
        state = f"{missing} without an outcome yet" if missing else "done"
        return f"<Pending {len(self)} replies, {state}, tag={self.tag!r}>"
