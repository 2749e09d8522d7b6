"""Replies that wait to be sent; they are sent in groups, since a request costs far more than a reply."""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple, Optional

from .submission import Place, Submission

_GATHER_S = 0.25  # that replies wait for others while a request is on its way; at most a quarter of what they may wait


class Piece(NamedTuple):
    """Some replies of a submit, at most a batch."""

    submission: Submission
    first: int
    end: int
    since: float

    @property
    def size(self) -> int:
        """The number of replies."""
        return self.end - self.first

    def places(self) -> list[Place]:
        """Return the place of each reply."""
        return [(self.submission, place) for place in range(self.first, self.end)]


class Queue:
    """Replies that wait to be sent, oldest first; a caller holds the ledger's lock.

    The first replies are sent at once. Those that come while a request is on its way gather, until it has come back, a
    batch is full, they have waited long enough, or a caller waits for them.
    """

    def __init__(self, batch: int, max_wait_s: Optional[float]) -> None:
        self.batch = batch
        self.gather_s: float = _GATHER_S if max_wait_s is None else min(_GATHER_S, max_wait_s / 4)
        self.under_way = 0  # groups that were taken out and are not settled yet
        self._pieces: deque[Piece] = deque()
        self._size = 0  # replies in all pieces
        self._is_awaited = False

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, submission: Submission) -> None:
        """Queue the replies of a submit, in pieces that fit into a request."""
        now, size = time.monotonic(), len(submission)
        self._pieces.extend(Piece(submission, at, min(at + self.batch, size), now) for at in range(0, size, self.batch))
        self._size += size

    def hurry(self) -> bool:
        """Note that a caller waits for what is queued; whether that is new."""
        is_news = bool(self._pieces) and not self._is_awaited
        self._is_awaited |= is_news
        return is_news

    def due_in(self) -> float:
        """Return the seconds until what is queued should be sent; 0 for now."""
        if not self.under_way or self._is_awaited or self._size >= self.batch:
            return 0.0
        return max(0.0, self._pieces[0].since + self.gather_s - time.monotonic())

    def next(self) -> Piece:
        """Take the oldest piece out."""
        piece = self._pieces.popleft()
        self._size -= piece.size
        self._is_awaited &= bool(self._pieces)
        return piece

    def fits(self, size: int) -> bool:
        """Whether the oldest piece fits into a request beside so many replies."""
        return bool(self._pieces) and (not size or size + self._pieces[0].size <= self.batch)

    def clear(self) -> None:
        """Empty the queue."""
        self._pieces.clear()
        self._size = 0
        self._is_awaited = False
