"""The threads of a scorer: they take groups of replies out of the queue and have them scored."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Callable, NamedTuple, Optional

from refaug_client._core import errors

from .ledger import Ledger
from .pending import Place, Submission
from .settings import ScorerSettings

# ── Replies that wait to be sent; they are sent in groups, since a request costs far more than a reply ────────────────

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


# ── The threads of a scorer: they take groups of replies out of the queue and have them scored ────────────────────────

_IDLE_S = 10.0  # that a thread waits for work until it ends; a new one starts when there is some


class Workers:
    """Starts threads when replies are queued, and ends idle ones; a caller holds the ledger's lock."""

    def __init__(self, settings: ScorerSettings, ledger: Ledger, score: Callable[[Sequence[Piece]], None]) -> None:
        self._settings, self._ledger, self._score = settings, ledger, score
        self.is_closed = False
        self.begin_empty()

    def begin_empty(self) -> None:
        """Begin without queue and threads: at first, and in a forked process."""
        self._work = threading.Condition(self._ledger.lock)
        self.queue: Queue = Queue(self._settings.batch, self._settings.max_wait_s)
        self.threads: set[threading.Thread] = set()
        self._idle = self._gathering = 0

    def call(self) -> None:
        """Wake a thread, or start one, unless the queue has time or all threads are busy."""
        if self._gathering and self.queue.due_in():
            return
        if self._idle or self._gathering:
            self._work.notify()
            return
        if len(self.threads) >= self._settings.at_once:
            return
        thread = threading.Thread(target=self._run, name=f"refaug-scorer-{len(self.threads) + 1}", daemon=True)
        self.threads.add(thread)
        try:
            thread.start()
        except RuntimeError as error:  # the interpreter ends, or there are too many
            self.threads.discard(thread)
            if not self.threads:
                failure = errors.RefaugError(f"no thread could be started to score them: {error}")
                while self.queue:
                    self._ledger.fail(self.queue.next().places(), failure)

    def hurry(self) -> None:
        """Send what is queued without gathering more, since a caller waits for it."""
        if self.queue.hurry() and self.queue.under_way:
            self.call()

    def revive(self) -> None:
        """Start a thread where replies are queued and none is left."""
        if self.queue and not self.threads:
            self.call()

    def stop(self) -> list[threading.Thread]:
        """Clear the queue, and return the threads, which are about to end."""
        self.queue.clear()
        self._work.notify_all()
        return list(self.threads)

    def _run(self) -> None:
        while pieces := self._take():
            try:
                self._score(pieces)
            except Exception as error:  # noqa: BLE001  none may be lost
                failure = error if isinstance(error, errors.RefaugError) else _unexpected(error)
                with self._ledger.lock:
                    for piece in pieces:
                        self._ledger.fail(piece.places(), failure)
            finally:
                with self._ledger.lock:
                    self.queue.under_way -= 1

    def _take(self) -> list[Piece]:
        """Wait for the next group; an empty one ends the thread."""
        thread = threading.current_thread()
        with self._ledger.lock:
            while True:
                while self.queue and (gather_s := self.queue.due_in()):
                    self._gathering += 1
                    self._work.wait(gather_s)
                    self._gathering -= 1
                if group := self._next_group():
                    self.queue.under_way += 1
                    if self.queue:
                        self.call()
                    return group
                self._idle += 1
                was_called = not self.is_closed and self._work.wait(_IDLE_S)
                self._idle -= 1
                if not self.queue and (self.is_closed or not was_called):
                    self.threads.discard(thread)
                    return []

    def _next_group(self) -> list[Piece]:
        """Take what is queued, up to a batch, without replies whose time is over."""
        group: list[Piece] = []
        size = 0
        while self.queue.fits(size):
            piece = self.queue.next()
            if not self._ledger.is_finished(piece.submission):
                group.append(piece)
                size += piece.size
        return group


def _unexpected(error: Exception) -> errors.RefaugError:
    failure = errors.RefaugError(f"{type(error).__name__} while they were scored: {error}")
    failure.__cause__ = error
    return failure
