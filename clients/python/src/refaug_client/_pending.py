"""Replies that were handed to a scorer: waiting for their scores, and what became of each of them."""

# ruff: noqa: SLF001  what is known of pending replies is theirs and the scorer's, and nobody else's

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Literal, Optional

from . import _errors as errors

if TYPE_CHECKING:
    from collections.abc import Generator

    from ._scorer import Scorer

Source = Literal["server", "cache", "no-reply", "skipped", "last", "failed", "dropped"]


@dataclass(frozen=True)
class Outcome:
    """What became of the replies of one call or submit, in the order they were given.

    `sources` says for each where its score is from: the server or the cache (None there: the server says that it has
    no score), `no-reply` (it was None), `skipped` or `last` (nobody answered in time; `last` is the item's value of an
    earlier reply), `failed` (`error` says why) or `dropped` (there was no room for it).
    """

    scores: list[Optional[float]]
    sources: list[Source]
    items: list[str] = field(repr=False)
    tag: Any = None
    signature: Optional[str] = None  # None: no score of them is from a server
    error: Optional[errors.RefaugError] = None

    @property
    def source(self) -> str:
        """Where all of them are from; `mixed` where that differs, `none` where there are no replies."""
        found = set(self.sources)
        return found.pop() if len(found) == 1 else "mixed" if found else "none"

    def counts(self) -> dict[str, int]:
        """How many are from where."""
        return dict(Counter(self.sources))

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
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

    Each is in one of scored, unscored, skipped, last, failed, dropped; those of which nothing is known yet are
    `waiting`.
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
        """The same as plain values."""
        return {**asdict(self), "waiting": self.waiting}

    def __str__(self) -> str:
        cached = f" ({self.from_cache:,} from the cache)" if self.from_cache else ""
        said = [f"{self.scored:,} scored{cached}"]
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
        said += [f"{count:,} {name}" for key, name in names if (count := getattr(self, key))]
        again = f", {self.retries:,} of them again" if self.retries else ""
        return f"{self.submitted:,} replies: {', '.join(said)}; {self.requests + self.retries:,} requests{again}"


class Pending:
    """Replies that were submitted; their scores come later.

    pending = scorer.submit(replies, items=ids, tag=step)
    …
    scores = pending.result()      # or, in a coroutine: await pending
    """

    __slots__ = (
        "__weakref__",
        "_deadline",
        "_error",
        "_items",
        "_missing",
        "_number",
        "_owner",
        "_pid",
        "_replies",
        "_scores",
        "_signatures",
        "_sources",
        "_then",
        "tag",
    )

    def __init__(
        self,
        owner: Scorer,
        replies: list[Optional[str]],
        items: list[str],
        tag: Any,
        deadline: Optional[float],
        number: int,
    ) -> None:
        self.tag: Any = tag
        self._owner, self._number, self._pid = owner, number, os.getpid()
        self._replies, self._items, self._deadline = replies, items, deadline
        self._scores: list[Optional[float]] = [None] * len(replies)
        self._sources: list[Optional[Source]] = [None] * len(replies)
        self._missing = len(replies)
        self._error: Optional[errors.RefaugError] = None
        self._signatures: list[str] = []
        self._then: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._items)

    def done(self) -> bool:
        """Whether every reply has its outcome."""
        return self._missing == 0 or self._owner._look(self)

    def result(self, timeout_s: Optional[float] = None) -> list[Optional[float]]:
        """The scores, in the order of the replies; None where there is none.

        Waits for them, at most `timeout_s` (then TimedOut, and they may be asked for again). Where one of them failed,
        that error is raised; `outcome` has the others.
        """
        self._owner._wait(self, timeout_s)
        self._owner._collected(self)
        if self._error is not None:
            raise self._error.with_traceback(None)
        return list(self._scores)

    @property
    def outcome(self) -> Outcome:
        """What became of each reply, failures too; waits until that is known."""
        self._owner._wait(self, None)
        self._owner._collected(self)
        return Outcome(
            scores=list(self._scores),
            sources=[source for source in self._sources if source is not None],
            items=list(self._items),
            tag=self.tag,
            signature=", ".join(self._signatures) or None,
            error=self._error,
        )

    def __await__(self) -> Generator[Any, None, list[Optional[float]]]:
        return self._awaited().__await__()

    async def _awaited(self) -> list[Optional[float]]:
        loop, known = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            try:
                loop.call_soon_threadsafe(known.set)
            except RuntimeError:  # the loop has ended, and nobody waits any more
                return

        self._owner._when_done(self, tell)
        left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        try:
            await asyncio.wait_for(known.wait(), left)
        except asyncio.TimeoutError:
            self._owner._look(self)
        return self.result()

    def __repr__(self) -> str:
        state = f"{self._missing} without an outcome yet" if self._missing else "done"
        return f"<Pending {len(self)} replies, {state}, tag={self.tag!r}>"
